#include "policy/jwt.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "policy/seal.h"
#include "proto/base64.h"
#include "proto/x509.h"

enum {
	NUMBER_BYTES = 32, /* a coordinate, or half of a signature */
	NUMBER_TEXT = 44,
	DER_MAX = 80, /* bytes of a signature as OpenSSL gives it */
	TOKEN_MAX = 16 * 1024,
	KEY_PEM_MAX = 1024,
};

static void key_freep(EVP_PKEY **k)
{
	EVP_PKEY_free(*k);
}

static void number_freep(BIGNUM **n)
{
	BN_free(*n);
}

static void digest_freep(EVP_MD_CTX **m)
{
	EVP_MD_CTX_free(*m);
}

static void signature_freep(ECDSA_SIG **s)
{
	ECDSA_SIG_free(*s);
}

static int fail(struct error *e, const char *what)
{
	ERR_clear_error();
	return error_set(e, ERROR_INTERNAL, EIO, "cannot %s", what);
}

/* --- keys --- */

static bool put_coordinate(EVP_PKEY *key, const char *name, char text[NUMBER_TEXT])
{
	_cleanup_(number_freep) BIGNUM *n = NULL;
	uint8_t bytes[NUMBER_BYTES];

	if (EVP_PKEY_get_bn_param(key, name, &n) != 1 ||
		BN_bn2binpad(n, bytes, NUMBER_BYTES) != NUMBER_BYTES)
		return false;
	text[base64_encode_url(text, bytes, NUMBER_BYTES)] = '\0';
	return true;
}

/* The members that count, in the order of the alphabet. */
static bool thumbprint(const char *x, const char *y, char ret[JWT_KEY_ID_BYTES])
{
	uint8_t digest[SHA256_DIGEST_LENGTH];
	char text[192];
	int n = snprintf(text, sizeof(text),
		"{\"crv\":\"P-256\",\"kty\":\"EC\",\"x\":\"%s\",\"y\":\"%s\"}", x, y);

	if (n < 0 || (size_t)n >= sizeof(text) || !SHA256((const uint8_t *)text, (size_t)n, digest))
		return false;
	ret[base64_encode_url(ret, digest, sizeof(digest))] = '\0';
	return true;
}

static char *private_text(EVP_PKEY *key)
{
	BIO *b = BIO_new(BIO_s_secmem());
	char *data = NULL, *text = NULL;

	if (b && PEM_write_bio_PrivateKey(b, key, NULL, NULL, 0, NULL, NULL) == 1) {
		long n = BIO_get_mem_data(b, &data);

		text = n > 0 && n < KEY_PEM_MAX ? strndup(data, (size_t)n) : NULL;
	}
	(void)BIO_free(b); /* NULL is fine */
	return text;
}

void jwt_key_done(struct jwt_key *k)
{
	secret_free(k->pem);
	json_decref(k->jwk);
	*k = (struct jwt_key){0};
}

int jwt_key_make(struct jwt_key *ret, struct error *e)
{
	_cleanup_(key_freep) EVP_PKEY *key = EVP_EC_gen("P-256");
	char x[NUMBER_TEXT], y[NUMBER_TEXT];
	struct jwt_key k = {.pem = key ? private_text(key) : NULL};

	if (k.pem && put_coordinate(key, OSSL_PKEY_PARAM_EC_PUB_X, x) &&
		put_coordinate(key, OSSL_PKEY_PARAM_EC_PUB_Y, y) && thumbprint(x, y, k.id))
		k.jwk = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "kty", "EC", "crv",
			"P-256", "x", x, "y", y, "use", "sig", "alg", "ES256", "kid", k.id);
	if (k.jwk) {
		*ret = k;
		return 0;
	}
	jwt_key_done(&k);
	return fail(e, "make a key for tokens");
}

/* --- tokens --- */

static int add_bytes(struct buf *token, const void *data, size_t n)
{
	uint8_t *p = buf_reserve(token, base64_encoded_len(n));

	if (!p)
		return -ENOMEM;
	buf_commit(token, base64_encode_url((char *)p, data, n));
	return 0;
}

static int add_part(struct buf *token, const json_t *part)
{
	_cleanup_free_ char *text = json_dumps(part, JSON_COMPACT);

	return text ? add_bytes(token, text, strlen(text)) : -ENOMEM;
}

/* The two numbers of a signature, one behind the other (RFC 7518, section 3.4). */
static bool flatten(const uint8_t *der, size_t n, uint8_t ret[2 * NUMBER_BYTES])
{
	_cleanup_(signature_freep) ECDSA_SIG *s = d2i_ECDSA_SIG(NULL, &der, (long)n);

	return s && BN_bn2binpad(ECDSA_SIG_get0_r(s), ret, NUMBER_BYTES) == NUMBER_BYTES &&
	       BN_bn2binpad(ECDSA_SIG_get0_s(s), ret + NUMBER_BYTES, NUMBER_BYTES) == NUMBER_BYTES;
}

static bool sign(const char *pem, const struct buf *text, uint8_t ret[2 * NUMBER_BYTES])
{
	BIO *b = BIO_new_mem_buf(pem, -1);
	_cleanup_(key_freep) EVP_PKEY *key =
		b ? PEM_read_bio_PrivateKey(b, NULL, x509_no_passphrase, NULL) : NULL;
	_cleanup_(digest_freep) EVP_MD_CTX *m = EVP_MD_CTX_new();
	uint8_t der[DER_MAX];
	size_t n = sizeof(der);

	(void)BIO_free(b); /* NULL is fine */
	return key && m && EVP_DigestSignInit(m, NULL, EVP_sha256(), NULL, key) == 1 &&
	       EVP_DigestSign(m, der, &n, buf_head(text), buf_len(text)) == 1 &&
	       flatten(der, n, ret);
}

int jwt_sign(const char *pem, const char *id, const json_t *claims, char **ret, struct error *e)
{
	_cleanup_(buf_done) struct buf token = BUF_INIT(TOKEN_MAX);
	json_t *header = json_pack("{s:s, s:s, s:s}", "alg", "ES256", "kid", id, "typ", "JWT");
	uint8_t signature[2 * NUMBER_BYTES];
	int r = header ? add_part(&token, header) : -ENOMEM;

	token.secret = true;
	json_decref(header);
	r = r ? r : buf_add_u8(&token, '.');
	r = r ? r : add_part(&token, claims);
	if (r < 0 || !sign(pem, &token, signature))
		return fail(e, "sign a token");
	r = buf_add_u8(&token, '.');
	r = r ? r : add_bytes(&token, signature, sizeof(signature));
	r = r ? r : buf_add_u8(&token, '\0');
	*ret = r ? NULL : strdup((const char *)buf_head(&token));
	return *ret ? 0 : fail(e, "sign a token");
}
