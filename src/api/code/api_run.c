/* POST /sandboxes/{id}/run, our extension: one command in a running sandbox, for clients without an
 * SDK (docs/http.md).
 *
 *	STARTING  the agent was asked; nothing was answered yet
 *	RUNNING   the command runs. Its output is gathered within a limit, or passed on as
 *		  server-sent events. Then a slow client slows the command down
 *	OVER      answered, or the client has gone, which kills the command
 *
 * The agent ends the command at its time limit. If the agent does not, the daemon answers without
 * it, GRACE_S later. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "api/api.h"
#include "api/code/run_order.h"
#include "api/event_stream.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "fleet/agent_link.h"
#include "fleet/fleet_of.h"
#include "fleet/instance.h"
#include "http/reply.h"
#include "network/activity_process.h"
#include "proto/json_text.h"

enum {
	GRACE_S = 10,
	TICK_MS = 10 * 1000,	/* keeps streams alive, and looks at the time */
	ESCAPE_MAX = 6,		/* bytes of "\u0000" for one */
	ANSWER_EXTRA = 1024,	/* of an answer besides its output */
	STATUS_TIMED_OUT = 124, /* as timeout(1) has it */
	STATUS_SIGNAL = 128,
};

static const char *const names[] = {"stdout", "stderr"};

enum run_state { RUN_STARTING, RUN_RUNNING, RUN_OVER };

/* What one of the two outputs has. In a stream it is emptied with each event, but for the beginning
 * of a character. */
struct output {
	struct buf bytes;
	bool cut;
};

struct run {
	struct request *r;
	enum run_state state;
	struct agent_link *link;
	struct run_order order;
	uv_timer_t tick;
	uint64_t begin_ns; /* CLOCK_MONOTONIC */
	size_t sent;	   /* bytes of standard input */
	size_t left;	   /* bytes of output that may still be gathered */
	struct output out[2];
	struct budget_hold hold; /* for the output that is gathered */
	bool plain_shell;	 /* there is no bash: the second attempt */
	char sandbox_id[SANDBOX_ID_BYTES];
	uint32_t pid;
};

/* --- ending --- */

static void on_closed(uv_handle_t *h)
{
	struct run *x = h->data;

	buf_done(&x->out[0].bytes);
	buf_done(&x->out[1].bytes);
	budget_release(&x->hold);
	run_order_done(&x->order);
	free(x);
}

/* The agent kills the command when its connection is closed. */
static void finish(struct run *x)
{
	agent_link_close(TAKE_PTR(x->link));
	(void)uv_timer_stop(&x->tick); /* always 0 */
	x->state = RUN_OVER;
}

static void on_done(struct request *r, bool complete)
{
	struct run *x = r->data;

	finish(x);
	uv_close((uv_handle_t *)&x->tick, on_closed);
}

static bool is_streaming(const struct run *x)
{
	return x->order.stream && x->state == RUN_RUNNING;
}

/* --- server-sent events --- */

/* r: of event_stream.h. */
static void sent(struct run *x, int r)
{
	if (r < 0) {
		finish(x);
		request_abort(x->r);
	} else if (r > 0) {
		agent_link_pause(x->link);
	}
}

static void pass_on(struct run *x, unsigned which, bool all)
{
	sent(x, event_stream_text(x->r, names[which], &x->out[which].bytes, all));
}

/* --- answers --- */

static void fail(struct run *x, const struct error *e)
{
	bool streaming = is_streaming(x);

	if (streaming)
		sent(x, event_stream_json(x->r, "error",
				json_pack("{s:i, s:s, s:s}", "code", (int)reply_status_of(e),
					"error_code", error_code_name(e->code), "message",
					e->message)));
	if (x->state == RUN_OVER)
		return; /* the client has gone */
	finish(x);
	if (streaming)
		(void)request_end(x->r);
	else
		reply_failure(x->r, e);
}

static json_t *end_json(const struct run *x, const struct agent_exit *how)
{
	bool timed_out = how->flags & AGENT_EXIT_TIMED_OUT;
	bool killed = !timed_out && how->flags & AGENT_EXIT_SIGNALED;
	json_t *cut = json_array();
	json_int_t status = timed_out ? STATUS_TIMED_OUT
				      : (json_int_t)how->status + (killed ? STATUS_SIGNAL : 0);

	for (unsigned i = 0; i < 2; i++)
		if (x->out[i].cut)
			(void)json_array_append_new(cut, json_string(names[i]));
	return json_pack("{s:I, s:b, s:o, s:I, s:o}", "exitCode", status, "timedOut", timed_out,
		"signal", killed ? json_integer(how->status) : json_null(), "durationMs",
		(json_int_t)((clock_monotonic_ns() - x->begin_ns) / NS_PER_MS), "truncated", cut);
}

/* {"stdout":"...","stderr":"..." and the members of more. */
static int write_answer(const struct run *x, const char *more, struct buf *b)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < 2; i++) {
		const struct buf *o = &x->out[i].bytes;

		r = buf_add_str(b, i ? ",\"stderr\":" : "{\"stdout\":");
		if (r == 0)
			r = json_text_string(
				b, (const char *)buf_head(o), buf_len(o), JSON_TEXT_UTF8);
	}
	if (r == 0)
		r = buf_add_str(b, ",");
	return r == 0 ? buf_add_str(b, more + 1) : r; /* its brace is here already */
}

static void answer(struct run *x, const struct agent_exit *how)
{
	_cleanup_(buf_done) struct buf b =
		BUF_INIT((size_t)x->order.output_limit * ESCAPE_MAX + ANSWER_EXTRA);
	json_t *end = end_json(x, how);
	_cleanup_free_ char *more = end ? json_dumps(end, JSON_COMPACT) : NULL;
	int r = more ? write_answer(x, more, &b) : -ENOMEM;

	json_decref(end);
	finish(x);
	if (r < 0)
		reply_error(x->r, 503, "out of memory: ask for less with outputLimit, or a stream");
	else
		reply_json_text(x->r, 200, buf_head(&b), buf_len(&b));
}

static void end_stream(struct run *x, const struct agent_exit *how)
{
	for (unsigned i = 0; i < 2 && x->state != RUN_OVER; i++)
		pass_on(x, i, true);
	if (x->state != RUN_OVER)
		sent(x, event_stream_json(x->r, "exit", end_json(x, how)));
	if (x->state == RUN_OVER)
		return;
	finish(x);
	(void)request_end(x->r); /* the client may be gone */
}

/* --- output --- */

static void gather(struct run *x, struct output *o, const uint8_t *data, size_t n)
{
	static const struct error refusal = {
		.code = ERROR_TOO_MANY, .err = ENOBUFS, .message = BUDGET_REFUSAL};
	size_t take = n < x->left ? n : x->left;

	o->cut = o->cut || take < n;
	x->left -= take;
	if (take && (buf_add(&o->bytes, data, take) < 0 ||
			    !budget_set(&x->hold, (size_t)x->order.output_limit - x->left)))
		fail(x, &refusal);
}

static void take_output(struct run *x, unsigned which, const struct agent_event *ev)
{
	if (!x->order.stream)
		gather(x, &x->out[which], ev->data, ev->length);
	else if (buf_add(&x->out[which].bytes, ev->data, ev->length) == 0)
		pass_on(x, which, false);
}

/* --- the agent --- */

static void send_stdin(struct run *x)
{
	struct agent_conn *c = agent_link_conn(x->link);

	if (x->order.input && agent_feed_stdin(c, x->order.input, x->order.input_bytes, &x->sent)) {
		(void)agent_send_stdin_eof(c); /* without room the link's end tells */
		x->order.input = NULL;
	}
}

static int ask(struct run *x, struct error *e)
{
	int r;

	if (x->order.shell)
		run_order_shell(&x->order, x->plain_shell ? "/bin/sh" : "/bin/bash");
	r = agent_exec_start(agent_link_conn(x->link), &x->order.exec, e);
	if (r < 0)
		return r;
	agent_link_send(x->link);
	return 0;
}

static void refused(struct run *x, const struct agent_event *ev)
{
	struct error e = {0};

	if (ev->error.class == AGENT_ERR_NO_COMMAND && x->order.shell && !x->plain_shell) {
		x->plain_shell = true;
		if (ask(x, &e) == 0)
			return;
	} else {
		(void)agent_event_error(ev, &e); /* the filled error matters */
	}
	fail(x, &e);
}

static void on_writable(struct agent_link *l, void *arg)
{
	send_stdin(arg);
	agent_link_send(l);
}

/* In the sandbox's activity. */
static void note(struct run *x, const struct agent_event *ev)
{
	struct fleet *f = fleet_of(x->r);
	const struct instance *i = instance_find(f, x->sandbox_id);

	if (i && ev->type == AGENT_STARTED) {
		x->pid = ev->started.pid;
		activity_process_started(f, x->sandbox_id, instance_key_id(i), x->pid,
			activity_command(&x->order.exec, "run"));
	} else if (i) {
		activity_process_ended(f, x->sandbox_id, instance_key_id(i), x->pid, &ev->exit);
	}
}

static void on_event(struct agent_link *l, const struct agent_event *ev, void *arg)
{
	struct run *x = arg;

	switch (ev->type) {
	case AGENT_STARTED:
		note(x, ev);
		if (x->order.stream)
			event_stream_begin(x->r, NULL, 0);
		x->state = RUN_RUNNING;
		on_writable(l, x);
		break;
	case AGENT_STDOUT:
	case AGENT_STDERR:
		take_output(x, ev->type == AGENT_STDERR, ev);
		break;
	case AGENT_EXIT:
		note(x, ev);
		if (x->order.stream)
			end_stream(x, &ev->exit);
		else
			answer(x, &ev->exit);
		break;
	case AGENT_ERROR:
		refused(x, ev);
		break;
	default:
		break;
	}
}

static void on_lost(struct agent_link *l, const struct error *why, void *arg)
{
	static const struct error ended = {.code = ERROR_SANDBOX,
		.err = EIO,
		.message = "the sandbox ended or was paused while the command ran"};
	struct run *x = arg;

	if (why->code != ERROR_TOO_MANY || !instance_find(fleet_of(x->r), x->sandbox_id)) {
		fail(x, &ended);
		return;
	}
	finish(x);
	reply_failure_as(x->r, why, NULL, "true"); /* nothing has run */
}

static const struct agent_link_ops link_ops = {
	.event = on_event, .writable = on_writable, .lost = on_lost};

static void on_drained(struct request *r)
{
	struct run *x = r->data;

	if (x->link)
		agent_link_resume(x->link);
}

static const struct request_ops ops = {.drained = on_drained, .done = on_done};

static void on_tick(uv_timer_t *t)
{
	static const struct error silent = {.code = ERROR_TIMEOUT,
		.err = ETIMEDOUT,
		.message = "the sandbox did not end the command at its time limit"};
	struct run *x = t->data;
	uint64_t limit_ns = (uint64_t)x->order.exec.timeout_ms * NS_PER_MS + GRACE_S * NS_PER_S;

	if (clock_monotonic_ns() - x->begin_ns > limit_ns)
		fail(x, &silent);
	else if (is_streaming(x))
		event_stream_keep(x->r);
}

/* --- the request --- */

static void start(struct run *x, struct instance *i)
{
	struct error e = {0};

	x->begin_ns = clock_monotonic_ns();
	(void)strcpy(x->sandbox_id, instance_id(i)); /* same size */
	if (instance_agent_connect(i, LINK_SINGLE, &link_ops, x, &x->link, &e) < 0) {
		fail(x, &e);
		return;
	}
	request_hold(x->r, &x->hold);
	request_hold(x->r, agent_link_hold(x->link));
	if (ask(x, &e) < 0) {
		fail(x, &e);
		return;
	}
	request_set_final(x->r); /* from now on the command may run */
	request_meter(x->r, instance_id(i));
	(void)uv_timer_start(&x->tick, on_tick, TICK_MS, TICK_MS); /* has a callback */
}

static void take(struct request *r, const char *text, size_t n)
{
	json_t *body = api_body(r, text, n);
	struct store_sandbox *sb = body ? api_find(r) : NULL;
	struct instance *i = sb ? api_find_running(r, sb) : NULL;
	struct run *x = i ? api_calloc(r, sizeof(*x)) : NULL;

	store_sandbox_free(sb);
	if (x && run_order_take(r, body, &x->order)) {
		x->r = r;
		x->left = (size_t)x->order.output_limit;
		buf_init(&x->out[0].bytes, RUN_OUTPUT_MAX);
		buf_init(&x->out[1].bytes, RUN_OUTPUT_MAX);
		(void)uv_timer_init(request_loop(r), &x->tick); /* cannot fail */
		x->tick.data = x;
		request_set_ops(r, &ops, x);
		start(x, i);
	} else if (x) {
		run_order_done(&x->order);
		free(x);
	}
	json_decref(body);
}

void api_run(struct request *r)
{
	request_collect(r, API_BODY_MAX, take);
}
