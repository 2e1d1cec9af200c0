#include "fleet/agent_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "fleet/metrics.h"

enum { EVENTS_A_TURN = 64 }; /* then the loop looks at others */

/* The descriptor is closed by agent_close(), after the poll handle has let go of it. `deferred` is
 * active while something has to be looked at without the descriptor becoming ready: events that
 * were received already, or the room that a write has made. */
struct agent_link {
	uv_poll_t poll;
	uv_idle_t deferred;
	struct agent_conn *conn; /* NULL when it was taken */
	const struct agent_link_ops *ops;
	void *arg;
	bool polling; /* the poll handle is open */
	int watched;  /* what it waits for: libuv makes system calls of every uv_poll_start() */
	bool paused, closed, over, wrote;
	unsigned handles; /* not closed yet */
};

static void on_poll(uv_poll_t *h, int status, int events);
static void on_deferred(uv_idle_t *h);

struct agent_conn *agent_link_conn(struct agent_link *l)
{
	return l->conn;
}

/* --- closing --- */

static void on_closed(uv_handle_t *h)
{
	struct agent_link *l = h->data;

	if (--l->handles == 0)
		free(l);
}

static void close_poll(struct agent_link *l)
{
	if (!l->polling)
		return;
	l->polling = false;
	uv_close((uv_handle_t *)&l->poll, on_closed);
}

void agent_link_close(struct agent_link *l)
{
	if (!l || l->closed)
		return;
	l->closed = true;
	close_poll(l);
	uv_close((uv_handle_t *)&l->deferred, on_closed);
	agent_close(l->conn);
	l->conn = NULL;
}

int agent_link_take_fd(struct agent_link *l, uint8_t **ret_early, size_t *ret_early_bytes)
{
	int fd;

	if (!l->conn || l->closed)
		return -EPIPE;
	close_poll(l); /* so that libuv never touches the number again */
	fd = agent_take_fd(l->conn, ret_early, ret_early_bytes);
	if (fd < 0)
		return fd;
	l->conn = NULL;
	(void)fd_set_nonblock(fd, 1); /* a socket of ours */
	return fd;
}

/* --- polling --- */

static void update(struct agent_link *l)
{
	int events = 0;

	if (l->closed || l->over || !l->conn)
		return;
	if (!l->paused)
		events |= UV_READABLE;
	if (agent_wants_write(l->conn))
		events |= UV_WRITABLE;
	if (events == l->watched)
		return;
	l->watched = events;
	if (events)
		(void)uv_poll_start(&l->poll, events, on_poll); /* fails for closed ones only */
	else
		(void)uv_poll_stop(&l->poll);
}

static void lose(struct agent_link *l, const struct error *why)
{
	l->over = true;
	if (l->polling)
		(void)uv_poll_stop(&l->poll);
	(void)uv_idle_stop(&l->deferred);
	metrics_add(METRIC_AGENT_ERRORS, NULL, NULL, 1);
	l->ops->lost(l, why, l->arg);
}

/* Hands out events; true when there may be more at once. */
static bool take_events(struct agent_link *l)
{
	for (int i = 0; i < EVENTS_A_TURN; i++) {
		struct agent_event ev;
		struct error why = {0};
		int r;

		if (l->closed || l->paused || l->over || !l->conn)
			return false;
		r = agent_next_event(l->conn, &ev, &why);
		if (r < 0)
			lose(l, &why);
		if (r <= 0)
			return false;
		l->ops->event(l, &ev, l->arg);
	}
	return true;
}

static bool wants_write(const struct agent_link *l)
{
	return l->conn && agent_wants_write(l->conn);
}

static void look(struct agent_link *l)
{
	bool wanted = wants_write(l), more;

	if (wanted)
		(void)agent_flush(l->conn, NULL); /* a failure shows when reading */
	if (l->wrote || (wanted && !wants_write(l))) {
		l->wrote = false;
		if (l->ops->writable)
			l->ops->writable(l, l->arg);
	}
	wanted = wants_write(l);
	more = take_events(l);
	if (l->closed || l->over)
		return;
	if (wanted && !wants_write(l))
		l->wrote = true; /* asking for events writes as well */
	if (more || l->wrote)
		(void)uv_idle_start(&l->deferred, on_deferred);
	else
		(void)uv_idle_stop(&l->deferred);
	update(l);
}

static void on_poll(uv_poll_t *h, int status, int events)
{
	struct agent_link *l = h->data;

	if (status < 0)
		l->watched = 0; /* libuv has stopped it */
	/* an error or hang-up is found by reading, after what was said last */
	look(l);
	if (status < 0 && l->paused && l->polling) {
		l->watched = 0;
		(void)uv_poll_stop(h); /* or it would be reported again and again */
	}
}

static void on_deferred(uv_idle_t *h)
{
	look(h->data);
}

void agent_link_send(struct agent_link *l)
{
	bool wanted = l->conn && agent_wants_write(l->conn);

	if (l->closed || l->over || !l->conn)
		return;
	(void)agent_flush(l->conn, NULL); /* a failure shows when reading */
	if (wanted && !agent_wants_write(l->conn)) {
		l->wrote = true; /* the callback comes later, as the header promises */
		if (l->ops->writable)
			(void)uv_idle_start(&l->deferred, on_deferred);
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
	/* some may have been received already */
	(void)uv_idle_start(&l->deferred, on_deferred);
	update(l);
}

/* --- opening --- */

/* As agent_connect(), but never waits: a microVM that does not accept must not stop the loop. */
static int connect_agent(int dirfd, struct agent_conn **ret, struct error *e)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int r;

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/vsock.sock", dirfd);
	if (fd >= 0 && fd_is_scarce(fd))
		return error_set(e, ERROR_NO_SPACE, EMFILE,
			"too many files are open: try again, or raise the daemon's limit of them");
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return error_set_errno(e, ERROR_SANDBOX, errno, "cannot reach the microVM");
	r = agent_open(fd, AGENT_OPEN_PREAMBLE, ret, e);
	if (r == 0)
		fd = -1;
	return r;
}

int agent_link_open(uv_loop_t *loop, int dirfd, const struct agent_link_ops *ops, void *arg,
	struct agent_link **ret, struct error *e)
{
	struct agent_link *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	l->ops = ops;
	l->arg = arg;
	(void)uv_idle_init(loop, &l->deferred); /* cannot fail */
	l->poll.data = l->deferred.data = l;
	l->handles = 1;
	r = connect_agent(dirfd, &l->conn, e);
	if (r == 0) {
		r = uv_poll_init(loop, &l->poll, agent_fd(l->conn));
		l->polling = r == 0;
		l->handles += l->polling;
		if (r < 0)
			(void)error_set(e, ERROR_INTERNAL, -r, "cannot watch the agent's socket");
	}
	if (r < 0) {
		agent_link_close(l);
		return r;
	}
	agent_link_send(l); /* the preamble */
	*ret = l;
	return 0;
}
