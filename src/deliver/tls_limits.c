#include "deliver/tls_limits.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "proto/tls_groups.h"

static bool is_large(X509 *x)
{
	const EVP_PKEY *key = x ? X509_get0_pubkey(x) : NULL;

	return key && EVP_PKEY_get_bits(key) > TLS_LIMITS_KEY_BITS;
}

/* Checks key sizes before the first signature of the chain is verified. That time grows with the
 * square of the key's size, and OpenSSL accepts RSA keys of up to 16,384 bits. */
static int verify_chain(X509_STORE_CTX *c, void *arg)
{
	STACK_OF(X509) *sent = X509_STORE_CTX_get0_untrusted(c);
	bool *large = arg;

	*large = is_large(X509_STORE_CTX_get0_cert(c));
	for (int i = 0; i < sk_X509_num(sent); i++)
		*large = *large || is_large(sk_X509_value(sent, i));
	if (!*large)
		return X509_verify_cert(c);
	X509_STORE_CTX_set_error(c, X509_V_ERR_APPLICATION_VERIFICATION);
	return 0;
}

/* libcurl calls this when it has set up a connection's context. */
static CURLcode limit_context(CURL *c, void *context, void *arg)
{
	SSL_CTX *ssl = context;

	(void)c; /* its options are not needed */
	if (SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) != 1 ||
		SSL_CTX_set_cipher_list(ssl, "kECDHE:!aNULL:!eNULL") != 1 ||
		SSL_CTX_set1_groups_list(ssl, TLS_GROUPS) != 1)
		return CURLE_SSL_CIPHER;
	SSL_CTX_set_max_cert_list(ssl, TLS_LIMITS_CHAIN);
	SSL_CTX_set_cert_verify_callback(ssl, verify_chain, arg);
	(void)SSL_CTX_set_options(
		ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
	(void)SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
	return CURLE_OK;
}

CURLcode tls_limits_set(CURL *c, bool *ret_large)
{
	CURLcode r = curl_easy_setopt(c, CURLOPT_SSL_CTX_FUNCTION, limit_context);

	return r == CURLE_OK ? curl_easy_setopt(c, CURLOPT_SSL_CTX_DATA, ret_large) : r;
}
