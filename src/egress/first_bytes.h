/* What a guest says first in a flow to a name: whether it is TLS, and for which server
 * (client_hello.h).
 *
 * The server hears of nothing before it is known. The bytes wait here, CLIENT_HELLO_MAX at most.
 *
 * A server may ask for a second hello (HelloRetryRequest, RFC 8446 4.1.4), and some choose the
 * host by that one. It may come behind change_cipher_spec, alerts, and early data that the first
 * one announced. So these records pass, and a hello behind them must be for the same name. A guest
 * may send it unasked; the server's bytes are not looked at. */
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
	struct client_hello hello; /* the first one */
	size_t passing;		   /* bytes of a record that need not be looked at */
	char why[96];
	enum first_alert alert;
};

void first_init(struct first_bytes *f);
void first_done(struct first_bytes *f);

/* Reads what is there; name: what was dialled, in lower case. */
enum first_step first_read(struct first_bytes *f, int fd, const char *name);

/* After FIRST_TLS: puts what may go to the server into `out`, which is empty: the hello first.
 * FIRST_MORE: call it again, for what follows. FIRST_PLAIN: no hello can follow any more.
 * FIRST_WRONG: as above. */
enum first_step first_next(struct first_bytes *f, int fd, const char *name, struct buf *out);

/* After FIRST_PLAIN: whether they may begin a request of HTTP/1.1, with a word in capitals. The
 * parser finds out whether they do. */
bool first_is_http(const struct first_bytes *f);

/* Tells a TLS client that its connection ends, and why. Waits for nothing. */
void first_send_alert(int fd, enum first_alert alert);

#endif
