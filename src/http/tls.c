#include "http/tls.h"

#include <errno.h>
#include <limits.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "proto/tls_bio.h"
#include "proto/tls_groups.h"

struct tls_context {
	const char *cert_file, *key_file;
	SSL_CTX *ssl;
	BIO_METHOD *bio; /* for sessions */
	uint64_t expiry_s;
};

struct tls_session {
	SSL *ssl;
	struct buf *out;
	const uint8_t *lent; /* received, not used yet */
	size_t lent_n;
};

/* --- errors --- */

/* Why OpenSSL's last call failed, from the oldest error. Clears the errors. */
static const char *take_reason(void)
{
	unsigned long code = ERR_get_error();
	const char *text = ERR_reason_error_string(code);

	ERR_clear_error();
	if (ERR_SYSTEM_ERROR(code))
		return strerror(ERR_GET_REASON(code));
	return text ? text : "it is no PEM file";
}

static int refuse(struct error *e, const char *what, const char *file, const char *remedy)
{
	return error_set(e, ERROR_USAGE, EINVAL, "the %s %s cannot be used: %s%s", what, file,
		take_reason(), remedy);
}

/* --- certificate and key --- */

static SSL_CTX *new_ssl(struct error *e);

/* A daemon has nobody to ask for a passphrase. */
static int no_passphrase(char *buf, int size, int writing, void *arg)
{
	*(bool *)arg = true;
	return -1;
}

static int refuse_key(const struct tls_context *t, bool encrypted, struct error *e)
{
	unsigned long code = ERR_peek_error();

	if (encrypted)
		return error_set(e, ERROR_USAGE, EINVAL,
			"the TLS key %s has a passphrase: store it without one (openssl pkey -in "
			"FILE -out NEW), readable by its owner only",
			t->key_file);
	if (ERR_GET_LIB(code) == ERR_LIB_X509)
		return error_set(e, ERROR_USAGE, EINVAL,
			"the TLS key %s is not that of the certificate %s: give files of one pair",
			t->key_file, t->cert_file);
	return refuse(
		e, "TLS key", t->key_file, ": give the PEM file of the certificate's private key");
}

/* Call it after the certificate is loaded: OpenSSL compares the two. */
static int load_key(const struct tls_context *t, SSL_CTX *ssl, struct error *e)
{
	bool encrypted = false;
	int r = 0;

	SSL_CTX_set_default_passwd_cb(ssl, no_passphrase);
	SSL_CTX_set_default_passwd_cb_userdata(ssl, &encrypted);
	if (SSL_CTX_use_PrivateKey_file(ssl, t->key_file, SSL_FILETYPE_PEM) != 1)
		r = refuse_key(t, encrypted, e);
	SSL_CTX_set_default_passwd_cb_userdata(ssl, NULL);
	ERR_clear_error();
	return r;
}

static int check_validity(
	const X509 *cert, const char *file, uint64_t *ret_expiry_s, struct error *e)
{
	struct tm end = {0};
	char text[32];

	if (ASN1_TIME_to_tm(X509_get0_notAfter(cert), &end) != 1)
		return refuse(e, "TLS certificate", file, ": its dates are malformed");
	(void)strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &end); /* fits */
	*ret_expiry_s = (uint64_t)timegm(&end);
	if (X509_cmp_current_time(X509_get0_notAfter(cert)) <= 0)
		return error_set(e, ERROR_USAGE, EINVAL,
			"the TLS certificate %s expired on %s: get a new one", file, text);
	if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0)
		return error_set(e, ERROR_USAGE, EINVAL,
			"the TLS certificate %s is not valid yet: check the clock of this host",
			file);
	return 0;
}

static int load_files(struct tls_context *t, SSL_CTX *ssl, uint64_t *ret_expiry_s, struct error *e)
{
	int r;

	if (SSL_CTX_use_certificate_chain_file(ssl, t->cert_file) != 1)
		return refuse(e, "TLS certificate", t->cert_file,
			": give a PEM file, the server's certificate first, then its chain");
	r = check_validity(SSL_CTX_get0_certificate(ssl), t->cert_file, ret_expiry_s, e);
	return r < 0 ? r : load_key(t, ssl, e);
}

int tls_context_reload(struct tls_context *t, struct error *e)
{
	SSL_CTX *ssl = new_ssl(e);
	uint64_t expiry_s = 0;
	int r = ssl ? load_files(t, ssl, &expiry_s, e) : -ENOMEM;

	if (r < 0) {
		SSL_CTX_free(ssl);
		return r;
	}
	SSL_CTX_free(t->ssl); /* its sessions keep a reference */
	t->ssl = ssl;
	t->expiry_s = expiry_s;
	return 0;
}

/* --- what OpenSSL reads and writes --- */

static int bio_write(BIO *b, const char *data, int n)
{
	struct tls_session *s = BIO_get_data(b);

	/* too much queued: the client does not read, so the connection fails */
	return n > 0 && buf_add(s->out, data, (size_t)n) == 0 ? n : -1;
}

static int bio_read(BIO *b, char *to, int n)
{
	struct tls_session *s = BIO_get_data(b);
	size_t k = (size_t)n < s->lent_n ? (size_t)n : s->lent_n;

	BIO_clear_retry_flags(b);
	if (!k) {
		BIO_set_retry_read(b);
		return -1;
	}
	memcpy(to, s->lent, k);
	s->lent += k;
	s->lent_n -= k;
	return (int)k;
}

/* --- contexts --- */

/* Refuses a client that offers protocols without ours. One that offers none gets ours. */
static int select_protocol(SSL *ssl, const unsigned char **ret, unsigned char *ret_n,
	const unsigned char *offered, unsigned n, void *arg)
{
	static const unsigned char ours[] = "\x8http/1.1";
	unsigned char *chosen;

	if (SSL_select_next_proto(&chosen, ret_n, ours, sizeof(ours) - 1, offered, n) !=
		OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*ret = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *new_ssl(struct error *e)
{
	SSL_CTX *ssl = SSL_CTX_new(TLS_server_method());

	if (!ssl || SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) != 1 ||
		SSL_CTX_set1_groups_list(ssl, TLS_GROUPS) != 1) {
		(void)error_set(e, ERROR_INTERNAL, ENOMEM, "cannot prepare TLS: %s", take_reason());
		SSL_CTX_free(ssl);
		return NULL;
	}
	(void)SSL_CTX_set_options(ssl,
		SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
	/* there are many idle clients; they hold no buffers */
	(void)SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
					    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	(void)SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF); /* tickets instead */
	SSL_CTX_set_alpn_select_cb(ssl, select_protocol, NULL);
	return ssl;
}

int tls_context_new(
	const char *cert_file, const char *key_file, struct tls_context **ret, struct error *e)
{
	struct tls_context *t = calloc(1, sizeof(*t));
	int r;

	if (t)
		t->bio = tls_bio_method(bio_read, bio_write);
	if (!t || !t->bio) {
		free(t);
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	}
	t->cert_file = cert_file;
	t->key_file = key_file;
	r = tls_context_reload(t, e);
	if (r < 0) {
		tls_context_free(t);
		return r;
	}
	*ret = t;
	return 0;
}

void tls_context_free(struct tls_context *t)
{
	if (!t)
		return;
	SSL_CTX_free(t->ssl);
	BIO_meth_free(t->bio);
	free(t);
}

uint64_t tls_context_expiry_s(const struct tls_context *t)
{
	return t->expiry_s;
}

/* --- sessions --- */

struct tls_session *tls_session_new(struct tls_context *t, struct buf *out)
{
	struct tls_session *s = calloc(1, sizeof(*s));
	BIO *bio = s ? BIO_new(t->bio) : NULL;

	if (bio)
		s->ssl = SSL_new(t->ssl);
	if (!bio || !s->ssl) {
		BIO_free(bio);
		free(s);
		return NULL;
	}
	s->out = out;
	BIO_set_data(bio, s);
	BIO_set_init(bio, 1);
	SSL_set_bio(s->ssl, bio, bio);
	SSL_set_accept_state(s->ssl);
	return s;
}

void tls_session_free(struct tls_session *s)
{
	if (!s)
		return;
	SSL_free(s->ssl);
	free(s);
}

void tls_session_feed(struct tls_session *s, const uint8_t *data, size_t n)
{
	s->lent = data;
	s->lent_n = n;
}

ssize_t tls_session_read(struct tls_session *s, uint8_t *to, size_t n)
{
	int k = SSL_read(s->ssl, to, n < INT_MAX ? (int)n : INT_MAX), why;

	if (k > 0)
		return k;
	why = SSL_get_error(s->ssl, k);
	ERR_clear_error();
	if (why == SSL_ERROR_WANT_READ)
		return TLS_AGAIN;
	return why == SSL_ERROR_ZERO_RETURN ? TLS_EOF : TLS_FAILED;
}

bool tls_session_is_ready(const struct tls_session *s)
{
	return SSL_is_init_finished(s->ssl);
}

ssize_t tls_session_write(struct tls_session *s, const uint8_t *data, size_t n)
{
	int k = SSL_write(s->ssl, data, n < INT_MAX ? (int)n : INT_MAX);

	ERR_clear_error();
	return k > 0 ? k : TLS_FAILED;
}

void tls_session_end(struct tls_session *s)
{
	(void)SSL_shutdown(s->ssl); /* the client need not wait for it */
	ERR_clear_error();
}
