#include "store/sealed_columns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "proto/base64.h"

const struct sealed_column sealed_columns[] = {
	[SEALED_SANDBOX_ENV] = {"sandboxes", "env_json", "id", false, NULL},
	[SEALED_SANDBOX_NETWORK] = {"sandboxes", "network_json", "id", false, NULL},
	[SEALED_ENVD_TOKEN] = {"sandboxes", "envd_token", "id", false, NULL},
	[SEALED_TRAFFIC_TOKEN] = {"sandboxes", "traffic_token", "id", false, NULL},
	[SEALED_AGENT_ENV] = {"agent_versions", "env_json", "build_id", false, NULL},
	[SEALED_AGENT_NETWORK] = {"agent_versions", "network_json", "build_id", false, NULL},
	[SEALED_WEBHOOK] = {"webhooks", "secret", "id", false, NULL},
	[SEALED_PAYLOAD] = {"deliveries", "payload", "webhook_id", false, NULL},
	[SEALED_LINK_KEY] = {"approvals", "link_key", "id", true, NULL},
	/* the room network seals these: secrets.c, identity.c, interception.c */
	{"secrets", "sealed", NULL, true, "'secret ' || key_id || ' ' || name"},
	{"signers", "sealed", NULL, true, "'signer ' || id"},
	{"sandboxes", "authority", NULL, false, "'authority ' || key_id"},
	{"agent_versions", "authority", NULL, false,
		"'authority ' || (SELECT key_id FROM agents WHERE agents.id = agent_id)"},
};
const unsigned sealed_column_count = ARRAY_SIZE(sealed_columns);

char *sealed_encode(const uint8_t *sealed, size_t n)
{
	size_t len = base64_encoded_len(n);
	char *out = malloc(len + 1);

	if (!out)
		return NULL;
	base64_encode(out, sealed, n);
	out[len] = '\0';
	return out;
}

int sealed_decode(const char *text, uint8_t **ret, size_t *ret_n)
{
	size_t n = strlen(text);
	uint8_t *out = malloc(base64_decoded_max(n));
	ptrdiff_t len = out ? base64_decode(out, text, n) : -ENOMEM;

	if (len < 0) {
		free(out);
		return (int)len;
	}
	*ret = out;
	*ret_n = (size_t)len;
	return 0;
}
