#include "intercept/tls.h"

#include <errno.h>
#include <limits.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/net.h"
#include "proto/tls_bio.h"
#include "proto/tls_groups.h"

struct tls_setup {
	SSL_CTX *client, *server;
};

static BIO_METHOD *session_bio; /* made once: sessions outlive their setup */

/* --- what OpenSSL reads and writes --- */

static int bio_write(BIO *b, const char *data, int n)
{
	struct tls_session *s = BIO_get_data(b);

	return n > 0 && buf_add(&s->out, data, (size_t)n) == 0 ? n : -1;
}

static int bio_read(BIO *b, char *to, int n)
{
	struct tls_session *s = BIO_get_data(b);
	size_t k = buf_len(&s->in) < (size_t)n ? buf_len(&s->in) : (size_t)n;

	BIO_clear_retry_flags(b);
	if (!k) {
		BIO_set_retry_read(b);
		return -1;
	}
	memcpy(to, buf_head(&s->in), k);
	buf_consume(&s->in, k);
	return (int)k;
}

/* --- memory for records: 34 KiB of each session --- */

/* SSL_MODE_RELEASE_BUFFERS would free and wipe the memory after each record. So the most recently
 * used sessions keep it. */
static struct tls_session *warm[TLS_WARM_MAX];
static unsigned warm_next;

static void cool(struct tls_session *s)
{
	for (unsigned i = 0; i < TLS_WARM_MAX; i++)
		if (warm[i] == s)
			warm[i] = NULL;
	s->warm = false;
}

static void use(struct tls_session *s)
{
	struct tls_session *oldest = warm[warm_next];

	if (s->warm)
		return;
	if (oldest) {
		(void)SSL_free_buffers(oldest->ssl); /* fails in the middle of a record */
		oldest->warm = false;
	}
	warm[warm_next] = s;
	warm_next = (warm_next + 1) % TLS_WARM_MAX;
	s->warm = true;
}

/* --- what all sessions share --- */

static SSL_CTX *new_context(const SSL_METHOD *method)
{
	SSL_CTX *c = SSL_CTX_new(method);

	if (!c || SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) != 1 ||
		SSL_CTX_set_cipher_list(c, "DEFAULT:!kDHE") != 1 || /* groups of any size */
		SSL_CTX_set1_groups_list(c, TLS_GROUPS) != 1) {
		SSL_CTX_free(c);
		return NULL;
	}
	SSL_CTX_set_security_level(c, 2); /* as Debian's configuration says, which is not read */
	(void)SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					     SSL_OP_NO_TICKET | SSL_OP_CLEANSE_PLAINTEXT);
	(void)SSL_CTX_set_num_tickets(c, 0);
	(void)SSL_CTX_set_mode(
		c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	(void)SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
	return c;
}

/* Chooses the protocol that the session was given, or none. */
static int select_protocol(SSL *ssl, const unsigned char **ret, unsigned char *ret_n,
	const unsigned char *offered, unsigned n, void *arg)
{
	const char *ours = SSL_get_app_data(ssl);

	if (!ours)
		return SSL_TLSEXT_ERR_NOACK;
	*ret = (const unsigned char *)ours;
	*ret_n = (unsigned char)strlen(ours);
	return SSL_TLSEXT_ERR_OK;
}

static bool is_too_large(X509 *x)
{
	const EVP_PKEY *key = X509_get0_pubkey(x);

	return key && EVP_PKEY_get_bits(key) > TLS_KEY_BITS_MAX;
}

/* Checks key sizes before the first signature of a chain is verified. That time grows with the
 * square of the key's size, and OpenSSL accepts RSA keys of up to 16,384 bits. */
static int verify_chain(X509_STORE_CTX *c, void *arg)
{
	X509 *leaf = X509_STORE_CTX_get0_cert(c);
	STACK_OF(X509) *sent = X509_STORE_CTX_get0_untrusted(c);
	bool large = leaf && is_too_large(leaf);

	for (int i = 0; i < sk_X509_num(sent); i++)
		large = large || is_too_large(sk_X509_value(sent, i));
	if (!large)
		return X509_verify_cert(c);
	X509_STORE_CTX_set_error(c, TLS_FAULT_LARGE_KEY);
	return 0;
}

/* OpenSSL's own: its random numbers, its locks, and glibc's sorting, which asks how large memory
 * is.
 *
 * #calls egress: getpid futex sysinfo */
void tls_begin(void)
{
	/* what it cannot do now fails later */
	(void)OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL);
}

struct tls_setup *tls_setup_new(X509_STORE *roots)
{
	struct tls_setup *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	if (!session_bio)
		session_bio = tls_bio_method(bio_read, bio_write);
	t->client = new_context(TLS_client_method());
	t->server = new_context(TLS_server_method());
	if (!session_bio || !t->client || !t->server) {
		tls_setup_free(t);
		return NULL;
	}
	SSL_CTX_set_verify(t->client, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_cert_verify_callback(t->client, verify_chain, NULL);
	SSL_CTX_set1_cert_store(t->client, roots);
	SSL_CTX_set_alpn_select_cb(t->server, select_protocol, NULL);
	return t;
}

void tls_setup_free(struct tls_setup *t)
{
	if (!t)
		return;
	SSL_CTX_free(t->client);
	SSL_CTX_free(t->server);
	free(t);
}

/* --- sessions --- */

static int begin(struct tls_session *s, SSL_CTX *context)
{
	BIO *bio = BIO_new(session_bio);
	SSL *ssl = bio ? SSL_new(context) : NULL;

	*s = (struct tls_session){.in = BUF_INIT(TLS_IN_MAX), .out = BUF_INIT(TLS_OUT_MAX)};
	if (!ssl) {
		BIO_free(bio);
		return -ENOMEM;
	}
	BIO_set_data(bio, s);
	BIO_set_init(bio, 1);
	SSL_set_bio(ssl, bio, bio);
	s->ssl = ssl;
	return 0;
}

static int offer(SSL *ssl, struct tls_protocols p)
{
	static const unsigned char both[] = "\x02h2\x08http/1.1";
	const unsigned char *from = p.h2 ? both : both + 3;
	size_t n = (p.h2 ? 3u : 0u) + (p.http1 ? 9u : 0u);

	return n == 0 || SSL_set_alpn_protos(ssl, from, (unsigned)n) == 0;
}

/* Sets whose certificate is expected. An address is not sent as server name (RFC 6066 3). */
static int expect(SSL *ssl, const char *name)
{
	uint32_t address;

	if (net_parse_address(name, &address) == 0)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name);
	return SSL_set_tlsext_host_name(ssl, name) == 1 && SSL_set1_host(ssl, name) == 1;
}

int tls_connect(
	struct tls_session *s, struct tls_setup *t, const char *name, struct tls_protocols offered)
{
	int r = begin(s, t->client);

	if (r == 0 && expect(s->ssl, name) && offer(s->ssl, offered)) {
		SSL_set_hostflags(s->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
		SSL_set_connect_state(s->ssl);
		return 0;
	}
	tls_done(s);
	ERR_clear_error();
	return -ENOMEM;
}

int tls_accept(struct tls_session *s, struct tls_setup *t, X509 *certificate, EVP_PKEY *key,
	struct tls_protocols chosen)
{
	static char h2[] = "h2", http1[] = "http/1.1";
	int r = begin(s, t->server);

	if (r == 0 && SSL_use_certificate(s->ssl, certificate) == 1 &&
		SSL_use_PrivateKey(s->ssl, key) == 1) {
		(void)SSL_set_app_data(s->ssl, chosen.h2 ? h2
					       : chosen.http1
						       ? http1
						       : NULL); /* fails without memory only */
		SSL_set_accept_state(s->ssl);
		return 0;
	}
	tls_done(s);
	ERR_clear_error();
	return -ENOMEM;
}

void tls_plain(struct tls_session *s)
{
	*s = (struct tls_session){.plain = true};
	buf_init_secret(&s->in, TLS_IN_MAX);
	buf_init_secret(&s->out, TLS_OUT_MAX);
}

void tls_done(struct tls_session *s)
{
	if (s->warm)
		cool(s);
	SSL_free(s->ssl);
	s->ssl = NULL;
	buf_done(&s->in);
	buf_done(&s->out);
}

/* --- calls --- */

/* What OpenSSL's oldest error says; clears all. */
static int fail(struct tls_session *s)
{
	unsigned long code = ERR_get_error();
	const char *text = ERR_reason_error_string(code);
	long fault = tls_certificate_fault(s);

	if (fault != X509_V_OK && ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED)
		text = fault == TLS_FAULT_LARGE_KEY
			       ? "a key of its certificates has more than 8192 bits"
			       : X509_verify_cert_error_string(fault);
	if (!s->why[0])
		(void)snprintf(s->why, sizeof(s->why), "%s",
			text ? text : "it broke the protocol"); /* fits, or is cut */
	ERR_clear_error();
	return TLS_FAILED;
}

/* Of a call that returned what is not positive. */
static int result(struct tls_session *s, int returned)
{
	switch (SSL_get_error(s->ssl, returned)) {
	case SSL_ERROR_WANT_READ:
		return TLS_AGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return TLS_EOF;
	default:
		return fail(s);
	}
}

int tls_handshake(struct tls_session *s)
{
	int r;

	use(s);
	r = SSL_do_handshake(s->ssl);
	if (r == 1)
		return 1;
	r = result(s, r);
	return r == TLS_EOF ? fail(s) : r;
}

struct tls_protocols tls_protocol(const struct tls_session *s)
{
	const unsigned char *name;
	unsigned n;

	SSL_get0_alpn_selected(s->ssl, &name, &n);
	return (struct tls_protocols){.h2 = n == 2, .http1 = n == 8};
}

long tls_certificate_fault(const struct tls_session *s)
{
	return SSL_get_verify_result(s->ssl);
}

static ssize_t read_plain(struct tls_session *s, uint8_t *to, size_t n)
{
	size_t k = buf_len(&s->in) < n ? buf_len(&s->in) : n;

	memcpy(to, buf_head(&s->in), k);
	buf_consume(&s->in, k);
	return (ssize_t)k;
}

static ssize_t write_plain(struct tls_session *s, const uint8_t *data, size_t n)
{
	size_t k = n < TLS_PLAIN_MAX ? n : TLS_PLAIN_MAX;

	return buf_add(&s->out, data, k) < 0 ? TLS_FAILED : (ssize_t)k;
}

ssize_t tls_read(struct tls_session *s, uint8_t *to, size_t n)
{
	int k;

	if (s->plain)
		return buf_len(&s->in) ? read_plain(s, to, n) : TLS_AGAIN;

	use(s);
	k = SSL_read(s->ssl, to, n < INT_MAX ? (int)n : INT_MAX);
	return k > 0 ? k : result(s, k);
}

ssize_t tls_write(struct tls_session *s, const uint8_t *data, size_t n)
{
	int k;

	if (s->plain)
		return write_plain(s, data, n);

	use(s);
	k = SSL_write(s->ssl, data, n < TLS_PLAIN_MAX ? (int)n : TLS_PLAIN_MAX);
	return k > 0 ? k : fail(s);
}

void tls_end(struct tls_session *s)
{
	if (SSL_is_init_finished(s->ssl))
		(void)SSL_shutdown(s->ssl); /* the peer need not wait for it */
	ERR_clear_error();
}

const char *tls_reason(const struct tls_session *s)
{
	return s->why;
}
