#include "fleet/upstream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fleet/turns.h"

enum { READS_A_TURN = 4, SLICE = 64 * 1024 };

struct upstream {
	uv_poll_t poll;
	struct turn turn;   /* reads from the guest */
	uv_idle_t deferred; /* runs while early bytes wait to be delivered */
	uv_loop_t *loop;
	const struct upstream_ops *ops;
	void *arg;
	struct agent_link *link;   /* while DIALLING */
	int fd;			   /* -1 while DIALLING */
	struct gate_ticket places; /* none while DIALLING */
	enum upstream_state state;
	struct buf out;
	struct budget_hold hold; /* for out */
	uint8_t *early;		 /* received after the agent's OK; malloc'ed */
	size_t early_n;
	int watched; /* what poll waits for; each uv_poll_start() costs system calls */
	bool polling, paused, closed;
	bool full;     /* we owe a call of writable */
	bool ended;    /* our direction is to end */
	bool shut;     /* and has ended */
	bool finished; /* the guest's direction has ended */
	unsigned handles;
};

static uint8_t slice[SLICE];

static void on_poll(uv_poll_t *h, int status, int events);

/* --- closing --- */

static void on_closed(uv_handle_t *h)
{
	struct upstream *u = h->data;

	if (--u->handles > 0)
		return;
	if (u->fd >= 0)
		(void)close(u->fd); /* a socket: nothing to lose */
	buf_done(&u->out);
	budget_release(&u->hold);
	free(u->early);
	free(u);
}

void upstream_close(struct upstream *u)
{
	if (!u || u->closed)
		return;
	u->closed = true;
	turn_leave(&u->turn);
	agent_link_close(u->link);
	u->link = NULL;
	gate_leave(&u->places);
	u->handles = u->polling ? 2 : 1;
	if (u->polling)
		uv_close((uv_handle_t *)&u->poll, on_closed);
	uv_close((uv_handle_t *)&u->deferred, on_closed);
}

static void lose(struct upstream *u, enum agent_error_class why)
{
	if (u->closed || u->state == UPSTREAM_LOST)
		return;
	u->state = UPSTREAM_LOST;
	gate_leave(&u->places);
	if (u->polling)
		(void)uv_poll_stop(&u->poll); /* always 0 */
	u->ops->lost(u, why, u->arg);
}

/* --- bytes --- */

struct budget_hold *upstream_hold(struct upstream *u)
{
	return &u->hold;
}

static void update(struct upstream *u)
{
	int events = 0;

	budget_force(&u->hold, buf_len(&u->out));
	if (u->state != UPSTREAM_OPEN || u->closed)
		return;
	if (!u->paused && !u->finished && !u->early)
		events |= UV_READABLE;
	if (buf_len(&u->out))
		events |= UV_WRITABLE;
	if (events == u->watched)
		return;
	u->watched = events;
	if (events)
		(void)uv_poll_start(&u->poll, events, on_poll); /* fails only for closed handles */
	else
		(void)uv_poll_stop(&u->poll); /* always 0 */
}

/* Returns false if the guest has closed. What it sent before that is still read. */
static bool flush(struct upstream *u)
{
	while (buf_len(&u->out)) {
		ssize_t n = send(
			u->fd, buf_head(&u->out), buf_len(&u->out), MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		buf_consume(&u->out, (size_t)n);
	}
	if (u->ended && !u->shut) {
		u->shut = true;
		(void)shutdown(u->fd, SHUT_WR); /* if the peer is gone, a read finds out */
	}
	return true;
}

static void write_some(struct upstream *u)
{
	if (!flush(u)) {
		/* nobody takes the data, but an answer may still be there to read */
		buf_clear(&u->out);
		u->ended = u->shut = true;
	}
	budget_force(&u->hold, buf_len(&u->out));
	if (u->full && buf_len(&u->out) < (budget_is_short(&u->hold) ? 1 : UPSTREAM_LOW)) {
		u->full = false;
		u->ops->writable(u, u->arg);
	}
}

/* Returns false if there is nothing more for now. */
static bool read_some(struct upstream *u)
{
	ssize_t n = recv(u->fd, slice, sizeof(slice), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n < 0) {
		lose(u, 0);
		return false;
	}
	if (n == 0) {
		u->finished = true;
		u->ops->eof(u, u->arg);
		return false;
	}
	u->ops->data(u, slice, (size_t)n, u->arg);
	return (size_t)n == sizeof(slice);
}

static void on_poll(uv_poll_t *h, int status, int events)
{
	struct upstream *u = h->data;

	if (status < 0)
		u->watched = 0; /* libuv has stopped the handle */
	if (buf_len(&u->out))
		write_some(u);
	if (status < 0 || events & UV_READABLE)
		turn_ask(&u->turn);
	update(u);
}

static void on_turn(struct turn *t)
{
	struct upstream *u = t->arg;

	for (int i = 0; i < READS_A_TURN; i++)
		if (u->closed || u->paused || u->finished || u->early ||
			u->state != UPSTREAM_OPEN || !read_some(u))
			break;
	update(u);
}

static void on_deferred(uv_idle_t *h)
{
	struct upstream *u = h->data;
	uint8_t *early = u->early;

	(void)uv_idle_stop(h); /* always 0 */
	if (!early || u->paused)
		return;
	u->early = NULL;
	u->ops->data(u, early, u->early_n, u->arg);
	free(early);
	update(u);
}

int upstream_write(struct upstream *u, const void *data, size_t n)
{
	int r = 0;

	if (u->state == UPSTREAM_LOST || u->closed)
		return -EPIPE;
	if (u->ended)
		return 0; /* nobody takes it */
	r = buf_add(&u->out, data, n);
	if (r < 0)
		return r;
	if (u->state == UPSTREAM_OPEN && buf_len(&u->out) == n)
		(void)flush(u); /* the poll handle sees a failure */
	update(u);
	u->full = u->full || buf_len(&u->out) >= UPSTREAM_HIGH ||
		  (buf_len(&u->out) && budget_is_short(&u->hold));
	return u->full;
}

void upstream_shutdown(struct upstream *u)
{
	u->ended = true;
	if (u->state == UPSTREAM_OPEN && !u->closed)
		(void)flush(u); /* a read reports a failure */
}

void upstream_pause(struct upstream *u)
{
	u->paused = true;
	update(u);
}

void upstream_resume(struct upstream *u)
{
	if (!u->paused)
		return;
	u->paused = false;
	if (u->early && !u->closed)
		(void)uv_idle_start(&u->deferred, on_deferred); /* cannot fail */
	update(u);
}

/* --- dialling --- */

/* The link lets go of the descriptor before it is polled anew. Two handles on one descriptor would
 * conflict in the loop. */
static int take_over(struct upstream *u)
{
	int fd = agent_link_take_fd(u->link, &u->early, &u->early_n, &u->places);

	agent_link_close(u->link);
	u->link = NULL;
	if (fd < 0)
		return fd;
	u->fd = fd;
	if (uv_poll_init(u->loop, &u->poll, fd) < 0)
		return -ENOMEM;
	u->polling = true;
	u->state = UPSTREAM_OPEN;
	return 0;
}

static void on_event(struct agent_link *l, const struct agent_event *ev, void *arg)
{
	struct upstream *u = arg;

	if (ev->type != AGENT_OK) {
		lose(u, ev->type == AGENT_ERROR ? ev->error.class : 0);
		return;
	}
	if (take_over(u) < 0) {
		lose(u, 0);
		return;
	}
	if (u->early)
		(void)uv_idle_start(&u->deferred, on_deferred); /* cannot fail */
	if (u->ops->opened)
		u->ops->opened(u, u->arg);
	if (u->closed)
		return;
	write_some(u);
	update(u);
}

static void on_lost(struct agent_link *l, const struct error *why, void *arg)
{
	lose(arg, why->code == ERROR_TOO_MANY ? AGENT_ERR_LIMIT : 0);
}

int upstream_open(uv_loop_t *loop, struct instance *i, uint16_t port,
	const struct upstream_ops *ops, void *arg, struct upstream **ret)
{
	static const struct agent_link_ops link_ops = {on_event, NULL, on_lost};
	struct agent_dial m = {.port = port};
	struct upstream *u = calloc(1, sizeof(*u));
	int r;

	if (!u)
		return -ENOMEM;
	u->loop = loop;
	u->ops = ops;
	u->arg = arg;
	u->fd = -1;
	buf_init(&u->out, UPSTREAM_MAX);
	if (turn_join(&u->turn, loop, on_turn, u) < 0) {
		free(u);
		return -ENOMEM;
	}
	(void)uv_idle_init(loop, &u->deferred); /* cannot fail */
	u->poll.data = u->deferred.data = u;
	r = instance_agent_connect(i, LINK_SINGLE, &link_ops, u, &u->link, NULL);
	if (r == 0)
		r = agent_request(agent_link_conn(u->link), AGENT_DIAL, &m, NULL);
	if (r < 0) {
		upstream_close(u);
		return r;
	}
	agent_link_send(u->link);
	*ret = u;
	return 0;
}
