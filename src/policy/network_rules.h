/* Checks `rules` and `egressProxy` of a network object (docs/network.md). */
#ifndef POLICY_NETWORK_RULES_H
#define POLICY_NETWORK_RULES_H

#include <jansson.h>

#include "base/error.h"

enum {
	NETWORK_RULES_MAX = 10,	  /* domains */
	NETWORK_HEADERS_MAX = 20, /* per domain */
	NETWORK_HEADER_NAME_MAX = 64,
	NETWORK_HEADER_VALUE_MAX = 2048,
	NETWORK_SECRETS_MAX = 32, /* distinct ones, per domain */
	NETWORK_SECRET_NAME_MAX = 128,
	NETWORK_CREDENTIAL_MAX = 255, /* user and password of a proxy */
	NETWORK_SERVER_NAME_MAX = 253,
	NETWORK_CA_MAX = 8192,
};

/* Both accept NULL. They fail with ERROR_USAGE or ERROR_LIMIT; the message begins with the member
 * and shows no values of headers. */
int network_rules_check(const json_t *rules, struct error *e);
int network_proxy_check(const json_t *proxy, struct error *e);

#endif
