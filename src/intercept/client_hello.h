/* Parses the first message of a TLS client: RFC 8446 (4.1.2), RFC 5246 (7.4.1.2), RFC 6066 (SNI),
 * RFC 7301 (ALPN). Also knows the form of SSL 2 that old servers accept (RFC 5246 E.2), which has
 * no name.
 *
 * It is strict: a message that servers could read in two ways is refused. It keeps nothing. */
#ifndef INTERCEPT_CLIENT_HELLO_H
#define INTERCEPT_CLIENT_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CLIENT_HELLO_MAX = 16384, /* bytes on the wire, heads of records included */
	CLIENT_HELLO_NAME_BYTES = 256,
};

enum client_hello_result {
	CLIENT_HELLO_OK,
	CLIENT_HELLO_MORE,    /* it may be TLS, but is not complete */
	CLIENT_HELLO_NOT_TLS, /* the first bytes belong to something else */
	CLIENT_HELLO_BAD,     /* TLS that is malformed or too long: ret_why */
};

struct client_hello {
	char name[CLIENT_HELLO_NAME_BYTES]; /* SNI in lower case; may be "" */
	bool encrypted;			    /* it has encrypted_client_hello, real or a decoy */
	bool alpn;			    /* it offers protocols; the next two say which */
	bool h2, http1;
	bool early_data; /* data may follow before the server answers */
	size_t bytes;	 /* on the wire */
};

/* data: all bytes so far. *ret is set for CLIENT_HELLO_OK, and *ret_why (static, for people) for
 * CLIENT_HELLO_BAD. */
enum client_hello_result client_hello_parse(
	const uint8_t *data, size_t n, struct client_hello *ret, const char **ret_why);

#endif
