#include "policy/network_check.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/net.h"
#include "policy/network_consent.h"
#include "policy/network_dns.h"
#include "policy/network_in.h"
#include "policy/network_policy.h"
#include "policy/network_rules.h"
#include "proto/http_proxy.h"
#include "proto/json_tree.h"
#include "rules/between_name.h"
#include "rules/rules.h"

enum { ENVD_PORT = 49983 };

/* Reads an array of at most max entries. NULL, with *ret_err 0: there is none. */
static const json_t *list_of(
	const json_t *network, const char *name, size_t max, int *ret_err, struct error *e)
{
	const json_t *list = json_object_get(network, name);

	*ret_err = 0;
	if (!list || json_is_null(list))
		return NULL;
	if (!json_is_array(list))
		*ret_err = error_set(e, ERROR_USAGE, EINVAL, "%s must be an array", name);
	else if (json_array_size(list) > max)
		*ret_err =
			error_set(e, ERROR_LIMIT, E2BIG, "%s has more than %zu entries", name, max);
	return *ret_err < 0 ? NULL : list;
}

static const char *entry_of(const json_t *list, const char *name, size_t i, struct error *e)
{
	const char *text = json_string_value(json_array_get(list, i));

	if (!text)
		(void)error_set(e, ERROR_USAGE, EINVAL, "%s[%zu] must be a string", name, i);
	return text;
}

static int parse_entry(const json_t *list, const char *name, size_t i, bool with_port,
	struct network_target *ret, struct error *e)
{
	const char *text = entry_of(list, name, i, e), *reason;

	if (!text)
		return -EINVAL;
	if (network_target_parse(text, with_port, ret, &reason) < 0)
		return error_set(
			e, ERROR_USAGE, EINVAL, "%s[%zu] '%.64s': %s", name, i, text, reason);
	return 0;
}

/* Sandboxes have no IPv6, so it is denied in any case. */
static int check_deny_ipv6(const char *text, size_t i, struct error *e)
{
	const char *reason;

	return network_ipv6_check(text, &reason) == 0
		       ? 0
		       : error_set(e, ERROR_USAGE, EINVAL, "denyOut[%zu] '%.64s': %s", i, text,
				 reason);
}

static int check_deny_entry(const json_t *list, size_t i, bool *ret_all, struct error *e)
{
	const char *text = entry_of(list, "denyOut", i, e);
	struct network_target t;
	int r;

	if (text && network_is_ipv6(text))
		return check_deny_ipv6(text, i, e);
	r = parse_entry(list, "denyOut", i, false, &t, e);
	if (r == 0 && t.host[0]) /* E2B's words, with the member */
		r = error_set(e, ERROR_USAGE, EINVAL, "denyOut[%zu]: invalid denied CIDR %.64s", i,
			t.host);
	if (r == 0 && network_target_is_all(&t))
		*ret_all = true;
	return r;
}

static int check_deny(const json_t *network, bool *ret_all, struct error *e)
{
	int r;
	const json_t *list = list_of(network, "denyOut", NETWORK_TARGETS_MAX, &r, e);

	for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
		r = check_deny_entry(list, i, ret_all, e);
	return r;
}

bool network_allow_needs_deny(const struct network_target *t)
{
	return t->host[0] && !between_name_is(t->host);
}

static int check_allow(
	const json_t *network, bool denies_all, const struct network_floor *floor, struct error *e)
{
	int r;
	const json_t *list = list_of(network, "allowOut", NETWORK_TARGETS_MAX, &r, e);
	struct network_target t;

	for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
		r = parse_entry(list, "allowOut", i, true, &t, e);
		if (r == 0 && !t.host[0] && network_floor_forbids(floor, &t))
			r = error_set(e, ERROR_USAGE, EINVAL,
				"allowOut[%zu] '%.64s': private and reserved addresses cannot be "
				"allowed",
				i, json_string_value(json_array_get(list, i)));
		if (r == 0 && !denies_all && network_allow_needs_deny(&t)) /* E2B's words */
			r = error_set(e, ERROR_USAGE, EINVAL,
				"When specifying allowed domains in allow out, you must include "
				"'ALL_TRAFFIC' in deny out to block all other traffic.");
	}
	return r;
}

/* If there is no network, it does not matter. */
static bool floor_allows_resolver(const struct network_floor *floor, uint32_t address)
{
	json_t *layers;
	bool allows;

	if (!floor || floor->mode == NETWORK_OFF)
		return true;
	layers = network_floor_layers(&(struct network_floors){.all = floor});
	allows = layers && network_dns_allows(layers, address);
	json_decref(layers);
	return allows;
}

static int check_dns(const json_t *network, const struct network_floor *floor, struct error *e)
{
	int r;
	const json_t *list = list_of(network, "dnsServers", NETWORK_DNS_MAX, &r, e);

	for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
		const char *text = entry_of(list, "dnsServers", i, e);
		struct network_target t = {.bits = 32};

		if (!text)
			return -EINVAL;
		if (net_parse_address(text, &t.net) < 0)
			r = error_set(e, ERROR_USAGE, EINVAL,
				"dnsServers[%zu] '%.64s': it is no IPv4 address", i, text);
		else if (network_floor_forbids(floor, &t))
			r = error_set(e, ERROR_USAGE, EINVAL,
				"dnsServers[%zu] '%.64s': private and reserved addresses cannot be "
				"asked",
				i, text);
		else if (!floor_allows_resolver(floor, t.net))
			r = error_set(e, ERROR_USAGE, EINVAL,
				"dnsServers[%zu] '%.64s': the operator's list does not have this "
				"resolver and its port 53: leave it out, and the operator's "
				"resolvers are asked",
				i, text);
	}
	return r;
}

static int check_ports(const json_t *network, struct error *e)
{
	int r;
	const json_t *list = list_of(network, "httpsPorts", NETWORK_HTTPS_PORTS_MAX, &r, e);

	for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
		const json_t *v = json_array_get(list, i);
		json_int_t port = json_integer_value(v);

		if (!json_is_integer(v) || port < 1 || port > UINT16_MAX)
			r = error_set(e, ERROR_USAGE, EINVAL,
				"httpsPorts[%zu] must be a port, 1 to 65535", i);
		else if (port == ENVD_PORT)
			r = error_set(e, ERROR_USAGE, EINVAL,
				"httpsPorts[%zu]: %d is the port of the sandbox's own server", i,
				ENVD_PORT);
	}
	return r;
}

static int check_proxy(const json_t *network, const struct network_floor *floor, struct error *e)
{
	const json_t *proxy = json_object_get(network, "egressProxy");
	const char *text = json_string_value(json_object_get(proxy, "address")), *reason;
	struct network_target t;
	int r = network_proxy_check(proxy, e);

	if (r == 0 && text && network_target_parse(text, true, &t, &reason) == 0 && !t.host[0] &&
		network_floor_forbids(floor, &t))
		r = error_set(e, ERROR_USAGE, EINVAL,
			"egressProxy.address '%.64s': private and reserved addresses cannot be "
			"dialled",
			text);
	return r;
}

static int check_mask(const json_t *network, struct error *e)
{
	const json_t *mask = json_object_get(network, "maskRequestHost");
	const char *s = json_string_value(mask);
	char host[HTTP_MASK_MAX];

	if (!mask || json_is_null(mask) || (s && !*s) ||
		(s && http_proxy_mask(s, UINT16_MAX, host) == 0))
		return 0;
	return error_set(e, ERROR_USAGE, EINVAL,
		"maskRequestHost must be a host name of at most %d ASCII characters, such as "
		"localhost:${PORT}",
		HTTP_MASK_MAX - 1);
}

static int check_public(const json_t *network, struct error *e)
{
	const json_t *v = json_object_get(network, "allowPublicTraffic");

	if (!v || json_is_null(v) || json_is_boolean(v))
		return 0;
	return error_set(e, ERROR_USAGE, EINVAL, "allowPublicTraffic must be true or false");
}

static int check_policy(const json_t *network, struct error *e)
{
	return json_tree_has(network, "policy")
		       ? rules_check(json_object_get(network, "policy"), "policy", e)
		       : 0;
}

/* Members that clients give for others, and that would change nothing. */
static const struct misplaced {
	const char *name, *remedy;
} misplaced[] = {
	{"network", "its members belong here themselves"},
	{"version", "it belongs to a policy: give it as policy"},
	{"default", "it belongs to a policy: give it as policy"},
	{"mode", "it belongs to a policy: give it as policy"},
	{"whileWaiting", "it belongs in network.consent"},
	{"allow_out", "it is called allowOut"},
	{"deny_out", "it is called denyOut"},
	{"dns_servers", "it is called dnsServers"},
	{"https_ports", "it is called httpsPorts"},
	{"egress_proxy", "it is called egressProxy"},
	{"mask_request_host", "it is called maskRequestHost"},
	{"allow_public_traffic", "it is called allowPublicTraffic"},
};

static int check_misplaced(const json_t *network, struct error *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(misplaced); i++)
		if (json_tree_has(network, misplaced[i].name))
			return error_set(e, ERROR_USAGE, EINVAL, "network.%s: %s",
				misplaced[i].name, misplaced[i].remedy);
	return 0;
}

int network_check(
	const json_t *network, bool no_internet, const struct network_floor *floor, struct error *e)
{
	bool denies_all = no_internet;
	struct network_consent consent;
	int r = check_misplaced(network, e);

	if (r == 0)
		r = check_deny(network, &denies_all, e);
	if (r == 0)
		r = check_allow(network, denies_all, floor, e);
	if (r == 0)
		r = check_dns(network, floor, e);
	if (r == 0)
		r = check_ports(network, e);
	if (r == 0)
		r = check_mask(network, e);
	if (r == 0)
		r = check_public(network, e);
	if (r == 0)
		r = network_in_check(network, e);
	if (r == 0)
		r = network_rules_check(json_object_get(network, "rules"), e);
	if (r == 0)
		r = check_proxy(network, floor, e);
	if (r == 0)
		r = check_policy(network, e);
	if (r == 0)
		r = network_consent_read(network, &consent, e);
	return r;
}
