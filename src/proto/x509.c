#include "proto/x509.h"

#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdint.h>

enum { SERIAL_BYTES = 16 };

int x509_no_passphrase(char *buf, int size, int writing, void *arg)
{
	return -1;
}

/* Positive, and always as long. */
static bool set_serial(X509 *x)
{
	uint8_t raw[SERIAL_BYTES];
	BIGNUM *n;
	bool good;

	if (RAND_bytes(raw, sizeof(raw)) != 1)
		return false;
	raw[0] = (raw[0] & 0x3f) | 0x40;
	n = BN_bin2bn(raw, sizeof(raw), NULL);
	good = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));
	BN_free(n);
	return good;
}

bool x509_begin(X509 *x, EVP_PKEY *key, time_t from, time_t to)
{
	return X509_set_version(x, X509_VERSION_3) == 1 && set_serial(x) &&
	       ASN1_TIME_set(X509_getm_notBefore(x), from) &&
	       ASN1_TIME_set(X509_getm_notAfter(x), to) && X509_set_pubkey(x, key) == 1;
}

bool x509_add_name(X509_NAME *to, const char *field, const char *text)
{
	return X509_NAME_add_entry_by_txt(
		       to, field, MBSTRING_ASC, (const uint8_t *)text, -1, -1, 0) == 1;
}

bool x509_add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
	X509_EXTENSION *ext;
	X509V3_CTX ctx;
	bool good;

	X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	good = ext && X509_add_ext(x, ext, -1) == 1;
	X509_EXTENSION_free(ext);
	return good;
}
