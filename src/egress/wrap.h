/* TLS around a connection with a proxy. The owner gets one end of a socket pair for plain bytes.
 * This module encrypts and decrypts at the other end.
 *
 *	SHAKES	 the handshake. To OPEN, when the owner gets its socket; to OVER
 *	OPEN	 bytes. What one side does not take waits, 16 KiB at most, and then the other is not
 *		 read. The end of a direction is a close_notify. To OVER when both have ended, or
 *		 one side is broken
 *	OVER	 nothing is read or sent any more
 *
 * This costs one more copy and two more descriptors than a connection without TLS. */
#ifndef EGRESS_WRAP_H
#define EGRESS_WRAP_H

#include "egress/context.h"
#include "intercept/tls.h"

enum {
	WRAPS_LEFT_MAX = 128, /* without an owner, while they send their last bytes */
	WRAP_BYTES_MAX = TLS_IN_MAX + TLS_OUT_ENOUGH + 4 * TLS_PLAIN_MAX + (64 << 10),
};

struct wrap;

/* fd: connected and non-blocking; taken over in any case. name: the name that the certificate must
 * have. `ready` gets the owner's non-blocking socket, or -1, and then wrap_reason() says why. It is
 * called after this returns. The owner limits the time. Returns NULL when out of memory. */
struct wrap *wrap_start(struct context *c, int fd, struct tls_setup *setup, const char *name,
	void (*ready)(void *arg, int fd), void *arg);

/* Returns why TLS failed, for people, or "". After a failure the socket only shows its end. */
const char *wrap_reason(const struct wrap *w);

/* The owner has closed its socket. The last bytes are still sent, within 15 seconds, unless
 * `reset`. NULL is fine. */
void wrap_leave(struct wrap *w, bool reset);

/* Frees all wraps without an owner. */
void wraps_free(struct context *c);

#endif
