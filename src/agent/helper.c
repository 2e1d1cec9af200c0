#include "helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "disk.h"

enum { RELAY_BYTES = 32 * 1024, FRAME_MAX = 128 * 1024, CLOSE_MAX = 4096 };

struct helper {
	struct source pipe;
	struct conn *conn; /* NULL when the connection was lost */
	struct helper *next, **link;
	enum agent_type request;
	pid_t pid;
	bool reaped, failed;
};

static struct helper *helpers;
static unsigned helper_count;
static uint8_t relay_bytes[RELAY_BYTES];

/* --- in the child --- */

void helper_write(int fd, const struct buf *frames)
{
	if (buf_len(frames) && fd_write_full(fd, buf_head(frames), buf_len(frames)) < 0)
		_exit(1);
}

void helper_reply(int fd, enum agent_type type, const void *message)
{
	struct buf b = BUF_INIT(FRAME_MAX);
	int r = message ? agent_encode(&b, type, message) : agent_add_raw(&b, type, NULL, 0);

	if (r < 0)
		_exit(1);
	helper_write(fd, &b);
	buf_done(&b);
}

void helper_error(int fd, enum agent_type request, int err, const char *what)
{
	struct agent_error e = {.class = (uint16_t)error_class_of(err),
		.request = (uint16_t)request,
		.err = (uint32_t)err,
		.message = what};

	helper_reply(fd, AGENT_ERROR, &e);
}

/* Closes inherited descriptors: the child must not keep pipes of other processes open. */
static void close_others(int fd)
{
	int disk = disk_fd();

	for (int i = 3; i < fd; i++)
		if (i != disk)
			(void)close(i); /* some are not open */
	for (int i = fd + 1; i <= disk; i++)
		if (i != disk)
			(void)close(i);
	fd = fd > disk ? fd : disk;
	if (syscall(SYS_close_range, fd + 1, ~0U, 0) == 0)
		return;
	for (int i = fd + 1; i < CLOSE_MAX; i++)
		(void)close(i);
}

static void __attribute__((noreturn))
child(int fd, void (*work)(int fd, const void *arg), const void *arg)
{
	close_others(fd);
	(void)setsid(); /* cannot fail: a new child leads no group */
	work(fd, arg);
	_exit(0);
}

/* --- in the agent --- */

static void helper_free(struct helper *h)
{
	*h->link = h->next;
	if (h->next)
		h->next->link = h->link;
	source_close(&h->pipe);
	loop_defer_free(h);
}

static void finish_if_done(struct helper *h)
{
	struct conn *c = h->conn;

	if (!h->reaped || h->pipe.fd >= 0)
		return;
	helper_count--;
	if (c) {
		conn_end_stream(c);
		if (h->failed) { /* it may have died within a frame, so nothing more can be sent */
			conn_error(c, AGENT_ERR_INTERNAL, h->request, 0, "a helper process died");
			c->closing = true;
		}
	}
	helper_free(h);
}

bool helper_reaped(pid_t pid, int status)
{
	struct helper *h = helpers;

	while (h && (h->pid != pid || h->reaped))
		h = h->next;
	if (!h)
		return false;
	h->reaped = true;
	h->failed = !WIFEXITED(status) || WEXITSTATUS(status);
	finish_if_done(h);
	return true;
}

static void relay(struct source *s, uint32_t events)
{
	struct helper *h = (struct helper *)s;
	ssize_t n = read(s->fd, relay_bytes, sizeof(relay_bytes));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		source_close(s);
		finish_if_done(h);
		return;
	}
	if (h->conn)
		conn_send_bytes(h->conn, relay_bytes, (size_t)n);
	if (h->conn && !conn_has_room(h->conn))
		(void)source_wait(s, 0); /* removing never fails */
}

static void helper_room(struct conn *c)
{
	struct helper *h = c->stream;

	(void)source_wait(&h->pipe, EPOLLIN); /* it was in the set before */
}

static void helper_lost(struct conn *c)
{
	struct helper *h = c->stream;

	h->conn = NULL;
	if (!h->reaped)
		(void)kill(h->pid, SIGKILL);
	source_close(&h->pipe);
	finish_if_done(h);
}

/* STOP and requests wait until the answer is complete. */
static const struct stream_ops helper_ops = {NULL, helper_room, helper_lost};

static int start(struct helper *h, void (*work)(int fd, const void *arg), const void *arg)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC) < 0)
		return -errno;
	h->pid = fork();
	if (h->pid == 0)
		child(fd[1], work, arg);
	(void)close(fd[1]); /* the child's */
	if (h->pid < 0 || fcntl(fd[0], F_SETFL, O_NONBLOCK) < 0) {
		int r = -errno;

		(void)close(fd[0]); /* nothing was read */
		return r;
	}
	source_open(&h->pipe, fd[0], relay);
	return 0;
}

void helper_run(struct conn *c, enum agent_type request, void (*work)(int fd, const void *arg),
	const void *arg)
{
	struct helper *h = helper_count < HELPERS_MAX ? calloc(1, sizeof(*h)) : NULL;
	int r;

	if (!h) {
		conn_error(c, AGENT_ERR_LIMIT, request, 0, "too many long operations at once");
		return;
	}
	r = start(h, work, arg);
	if (r < 0) {
		free(h);
		conn_error(c, error_class_of(-r), request, -r, "helper process");
		return;
	}
	helper_count++;
	h->conn = c;
	h->request = request;
	h->next = helpers;
	h->link = &helpers;
	if (helpers)
		helpers->link = &h->next;
	helpers = h;
	conn_take_over(c, &helper_ops, h); /* its `room` starts the relay */
}
