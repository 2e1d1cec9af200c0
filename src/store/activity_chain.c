#include "store/activity_chain.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"

enum { TEXT_MAX = 8192, PLACE_MAX = 512 };

void activity_chain_begin(const char *sandbox_id, struct activity_link *ret)
{
	char text[PLACE_MAX];
	int n = snprintf(text, sizeof(text), "mayfly activity 1\n%s", sandbox_id);

	*ret = (struct activity_link){0};
	(void)EVP_Digest(text, (size_t)n, ret->hash, NULL, EVP_sha256(), NULL); /* else zeros */
}

bool activity_chain_follow(struct activity_link *l, const char *text, size_t n)
{
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	bool good = c && EVP_DigestInit_ex(c, EVP_sha256(), NULL) == 1 &&
		    EVP_DigestUpdate(c, l->hash, sizeof(l->hash)) == 1 &&
		    EVP_DigestUpdate(c, text, n) == 1 && EVP_DigestFinal_ex(c, l->hash, NULL) == 1;

	EVP_MD_CTX_free(c);
	l->n += good;
	return good;
}

bool activity_chain_add(struct activity_link *l, const char *kind, const char *record)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(TEXT_MAX);

	return buf_printf(&b, "{\"n\":%llu,\"kind\":\"%s\",%s", (unsigned long long)l->n + 1, kind,
		       record + 1) == 0 &&
	       activity_chain_follow(l, (const char *)buf_head(&b), buf_len(&b));
}

bool activity_chain_seal(const struct activity_ends *ends, const uint8_t key[ACTIVITY_KEY_BYTES],
	const char *sandbox_id, uint8_t ret[ACTIVITY_HASH_BYTES])
{
	char text[PLACE_MAX], hash[2 * ACTIVITY_HASH_BYTES + 1];
	int n;

	str_hex(ends->head.hash, sizeof(ends->head.hash), hash);
	n = snprintf(text, sizeof(text), "%s %llu %llu %s", sandbox_id,
		(unsigned long long)ends->anchor.n, (unsigned long long)ends->head.n, hash);
	return HMAC(
		EVP_sha256(), key, ACTIVITY_KEY_BYTES, (const uint8_t *)text, (size_t)n, ret, NULL);
}

bool activity_chain_is_sealed(const struct activity_ends *ends,
	const uint8_t key[ACTIVITY_KEY_BYTES], const char *sandbox_id,
	const uint8_t seal[ACTIVITY_HASH_BYTES])
{
	uint8_t right[ACTIVITY_HASH_BYTES];

	return (ends->head.n == 0 && ends->anchor.n == 0) ||
	       (activity_chain_seal(ends, key, sandbox_id, right) &&
		       CRYPTO_memcmp(right, seal, sizeof(right)) == 0);
}
