#include "http/tls_issue.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "proto/x509.h"

#define CA_KEY_FILE "ca.key"

enum { PEM_MAX = 64 * 1024, NAMES_MAX = 3 * TLS_DOMAIN_MAX };

/* A certificate and its key. */
struct pair {
	X509 *cert;
	EVP_PKEY *key;
};

static void pair_done(struct pair *p)
{
	X509_free(p->cert);
	EVP_PKEY_free(p->key);
	*p = (struct pair){0};
}

static void bio_freep(BIO **b)
{
	(void)BIO_free(*b); /* NULL is fine; cannot fail for memory */
}

int tls_issue_check_domain(const char *domain, struct error *e)
{
	static const char chars[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";
	size_t n = strlen(domain);

	if (n && n <= TLS_DOMAIN_MAX && strspn(domain, chars) == n && strchr(domain, '.') &&
		!strstr(domain, "..") && domain[0] != '.' && domain[n - 1] != '.' &&
		domain[0] != '-')
		return 0;
	return error_set(e, ERROR_USAGE, EINVAL,
		"'%.64s' cannot have a wildcard certificate: give a domain of lower-case letters, "
		"digits and '-' with a dot in it, such as mayfly.localhost",
		domain);
}

/* --- reading --- */

static BIO *read_file(int dirfd, const char *name)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	BIO *b = file_read(dirfd, name, PEM_MAX, &text, &n) < 0 ? NULL : BIO_new(BIO_s_mem());

	if (b && BIO_write(b, text, (int)n) != (int)n) {
		(void)BIO_free(b); /* cannot fail for memory */
		b = NULL;
	}
	if (text)
		explicit_bzero(text, n);
	return b;
}

/* Whether both exist, belong together and have `days` left. */
static bool load(int dirfd, const char *cert_file, const char *key_file, time_t now, long days,
	struct pair *ret)
{
	_cleanup_(bio_freep) BIO *cert = read_file(dirfd, cert_file);
	_cleanup_(bio_freep) BIO *key = read_file(dirfd, key_file);
	time_t end = now + days * X509_DAY_S;
	bool good;

	ret->cert = cert ? PEM_read_bio_X509(cert, NULL, NULL, NULL) : NULL;
	ret->key = key ? PEM_read_bio_PrivateKey(key, NULL, x509_no_passphrase, NULL) : NULL;
	good = ret->cert && ret->key && X509_check_private_key(ret->cert, ret->key) == 1 &&
	       X509_cmp_time(X509_get0_notAfter(ret->cert), &end) > 0 &&
	       X509_cmp_time(X509_get0_notBefore(ret->cert), &now) < 0;
	ERR_clear_error();
	if (!good)
		pair_done(ret);
	return good;
}

/* --- making --- */

static bool add_ca_extensions(X509 *x, const char *domain)
{
	char names[NAMES_MAX];

	(void)snprintf(names, sizeof(names),
		"critical,permitted;DNS:%s,permitted;DNS:localhost,"
		"permitted;IP:127.0.0.0/255.0.0.0,"
		"permitted;IP:::1/FFFF:FFFF:FFFF:FFFF:FFFF:FFFF:FFFF:FFFF",
		domain); /* a checked domain fits */
	return x509_add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
	       x509_add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
	       x509_add_extension(x, x, NID_subject_key_identifier, "hash") &&
	       x509_add_extension(x, x, NID_name_constraints, names);
}

static bool add_leaf_extensions(X509 *x, X509 *ca, const char *domain)
{
	char names[NAMES_MAX];

	(void)snprintf(names, sizeof(names), "DNS:%s,DNS:*.%s,DNS:localhost,IP:127.0.0.1,IP:::1",
		domain, domain); /* fits */
	return x509_add_extension(x, ca, NID_basic_constraints, "critical,CA:FALSE") &&
	       x509_add_extension(x, ca, NID_key_usage, "critical,digitalSignature") &&
	       x509_add_extension(x, ca, NID_ext_key_usage, "serverAuth") &&
	       x509_add_extension(x, ca, NID_subject_key_identifier, "hash") &&
	       x509_add_extension(x, ca, NID_authority_key_identifier, "keyid") &&
	       x509_add_extension(x, ca, NID_subject_alt_name, names);
}

/* ca NULL: makes an authority, which signs itself. */
static int make(
	const struct pair *ca, const char *domain, time_t now, struct pair *ret, struct error *e)
{
	long days = ca ? TLS_LEAF_DAYS : TLS_CA_DAYS;
	X509_NAME *name;
	char cn[64];
	bool good;

	(void)snprintf(cn, sizeof(cn), "%.30s%s", domain, ca ? "" : " (mayfly serve)"); /* 64 max */
	*ret = (struct pair){.cert = X509_new(), .key = EVP_EC_gen("P-256")};
	name = ret->cert ? X509_get_subject_name(ret->cert) : NULL;
	/* from a day in the past, since clients' clocks differ */
	good = name && ret->key &&
	       x509_begin(ret->cert, ret->key, now - X509_DAY_S, now + days * X509_DAY_S) &&
	       x509_add_name(name, "O", "Mayfly") && x509_add_name(name, "CN", cn) &&
	       X509_set_issuer_name(ret->cert, X509_get_subject_name(ca ? ca->cert : ret->cert)) ==
		       1 &&
	       (ca ? add_leaf_extensions(ret->cert, ca->cert, domain)
		   : add_ca_extensions(ret->cert, domain)) &&
	       X509_sign(ret->cert, ca ? ca->key : ret->key, EVP_sha256()) > 0;
	if (good)
		return 0;
	pair_done(ret);
	ERR_clear_error();
	return error_set(e, ERROR_INTERNAL, ENOMEM, "cannot make a TLS certificate");
}

/* --- writing --- */

static int write_bio(int dirfd, const char *name, BIO *b, mode_t mode, struct error *e)
{
	char *text = NULL;
	long n = BIO_get_mem_data(b, &text);
	int r = file_write_atomic(dirfd, name, text, (size_t)n, mode);

	return r < 0 ? error_set_errno(e, ERROR_HOST, -r, "cannot write the TLS file %s", name) : 0;
}

/* Writes the key first: a key without its certificate is made anew. more: follows the certificate,
 * or NULL. */
static int save(int dirfd, const char *cert_file, const char *key_file, const struct pair *p,
	X509 *more, struct error *e)
{
	_cleanup_(bio_freep) BIO *cert = BIO_new(BIO_s_mem());
	_cleanup_(bio_freep) BIO *key = BIO_new(BIO_s_secmem());
	int r;

	if (!cert || !key || PEM_write_bio_X509(cert, p->cert) != 1 ||
		(more && PEM_write_bio_X509(cert, more) != 1) ||
		PEM_write_bio_PrivateKey(key, p->key, NULL, NULL, 0, NULL, NULL) != 1)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	r = write_bio(dirfd, key_file, key, 0600, e);
	return r < 0 ? r : write_bio(dirfd, cert_file, cert, 0644, e);
}

/* --- both --- */

static int take_ca(int dirfd, const char *domain, time_t now, struct pair *ret, struct error *e)
{
	int r = 0;

	if (load(dirfd, TLS_CA_FILE, CA_KEY_FILE, now, TLS_LEAF_DAYS + TLS_RENEW_DAYS, ret))
		return 0;
	r = make(NULL, domain, now, ret, e);
	return r < 0 ? r : save(dirfd, TLS_CA_FILE, CA_KEY_FILE, ret, NULL, e);
}

/* Whether this authority signed it, for this domain. */
static bool is_ours(X509 *cert, const struct pair *ca, const char *domain)
{
	char below[TLS_DOMAIN_MAX + 3];
	bool good;

	(void)snprintf(below, sizeof(below), "x.%s", domain); /* checked: fits */
	good = X509_verify(cert, ca->key) == 1 && X509_check_host(cert, below, 0, 0, NULL) == 1;
	ERR_clear_error();
	return good;
}

int tls_issue(int dirfd, const char *domain, time_t now, bool *ret_new, struct error *e)
{
	_cleanup_(pair_done) struct pair ca = {0};
	_cleanup_(pair_done) struct pair leaf = {0};
	int r = tls_issue_check_domain(domain, e);

	*ret_new = false;
	if (r == 0)
		r = take_ca(dirfd, domain, now, &ca, e);
	if (r < 0)
		return r;
	if (load(dirfd, TLS_CERT_FILE, TLS_KEY_FILE, now, TLS_RENEW_DAYS, &leaf) &&
		is_ours(leaf.cert, &ca, domain))
		return 0;
	pair_done(&leaf);
	r = make(&ca, domain, now, &leaf, e);
	if (r == 0)
		r = save(dirfd, TLS_CERT_FILE, TLS_KEY_FILE, &leaf, ca.cert, e);
	*ret_new = r == 0;
	return r;
}
