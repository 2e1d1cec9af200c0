#include "intercept/authority.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/x509.h"

enum {
	COMMON_NAME_MAX = 64, /* RFC 5280, upper bounds */
	NAME_MAX_BYTES = 254,
};

struct leaf {
	char name[NAME_MAX_BYTES];
	X509 *certificate; /* NULL: none is here */
	time_t made_s;
	unsigned long used;
};

struct authority {
	X509 *certificate;
	EVP_PKEY *key, *leaf_key;
	struct leaf leaves[AUTHORITY_LEAVES_MAX];
	unsigned long turn;
};

/* --- the authority --- */

static int load(struct authority *a, const void *certificate, size_t certificate_bytes,
	const void *key, size_t key_bytes)
{
	BIO *text = BIO_new_mem_buf(certificate, (int)certificate_bytes);
	BIO *secret = BIO_new_mem_buf(key, (int)key_bytes);

	if (text && secret) {
		a->certificate = PEM_read_bio_X509(text, NULL, x509_no_passphrase, NULL);
		a->key = PEM_read_bio_PrivateKey(secret, NULL, x509_no_passphrase, NULL);
	}
	BIO_free(text);
	BIO_free(secret);
	return a->certificate && a->key && X509_check_private_key(a->certificate, a->key) == 1
		       ? 0
		       : -EINVAL;
}

int authority_new(const void *certificate, size_t certificate_bytes, const void *key,
	size_t key_bytes, struct authority **ret, struct error *e)
{
	struct authority *a = calloc(1, sizeof(*a));
	int r = a ? load(a, certificate, certificate_bytes, key, key_bytes) : -ENOMEM;

	if (r == 0) {
		a->leaf_key = EVP_EC_gen("P-256");
		r = a->leaf_key ? 0 : -ENOMEM;
	}
	ERR_clear_error();
	if (r == 0) {
		*ret = a;
		return 0;
	}
	authority_free(a);
	return r == -ENOMEM ? error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory")
			    : error_set(e, ERROR_USAGE, EINVAL,
				      "ca: expected a certificate and its key, both as PEM");
}

void authority_free(struct authority *a)
{
	if (!a)
		return;
	for (unsigned i = 0; i < AUTHORITY_LEAVES_MAX; i++)
		X509_free(a->leaves[i].certificate);
	X509_free(a->certificate);
	EVP_PKEY_free(a->key);
	EVP_PKEY_free(a->leaf_key);
	free(a);
}

EVP_PKEY *authority_leaf_key(const struct authority *a)
{
	return a->leaf_key;
}

/* --- a certificate --- */

static bool begin(struct authority *a, X509 *x, enum leaf_fault fault)
{
	time_t now = time(NULL);
	time_t from = fault == LEAF_EXPIRED ? now - 2 * X509_DAY_S
		      : fault == LEAF_NOT_YET
			      ? now + X509_DAY_S
			      : now - X509_DAY_S; /* a guest's clock may be behind */
	time_t to =
		fault == LEAF_EXPIRED ? now - X509_DAY_S : now + AUTHORITY_LEAF_DAYS * X509_DAY_S;

	return x509_begin(x, a->leaf_key, from, to);
}

static int set_issuer(struct authority *a, X509 *x, enum leaf_fault fault)
{
	X509_NAME *nobody;
	int ok;

	if (fault != LEAF_UNTRUSTED)
		return X509_set_issuer_name(x, X509_get_subject_name(a->certificate));
	nobody = X509_NAME_new();
	ok = nobody &&
	     x509_add_name(nobody, "CN", "the authority of the server, which is unknown") &&
	     X509_set_issuer_name(x, nobody);
	X509_NAME_free(nobody);
	return ok;
}

/* Without a subject, the names have to be critical (RFC 5280, 4.2.1.6). */
static bool fits_subject(const char *name)
{
	return strlen(name) <= COMMON_NAME_MAX;
}

/* OpenSSL would read a comma as a list, so each name is added by itself. */
static int add_name(X509 *x, const char *name, bool critical)
{
	GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
	GENERAL_NAME *one = GENERAL_NAME_new();
	ASN1_IA5STRING *text = ASN1_IA5STRING_new();
	int ok = names && one && text && ASN1_STRING_set(text, name, -1);

	if (ok) {
		GENERAL_NAME_set0_value(one, GEN_DNS, text);
		text = NULL;
		ok = sk_GENERAL_NAME_push(names, one) > 0;
	}
	if (ok) {
		one = NULL;
		ok = X509_add1_ext_i2d(
			     x, NID_subject_alt_name, names, critical, X509V3_ADD_DEFAULT) == 1;
	}
	ASN1_IA5STRING_free(text);
	GENERAL_NAME_free(one);
	sk_GENERAL_NAME_pop_free(names, GENERAL_NAME_free);
	return ok;
}

static int add_extensions(struct authority *a, X509 *x, const char *name, enum leaf_fault fault)
{
	X509 *issuer = fault == LEAF_UNTRUSTED ? x : a->certificate;

	return add_name(x, name, !fits_subject(name)) &&
	       x509_add_extension(x, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
	       x509_add_extension(x, issuer, NID_key_usage, "critical,digitalSignature") &&
	       x509_add_extension(x, issuer, NID_ext_key_usage, "serverAuth") &&
	       x509_add_extension(x, issuer, NID_subject_key_identifier, "hash") &&
	       x509_add_extension(x, issuer, NID_authority_key_identifier, "keyid");
}

/* The authority may be limited to this name and names below it, so the wrong name is one below
 * it. */
static X509 *make(struct authority *a, const char *dialled, enum leaf_fault fault)
{
	char name[NAME_MAX_BYTES + 16];
	X509 *x = X509_new();

	(void)snprintf(name, sizeof(name), "%s%s", fault == LEAF_OTHER_NAME ? "another-name." : "",
		dialled); /* fits */
	if (x && begin(a, x, fault) && set_issuer(a, x, fault) &&
		(!fits_subject(name) || x509_add_name(X509_get_subject_name(x), "CN", name)) &&
		add_extensions(a, x, name, fault) &&
		X509_sign(x, fault == LEAF_UNTRUSTED ? a->leaf_key : a->key, EVP_sha256()))
		return x;
	X509_free(x);
	ERR_clear_error();
	return NULL;
}

/* --- those that were made --- */

/* Returns the entry of this name, else the least recently used one. */
static struct leaf *place(struct authority *a, const char *name)
{
	struct leaf *oldest = &a->leaves[0];

	for (struct leaf *l = a->leaves; l < a->leaves + AUTHORITY_LEAVES_MAX; l++) {
		if (l->certificate && strcmp(l->name, name) == 0)
			return l;
		if (l->used < oldest->used)
			oldest = l;
	}
	return oldest;
}

X509 *authority_leaf(struct authority *a, const char *name, enum leaf_fault fault)
{
	time_t now = time(NULL);
	struct leaf *l;

	if (strlen(name) >= NAME_MAX_BYTES)
		return NULL;
	if (fault != LEAF_GOOD)
		return make(a, name, fault);
	l = place(a, name);
	if (!l->certificate || strcmp(l->name, name) != 0 || now - l->made_s > X509_DAY_S ||
		now < l->made_s) {
		X509 *made = make(a, name, LEAF_GOOD);

		if (!made)
			return NULL;
		X509_free(l->certificate);
		*l = (struct leaf){.certificate = made, .made_s = now};
		(void)strcpy(l->name, name); /* fits */
	}
	l->used = ++a->turn;
	return X509_up_ref(l->certificate) ? l->certificate : NULL;
}
