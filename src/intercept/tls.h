/* TLS of intercepted connections: the server towards the guest, and the client towards the server.
 * TLS 1.2 and 1.3 (RFC 5246, 8446), without renegotiation, tickets and sessions that are taken up
 * again.
 *
 * A session does no I/O: `in` takes what was received, `out` has what is to be sent. Not for
 * several threads. */
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
	TLS_OUT_MAX = 128 << 10,   /* a session fails that has more to send */
	TLS_OUT_ENOUGH = 32 << 10, /* more should not be written while so much waits */
	TLS_WARM_MAX = 16,	   /* sessions that keep memory for records: those used last */
	TLS_KEY_BITS_MAX = 8192,   /* of each key in a server's certificates */
};

/* Before anything else of OpenSSL: it is not to look for files, which a jail has not. */
void tls_begin(void);

/* What both sides of all connections share. */
struct tls_setup;

/* roots: who vouches for servers; a reference is taken. NULL: out of memory. */
struct tls_setup *tls_setup_new(X509_STORE *roots);
void tls_setup_free(struct tls_setup *t); /* NULL is fine; sessions go on */

/* The protocols (ALPN, RFC 7301) that a client offers, or the one that a server chose. */
struct tls_protocols {
	bool h2, http1; /* neither: no protocol is said */
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
	bool plain; /* there is no TLS: bytes pass as they are */
	char why[160];
};

/* Towards a server: its certificate has to be one of the name's, or the IPv4 address's. 0 or
 * -ENOMEM. */
int tls_connect(
	struct tls_session *s, struct tls_setup *t, const char *name, struct tls_protocols offered);

/* Towards the guest, with a certificate and its key (references are taken). chosen: of what it
 * offers. 0 or -ENOMEM. */
int tls_accept(struct tls_session *s, struct tls_setup *t, X509 *certificate, EVP_PKEY *key,
	struct tls_protocols chosen);

/* No TLS: reads what is in `in`, and writes to `out`. Such a session has no handshake and no end of
 * its own. */
void tls_plain(struct tls_session *s);

void tls_done(struct tls_session *s); /* of a zeroed one: nothing */
static inline bool tls_is_there(const struct tls_session *s)
{
	return s->ssl != NULL;
}

/* 1: the handshake is done; else AGAIN or FAILED. */
int tls_handshake(struct tls_session *s);

/* After the handshake: the protocol that was agreed on. */
struct tls_protocols tls_protocol(const struct tls_session *s);

/* After a failed handshake with a server: what is wrong with its certificate (X509_V_ERR_*, or
 * TLS_FAULT_LARGE_KEY), or X509_V_OK. */
#define TLS_FAULT_LARGE_KEY X509_V_ERR_APPLICATION_VERIFICATION
long tls_certificate_fault(const struct tls_session *s);

/* A positive number of bytes, or a result. */
ssize_t tls_read(struct tls_session *s, uint8_t *to, size_t n);

/* Encrypts up to TLS_PLAIN_MAX bytes into `out`. Returns how many, or TLS_FAILED. */
ssize_t tls_write(struct tls_session *s, const uint8_t *data, size_t n);

/* Puts a close_notify into `out`. */
void tls_end(struct tls_session *s);

/* Why the session failed, for people. "" if it did not. */
const char *tls_reason(const struct tls_session *s);

#endif
