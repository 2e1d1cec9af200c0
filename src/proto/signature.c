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

/* Decimal and within int64, so that the comparison with now means something. */
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

bool secret_equal(const char *a, const char *b)
{
	size_t n;

	if (!a || !b)
		return false;
	n = strlen(a);
	return strlen(b) == n && CRYPTO_memcmp(a, b, n) == 0;
}
