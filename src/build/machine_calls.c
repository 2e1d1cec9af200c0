/* What a machine's agent does: commands and files. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "build/machine_internal.h"
#include "sandbox/agent_call.h"

struct machine *machine_of_agent(struct agent_conn *agent)
{
	struct machine *m = calloc(1, sizeof(*m));

	if (!m) {
		agent_close(agent);
		return NULL;
	}
	m->fd = -1;
	m->agent = agent;
	return m;
}

/* --- commands --- */

int machine_has_shell(struct machine *m, struct error *e)
{
	struct agent_hello_reply hello;
	int r = agent_hello(m->agent, machine_after(MACHINE_CALL_S), &hello, e);

	return r < 0 ? r : (hello.facts & AGENT_FACT_SHELL) != 0;
}

static int take_event(struct machine *m, const struct agent_event *ev, machine_output_fn out,
	void *opaque, int *ret_status, struct error *e)
{
	int r;

	switch (ev->type) {
	case AGENT_STARTED:
		return 0;
	case AGENT_STDOUT:
	case AGENT_STDERR:
		r = out(opaque, ev->data, ev->length);
		return r < 0 ? error_set_errno(e, ERROR_INTERNAL, -r, "the build was ended") : 0;
	case AGENT_EXIT:
		*ret_status = (int)(ev->exit.status & 0xff) +
			      (ev->exit.flags & AGENT_EXIT_SIGNALED ? 128 : 0);
		if (ev->exit.flags & AGENT_EXIT_TIMED_OUT)
			*ret_status = -1;
		return 1;
	default:
		return agent_event_error(ev, e);
	}
}

int machine_run(struct machine *m, const struct agent_exec *x, uint32_t timeout_s,
	machine_output_fn out, void *opaque, int *ret_status, struct error *e)
{
	uint64_t deadline = machine_after(timeout_s + MACHINE_CALL_S);
	struct agent_exec copy = *x;
	int r;

	copy.timeout_ms = timeout_s * 1000;
	copy.flags |= AGENT_EXEC_KILL_ON_CLOSE;
	r = agent_exec_start(m->agent, &copy, e);
	while (r == 0) {
		struct agent_event ev;

		r = agent_wait_event(m->agent, deadline, &ev, e);
		if (r == 1)
			r = take_event(m, &ev, out, opaque, ret_status, e);
	}
	return r < 0 ? r : 0;
}

/* --- files --- */

int machine_call(struct machine *m, enum agent_type type, const void *message,
	enum agent_type reply, struct agent_event *ev, struct error *e)
{
	return agent_call(m->agent, machine_after(MACHINE_CALL_S), type, message, reply, ev, e);
}

int machine_write(struct machine *m, const char *path, uint32_t mode, bool append, const void *data,
	size_t n, struct error *e)
{
	const struct agent_write w = {
		.flags = AGENT_WRITE_PARENTS |
			 (append ? AGENT_WRITE_APPEND | AGENT_WRITE_KEEP_OWNER : 0),
		.mode = mode,
		.user = "root",
		.path = path};

	return agent_write_file(m->agent, machine_after(MACHINE_CALL_S), &w, data, n, e);
}

int machine_read(struct machine *m, const char *path, uint64_t offset, void *out, size_t n,
	size_t *ret, struct error *e)
{
	const struct agent_read q = {.offset = offset, .length = n, .user = "root", .path = path};
	struct agent_event ev;
	uint64_t deadline = machine_after(MACHINE_CALL_S);
	int r = agent_call(m->agent, deadline, AGENT_READ, &q, AGENT_ENTRY, &ev, e);

	*ret = 0;
	while (r == 0) {
		r = agent_wait_event(m->agent, deadline, &ev, e);
		if (r < 0 || ev.type == AGENT_END)
			break;
		if (ev.type != AGENT_DATA)
			return agent_event_error(&ev, e);
		if (ev.length > n - *ret)
			return error_set(e, ERROR_SANDBOX, EBADMSG,
				"the guest sent more of a file than was asked for");
		memcpy((uint8_t *)out + *ret, ev.data, ev.length);
		*ret += ev.length;
		r = 0;
	}
	return r < 0 ? r : 0;
}

int machine_tree(
	struct machine *m, const char *path, machine_node_fn each, void *opaque, struct error *e)
{
	const struct agent_tree q = {.user = "root", .path = path};
	uint64_t deadline = machine_after(MACHINE_CALL_S);
	int r = agent_request(m->agent, AGENT_TREE, &q, e);

	while (r == 0) {
		struct agent_event ev;

		r = agent_wait_event(m->agent, deadline, &ev, e);
		if (r < 0 || ev.type == AGENT_END)
			break;
		r = ev.type == AGENT_NODE ? each(opaque, &ev.node, e) : agent_event_error(&ev, e);
	}
	return r < 0 ? r : 0;
}
