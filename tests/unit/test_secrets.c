/* What secrets are made into: sealed bytes, placeholders, authorities, and the policy's member,
 * which the worker itself reads here. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "egress/policy.h"
#include "policy/authority.h"
#include "policy/intercept.h"
#include "policy/placeholder.h"

/* policy/seal.h and the worker's intercept/secret.h are never in one program but this. */
struct sealer;
struct sealer *sealer_new(const char *path);
void sealer_free(struct sealer *s);
int sealer_seal(struct sealer *s, bool may_make, const char *context, const void *data, size_t n,
	uint8_t **ret, struct error *e);
int sealer_open(struct sealer *s, const char *context, const void *sealed, size_t n, char **ret,
	size_t *ret_n, struct error *e);

static const time_t now = 1800000000;

static json_t *parsed(const char *text)
{
	json_t *o = json_loads(text, JSON_DECODE_ANY, NULL);

	assert_non_null(o);
	return o;
}

/* --- sealing --- */

static void test_sealing(void **state)
{
	static const char text[] = "the value";
	enum { N = sizeof(text) - 1, SEALED = N + 39 };
	char path[] = "/tmp/test-secrets.XXXXXX", *opened = NULL;
	uint8_t *sealed = NULL, *again = NULL;
	struct sealer *s, *other;
	struct error e = {0};
	struct stat st;
	size_t n;

	(void)state; /* none */
	assert_int_equal(close(mkstemp(path)), 0);
	assert_int_equal(unlink(path), 0);
	s = sealer_new(path);
	assert_int_equal(sealer_seal(s, false, "c", text, N, &sealed, &e), -ENOENT);
	assert_non_null(strstr(e.message, "is missing"));
	error_clear(&e);
	assert_int_equal(sealer_seal(s, true, "c", text, N, &sealed, &e), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_null(memmem(sealed, SEALED, text, N));
	assert_int_equal(sealer_seal(s, false, "c", text, N, &again, &e), 0);
	assert_memory_not_equal(sealed, again, SEALED); /* a fresh nonce */
	sealer_free(s);
	s = sealer_new(path); /* reads it */
	assert_int_equal(sealer_open(s, "c", sealed, SEALED, &opened, &n, &e), 0);
	assert_int_equal(n, N);
	assert_string_equal(opened, text);
	free(opened);
	assert_true(sealer_open(s, "d", sealed, SEALED, &opened, &n, &e) < 0); /* another's */
	for (size_t i = 0; i < SEALED; i++) {
		sealed[i] ^= 1;
		assert_true(sealer_open(s, "c", sealed, SEALED, &opened, &n, NULL) < 0);
		sealed[i] ^= 1;
	}
	for (size_t i = 0; i < SEALED; i++)
		assert_true(sealer_open(s, "c", sealed, i, &opened, &n, NULL) < 0);
	assert_int_equal(unlink(path), 0);
	free(again);
	other = sealer_new(path);
	assert_int_equal(sealer_seal(other, true, "c", text, N, &again, &e), 0);
	error_clear(&e);
	assert_int_equal(sealer_open(other, "c", sealed, SEALED, &opened, &n, &e), -EKEYREJECTED);
	assert_non_null(strstr(e.message, "another key"));
	sealer_free(other);
	sealer_free(s);
	free(sealed);
	free(again);
	(void)unlink(path); /* ours */
}

/* --- placeholders --- */

static void test_placeholders(void **state)
{
	/* want: 'a', 'A', '0' and 'x' (hexadecimal) stand for a random one of the class */
	static const struct {
		const char *secret, *want;
	} rows[] = {
		{"sk-proj-Ab0Cd1Ef2Gh3Ij4Kl", "sk-proj-Aa0Aa0Aa0Aa0Aa0Aa"},
		{"ghp_0123456789abcdefghij", "ghp_0000000000aaaaaaaaaa"},
		{"00112233445566778899aabb", "xxxxxxxxxxxxxxxxxxxxxxxx"},
		{"AKIAABCDEFGHIJKLMNOP12", "AKIAAAAAAAAAAAAAAAAA00"},
		{"eyJh.abcdefghijklm/=+!", "aaAa.aaaaaaaaaaaaa/=+!"},
		{"a b,c:d;e\"f\\gh\xc3\xa4ijklmnop", "a_a_a_a_a_a_aa__aaaaaaaa"},
		{"sk-0123456789abcde", NULL},
		{"correct horse", NULL},
		{"----------------------", NULL},
	};

	(void)state; /* none */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char *made = NULL, *again = NULL;
		int r = placeholder_make(rows[i].secret, &made);

		if (!rows[i].want) {
			assert_int_equal(r, -ENODATA);
			continue;
		}
		assert_int_equal(r, 0);
		assert_int_equal(strlen(made), strlen(rows[i].secret));
		for (size_t k = 0; made[k]; k++) {
			char want = rows[i].want[k], c = made[k];
			bool fits = want == 'a'	  ? c >= 'a' && c <= 'z'
				    : want == 'A' ? c >= 'A' && c <= 'Z'
				    : want == '0' ? c >= '0' && c <= '9'
				    : want == 'x' ? strchr("0123456789abcdef", c) != NULL
						  : c == want;

			if (!fits && c != want)
				fail_msg("%s: %s", rows[i].secret, made);
		}
		assert_string_not_equal(made, rows[i].secret);
		assert_int_equal(placeholder_make(rows[i].secret, &again), 0);
		assert_string_not_equal(made, again);
		free(made);
		free(again);
	}
}

/* --- authorities --- */

static X509 *certificate(const char *pem)
{
	BIO *b = BIO_new_mem_buf(pem, -1);
	X509 *x = PEM_read_bio_X509(b, NULL, NULL, NULL);

	(void)BIO_free(b);
	assert_non_null(x);
	return x;
}

static EVP_PKEY *private_key(const char *pem)
{
	BIO *b = BIO_new_mem_buf(pem, -1);
	EVP_PKEY *k = PEM_read_bio_PrivateKey(b, NULL, NULL, NULL);

	(void)BIO_free(b);
	assert_non_null(k);
	return k;
}

static void extend(X509 *x, X509 *issuer, int nid, const char *value)
{
	X509_EXTENSION *ext;
	X509V3_CTX ctx;

	X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	assert_true(ext && X509_add_ext(x, ext, -1));
	X509_EXTENSION_free(ext);
}

/* One that the authority signs for these names ("DNS:x.com"). */
static X509 *leaf(const struct authority *a, const char *names)
{
	X509 *ca = certificate(a->certificate), *x = X509_new();
	EVP_PKEY *key = private_key(a->key), *own = EVP_EC_gen("P-256");

	assert_true(X509_set_version(x, 2) && ASN1_INTEGER_set(X509_get_serialNumber(x), 7) &&
		    ASN1_TIME_set(X509_getm_notBefore(x), now - 60) &&
		    ASN1_TIME_set(X509_getm_notAfter(x), now + 3600) && X509_set_pubkey(x, own) &&
		    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "O", MBSTRING_ASC,
			    (const uint8_t *)"x", -1, -1, 0) &&
		    X509_set_issuer_name(x, X509_get_subject_name(ca)));
	extend(x, ca, NID_subject_alt_name, names);
	extend(x, ca, NID_authority_key_identifier, "keyid");
	assert_true(X509_sign(x, key, EVP_sha256()) > 0);
	EVP_PKEY_free(key);
	EVP_PKEY_free(own);
	X509_free(ca);
	return x;
}

/* What a client that trusts `ca` says of x. */
static int verdict(const char *ca, X509 *x)
{
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *c = X509_STORE_CTX_new();
	X509 *root = certificate(ca);
	int r;

	assert_true(X509_STORE_add_cert(store, root));
	assert_true(X509_STORE_CTX_init(c, store, x, NULL));
	X509_STORE_CTX_set_time(c, 0, now);
	X509_STORE_CTX_set_purpose(c, X509_PURPOSE_SSL_SERVER);
	X509_STORE_CTX_set_flags(c, X509_V_FLAG_X509_STRICT); /* as Python's clients do */
	r = X509_verify_cert(c) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(c);
	X509_STORE_CTX_free(c);
	X509_STORE_free(store);
	X509_free(root);
	return r;
}

static void expect(const struct authority *a, const char *names, int want)
{
	X509 *x = leaf(a, names);
	int r = verdict(a->certificate, x);

	if (r != want)
		fail_msg("%s: %s", names, X509_verify_cert_error_string(r));
	X509_free(x);
}

static void test_authority(void **state)
{
	json_t *hosts = parsed("[\"*.y.com\", \"api.x.com\"]"), *others = parsed("[\"z.com\"]");
	struct authority a, b, c;
	struct error e = {0};
	char *text;
	X509 *x;
	EVP_PKEY *key;

	(void)state; /* none */
	assert_int_equal(authority_make(NULL, hosts, now, &a, &e), 0);
	expect(&a, "DNS:api.x.com", X509_V_OK);
	expect(&a, "DNS:deep.down.y.com", X509_V_OK);
	expect(&a, "DNS:x.com", X509_V_ERR_PERMITTED_VIOLATION);
	expect(&a, "DNS:api.x.com,DNS:example.com", X509_V_ERR_PERMITTED_VIOLATION);
	expect(&a, "DNS:notx.com", X509_V_ERR_PERMITTED_VIOLATION);
	expect(&a, "DNS:noty.com", X509_V_ERR_PERMITTED_VIOLATION);
	expect(&a, "DNS:api.x.com,IP:192.0.2.1", X509_V_ERR_EXCLUDED_VIOLATION);
	expect(&a, "DNS:api.x.com,IP:2001:db8::1", X509_V_ERR_EXCLUDED_VIOLATION);
	x = certificate(a.certificate);
	assert_int_equal(X509_get_pathlen(x), 0); /* makes no further authorities */
	key = X509_get0_pubkey(x);
	assert_int_equal(EVP_PKEY_get_bits(key), 256);
	X509_free(x);

	/* other hosts, the same key: what is signed now is believed by who has the older one */
	assert_int_equal(authority_make(&a, others, now, &b, &e), 0);
	assert_string_equal(a.key, b.key);
	expect(&b, "DNS:z.com", X509_V_OK);
	expect(&b, "DNS:api.x.com", X509_V_ERR_PERMITTED_VIOLATION);
	x = leaf(&b, "DNS:api.x.com");
	assert_int_equal(verdict(a.certificate, x), X509_V_OK);
	X509_free(x);

	text = authority_text(&b);
	assert_int_equal(authority_parse(text, &c, &e), 0);
	assert_string_equal(c.certificate, b.certificate);
	assert_string_equal(c.key, b.key);
	assert_true(json_equal(c.hosts, others));
	assert_true(authority_parse("{\"key\": \"x\"}", &c, &e) < 0);
	free(text);
	authority_done(&a);
	authority_done(&b);
	authority_done(&c);
	json_decref(hosts);
	json_decref(others);
}

/* --- the member --- */

static char *value_of(void *arg, const char *name)
{
	const json_t *values = arg;
	const char *text = json_string_value(json_object_get(values, name));

	return text ? strdup(text) : NULL;
}

/* As the worker reads it. */
static struct policy *policy_of(json_t *intercept)
{
	json_t *o = parsed("{\"version\": 1, \"generation\": 1, \"layers\": [{\"rules\": [], "
			   "\"default\": \"allow\"}]}");
	struct policy *p = NULL;
	struct error e = {0};

	assert_non_null(intercept);
	assert_int_equal(json_object_set(o, "intercept", intercept), 0);
	if (policy_make(o, &p, &e) < 0)
		fail_msg("%s", e.message);
	json_decref(o);
	return p;
}

#define RULES                                                                                      \
	"{\"rules\": {\"API.x.com\": [{\"transform\": {\"headers\": {\"Authorization\": "          \
	"\"Bearer ${e2b.secrets.One} ${e2b.identity.tokens.T}\"}}}], \"*.y.com\": []}}"
#define BINDINGS                                                                                   \
	"{\"A\": {\"secret\": \"two\", \"hosts\": [\"b.com\", \"api.x.com\"]}, "                   \
	"\"B\": {\"secret\": \"gone\", \"hosts\": [\"c.com\"]}}"

static void test_member(void **state)
{
	struct authority a;
	json_t *network = parsed(RULES), *bindings = parsed(BINDINGS), *made, *want, *hosts;
	json_t *env = parsed("{\"A\": \"placeholder-of-two\", \"B\": \"placeholder-of-gone\"}");
	json_t *values = parsed("{\"one\": \"v1\", \"two\": \"v2\", \"three\": \"v3\", "
				"\"identity.tokens.T\": \"t\"}");
	struct intercept_source s = {.network = network,
		.bindings = bindings,
		.env = env,
		.authority = &a,
		.value = value_of,
		.arg = values};
	struct error e = {0};
	struct policy *p;

	(void)state; /* none */
	hosts = intercept_hosts(&s);
	want = parsed("[\"*.y.com\", \"api.x.com\", \"b.com\", \"c.com\"]");
	assert_true(json_equal(hosts, want));
	json_decref(want);
	assert_int_equal(authority_make(NULL, hosts, now, &a, &e), 0);
	made = intercept_policy(&s);
	p = policy_of(made);
	assert_int_equal(p->intercept->port_count, 1);
	assert_int_equal(json_object_del(made, "ca"), 0);
	want = parsed("{\"hosts\": [{\"host\": \"api.x.com\", \"headers\": [{"
		      "\"name\": \"authorization\", \"value\": \"Bearer ${e2b.secrets.one} "
		      "${e2b.identity.tokens.T}\"}]}, {\"host\": \"*.y.com\", \"headers\": []}], "
		      "\"secrets\": [{\"name\": \"one\", \"value\": \"v1\"}, "
		      "{\"name\": \"identity.tokens.T\", \"value\": \"t\"}, "
		      "{\"name\": \"two\", \"value\": \"v2\"}], "
		      "\"placeholders\": [{\"text\": \"placeholder-of-two\", \"secret\": \"two\", "
		      "\"hosts\": [\"b.com\", \"api.x.com\"]}]}");
	assert_true(json_equal(made, want));
	assert_true(intercept_uses(&s, "one") && intercept_uses(&s, "gone"));
	assert_false(intercept_uses(&s, "three"));
	policy_free(p);
	json_decref(made);
	json_decref(want);
	json_decref(hosts);
	json_decref(network);
	json_decref(bindings);
	json_decref(env);
	json_decref(values);
	authority_done(&a);
}

/* Headers on rules of the sandbox's own policy name secrets, too. */
static void test_policy_headers(void **state)
{
	json_t *network = parsed("{\"policy\": {\"version\": 1, \"default\": \"deny\", \"rules\": ["
				 "{\"action\": \"deny\", \"host\": \"b.com\"},"
				 "{\"action\": \"allow\", \"host\": \"a.com\", \"headers\": "
				 "{\"x\": null, \"y\": \"1\", \"z\": \"${e2b.secrets.One}\"}}]}}");
	const struct intercept_source s = {.network = network};

	(void)state; /* none */
	assert_true(intercept_uses(&s, "one"));
	assert_false(intercept_uses(&s, "two"));
	json_decref(network);
}

static void test_nothing_to_intercept(void **state)
{
	static const char *const rows[] = {"{}", "{\"rules\": null}", "{\"rules\": {}}",
		"{\"rules\": {\"x.com\": []}}",
		"{\"rules\": {\"x.com\": [{\"transform\": {\"headers\": {}}}]}}"};

	(void)state; /* none */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		json_t *network = parsed(rows[i]);
		json_t *hosts = intercept_hosts(&(struct intercept_source){.network = network});

		assert_int_equal(json_array_size(hosts), 0);
		json_decref(hosts);
		json_decref(network);
	}
}

/* What is too much for the worker is left out: its requests fail, and nothing else. */
static void test_most(void **state)
{
	json_t *bindings = json_object(), *env = json_object(), *values = json_object(), *hosts;
	char name[16], *big = malloc(32 * 1024 + 1);
	struct authority a;
	struct intercept_source s = {.bindings = bindings,
		.env = env,
		.authority = &a,
		.value = value_of,
		.arg = values};
	struct error e = {0};
	struct policy *p;
	json_t *made;

	(void)state; /* none */
	memset(big, 'x', 32 * 1024);
	big[32 * 1024] = '\0';
	for (unsigned i = 0; i < INTERCEPT_BINDINGS_MAX; i++) {
		(void)snprintf(name, sizeof(name), "n%u", i); /* fits */
		(void)json_object_set_new(values, name, json_string(big));
		(void)json_object_set_new(env, name, json_string(big));
		(void)json_object_set_new(bindings, name,
			json_pack("{s:s, s:[s]}", "secret", name, "hosts", "x.com"));
	}
	hosts = intercept_hosts(&s);
	assert_int_equal(authority_make(NULL, hosts, now, &a, &e), 0);
	made = intercept_policy(&s);
	assert_int_equal(json_array_size(json_object_get(made, "secrets")), 8);
	p = policy_of(made);
	policy_free(p);
	json_decref(made);
	json_decref(hosts);
	json_decref(bindings);
	json_decref(env);
	json_decref(values);
	authority_done(&a);
	free(big);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sealing),
		cmocka_unit_test(test_placeholders),
		cmocka_unit_test(test_authority),
		cmocka_unit_test(test_member),
		cmocka_unit_test(test_policy_headers),
		cmocka_unit_test(test_nothing_to_intercept),
		cmocka_unit_test(test_most),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
