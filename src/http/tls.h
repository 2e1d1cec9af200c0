/* TLS of the server's port: the operator's certificate and key, and one session per client.
 *
 * A session does no I/O. The caller lends received bytes to tls_session_feed(); bytes to send
 * appear in the caller's buffer. TLS 1.2 and 1.3 (RFC 5246, 8446) without renegotiation. HTTP/1.1
 * is the only protocol offered (ALPN, RFC 7301). */
#ifndef HTTP_TLS_H
#define HTTP_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

/* --- certificate and key --- */

struct tls_context;

enum {
	TLS_RECORD_MAX = 17 * 1024, /* bytes of one record, with head and padding */
};

/* Reads PEM files: the certificate with the chain to its authority, and its key without a
 * passphrase. Fails, with advice, if they are unreadable, malformed, not a pair, expired, or not
 * valid yet. The strings must outlive the context. */
int tls_context_new(
	const char *cert_file, const char *key_file, struct tls_context **ret, struct error *e);
/* Reads the files again. On failure new clients still get the old certificate. */
int tls_context_reload(struct tls_context *t, struct error *e);
void tls_context_free(struct tls_context *t);		    /* NULL is fine; sessions go on */
uint64_t tls_context_expiry_s(const struct tls_context *t); /* Unix time when it expires */

/* --- sessions --- */

struct tls_session;

/*	DATA      a positive return value: that many bytes
 *	AGAIN     nothing more for now
 *	EOF       the client will send no more (close_notify)
 *	FAILED    the client broke the protocol, or refused our certificate; `out` may have an alert
 */
enum tls_result { TLS_AGAIN = 0, TLS_EOF = -1, TLS_FAILED = -2 };

/* `out` receives the bytes to send, and must outlive the session. Its maximum bounds what a client
 * can make us answer. */
struct tls_session *tls_session_new(struct tls_context *t, struct buf *out);
void tls_session_free(struct tls_session *s); /* NULL is fine */

/* Lends received bytes. Read until TLS_AGAIN: the reads use them all up. */
void tls_session_feed(struct tls_session *s, const uint8_t *data, size_t n);
/* Also drives the handshake. Returns a positive number of bytes, or enum tls_result. */
ssize_t tls_session_read(struct tls_session *s, uint8_t *to, size_t n);
/* Whether the handshake is done. Nothing can be written before. */
bool tls_session_is_ready(const struct tls_session *s);
/* Encrypts up to n bytes into `out`. Returns the number taken, or TLS_FAILED. */
ssize_t tls_session_write(struct tls_session *s, const uint8_t *data, size_t n);
/* Puts a close_notify into `out`: we send no more. */
void tls_session_end(struct tls_session *s);

#endif
