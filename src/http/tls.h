/* TLS of the server's port: the operator's certificate and key, and one session per client.
 *
 * A session does no I/O: received bytes are lent to tls_session_feed(), and what is to be sent
 * appears in a buffer of the caller's. TLS 1.2 and 1.3 (RFC 5246, 8446) without renegotiation;
 * HTTP/1.1 is the only protocol offered (ALPN, RFC 7301). */
#ifndef DAEMON_TLS_H
#define DAEMON_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

/* --- certificate and key --- */

struct tls_context;

enum {
	TLS_RECORD_MAX = 17 * 1024, /* bytes of one record, its head and padding included */
};

/* Reads PEM files: the certificate with the chain that leads to its authority, and its key without
 * a passphrase. Refused with what to do: unreadable, malformed, not a pair, expired, not valid yet.
 * The strings must outlive the context. */
int tls_context_new(
	const char *cert_file, const char *key_file, struct tls_context **ret, struct error *e);
/* Reads the files again. On failure new clients go on to get the old certificate. */
int tls_context_reload(struct tls_context *t, struct error *e);
void tls_context_free(struct tls_context *t);		    /* NULL is fine; sessions go on */
uint64_t tls_context_expiry_s(const struct tls_context *t); /* unix time of the end */

/* --- sessions --- */

struct tls_session;

/*	DATA      that many bytes (the positive return value)
 *	AGAIN     nothing more for now
 *	EOF       the client said that it sends no more (close_notify)
 *	FAILED    the client broke the rules, or refused our certificate; an alert may be in `out`
 */
enum tls_result { TLS_AGAIN = 0, TLS_EOF = -1, TLS_FAILED = -2 };

/* `out` takes what is to be sent, and outlives the session; its maximum bounds what a client can
 * make us answer. */
struct tls_session *tls_session_new(struct tls_context *t, struct buf *out);
void tls_session_free(struct tls_session *s); /* NULL is fine */

/* Lends received bytes: the following reads use all of them up, until one returns TLS_AGAIN. */
void tls_session_feed(struct tls_session *s, const uint8_t *data, size_t n);
/* Drives the handshake as well. A positive number of bytes, or enum tls_result. */
ssize_t tls_session_read(struct tls_session *s, uint8_t *to, size_t n);
/* Whether the handshake is done: nothing can be written before. */
bool tls_session_is_ready(const struct tls_session *s);
/* Encrypts up to n bytes into `out`; the number that were taken, or TLS_FAILED. */
ssize_t tls_session_write(struct tls_session *s, const uint8_t *data, size_t n);
/* Puts the notice that we send no more into `out`. */
void tls_session_end(struct tls_session *s);

#endif
