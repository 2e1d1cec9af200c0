/* process.Process (docs/envd.md).
 *
 * A stream of Start or Connect is one link to the agent, with EXEC or ATTACH. When the client goes,
 * the link is closed. That detaches from the process and never ends it; the agent drops output that
 * nobody reads. The agent also keeps a process's time limit, so the limit holds without client and
 * daemon. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "envd/envd_input.h"
#include "envd/envd_message.h"
#include "envd/envd_rpc.h"
#include "envd/envd_words.h"
#include "fleet/fleet_of.h"
#include "network/activity_process.h"

/* --- Start and Connect --- */

static void on_keepalive(struct envd_call *c)
{
	/* Nothing may come before `start`: clients expect it first. */
	if (c->r->state == REQUEST_NONE)
		return;
	if (envd_rpc_wrote(c, connect_process_keepalive(&c->out)))
		envd_call_flush(c);
}

/* In the sandbox's activity. c->state: what was asked for. */
static void note_start(struct envd_call *c, uint32_t pid)
{
	const struct instance *i = instance_find(fleet_of(c->r), c->sandbox_id);

	c->step = pid;
	if (i)
		activity_process_started(
			fleet_of(c->r), c->sandbox_id, instance_key_id(i), pid, TAKE_PTR(c->state));
}

static void note_end(struct envd_call *c, const struct agent_exit *how)
{
	const struct instance *i = instance_find(fleet_of(c->r), c->sandbox_id);

	if (i)
		activity_process_ended(
			fleet_of(c->r), c->sandbox_id, instance_key_id(i), c->step, how);
}

static void on_start_done(struct envd_call *c)
{
	json_decref(c->state);
}

static void on_end(struct envd_call *c, const struct agent_event *ev, bool started_here)
{
	struct envd_error e;

	note_end(c, &ev->exit);

	if (started_here && (ev->exit.flags & AGENT_EXIT_TIMED_OUT)) {
		(void)envd_fail(&e, CONNECT_DEADLINE_EXCEEDED,
			"the command was killed at its time limit of %llu ms",
			(unsigned long long)c->rpc.timeout_ms);
		envd_rpc_fail(c, &e);
	} else if (envd_rpc_wrote(c, envd_process_output(&c->out, ev))) {
		envd_rpc_end(c);
	}
}

static void on_stream_event(struct envd_call *c, const struct agent_event *ev, bool started_here)
{
	if ((ev->type == AGENT_STARTED) != (c->r->state == REQUEST_NONE)) {
		(void)envd_rpc_wrote(c, -EBADMSG); /* must be the first event, and only once */
	} else if (ev->type == AGENT_STARTED) {
		note_start(c, ev->started.pid);
		if (envd_rpc_wrote(c, connect_process_start(&c->out, ev->started.pid)))
			(void)envd_rpc_stream(c);
	} else if (ev->type == AGENT_EXIT) {
		on_end(c, ev, started_here);
	} else if (envd_rpc_wrote(c, envd_process_output(&c->out, ev))) {
		envd_call_flush(c);
	}
}

static void on_start_event(struct envd_call *c, const struct agent_event *ev)
{
	on_stream_event(c, ev, true);
}

static void on_connect_event(struct envd_call *c, const struct agent_event *ev)
{
	on_stream_event(c, ev, false);
}

static int no_memory(struct envd_error *e)
{
	return envd_fail(e, CONNECT_RESOURCE_EXHAUSTED, "the server is out of memory");
}

static int begin_start(struct envd_call *c, const json_t *o, struct envd_error *e)
{
	struct envd_start start;
	int r = envd_start_parse(o, c->rpc.user, c->rpc.timeout_ms, &start, e);

	if (r < 0)
		return r;
	r = envd_call_ask(c, AGENT_EXEC, &start.exec, e);
	c->state = r == 0 ? activity_command(&start.exec, "envd") : NULL;
	envd_start_done(&start);
	if (r == 0 && envd_call_set_keepalive(c, c->rpc.keepalive_s) < 0)
		r = no_memory(e);
	return r;
}

static int begin_connect(struct envd_call *c, const json_t *o, struct envd_error *e)
{
	struct agent_attach m;
	int r = envd_selector_parse(o, &m.process, e);

	if (r == 0)
		r = envd_call_ask(c, AGENT_ATTACH, &m, e);
	if (r == 0 && (envd_call_set_keepalive(c, c->rpc.keepalive_s) < 0 ||
			      envd_call_set_deadline(c, c->rpc.timeout_ms) < 0))
		r = no_memory(e);
	return r;
}

/* --- List --- */

static int begin_list(struct envd_call *c, const json_t *o, struct envd_error *e)
{
	return envd_call_ask(c, AGENT_LIST_PROCESSES, NULL, e);
}

static void on_list_event(struct envd_call *c, const struct agent_event *ev)
{
	static const char head[] = "{\"processes\":[";

	if (ev->type == AGENT_END) {
		envd_rpc_list_end(c, head, "]}");
		return;
	}
	if (ev->type != AGENT_PROCESS) {
		(void)envd_rpc_wrote(c, -EBADMSG);
		return;
	}
	if (ev->process.flags & AGENT_PROCESS_EXITED || !envd_rpc_item(c, head))
		return;
	(void)envd_rpc_item_done(c, envd_process_write(&c->out, &ev->process)); /* or it is over */
}

/* --- methods that answer {} --- */

static void on_ok(struct envd_call *c, const struct agent_event *ev)
{
	if (ev->type == AGENT_OK)
		envd_rpc_reply_text(c, "{}");
	else
		(void)envd_rpc_wrote(c, -EBADMSG);
}

static int begin_signal(struct envd_call *c, const json_t *o, struct envd_error *e)
{
	/* The whole process group: the client started a shell's children, too. */
	struct agent_signal_process m = {.flags = AGENT_SIGNAL_GROUP};
	int r = envd_selector_parse(o, &m.process, e);

	if (r == 0)
		r = envd_signal_parse(o, &m.signo, e);
	return r ? r : envd_call_ask(c, AGENT_SIGNAL_PROCESS, &m, e);
}

/* A process that Update names without changing it. */
struct named {
	uint32_t pid; /* 0: by tag */
	char tag[AGENT_NAME_MAX + 1];
	bool found;
};

/* The agent has no question about one process, so its list is searched. */
static int find_named(struct envd_call *c, const struct agent_selector *s, struct envd_error *e)
{
	struct named *n = calloc(1, sizeof(*n));

	if (!n)
		return no_memory(e);
	n->pid = s->pid;
	(void)snprintf(n->tag, sizeof(n->tag), "%s", s->tag); /* no process has a longer one */
	c->state = n;
	return envd_call_ask(c, AGENT_LIST_PROCESSES, NULL, e);
}

static bool is_named(const struct named *n, const struct agent_process *p)
{
	struct agent_exec exec;

	if (p->flags & AGENT_PROCESS_EXITED)
		return false;
	if (n->pid)
		return p->pid == n->pid;
	return agent_exec_decode(p->exec, p->exec_bytes, &exec) == 0 &&
	       strcmp(exec.tag, n->tag) == 0;
}

static void fail_unknown(struct envd_call *c, const struct named *n)
{
	struct envd_error e;

	if (n->pid)
		(void)envd_fail(&e, CONNECT_NOT_FOUND, ENVD_WORDS_UNKNOWN_PID, n->pid);
	else
		(void)envd_fail(&e, CONNECT_NOT_FOUND, ENVD_WORDS_UNKNOWN_TAG, n->tag);
	envd_rpc_fail(c, &e);
}

static void on_update_event(struct envd_call *c, const struct agent_event *ev)
{
	struct named *n = c->state;

	if (n && ev->type == AGENT_PROCESS)
		n->found = n->found || is_named(n, &ev->process);
	else if (n && ev->type == AGENT_END && !n->found)
		fail_unknown(c, n);
	else if (ev->type == (n ? AGENT_END : AGENT_OK))
		envd_rpc_reply_text(c, "{}");
	else
		(void)envd_rpc_wrote(c, -EBADMSG);
}

static void on_update_done(struct envd_call *c)
{
	free(c->state);
}

static int begin_update(struct envd_call *c, const json_t *o, struct envd_error *e)
{
	struct agent_resize_process m;
	int r = envd_selector_parse(o, &m.process, e);

	if (r == 0)
		r = envd_pty_parse(o, &m.cols, &m.rows, e);
	if (r == 0)
		return find_named(c, &m.process, e);
	return r > 0 ? envd_call_ask(c, AGENT_RESIZE_PROCESS, &m, e) : r;
}

static int begin_close_stdin(struct envd_call *c, const json_t *o, struct envd_error *e)
{
	struct agent_close_input m;
	int r = envd_selector_parse(o, &m.process, e);

	return r ? r : envd_call_ask(c, AGENT_CLOSE_INPUT, &m, e);
}

/* A terminal has no input to close; E2B answers `unknown`. */
static void on_close_refused(struct envd_call *c, const struct agent_error *m)
{
	struct envd_error e;

	envd_error_of_agent(m, &e);
	if (m->class == AGENT_ERR_WRONG_KIND)
		e.code = CONNECT_UNKNOWN;
	envd_rpc_fail(c, &e);
}

/* --- the table --- */

static const struct envd_ops start_ops = {.fail = envd_rpc_fail,
	.event = on_start_event,
	.keepalive = on_keepalive,
	.done = on_start_done};
static const struct envd_ops connect_ops = {
	.fail = envd_rpc_fail, .event = on_connect_event, .keepalive = on_keepalive};
static const struct envd_ops list_ops = {.fail = envd_rpc_fail, .event = on_list_event};
static const struct envd_ops ok_ops = {.fail = envd_rpc_fail, .event = on_ok};
static const struct envd_ops update_ops = {
	.fail = envd_rpc_fail, .event = on_update_event, .done = on_update_done};
static const struct envd_ops close_ops = {
	.fail = envd_rpc_fail, .event = on_ok, .refused = on_close_refused};

const struct envd_method envd_process_methods[] = {
	{"/process.Process/Start", CONNECT_KIND_STREAM, begin_start, &start_ops, NULL},
	{"/process.Process/Connect", CONNECT_KIND_STREAM, begin_connect, &connect_ops, NULL},
	{"/process.Process/List", CONNECT_KIND_UNARY, begin_list, &list_ops, NULL},
	{"/process.Process/SendInput", CONNECT_KIND_UNARY, envd_input_begin, &envd_input_ops, NULL,
		CONNECT_MESSAGE_DEFAULT},
	{"/process.Process/StreamInput", CONNECT_KIND_STREAM, NULL, &envd_stream_input_ops,
		envd_stream_input_open},
	{"/process.Process/SendSignal", CONNECT_KIND_UNARY, begin_signal, &ok_ops, NULL},
	{"/process.Process/Update", CONNECT_KIND_UNARY, begin_update, &update_ops, NULL},
	{"/process.Process/CloseStdin", CONNECT_KIND_UNARY, begin_close_stdin, &close_ops, NULL},
	{NULL, 0, NULL, NULL, NULL},
};
