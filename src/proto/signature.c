#include "proto/signature.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base64.h"

enum { SHA256_BYTES = 32 };

static bool hash_part(EVP_MD_CTX *ctx, const char *separator, const char *s)
{
	return EVP_DigestUpdate(ctx, separator, strlen(separator)) == 1 &&
	       EVP_DigestUpdate(ctx, s ? s : "", s ? strlen(s) : 0) == 1;
}

static bool hash_input(
	EVP_MD_CTX *ctx, const struct signature_input *in, uint8_t digest[SHA256_BYTES])
{
	return EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1 && hash_part(ctx, "", in->path) &&
	       hash_part(ctx, ":", in->operation) && hash_part(ctx, ":", in->user) &&
	       hash_part(ctx, ":", in->token) &&
	       (!in->expiration || hash_part(ctx, ":", in->expiration)) &&
	       EVP_DigestFinal_ex(ctx, digest, NULL) == 1;
}

int signature_make(const struct signature_input *in, char out[SIGNATURE_BYTES])
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	uint8_t digest[SHA256_BYTES];
	bool good = ctx && hash_input(ctx, in, digest);

	EVP_MD_CTX_free(ctx);
	if (!good)
		return -EIO;
	memcpy(out, "v1_", 3);
	out[3 + base64_encode_nopad(out + 3, digest, sizeof(digest))] = '\0';
	return 0;
}

/* Accepts decimal digits within int64, so that the comparison with now is meaningful. */
static bool parse_expiration(const char *s, int64_t *ret)
{
	size_t n = strlen(s);

	if (!n || n > 18 || strspn(s, "0123456789") != n)
		return false;
	*ret = strtoll(s, NULL, 10);
	return true;
}

enum signature_verdict signature_check(
	const struct signature_input *in, const char *signature, int64_t now_s)
{
	char expected[SIGNATURE_BYTES];
	int64_t expiration = INT64_MAX;

	if (in->expiration && !parse_expiration(in->expiration, &expiration))
		return SIGNATURE_MALFORMED;
	if (signature_make(in, expected) < 0 || !secret_equal(expected, signature))
		return SIGNATURE_WRONG;
	return expiration >= now_s ? SIGNATURE_GOOD : SIGNATURE_EXPIRED;
}

/* --- searching --- */

struct signature_search {
	EVP_MD *md;
	EVP_MD_CTX *prefix, *ctx; /* hash state before the token; for one token */
	uint8_t digest[SHA256_BYTES];
	const char *expiration; /* or NULL; borrowed */
};

/* Accepts only the canonical base64 spelling. */
static bool read_signature(const char *signature, uint8_t digest[SHA256_BYTES])
{
	uint8_t bytes[SHA256_BYTES + 4];
	char again[SIGNATURE_BYTES];

	if (strncmp(signature, "v1_", 3) != 0 || strlen(signature) != SIGNATURE_BYTES - 1 ||
		base64_decode(bytes, signature + 3, SIGNATURE_BYTES - 4) != SHA256_BYTES)
		return false;
	memcpy(digest, bytes, SHA256_BYTES);
	again[base64_encode_nopad(again, digest, SHA256_BYTES)] = '\0';
	return strcmp(again, signature + 3) == 0;
}

static bool begin_search(struct signature_search *s, const struct signature_input *in)
{
	s->md = EVP_MD_fetch(NULL, "SHA256", NULL);
	s->prefix = EVP_MD_CTX_new();
	s->ctx = EVP_MD_CTX_new();
	s->expiration = in->expiration;
	return s->md && s->prefix && s->ctx && EVP_DigestInit_ex2(s->prefix, s->md, NULL) == 1 &&
	       hash_part(s->prefix, "", in->path) && hash_part(s->prefix, ":", in->operation) &&
	       hash_part(s->prefix, ":", in->user) && hash_part(s->prefix, ":", NULL);
}

struct signature_search *signature_search_new(
	const struct signature_input *in, const char *signature)
{
	struct signature_search *s;
	int64_t unused;

	if (in->expiration && !parse_expiration(in->expiration, &unused))
		return NULL;
	s = calloc(1, sizeof(*s));
	if (s && read_signature(signature, s->digest) && begin_search(s, in))
		return s;
	signature_search_free(s);
	return NULL;
}

bool signature_search_matches(struct signature_search *s, const char *token)
{
	uint8_t digest[SHA256_BYTES];

	return EVP_MD_CTX_copy_ex(s->ctx, s->prefix) == 1 && hash_part(s->ctx, "", token) &&
	       (!s->expiration || hash_part(s->ctx, ":", s->expiration)) &&
	       EVP_DigestFinal_ex(s->ctx, digest, NULL) == 1 &&
	       CRYPTO_memcmp(digest, s->digest, sizeof(digest)) == 0;
}

void signature_search_free(struct signature_search *s)
{
	if (!s)
		return;
	EVP_MD_CTX_free(s->prefix);
	EVP_MD_CTX_free(s->ctx);
	EVP_MD_free(s->md);
	free(s);
}

bool secret_equal(const char *a, const char *b)
{
	size_t n;

	if (!a || !b)
		return false;
	n = strlen(a);
	return strlen(b) == n && CRYPTO_memcmp(a, b, n) == 0;
}
