#include "policy/authority.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "policy/seal.h"
#include "proto/json_tree.h"
#include "proto/x509.h"

enum { TEXT_MAX = 32 * 1024, NAMES_MAX = 16 * 1024 };

static void bio_freep(BIO **b)
{
	(void)BIO_free(*b); /* NULL is fine; cannot fail for memory */
}

static void key_freep(EVP_PKEY **k)
{
	EVP_PKEY_free(*k);
}

static void cert_freep(X509 **x)
{
	X509_free(*x);
}

void authority_done(struct authority *a)
{
	free(a->certificate);
	secret_free(a->key);
	json_decref(a->hosts);
	*a = (struct authority){0};
}

/* --- the certificate --- */

static bool set_names(X509 *x)
{
	X509_NAME *name = X509_get_subject_name(x);

	return x509_add_name(name, "O", "Mayfly") &&
	       x509_add_name(name, "CN", "Mayfly: hosts of this sandbox's secrets") &&
	       X509_set_issuer_name(x, name) == 1;
}

/* Name constraints have no form for just one host: a name always covers names below it. */
static bool is_any(const char *host)
{
	return strcmp(host, "*") == 0;
}

static bool add_constraints(X509 *x, const json_t *hosts)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(NAMES_MAX);
	bool good = buf_add_str(&text, "critical,excluded;IP:0.0.0.0/0.0.0.0,"
				       "excluded;IP:0:0:0:0:0:0:0:0/0:0:0:0:0:0:0:0") == 0;

	for (size_t i = 0; good && i < json_array_size(hosts); i++) {
		const char *host = json_string_value(json_array_get(hosts, i));

		good = host &&
		       (is_any(host) || buf_printf(&text, ",permitted;DNS:%s",
						host + (str_starts_with(host, "*.") ? 2 : 0)) == 0);
	}
	return good && buf_add_u8(&text, '\0') == 0 &&
	       x509_add_extension(x, x, NID_name_constraints, (const char *)buf_head(&text));
}

/* Starts a day in the past: guests' clocks may differ. */
static X509 *make_certificate(EVP_PKEY *key, const json_t *hosts, time_t now)
{
	X509 *x = X509_new();

	if (x && x509_begin(x, key, now - X509_DAY_S, now + AUTHORITY_DAYS * (time_t)X509_DAY_S) &&
		set_names(x) &&
		x509_add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
		x509_add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
		x509_add_extension(x, x, NID_subject_key_identifier, "hash") &&
		add_constraints(x, hosts) && X509_sign(x, key, EVP_sha256()) > 0)
		return x;
	X509_free(x);
	return NULL;
}

/* --- PEM --- */

static EVP_PKEY *key_of(const struct authority *of)
{
	_cleanup_(bio_freep) BIO *b = of ? BIO_new_mem_buf(of->key, -1) : NULL;

	if (!of)
		return EVP_EC_gen("P-256");
	return b ? PEM_read_bio_PrivateKey(b, NULL, x509_no_passphrase, NULL) : NULL;
}

static char *text_of(BIO *b)
{
	char *data = NULL;
	long n = BIO_get_mem_data(b, &data);

	return n > 0 ? strndup(data, (size_t)n) : NULL;
}

static char *certificate_text(X509 *x)
{
	_cleanup_(bio_freep) BIO *b = BIO_new(BIO_s_mem());

	return b && PEM_write_bio_X509(b, x) == 1 ? text_of(b) : NULL;
}

static char *key_text(EVP_PKEY *key)
{
	_cleanup_(bio_freep) BIO *b = BIO_new(BIO_s_secmem());

	return b && PEM_write_bio_PrivateKey(b, key, NULL, NULL, 0, NULL, NULL) == 1 ? text_of(b)
										     : NULL;
}

int authority_make(const struct authority *of, json_t *hosts, time_t now, struct authority *ret,
	struct error *e)
{
	_cleanup_(key_freep) EVP_PKEY *key = key_of(of);
	_cleanup_(cert_freep) X509 *x = key ? make_certificate(key, hosts, now) : NULL;
	struct authority a = {.certificate = x ? certificate_text(x) : NULL,
		.key = x ? key_text(key) : NULL,
		.hosts = json_incref(hosts)};

	if (a.certificate && a.key) {
		*ret = a;
		return 0;
	}
	authority_done(&a);
	ERR_clear_error();
	return error_set(
		e, ERROR_INTERNAL, ENOMEM, "cannot make a sandbox's certificate authority");
}

/* --- as text --- */

char *authority_text(const struct authority *a)
{
	json_t *o = json_pack(
		"{s:s, s:s, s:O}", "certificate", a->certificate, "key", a->key, "hosts", a->hosts);
	char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

	secret_wipe(json_object_get(o, "key"));
	json_decref(o);
	return text;
}

int authority_parse(const char *text, struct authority *ret, struct error *e)
{
	json_t *o = json_tree_stored(text), *key = json_object_get(o, "key");
	const char *cert = json_string_value(json_object_get(o, "certificate"));
	struct authority a = {.certificate = cert ? strdup(cert) : NULL,
		.key = json_is_string(key) ? strdup(json_string_value(key)) : NULL,
		.hosts = json_incref(json_object_get(o, "hosts"))};

	secret_wipe(key);
	json_decref(o);
	if (a.certificate && a.key && json_is_array(a.hosts)) {
		*ret = a;
		return 0;
	}
	authority_done(&a);
	return error_set(e, ERROR_INTERNAL, EBADMSG, "a sandbox's certificate authority");
}

/* --- of the operator --- */

/* Copies the certificates; returns how many, or -1. */
static int copy_certificates(BIO *in, BIO *out)
{
	int n = 0;

	for (;;) {
		_cleanup_(cert_freep) X509 *x =
			PEM_read_bio_X509(in, NULL, x509_no_passphrase, NULL);

		if (!x)
			break;
		if (PEM_write_bio_X509(out, x) != 1)
			return -1;
		n++;
	}
	/* the end of the file, or something that is damaged */
	if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
		n = -1;
	ERR_clear_error();
	return n;
}

int authority_read_file(const char *path, char **ret, struct error *e)
{
	_cleanup_(bio_freep) BIO *in = NULL;
	_cleanup_(bio_freep) BIO *out = BIO_new(BIO_s_mem());
	_cleanup_(secret_freep) char *text = NULL;
	size_t n;
	int r = file_read(AT_FDCWD, path, AUTHORITY_FILE_MAX, &text, &n);

	if (r < 0)
		return error_set_errno(e, ERROR_USAGE, -r, "cannot read %s", path);
	in = BIO_new_mem_buf(text, (int)n);
	if (!in || !out)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	if (copy_certificates(in, out) < 1)
		return error_set(e, ERROR_USAGE, EINVAL,
			"%s must hold certificates in PEM form, and at least one", path);
	*ret = text_of(out);
	return *ret ? 0 : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}
