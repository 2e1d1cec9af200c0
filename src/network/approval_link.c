#include "network/approval_link.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "fleet/fleet.h"
#include "network/approval_right.h"

enum { SIGNATURE_BYTES = 2 * 32 + 1 };

static bool sign(const struct store_approval *a, uint64_t expires_s, char out[SIGNATURE_BYTES])
{
	_cleanup_free_ char *text = str_printf("%s.%llu", a->id, (unsigned long long)expires_s);
	uint8_t mac[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	if (!text || !HMAC(EVP_sha256(), a->link_key, sizeof(a->link_key), (const uint8_t *)text,
			     strlen(text), mac, &n))
		return false;
	str_hex(mac, 32, out);
	return true;
}

json_t *approval_link_json(struct fleet *f, const struct store_approval *a, bool *ret_operators)
{
	const char *base = f->options.public_url ? f->options.public_url : "";
	uint64_t expires_s = a->expires_ns / NS_PER_S;
	char signature[SIGNATURE_BYTES];

	*ret_operators = false;
	if (a->state != STORE_APPROVAL_WAITING ||
		!approval_right_has_link(a->question_json, a->rule, ret_operators) ||
		!sign(a, expires_s, signature))
		return NULL;
	return json_pack("{s:o}", "decideURL",
		json_sprintf("%s/approvals/%s/link?expires=%llu&signature=%s", base, a->id,
			(unsigned long long)expires_s, signature));
}

bool approval_link_holds(const struct store_approval *a, uint64_t expires_s, const char *signature)
{
	char right[SIGNATURE_BYTES];

	return strlen(signature) == sizeof(right) - 1 && sign(a, expires_s, right) &&
	       CRYPTO_memcmp(signature, right, sizeof(right)) == 0 &&
	       clock_realtime_ns() < a->expires_ns;
}
