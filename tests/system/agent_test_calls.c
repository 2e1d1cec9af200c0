#include "agent_test_calls.h"

#include "sandbox/agent_call.h"

static int call_ok(struct agent_conn *c, uint64_t deadline_ns, enum agent_type type,
	const void *message, enum agent_type reply, struct error *e)
{
	struct agent_event ev;

	return agent_call(c, deadline_ns, type, message, reply, &ev, e);
}

int agent_shutdown(struct agent_conn *c, uint64_t deadline_ns, unsigned flags, uint32_t grace_ms,
	struct error *e)
{
	struct agent_shutdown m = {.flags = flags, .grace_ms = grace_ms};

	return call_ok(c, deadline_ns, AGENT_SHUTDOWN, &m, AGENT_OK, e);
}

int agent_metrics(
	struct agent_conn *c, uint64_t deadline_ns, struct agent_metrics *ret, struct error *e)
{
	struct agent_event ev;
	int r = agent_call(c, deadline_ns, AGENT_GET_METRICS, NULL, AGENT_METRICS, &ev, e);

	if (r == 0)
		*ret = ev.metrics;
	return r;
}

int agent_stat(struct agent_conn *c, uint64_t deadline_ns, const char *path, unsigned flags,
	struct agent_entry *ret, struct error *e)
{
	struct agent_stat m = {.flags = flags, .path = path};
	struct agent_event ev;
	int r = agent_call(c, deadline_ns, AGENT_STAT, &m, AGENT_ENTRY, &ev, e);

	if (r == 0)
		*ret = ev.entry;
	return r;
}

int agent_mkdir(
	struct agent_conn *c, uint64_t deadline_ns, const struct agent_mkdir *m, struct error *e)
{
	return call_ok(c, deadline_ns, AGENT_MKDIR, m, AGENT_ENTRY, e);
}

int agent_move(
	struct agent_conn *c, uint64_t deadline_ns, const struct agent_move *m, struct error *e)
{
	return call_ok(c, deadline_ns, AGENT_MOVE, m, AGENT_ENTRY, e);
}

int agent_set_attr(
	struct agent_conn *c, uint64_t deadline_ns, const struct agent_set_attr *m, struct error *e)
{
	return call_ok(c, deadline_ns, AGENT_SET_ATTR, m, AGENT_ENTRY, e);
}

int agent_set_xattrs(struct agent_conn *c, uint64_t deadline_ns, const struct agent_set_xattrs *m,
	struct error *e)
{
	return call_ok(c, deadline_ns, AGENT_SET_XATTRS, m, AGENT_OK, e);
}

int agent_signal_process(struct agent_conn *c, uint64_t deadline_ns,
	const struct agent_signal_process *m, struct error *e)
{
	return call_ok(c, deadline_ns, AGENT_SIGNAL_PROCESS, m, AGENT_OK, e);
}

int agent_dial(struct agent_conn *c, uint64_t deadline_ns, const char *host, uint16_t port,
	struct error *e)
{
	struct agent_dial m = {.host = host, .port = port};

	return call_ok(c, deadline_ns, AGENT_DIAL, &m, AGENT_OK, e);
}
