/* TLS of intercepted connections: we are the server for the guest, and the client of the server.
 * TLS 1.2 and 1.3 (RFC 5246, 8446), without renegotiation, tickets and session resumption.
 *
 * A session does no I/O: `in` takes received bytes, `out` has bytes to send. Not thread-safe. */
#ifndef INTERCEPT_TLS_H
#define INTERCEPT_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <openssl/x509.h>

#include "base/buf.h"

enum {
	TLS_PLAIN_MAX = 16384,	   /* bytes of a record */
	TLS_IN_MAX = 32 << 10,	   /* received, not used yet */
	TLS_OUT_MAX = 128 << 10,   /* a session with more to send fails */
	TLS_OUT_ENOUGH = 32 << 10, /* do not write more while so much waits */
	TLS_WARM_MAX = 16,	   /* most recently used sessions keep memory for records */
	TLS_KEY_BITS_MAX = 8192,   /* largest key in a server's certificates */
};

/* Call it before any other use of OpenSSL. It keeps OpenSSL from looking for files, because a jail
 * has none. */
void tls_begin(void);

/* What both sides of all connections share. */
struct tls_setup;

/* roots: the authorities that verify servers; takes a reference. Returns NULL when out of
 * memory. */
struct tls_setup *tls_setup_new(X509_STORE *roots);
void tls_setup_free(struct tls_setup *t); /* NULL is fine; sessions go on */

/* The protocols (ALPN, RFC 7301) that a client offers, or the one that a server chose. */
struct tls_protocols {
	bool h2, http1; /* both false: no protocol is named */
};

/*	AGAIN     nothing more for now
 *	EOF       the peer sends no more (close_notify)
 *	FAILED    tls_reason says why; `out` may have an alert
 */
enum tls_result { TLS_AGAIN = 0, TLS_EOF = -1, TLS_FAILED = -2 };

struct tls_session {
	void *ssl;
	struct buf in, out;
	bool warm;  /* keeps OpenSSL's memory for records */
	bool plain; /* no TLS: bytes pass unchanged */
	char why[160];
};

/* Begins a client's session. The server's certificate must be for the name, which may be an IPv4
 * address. Returns 0 or -ENOMEM. */
int tls_connect(
	struct tls_session *s, struct tls_setup *t, const char *name, struct tls_protocols offered);

/* Begins a server's session with a certificate and its key; takes references. chosen: the protocol
 * to choose from the guest's. Returns 0 or -ENOMEM. */
int tls_accept(struct tls_session *s, struct tls_setup *t, X509 *certificate, EVP_PKEY *key,
	struct tls_protocols chosen);

/* Makes a session without TLS. It passes bytes unchanged, and has no handshake and no
 * close_notify. */
void tls_plain(struct tls_session *s);

void tls_done(struct tls_session *s); /* does nothing for a zeroed one */
static inline bool tls_is_there(const struct tls_session *s)
{
	return s->ssl != NULL;
}

/* Returns 1 when the handshake is done, else TLS_AGAIN or TLS_FAILED. */
int tls_handshake(struct tls_session *s);

/* After the handshake: returns the agreed protocol. */
struct tls_protocols tls_protocol(const struct tls_session *s);

/* After a failed handshake with a server: returns the fault of its certificate (X509_V_ERR_*, or
 * TLS_FAULT_LARGE_KEY), or X509_V_OK. */
#define TLS_FAULT_LARGE_KEY X509_V_ERR_APPLICATION_VERIFICATION
long tls_certificate_fault(const struct tls_session *s);

/* Returns a positive number of bytes, or a result. */
ssize_t tls_read(struct tls_session *s, uint8_t *to, size_t n);

/* Encrypts at most TLS_PLAIN_MAX bytes into `out`. Returns how many, or TLS_FAILED. */
ssize_t tls_write(struct tls_session *s, const uint8_t *data, size_t n);

/* Puts a close_notify into `out`. */
void tls_end(struct tls_session *s);

/* Returns why the session failed, for people, or "". */
const char *tls_reason(const struct tls_session *s);

#endif
