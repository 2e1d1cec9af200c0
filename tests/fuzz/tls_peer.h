/* The other side of a TLS connection in fuzz targets: OpenSSL's own, whose bytes the input changes.
 * So what comes behind the first message is reached, too. */
#ifndef TESTS_FUZZ_TLS_PEER_H
#define TESTS_FUZZ_TLS_PEER_H

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "fuzz.h"

enum { PATCH_BYTES = 3 };

/* patches: each the place of a byte in all that the peer sends (16 bits, the lower half first), and
 * what it is changed with. */
struct tls_peer {
	SSL *ssl;
	BIO *in, *out; /* the session's */
	const uint8_t *patches;
	size_t patch_bytes;
	size_t sent;
};

static inline struct tls_peer tls_peer_make(SSL_CTX *c, const uint8_t *patches, size_t n)
{
	struct tls_peer p = {.ssl = SSL_new(c),
		.in = BIO_new(BIO_s_mem()),
		.out = BIO_new(BIO_s_mem()),
		.patches = patches,
		.patch_bytes = n};

	check(p.ssl && p.in && p.out);
	SSL_set_bio(p.ssl, p.in, p.out);
	return p;
}

static inline void tls_peer_patch(const struct tls_peer *p, uint8_t *data, size_t n)
{
	for (size_t i = 0; i + PATCH_BYTES <= p->patch_bytes; i += PATCH_BYTES) {
		size_t at = p->patches[i] | (size_t)p->patches[i + 1] << 8;

		if (at >= p->sent && at - p->sent < n)
			data[at - p->sent] ^= p->patches[i + 2];
	}
}

/* Goes on with its handshake, then speaks and reads. Returns how many bytes it sends. */
static inline size_t tls_peer_turn(struct tls_peer *p, uint8_t *data, size_t room)
{
	char plain[4096];
	int n = SSL_do_handshake(p->ssl);

	if (n == 1)
		(void)SSL_write(p->ssl, "said", 4); /* whatever becomes of it */
	while (n == 1 && SSL_read(p->ssl, plain, sizeof(plain)) > 0)
		;
	ERR_clear_error();
	n = BIO_read(p->out, data, (int)room);
	if (n <= 0)
		return 0;
	tls_peer_patch(p, data, (size_t)n);
	p->sent += (size_t)n;
	return (size_t)n;
}

#endif
