#include "oci/digest.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

static const char algorithm[] = "sha256:";

enum { ALGORITHM_LEN = sizeof(algorithm) - 1, SHA256_BYTES = 32 };

bool oci_digest_valid(const char *text)
{
	return strncmp(text, algorithm, ALGORITHM_LEN) == 0 &&
	       strspn(text + ALGORITHM_LEN, "0123456789abcdef") == OCI_HEX_MAX - 1 &&
	       text[OCI_DIGEST_MAX - 1] == '\0';
}

const char *oci_digest_hex(const char *digest)
{
	return digest + ALGORITHM_LEN;
}

struct oci_hash {
	EVP_MD_CTX *context;
};

struct oci_hash *oci_hash_new(void)
{
	struct oci_hash *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->context = EVP_MD_CTX_new();
	if (!h->context || EVP_DigestInit_ex(h->context, EVP_sha256(), NULL) != 1) {
		oci_hash_free(h);
		return NULL;
	}
	return h;
}

int oci_hash_add(struct oci_hash *h, const void *data, size_t n)
{
	return EVP_DigestUpdate(h->context, data, n) == 1 ? 0 : -ENOMEM;
}

int oci_hash_end(struct oci_hash *h, char out[OCI_DIGEST_MAX])
{
	unsigned char sum[SHA256_BYTES];

	if (EVP_DigestFinal_ex(h->context, sum, NULL) != 1 ||
		EVP_DigestInit_ex(h->context, EVP_sha256(), NULL) != 1)
		return -ENOMEM;
	memcpy(out, algorithm, ALGORITHM_LEN);
	str_hex(sum, sizeof(sum), out + ALGORITHM_LEN);
	return 0;
}

void oci_hash_free(struct oci_hash *h)
{
	if (!h)
		return;
	EVP_MD_CTX_free(h->context);
	free(h);
}
