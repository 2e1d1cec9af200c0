#include "egress/pump.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/fd.h"

enum { ROUNDS = 4 }; /* of a turn: other flows wait */

void pump_init(struct pump *p, size_t space_bytes)
{
	*p = (struct pump){.held = BUF_INIT(space_bytes)};
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
		n = fd_send(to, buf_head(&p->held), buf_len(&p->held));
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

/* Returns whether there may be more to move.
 *
 * #calls egress: recvfrom sendmsg */
static bool move(struct pump *p, int from, int to, uint8_t *space, size_t bytes, enum pump_end *end)
{
	ssize_t n = recv(from, space, bytes, 0), sent;

	if (n < 0) {
		if (errno != EAGAIN)
			*end = PUMP_FROM_FAILED;
		return false;
	}
	p->ended = n == 0;
	if (p->ended)
		return false;
	sent = fd_send(to, space, (size_t)n);
	if (sent < 0 && errno != EAGAIN) {
		*end = PUMP_TO_FAILED;
		return false;
	}
	sent = sent < 0 ? 0 : sent;
	p->bytes += (size_t)sent;
	if (sent == n)
		return (size_t)n == bytes;
	if (buf_add(&p->held, space + sent, (size_t)(n - sent)) < 0)
		*end = PUMP_TO_FAILED; /* no memory */
	return false;
}

/* #calls egress: shutdown */
enum pump_end pump_run(struct pump *p, int from, int to, uint8_t *space, size_t space_bytes)
{
	enum pump_end end = PUMP_GOES_ON;

	if (!flush(p, to, &end))
		return end;
	for (unsigned i = 0; i < ROUNDS && !p->ended; i++)
		if (!move(p, from, to, space, space_bytes, &end))
			break;
	if (end == PUMP_GOES_ON && p->ended && !p->shut && buf_len(&p->held) == 0) {
		p->shut = true;
		(void)shutdown(to, SHUT_WR); /* fails only if it is gone: an event follows */
	}
	return end;
}
