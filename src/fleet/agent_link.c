#include "fleet/agent_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/metrics.h"
#include "fleet/turns.h"

/* limits per turn of the loop; the rest follows in the next */
enum { FRAMES_A_TURN = 64, BYTES_A_TURN = 256 * 1024 };

/* agent_close() closes the descriptor, after the poll handle has let go of it. All work happens in
 * `turn`, even when the descriptor becomes ready, so that agents share the loop. */
struct agent_link {
	uv_poll_t poll;
	struct turn turn;
	struct agent_conn *conn; /* NULL once taken */
	const struct agent_link_ops *ops;
	void *arg;
	struct budget_hold hold;
	struct gate_ticket ticket;
	uv_loop_t *loop;
	int dirfd;    /* to connect to; borrowed */
	bool waiting; /* for the gate: it has no descriptor yet */
	bool polling; /* the poll handle is open */
	bool closing; /* the poll handle is being closed */
	int watched;  /* what it waits for; each uv_poll_start() costs system calls */
	bool serving; /* on_turn() is using it */
	bool hung_up; /* the descriptor has an error; a read tells which */
	bool paused, closed, over, wrote;
};

static void on_poll(uv_poll_t *h, int status, int events);
static void on_turn(struct turn *t);

struct agent_conn *agent_link_conn(struct agent_link *l)
{
	return l->conn;
}

/* --- the budget --- */

struct budget_hold *agent_link_hold(struct agent_link *l)
{
	return &l->hold;
}

static size_t queued(const struct agent_link *l)
{
	const uint8_t *unused;

	return l->conn ? agent_output(l->conn, &unused) : 0;
}

bool agent_link_has_room(struct agent_link *l, size_t max)
{
	size_t n = queued(l);

	budget_force(&l->hold, n);
	return n < max && (!n || !budget_is_short(&l->hold));
}

/* --- closing --- */

static void on_closed(uv_handle_t *h)
{
	struct agent_link *l = h->data;

	l->closing = false;
	if (l->closed)
		free(l);
}

static void close_poll(struct agent_link *l)
{
	if (!l->polling)
		return;
	l->polling = false;
	l->closing = true;
	uv_close((uv_handle_t *)&l->poll, on_closed);
}

void agent_link_close(struct agent_link *l)
{
	if (!l || l->closed)
		return;
	l->closed = true;
	close_poll(l);
	turn_leave(&l->turn);
	gate_leave(&l->ticket);
	agent_close(l->conn);
	l->conn = NULL;
	budget_release(&l->hold);
	if (!l->closing && !l->serving)
		free(l);
}

int agent_link_take_fd(struct agent_link *l, uint8_t **ret_early, size_t *ret_early_bytes,
	struct gate_ticket *places)
{
	int fd;

	if (!l->conn || l->closed)
		return -EPIPE;
	close_poll(l); /* so that libuv never touches that descriptor number again */
	fd = agent_take_fd(l->conn, ret_early, ret_early_bytes);
	if (fd < 0)
		return fd;
	l->conn = NULL;
	gate_pass(&l->ticket, places);
	(void)fd_set_nonblock(fd, 1); /* our own socket: cannot fail */
	return fd;
}

/* --- polling --- */

static void update(struct agent_link *l)
{
	int events = 0;

	budget_force(&l->hold, queued(l)); /* everything that changes it ends here */
	if (l->closed || l->over || l->waiting || !l->conn || (l->paused && l->hung_up))
		return;
	if (!l->paused)
		events |= UV_READABLE;
	if (agent_wants_write(l->conn))
		events |= UV_WRITABLE;
	if (events == l->watched)
		return;
	l->watched = events;
	if (events)
		(void)uv_poll_start(&l->poll, events, on_poll); /* fails only for closed handles */
	else
		(void)uv_poll_stop(&l->poll);
}

static void lose(struct agent_link *l, const struct error *why)
{
	l->over = true;
	if (l->polling)
		(void)uv_poll_stop(&l->poll);
	gate_leave(&l->ticket);
	if (why->code != ERROR_TOO_MANY)
		metrics_add(METRIC_AGENT_ERRORS, NULL, NULL, 1);
	l->ops->lost(l, why, l->arg);
}

/* Delivers events; returns true if more may be ready at once. */
static bool take_events(struct agent_link *l)
{
	agent_set_share(l->conn, FRAMES_A_TURN, BYTES_A_TURN);
	for (;;) {
		struct agent_event ev;
		struct error why = {0};
		int r;

		if (l->closed || l->paused || l->over || !l->conn)
			return false;
		r = agent_next_event(l->conn, &ev, &why);
		if (r < 0)
			lose(l, &why);
		if (r <= 0)
			return r == 0 && agent_share_is_spent(l->conn);
		l->ops->event(l, &ev, l->arg);
	}
}

static bool wants_write(const struct agent_link *l)
{
	return l->conn && agent_wants_write(l->conn);
}

static void look(struct agent_link *l)
{
	bool wanted = wants_write(l), more;
	size_t room;

	if (wanted)
		(void)agent_flush(l->conn, NULL); /* a read reports the failure */
	if (l->wrote || (wanted && !wants_write(l))) {
		l->wrote = false;
		if (l->ops->writable)
			l->ops->writable(l, l->arg);
	}
	wanted = wants_write(l);
	room = l->conn ? agent_stdin_room(l->conn) : 0;
	more = l->conn && take_events(l);
	if (l->closed || l->over)
		return;
	/* waiting for events writes as well, and the process may have taken its input */
	if ((wanted && !wants_write(l)) || (l->conn && agent_stdin_room(l->conn) > room))
		l->wrote = true;
	if (more || l->wrote)
		turn_ask(&l->turn);
	update(l);
}

/* --- connecting --- */

/* As agent_connect(), but never waits: a microVM that does not accept must not stop the loop. */
static int connect_agent(struct agent_link *l, struct error *e)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int r;

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/vsock.sock", l->dirfd);
	if (fd >= 0 && fd_is_scarce(fd))
		return error_set(e, ERROR_NO_SPACE, EMFILE,
			"too many files are open: try again, or raise the daemon's limit of them");
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return error_set_errno(e, ERROR_SANDBOX, errno, "cannot reach the microVM");
	r = uv_poll_init(l->loop, &l->poll, fd);
	if (r < 0)
		return error_set(e, ERROR_INTERNAL, -r, "cannot watch the agent's socket");
	l->polling = true;
	agent_set_fd(l->conn, TAKE_FD(fd));
	return 0;
}

static void on_called(struct gate_ticket *t)
{
	struct agent_link *l = t->arg;

	turn_ask(&l->turn);
}

static void pass_gate(struct agent_link *l, const struct agent_way *way)
{
	l->ticket.called = on_called;
	l->ticket.arg = l;
	gate_enter(way->gate, &l->ticket, way->places);
	l->waiting = l->ticket.state != GATE_IN;
	if (l->ticket.state != GATE_WAITS)
		turn_ask(&l->turn); /* which tells the owner of a refusal */
}

/* Does what the gate said. Returns whether the link is connected. */
static bool come_in(struct agent_link *l)
{
	struct error e = {0};
	int r;

	if (l->ticket.state == GATE_WAITS)
		return false;
	if (l->ticket.state == GATE_IN)
		r = connect_agent(l, &e);
	else if (l->ticket.state == GATE_CLOSED)
		r = error_set(&e, ERROR_SANDBOX, ECONNRESET, "the sandbox ended");
	else
		r = error_set(&e, ERROR_TOO_MANY, EAGAIN,
			"too many requests use this sandbox at once (%d run, and more wait): try "
			"again, or end some",
			GATE_PLACES);
	l->waiting = false;
	if (r < 0)
		lose(l, &e);
	return r == 0;
}

static void on_turn(struct turn *t)
{
	struct agent_link *l = t->arg;

	l->serving = true;
	if (!l->waiting || come_in(l))
		look(l);
	l->serving = false;
	if (l->closed && !l->closing)
		free(l);
}

static void on_poll(uv_poll_t *h, int status, int events)
{
	struct agent_link *l = h->data;

	/* Reading finds the error, after what the agent said last. libuv has stopped the handle. It
	 * stays stopped while the link is paused, or the error would be reported again and
	 * again. */
	if (status < 0) {
		l->watched = 0;
		l->hung_up = true;
	}
	turn_ask(&l->turn);
}

void agent_link_send(struct agent_link *l)
{
	bool wanted = l->conn && agent_wants_write(l->conn);

	if (l->closed || l->over || !l->conn)
		return;
	if (!l->waiting)
		(void)agent_flush(l->conn, NULL); /* a read reports the failure */
	if (wanted && !agent_wants_write(l->conn)) {
		l->wrote = true; /* the callback comes later, as the header promises */
		if (l->ops->writable)
			turn_ask(&l->turn);
	}
	update(l);
}

void agent_link_pause(struct agent_link *l)
{
	l->paused = true;
	update(l);
}

void agent_link_resume(struct agent_link *l)
{
	if (!l->paused)
		return;
	l->paused = false;
	if (l->closed || l->over)
		return;
	turn_ask(&l->turn); /* events may have arrived already */
	update(l);
}

/* --- opening --- */

int agent_link_open(uv_loop_t *loop, const struct agent_way *way, const struct agent_link_ops *ops,
	void *arg, struct agent_link **ret, struct error *e)
{
	struct agent_link *l = calloc(1, sizeof(*l));
	int r = l ? agent_open(-1, AGENT_OPEN_PREAMBLE, &l->conn, e) : -ENOMEM;

	if (r < 0 || turn_join(&l->turn, loop, on_turn, l) < 0) {
		if (l)
			agent_close(l->conn);
		free(l);
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	}
	l->loop = loop;
	l->dirfd = way->dirfd;
	l->ops = ops;
	l->arg = arg;
	l->poll.data = l;
	if (way->gate)
		pass_gate(l, way);
	r = l->waiting ? 0 : connect_agent(l, e);
	if (r < 0) {
		agent_link_close(l);
		return r;
	}
	agent_link_send(l); /* the preamble */
	*ret = l;
	return 0;
}
