/* Certificates that a sandbox's authority makes: what a client says to each of them, and how many
 * are kept. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "test.h"

#include "base/cleanup.h"
#include "intercept/authority.h"
#include "intercept/tls.h"

/* An authority's certificate and key as PEM, for names below "test" only. */
struct pem {
	char *certificate, *key;
	X509 *x;
};

static char *text_of(BIO *b)
{
	char *data;
	long n = BIO_get_mem_data(b, &data);
	char *text = strndup(data, (size_t)n);

	BIO_free(b);
	assert_non_null(text);
	return text;
}

static void extend(X509 *x, int nid, const char *value)
{
	X509V3_CTX context;
	X509_EXTENSION *e;

	X509V3_set_ctx(&context, x, x, NULL, NULL, 0);
	e = X509V3_EXT_nconf_nid(NULL, &context, nid, value);
	assert_int_equal(X509_add_ext(x, e, -1), 1);
	X509_EXTENSION_free(e);
}

static struct pem make_pem(void)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	struct pem p = {.x = X509_new()};
	BIO *certificate = BIO_new(BIO_s_mem()), *secret = BIO_new(BIO_s_mem());

	(void)X509_set_version(p.x, X509_VERSION_3);
	(void)X509_gmtime_adj(X509_getm_notBefore(p.x), -60);
	(void)X509_gmtime_adj(X509_getm_notAfter(p.x), 3600);
	(void)X509_NAME_add_entry_by_txt(X509_get_subject_name(p.x), "CN", MBSTRING_ASC,
		(const unsigned char *)"sandbox", -1, -1, 0);
	(void)X509_set_issuer_name(p.x, X509_get_subject_name(p.x));
	(void)X509_set_pubkey(p.x, key);
	extend(p.x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
	extend(p.x, NID_key_usage, "critical,keyCertSign");
	extend(p.x, NID_name_constraints, "critical,permitted;DNS:test");
	extend(p.x, NID_subject_key_identifier, "hash");
	assert_true(X509_sign(p.x, key, EVP_sha256()) > 0);
	assert_int_equal(PEM_write_bio_X509(certificate, p.x), 1);
	assert_int_equal(PEM_write_bio_PrivateKey(secret, key, NULL, NULL, 0, NULL, NULL), 1);
	EVP_PKEY_free(key);
	p.certificate = text_of(certificate);
	p.key = text_of(secret);
	return p;
}

static void free_pem(struct pem *p)
{
	free(p->certificate);
	free(p->key);
	X509_free(p->x);
}

static int load(const char *certificate, const char *key, struct authority **ret, struct error *e)
{
	return authority_new(certificate, strlen(certificate), key, strlen(key), ret, e);
}

static struct authority *make(const struct pem *p)
{
	struct authority *a = NULL;

	tls_begin();
	assert_int_equal(load(p->certificate, p->key, &a, NULL), 0);
	return a;
}

/* What a client that trusts the authority, and wants `name`, says: X509_V_*. Strict, as Python is
 * from 3.13 on. */
static int verify(X509 *leaf, X509 *authority, const char *name)
{
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *c = X509_STORE_CTX_new();
	X509_VERIFY_PARAM *param;
	int r;

	assert_int_equal(X509_STORE_add_cert(store, authority), 1);
	assert_int_equal(X509_STORE_CTX_init(c, store, leaf, NULL), 1);
	param = X509_STORE_CTX_get0_param(c);
	(void)X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_X509_STRICT);
	(void)X509_VERIFY_PARAM_set_purpose(param, X509_PURPOSE_SSL_SERVER);
	(void)X509_VERIFY_PARAM_set1_host(param, name, 0);
	(void)X509_verify_cert(c);
	r = X509_STORE_CTX_get_error(c);
	X509_STORE_CTX_free(c);
	X509_STORE_free(store);
	return r;
}

static void faults_are_seen(void **state)
{
	static const struct {
		enum leaf_fault fault;
		int seen;
	} rows[] = {
		{LEAF_GOOD, X509_V_OK},
		{LEAF_EXPIRED, X509_V_ERR_CERT_HAS_EXPIRED},
		{LEAF_NOT_YET, X509_V_ERR_CERT_NOT_YET_VALID},
		{LEAF_OTHER_NAME, X509_V_ERR_HOSTNAME_MISMATCH},
		{LEAF_UNTRUSTED, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY},
	};
	struct pem p = make_pem();
	struct authority *a = make(&p);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		X509 *leaf = authority_leaf(a, "api.test", rows[i].fault);

		assert_int_equal(verify(leaf, p.x, "api.test"), rows[i].seen);
		X509_free(leaf);
	}
	authority_free(a);
	free_pem(&p);
}

static void names_of_all_kinds(void **state)
{
	static const char *const names[] = {"test", "a_b.test", "0.test", "xn--bcher-kva.test",
		"a123456789012345678901234567890123456789.b123456789012345678901234567890.test"};
	struct pem p = make_pem();
	struct authority *a = make(&p);
	char name[300];
	X509 *leaf;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		leaf = authority_leaf(a, names[i], LEAF_GOOD);
		assert_int_equal(verify(leaf, p.x, names[i]), X509_V_OK);
		assert_int_equal(verify(leaf, p.x, "api.test"), X509_V_ERR_HOSTNAME_MISMATCH);
		X509_free(leaf);
	}
	leaf = authority_leaf(
		a, "api.example", LEAF_GOOD); /* the daemon's mistake: clients see it */
	assert_int_equal(verify(leaf, p.x, "api.example"), X509_V_ERR_PERMITTED_VIOLATION);
	X509_free(leaf);
	memset(name, 'a', sizeof(name));
	name[254] = '\0';
	assert_null(authority_leaf(a, name, LEAF_GOOD));
	authority_free(a);
	free_pem(&p);
}

static void leaves_are_kept(void **state)
{
	struct pem p = make_pem();
	struct authority *a = make(&p);
	X509 *first = authority_leaf(a, "first.test", LEAF_GOOD), *again;
	char name[32];

	for (unsigned i = 0; i < AUTHORITY_LEAVES_MAX + 10; i++) {
		(void)snprintf(name, sizeof(name), "n%u.test", i); /* fits */
		X509_free(authority_leaf(a, name, LEAF_GOOD));
		again = authority_leaf(a, "first.test", LEAF_GOOD); /* was used last */
		assert_ptr_equal(first, again);
		X509_free(again);
	}
	for (unsigned i = 0; i < AUTHORITY_LEAVES_MAX; i++) {
		(void)snprintf(name, sizeof(name), "m%u.test", i); /* fits */
		X509_free(authority_leaf(a, name, LEAF_GOOD));
	}
	again = authority_leaf(a, "first.test", LEAF_GOOD);
	assert_ptr_not_equal(first, again);
	assert_int_not_equal(
		ASN1_INTEGER_cmp(X509_get0_serialNumber(first), X509_get0_serialNumber(again)), 0);
	X509_free(again);
	authority_free(a);
	assert_int_equal(verify(first, p.x, "first.test"), X509_V_OK); /* outlives it */
	X509_free(first);
	free_pem(&p);
}

static void wrong_authorities(void **state)
{
	struct pem p = make_pem(), other = make_pem();
	const struct {
		const char *certificate, *key;
	} rows[] = {
		{"", ""},
		{p.certificate, ""},
		{p.key, p.certificate},
		{p.certificate, other.key},
		{p.certificate, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"},
	};

	tls_begin();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct authority *a = NULL;
		struct error e = {0};

		assert_true(load(rows[i].certificate, rows[i].key, &a, &e) < 0);
		assert_null(a);
		assert_int_equal(e.code, ERROR_USAGE);
		assert_non_null(strstr(e.message, "ca: expected a certificate and its key"));
	}
	free_pem(&p);
	free_pem(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(faults_are_seen),
		cmocka_unit_test(names_of_all_kinds),
		cmocka_unit_test(leaves_are_kept),
		cmocka_unit_test(wrong_authorities),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
