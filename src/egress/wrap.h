/* TLS around a connection with a proxy: who uses the connection gets a socket for plain bytes, the
 * one end of a pair, and what goes through it is encrypted and decrypted at the other.
 *
 *	SHAKES	 the handshake. To OPEN, when the owner gets its socket; to OVER
 *	OPEN	 bytes. What one side does not take waits, 16 KiB at most, and then the other is not
 *		 read. The end of a direction is a close_notify. To OVER when both have ended, or
 *		 one side is broken
 *	OVER	 nothing is read or sent any more
 *
 * It costs a copy and two descriptors more than a connection has without. */
#ifndef EGRESS_WRAP_H
#define EGRESS_WRAP_H

#include "egress/context.h"
#include "intercept/tls.h"

enum {
	WRAPS_LEFT_MAX = 128, /* that send their last bytes without an owner */
	WRAP_BYTES_MAX = TLS_IN_MAX + TLS_OUT_ENOUGH + 4 * TLS_PLAIN_MAX + (64 << 10),
};

struct wrap;

/* fd: connected, non-blocking; taken over in any case. name: that its certificate has to be for.
 * `ready` gets the owner's socket, non-blocking, or -1; then wrap_reason says why. Not before
 * this returns. The owner limits the time. NULL: out of memory. */
struct wrap *wrap_start(struct context *c, int fd, struct tls_setup *setup, const char *name,
	void (*ready)(void *arg, int fd), void *arg);

/* Why TLS failed, for people; "" if it has not. What comes then out of the socket is its end. */
const char *wrap_reason(const struct wrap *w);

/* Its owner has closed its socket. Last bytes still go out, in 15 seconds; `reset`: they do not.
 * NULL is fine. */
void wrap_leave(struct wrap *w, bool reset);

/* Of all that have no owner any more. */
void wraps_free(struct context *c);

#endif
