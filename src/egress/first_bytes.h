/* What a guest says first in a flow to a name: whether it is TLS, and for which server
 * (client_hello.h).
 *
 * The server hears of nothing before it is known. The bytes wait here, CLIENT_HELLO_MAX at most. */
#ifndef EGRESS_FIRST_BYTES_H
#define EGRESS_FIRST_BYTES_H

#include "base/buf.h"
#include "intercept/client_hello.h"

enum first_step {
	FIRST_MORE,
	FIRST_PLAIN, /* not TLS, or nothing at all: the guest has ended */
	FIRST_TLS,   /* a hello for just this name, in `hello` */
	FIRST_WRONG, /* TLS that is refused: why, alert */
};

/* Alerts of TLS (RFC 8446 6), for programs. */
enum first_alert {
	ALERT_HANDSHAKE_FAILURE = 40,
	ALERT_DECODE_ERROR = 50,
	ALERT_UNRECOGNIZED_NAME = 112,
	ALERT_NO_APPLICATION_PROTOCOL = 120,
};

struct first_bytes {
	struct buf held;
	struct client_hello hello;
	char why[96];
	enum first_alert alert;
};

void first_init(struct first_bytes *f);
void first_done(struct first_bytes *f);

/* Reads what is there; name: what was dialled, in lower case. */
enum first_step first_read(struct first_bytes *f, int fd, const char *name);

/* Tells a TLS client that its connection ends, and why. Waits for nothing. */
void first_send_alert(int fd, enum first_alert alert);

#endif
