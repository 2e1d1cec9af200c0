/* Reads a guest's first bytes in a flow to a name: whether they are TLS, and for which server
 * (client_hello.h).
 *
 * The server gets no byte before that is known. The bytes wait here, at most CLIENT_HELLO_MAX.
 *
 * A server may ask for a second hello (HelloRetryRequest, RFC 8446 4.1.4), and some servers choose
 * the host by it. It may follow change_cipher_spec, alerts, and early data that the first one
 * announced. So these records pass, and a hello behind them must be for the same name. This module
 * does not look at the server's bytes, so a guest may also send a second hello unasked. */
#ifndef EGRESS_FIRST_BYTES_H
#define EGRESS_FIRST_BYTES_H

#include "base/buf.h"
#include "intercept/client_hello.h"

enum first_step {
	FIRST_MORE,
	FIRST_PLAIN, /* not TLS, or the guest has ended without a byte */
	FIRST_TLS,   /* a hello for just this name, in `hello` */
	FIRST_WRONG, /* refused TLS: `why` and `alert` are set */
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

/* Reads what the socket has. name: the flow's name, in lower case. */
enum first_step first_read(struct first_bytes *f, int fd, const char *name);

/* After FIRST_TLS: puts what may go to the server into `out`, beginning with the hello. `out` must
 * be empty. Returns FIRST_MORE if it must be called again for later bytes, FIRST_PLAIN if no second
 * hello can follow any more, or FIRST_WRONG. */
enum first_step first_next(struct first_bytes *f, int fd, const char *name, struct buf *out);

/* After FIRST_PLAIN: whether the bytes may begin a request of HTTP/1.1, because they begin with a
 * word in capitals. Only the parser knows for sure. */
bool first_is_http(const struct first_bytes *f);

/* Likewise: whether a server may read a host for virtual hosting in the bytes. On port 80 it may in
 * any bytes. On others it may if they begin as HTTP/1.1 does, perhaps behind empty lines. HTTP/2
 * without TLS is refused on port 80, and not looked into on others. */
bool first_may_name_host(const struct first_bytes *f, uint16_t port);

/* Sends an alert to a TLS client whose connection ends. Does not wait. */
void first_send_alert(int fd, enum first_alert alert);

#endif
