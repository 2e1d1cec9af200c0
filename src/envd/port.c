#include "envd/port.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "proto/tls_bio.h"
#include "proto/tls_groups.h"

enum {
	PLAIN_BYTES = 16 * 1024,
	CERTIFICATES_MAX = 32 * 1024,
	KEY_BITS_MAX = 4096,
	HANDSHAKE_MS = 20000,
};

struct port {
	struct upstream *up;
	const struct port_ops *ops;
	void *arg;
	SSL *ssl;	   /* NULL: plain bytes */
	const uint8_t *in; /* received, not used yet: lent during a callback */
	size_t in_n;
	uv_timer_t timer;	 /* of TLS: until the handshake is done */
	struct buf waits;	 /* plain bytes, until TLS is there */
	struct budget_hold hold; /* for waits */
	int written;		 /* the last result of writing below TLS */
	bool ready, ends;	 /* the handshake is done; our direction is to end */
	bool over;		 /* no callback follows */
	unsigned depth;		 /* of callbacks from below: it is freed when they have returned */
	bool closed;
};

/* --- the session: what OpenSSL reads and writes --- */

static int bio_write(BIO *b, const char *data, int n)
{
	struct port *p = BIO_get_data(b);
	int r = n > 0 ? upstream_write(p->up, data, (size_t)n) : 0;

	BIO_clear_retry_flags(b); /* a failure is final, whatever the last read said */
	if (r != 0)
		p->written = r;
	return r < 0 ? -1 : n;
}

static int bio_read(BIO *b, char *to, int n)
{
	struct port *p = BIO_get_data(b);
	size_t k = p->in_n < (size_t)n ? p->in_n : (size_t)n;

	BIO_clear_retry_flags(b);
	if (!k) {
		BIO_set_retry_read(b);
		return -1;
	}
	memcpy(to, p->in, k);
	p->in += k;
	p->in_n -= k;
	return (int)k;
}

/* Instead of verifying the certificate, which port.h says is not needed, only bounds the cost of
 * the handshake. */
static int accept_any(X509_STORE_CTX *ctx, void *arg)
{
	X509 *x = X509_STORE_CTX_get0_cert(ctx);
	EVP_PKEY *key = x ? X509_get0_pubkey(x) : NULL;

	return key && EVP_PKEY_get_bits(key) <= KEY_BITS_MAX;
}

static SSL_CTX *make_context(void)
{
	static const unsigned char protocol[] = "\x08http/1.1";
	SSL_CTX *c = SSL_CTX_new(TLS_client_method());

	if (!c || SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) != 1 ||
		SSL_CTX_set_cipher_list(c, "kECDHE:!aNULL:!eNULL") != 1 ||
		SSL_CTX_set1_groups_list(c, TLS_GROUPS) != 1 ||
		SSL_CTX_set_alpn_protos(c, protocol, sizeof(protocol) - 1) != 0) {
		SSL_CTX_free(c);
		ERR_clear_error();
		return NULL;
	}
	SSL_CTX_set_security_level(c, 1);
	SSL_CTX_set_verify(c, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_cert_verify_callback(c, accept_any, NULL);
	SSL_CTX_set_max_cert_list(c, CERTIFICATES_MAX);
	(void)SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					     SSL_OP_NO_TICKET | SSL_OP_IGNORE_UNEXPECTED_EOF);
	(void)SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS);
	(void)SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
	return c;
}

static SSL *new_session(struct port *p)
{
	static SSL_CTX *context; /* of all, for good */
	static BIO_METHOD *method;
	BIO *bio;
	SSL *ssl;

	context = context ? context : make_context();
	method = method ? method : tls_bio_method(bio_read, bio_write);
	bio = context && method ? BIO_new(method) : NULL;
	ssl = bio ? SSL_new(context) : NULL;
	if (!ssl) {
		BIO_free(bio);
		return NULL;
	}
	BIO_set_data(bio, p);
	BIO_set_init(bio, 1);
	SSL_set_bio(ssl, bio, bio);
	SSL_set_connect_state(ssl);
	return ssl;
}

/* --- the end --- */

static void on_timer_closed(uv_handle_t *h)
{
	free(h->data);
}

static void free_port(struct port *p)
{
	bool timed = p->ssl;

	SSL_free(p->ssl);
	buf_done(&p->waits);
	budget_release(&p->hold);
	if (timed)
		uv_close((uv_handle_t *)&p->timer, on_timer_closed);
	else
		free(p);
}

void port_close(struct port *p)
{
	if (!p || p->closed)
		return;
	p->closed = p->over = true;
	upstream_close(p->up);
	if (!p->depth)
		free_port(p);
}

static void leave(struct port *p)
{
	if (--p->depth == 0 && p->closed)
		free_port(p);
}

static void give_up(struct port *p, const char *why)
{
	if (p->over)
		return;
	p->over = true;
	p->ops->no_tls(why, p->arg);
}

static void no_tls(struct port *p)
{
	const char *reason = ERR_reason_error_string(ERR_peek_error());

	give_up(p, reason ? reason : "it ended the connection");
	ERR_clear_error();
}

static void on_late(uv_timer_t *t)
{
	struct port *p = t->data;

	p->depth++;
	give_up(p, "its handshake takes too long");
	leave(p);
}

/* --- to the guest --- */

static int write_below(struct port *p, const void *data, size_t n)
{
	p->written = 0;
	if (n && SSL_write(p->ssl, data, (int)n) <= 0) { /* n is below UPSTREAM_MAX */
		ERR_clear_error();
		return p->written < 0 ? p->written : -EIO;
	}
	return p->written;
}

void port_charge(struct port *p, const struct request *r)
{
	request_hold(r, upstream_hold(p->up));
	request_hold(r, &p->hold);
}

int port_write(struct port *p, const void *data, size_t n)
{
	int r;

	if (!p->ssl)
		return upstream_write(p->up, data, n);
	if (p->ready)
		return n <= UPSTREAM_MAX ? write_below(p, data, n) : -EMSGSIZE;
	r = buf_add(&p->waits, data, n);
	budget_force(&p->hold, buf_len(&p->waits));
	return r < 0 ? r : 1; /* so it is a piece, and the request's head */
}

static void end_below(struct port *p)
{
	(void)SSL_shutdown(p->ssl); /* the guest need not answer it */
	ERR_clear_error();
	upstream_shutdown(p->up);
}

void port_shutdown(struct port *p)
{
	p->ends = true;
	if (!p->ssl)
		upstream_shutdown(p->up);
	else if (p->ready)
		end_below(p);
}

void port_pause(struct port *p)
{
	upstream_pause(p->up);
}

void port_resume(struct port *p)
{
	upstream_resume(p->up);
}

/* --- from the guest --- */

/* The handshake is done: sends the bytes that waited for it. Returns whether the port goes on. */
static bool get_ready(struct port *p)
{
	bool full = buf_len(&p->waits);
	int r;

	p->ready = true;
	(void)uv_timer_stop(&p->timer); /* always 0 */
	r = full ? write_below(p, buf_head(&p->waits), buf_len(&p->waits)) : 0;
	buf_done(&p->waits);
	budget_force(&p->hold, 0);
	if (r < 0) {
		no_tls(p);
		return false;
	}
	if (p->ends)
		end_below(p);
	if (full && r == 0) /* else it follows when the queue is shorter */
		p->ops->writable(p->arg);
	return !p->over;
}

static bool shake(struct port *p)
{
	int r = SSL_do_handshake(p->ssl);

	if (r == 1)
		return get_ready(p);
	if (SSL_get_error(p->ssl, r) != SSL_ERROR_WANT_READ)
		no_tls(p);
	return false;
}

static void decrypt(struct port *p)
{
	uint8_t plain[PLAIN_BYTES];
	int n = 1;

	while (!p->over && n > 0) {
		n = SSL_read(p->ssl, plain, sizeof(plain));
		if (n > 0)
			p->ops->data(plain, (size_t)n, p->arg);
	}
	if (p->over)
		return;
	switch (SSL_get_error(p->ssl, n)) {
	case SSL_ERROR_WANT_READ:
		return;
	case SSL_ERROR_ZERO_RETURN:
		p->over = true;
		p->ops->eof(p->arg);
		return;
	default:
		no_tls(p);
	}
}

static void on_data(struct upstream *u, const uint8_t *data, size_t n, void *arg)
{
	struct port *p = arg;

	if (!p->ssl) {
		p->ops->data(data, n, p->arg);
		return;
	}
	p->depth++;
	p->in = data;
	p->in_n = n;
	if (!p->over && (p->ready || shake(p)))
		decrypt(p);
	p->in_n = 0; /* behind the end of TLS there is nothing */
	leave(p);
}

static void on_eof(struct upstream *u, void *arg)
{
	struct port *p = arg;

	p->depth++;
	if (!p->over && p->ssl && !p->ready)
		no_tls(p);
	else if (!p->over)
		p->ops->eof(p->arg); /* many servers say no more than this */
	leave(p);
}

static void on_opened(struct upstream *u, void *arg)
{
	struct port *p = arg;

	p->depth++;
	p->ops->opened(p->arg);
	if (!p->over && p->ssl) {
		(void)uv_timer_start(&p->timer, on_late, HANDSHAKE_MS, 0); /* cannot fail */
		(void)shake(p); /* the rest follows when the guest answers */
	}
	leave(p);
}

static void on_writable(struct upstream *u, void *arg)
{
	struct port *p = arg;

	if (!p->ssl || p->ready)
		p->ops->writable(p->arg);
}

static void on_lost(struct upstream *u, enum agent_error_class why, void *arg)
{
	struct port *p = arg;

	if (p->over)
		return;
	p->over = true;
	p->ops->lost(why, p->arg);
}

/* --- opening --- */

int port_open(uv_loop_t *loop, struct instance *i, uint16_t number, bool tls,
	const struct port_ops *ops, void *arg, struct port **ret)
{
	static const struct upstream_ops below = {on_opened, on_data, on_eof, on_writable, on_lost};
	struct port *p = calloc(1, sizeof(*p));
	int r = p ? 0 : -ENOMEM;

	if (r < 0)
		return r;
	*p = (struct port){.ops = ops, .arg = arg};
	buf_init(&p->waits, UPSTREAM_MAX);
	if (tls) {
		p->ssl = new_session(p);
		r = p->ssl ? 0 : -ENOMEM;
	}
	if (p->ssl) {
		(void)uv_timer_init(loop, &p->timer); /* cannot fail */
		p->timer.data = p;
	}
	if (r == 0)
		r = upstream_open(loop, i, number, &below, p, &p->up);
	if (r < 0)
		free_port(p);
	else
		*ret = p;
	return r;
}
