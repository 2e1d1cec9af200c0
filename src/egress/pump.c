#include "egress/pump.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

enum {
	ROUNDS = 8,		    /* of a turn: other flows wait */
	PAGES_MIN_BYTES = 16 << 10, /* less is copied, which then costs fewer calls */
};

/* #calls egress: pipe2 */
int pump_means_init(struct pump_means *m)
{
	return pipe2(m->pipe, O_CLOEXEC | O_NONBLOCK) < 0 ? -errno : 0;
}

void pump_means_done(struct pump_means *m)
{
	cleanup_close_p(&m->pipe[0]);
	cleanup_close_p(&m->pipe[1]);
}

void pump_init(struct pump *p)
{
	*p = (struct pump){.held = BUF_INIT(PUMP_HELD_MAX)};
}

void pump_done(struct pump *p)
{
	buf_done(&p->held);
}

/* Returns whether all that is held went out. */
static bool flush(struct pump *p, int to, enum pump_end *end)
{
	ssize_t n;

	while (buf_len(&p->held)) {
		n = fd_send_peer(to, buf_head(&p->held), buf_len(&p->held));
		if (n < 0) {
			if (errno != EAGAIN)
				*end = PUMP_TO_FAILED;
			return false;
		}
		p->bytes += (size_t)n;
		buf_consume(&p->held, (size_t)n);
	}
	buf_done(&p->held); /* gives the memory back */
	return true;
}

enum pump_end pump_flush(struct pump *p, int to)
{
	enum pump_end end = PUMP_GOES_ON;

	(void)flush(p, to, &end); /* the rest waits */
	return end;
}

/* Keeps what the receiver did not take. */
static void hold(struct pump *p, const uint8_t *rest, size_t n, enum pump_end *end)
{
	if (n && buf_add(&p->held, rest, n) < 0)
		*end = PUMP_TO_FAILED; /* no memory */
}

/* Returns whether there may be more to move.
 *
 * #calls egress: recvfrom */
static bool move(struct pump *p, int from, int to, struct pump_means *m, enum pump_end *end)
{
	ssize_t n = recv(from, m->space, sizeof(m->space), 0), sent;

	if (n < 0 && errno != EAGAIN)
		*end = PUMP_FROM_FAILED;
	p->ended = n == 0;
	if (n <= 0)
		return false;
	sent = fd_send_peer(to, m->space, (size_t)n);
	if (sent < 0 && errno != EAGAIN) {
		*end = PUMP_TO_FAILED;
		return false;
	}
	sent = sent < 0 ? 0 : sent;
	p->bytes += (size_t)sent;
	p->bulk = (size_t)n == sizeof(m->space);
	hold(p, m->space + sent, (size_t)(n - sent), end);
	return p->bulk && sent == n;
}

/* Sends what is in the pipe. Bytes that the receiver does not take are read out of the pipe, which
 * other flows use next.
 *
 * #calls egress: splice read */
static size_t send_pages(struct pump *p, int to, struct pump_means *m, size_t n, enum pump_end *end)
{
	size_t sent = 0;
	ssize_t r = 1;

	while (sent < n && r > 0) {
		r = splice(m->pipe[0], NULL, to, NULL, n - sent, SPLICE_F_NONBLOCK);
		sent += r > 0 ? (size_t)r : 0;
	}
	if (r < 0 && errno != EAGAIN)
		*end = PUMP_TO_FAILED;
	if (sent < n) {
		int err = errno;

		r = read(m->pipe[0], m->space, n - sent);
		assert(r == (ssize_t)(n - sent));
		hold(p, m->space, n - sent, end);
		errno = err; /* the owner looks at it */
	}
	return sent;
}

/* Moves bytes without a copy: pages go from one socket to the other. SIGPIPE is ignored. */
static bool move_pages(struct pump *p, int from, int to, struct pump_means *m, enum pump_end *end)
{
	ssize_t n = splice(from, NULL, m->pipe[1], NULL, sizeof(m->space), SPLICE_F_NONBLOCK);
	size_t sent;

	if (n < 0 && errno != EAGAIN)
		*end = PUMP_FROM_FAILED;
	p->ended = n == 0;
	if (n <= 0)
		return false;
	p->bulk = n >= PAGES_MIN_BYTES;
	sent = send_pages(p, to, m, (size_t)n, end);
	p->bytes += sent;
	return sent == (size_t)n;
}

/* #calls egress: shutdown */
enum pump_end pump_run(struct pump *p, int from, int to, struct pump_means *m)
{
	enum pump_end end = PUMP_GOES_ON;

	if (!flush(p, to, &end))
		return end;
	for (unsigned i = 0; i < ROUNDS && !p->ended; i++)
		if (!(p->bulk ? move_pages : move)(p, from, to, m, &end))
			break;
	if (end == PUMP_GOES_ON && p->ended && !p->shut && buf_len(&p->held) == 0) {
		p->shut = true;
		(void)shutdown(to, SHUT_WR); /* fails only if it is gone: an event follows */
	}
	return end;
}
