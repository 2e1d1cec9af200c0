#include "sandbox/start_follow.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proto/agent_wire.h"
#include "sandbox/agent_call.h"

enum {
	/* in one turn, so that the other connection has its own */
	TURN_FRAMES = 64,
	TURN_BYTES = 256 * 1024,
	WAIT_MS = 100, /* between two looks at the clock */
};

/* A stream, and its line so far. */
struct stream {
	const char *name;
	char line[START_LINE_MAX];
	size_t n;
};

struct start_follow {
	struct agent_conn *conn; /* owned */
	const struct start_watch *watch;
	bool ended;
	struct stream out, err;
};

struct start_follow *start_follow_new(struct agent_conn *conn, const struct start_watch *watch)
{
	struct start_follow *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->conn = conn;
	f->watch = watch;
	f->out.name = "stdout";
	f->err.name = "stderr";
	return f;
}

void start_follow_free(struct start_follow *f)
{
	if (!f)
		return;
	agent_close(f->conn);
	free(f);
}

/* --- its output --- */

static void end_line(struct start_follow *f, struct stream *s)
{
	char text[START_LINE_MAX + sizeof("[start] [stdout]: ")];
	int n = snprintf(text, sizeof(text), "[start] [%s]: %.*s", s->name, (int)s->n, s->line);

	if (s->n)
		f->watch->say(f->watch->opaque, text, (size_t)n); /* fits */
	s->n = 0;
}

static void take_output(struct start_follow *f, struct stream *s, const uint8_t *data, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (data[i] == '\n' || s->n == sizeof(s->line))
			end_line(f, s);
		if (data[i] != '\n' && data[i] != '\r' && data[i])
			s->line[s->n++] = (char)data[i];
	}
}

/* --- its end --- */

static int take_end(struct start_follow *f, const struct agent_exit *exit, struct error *e)
{
	int status = (int)exit->status + (exit->flags & AGENT_EXIT_SIGNALED ? 128 : 0);

	f->ended = true;
	end_line(f, &f->out);
	end_line(f, &f->err);
	return status ? error_set(e, ERROR_BAD_IMAGE, EINVAL,
				"start command failed: error running start command: exit status %d",
				status)
		      : 0;
}

static int take_event(struct start_follow *f, const struct agent_event *ev, struct error *e)
{
	if (ev->type == AGENT_STDOUT)
		take_output(f, &f->out, ev->data, ev->length);
	else if (ev->type == AGENT_STDERR)
		take_output(f, &f->err, ev->data, ev->length);
	else if (ev->type == AGENT_EXIT)
		return take_end(f, &ev->exit, e);
	else if (ev->type == AGENT_ERROR)
		return agent_event_error(ev, e);
	return 0;
}

int start_follow_read(struct start_follow *f, struct error *e)
{
	struct agent_event ev;
	int r = 0;

	agent_set_share(f->conn, TURN_FRAMES, TURN_BYTES);
	while (r == 0 && !f->ended) {
		r = agent_next_event(f->conn, &ev, e);
		if (r <= 0)
			return r;
		r = take_event(f, &ev, e);
	}
	return r;
}

/* --- beside another connection --- */

static int wait_for_either(struct start_follow *f, struct agent_conn *c, struct error *e)
{
	struct pollfd p[] = {
		{.fd = agent_fd(c), .events = agent_poll_events(c)},
		{.fd = f->ended ? -1 : agent_fd(f->conn), .events = agent_poll_events(f->conn)},
	};

	if (poll(p, ARRAY_SIZE(p), WAIT_MS) < 0 && errno != EINTR)
		return error_set_errno(e, ERROR_INTERNAL, errno, "poll");
	return 0;
}

int start_follow_wait(struct start_follow *f, struct agent_conn *c, uint64_t deadline_ns,
	struct agent_event *ret, struct error *e)
{
	int r = 0;

	while (r == 0) {
		if (deadline_ns <= clock_monotonic_ns())
			return error_set(
				e, ERROR_TIMEOUT, ETIMEDOUT, "the agent did not answer in time");
		r = start_follow_read(f, e);
		if (r == 0)
			r = agent_next_event(c, ret, e);
		if (r == 0 && !agent_share_is_spent(f->conn))
			r = wait_for_either(f, c, e);
	}
	return r;
}
