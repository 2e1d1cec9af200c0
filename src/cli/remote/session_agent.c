#include "cli/remote/session_agent.h"

#include "sandbox/agent_client.h"
#include "sandbox/sandbox.h"

static int translate(const struct agent_event *ev, struct session_event *ret, struct error *e)
{
	*ret = (struct session_event){.type = SESSION_OTHER};
	switch (ev->type) {
	case AGENT_STARTED:
		ret->type = SESSION_STARTED;
		return 1;
	case AGENT_STDOUT:
	case AGENT_PTY:
	case AGENT_STDERR:
		ret->type = ev->type == AGENT_STDERR ? SESSION_ERR : SESSION_OUT;
		ret->data = ev->data;
		ret->length = ev->length;
		return 1;
	case AGENT_EXIT:
		ret->type = SESSION_EXIT;
		ret->status = ev->exit.flags & AGENT_EXIT_SIGNALED
				      ? 128 + (int)(ev->exit.status & 0x7f)
				      : (int)(ev->exit.status & 0xff);
		return 1;
	default:
		return agent_event_error(ev, e);
	}
}

static struct agent_conn *agent(void *peer)
{
	struct session_agent *a = peer;

	return sandbox_agent(a->sandbox);
}

static bool may_start(const struct session_agent *a)
{
	return a->exec && sandbox_is_ready(a->sandbox);
}

static int next(void *peer, struct session_event *ret, struct error *e)
{
	struct session_agent *a = peer;
	struct agent_event ev;
	int r = sandbox_next_event(a->sandbox, &ev, e);

	if (r == 0 && may_start(a)) {
		r = agent_exec_start(agent(a), a->exec, e);
		a->exec = NULL;
		if (r == 0)
			r = sandbox_next_event(a->sandbox, &ev, e); /* sends it */
	}
	return r > 0 ? translate(&ev, ret, e) : r;
}

static int check(void *peer, struct error *e)
{
	struct session_agent *a = peer;

	return sandbox_check(a->sandbox, e);
}

static void poll_fds(void *peer, bool hold, struct pollfd fds[SESSION_PEER_FDS])
{
	_Static_assert((int)SESSION_PEER_FDS >= (int)SANDBOX_POLL_FDS, "a sandbox's fit");
	sandbox_poll(((struct session_agent *)peer)->sandbox, hold, fds);
}

static uint64_t deadline_ns(void *peer)
{
	return sandbox_deadline_ns(((struct session_agent *)peer)->sandbox);
}

static size_t input_room(void *peer)
{
	return agent_stdin_room(agent(peer));
}

static bool send_input(void *peer, const void *data, size_t n)
{
	return agent_send_stdin(agent(peer), data, n) > 0; /* all of it: there is room */
}

/* The agent's queue is bounded and cannot be full: input is bounded by its window. */

static void end_input(void *peer)
{
	(void)agent_send_stdin_eof(agent(peer));
}

static void send_signal(void *peer, int signo)
{
	(void)agent_send_signal(agent(peer), signo, AGENT_SIGNAL_GROUP);
}

static void send_size(void *peer, unsigned cols, unsigned rows)
{
	struct session_agent *a = peer;

	if (!a->exec) {
		(void)agent_send_resize(agent(a), cols, rows);
		return;
	}
	a->exec->cols = cols;
	a->exec->rows = rows;
}

const struct session_peer_ops session_agent_ops = {next, check, poll_fds, deadline_ns, input_room,
	send_input, end_input, send_signal, send_size};
