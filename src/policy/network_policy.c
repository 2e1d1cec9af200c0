#include "policy/network_policy.h"

#include <stdio.h>

#include "policy/network_dns.h"
#include "policy/network_document.h"
#include "policy/network_list.h"
#include "proto/json_tree.h"

enum { ID_BYTES = 32 };

/* What one sandbox may have in a second. */
enum {
	FLOWS_PER_SECOND = 200,
	DNS_PER_SECOND = 100,
};

/* --- layers --- */

/* Appends a rule for each entry of a list. Returns 0 or -1: out of memory. */
static int add_rules(json_t *rules, const json_t *network, const char *name, const char *action)
{
	const json_t *list = json_object_get(network, name);

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i)), *reason;
		struct network_target t;
		char id[ID_BYTES];

		if (!text || network_target_parse(text, true, &t, &reason) < 0)
			continue; /* IPv6 in denyOut, which no sandbox has */
		(void)snprintf(id, sizeof(id), "%s[%zu]", name, i); /* fits */
		if (json_array_append_new(rules, network_rule(id, action, &t)) < 0)
			return -1;
	}
	return 0;
}

/* Takes the rules. */
static json_t *layer(json_t *rules, const char *otherwise)
{
	return json_pack("{s:o, s:s}", "rules", rules, "default", otherwise);
}

/* What the operator says; *ret stays NULL if that is nothing. */
static int floor_layer(const struct network_floor *floor, json_t **ret)
{
	enum network_mode mode = floor ? floor->mode : NETWORK_ON;

	if (mode == NETWORK_ON)
		return 0;
	*ret = layer(mode == NETWORK_OFF ? json_array() : json_incref(floor->rules), "deny");
	return *ret ? 0 : -1;
}

/* What the client says. What it allows beats what it denies. */
static json_t *sandbox_layer(const json_t *network, bool no_internet)
{
	const struct network_target all = {.bits = 0};
	json_t *rules = json_array();
	int r = rules ? 0 : -1;

	if (r == 0)
		r = add_rules(rules, network, "allowOut", "allow");
	if (r == 0)
		r = add_rules(rules, network, "denyOut", "deny");
	if (r == 0 && no_internet)
		r = json_array_append_new(
			rules, network_rule("allow_internet_access", "deny", &all));
	if (r == 0)
		return layer(rules, "allow");
	json_decref(rules);
	return NULL;
}

/* Appends a layer; NULL: nothing. */
static int append(json_t *list, int r, json_t *one)
{
	if (r == 0 && one)
		return json_array_append_new(list, one);
	json_decref(one);
	return r;
}

/* Appends the layer of a document, if there is one. */
static int append_document(json_t *list, int r, const json_t *document, const char *prefix)
{
	if (r < 0 || !document || json_is_null(document))
		return r;
	return json_array_append_new(list, network_document_layer(document, prefix));
}

json_t *network_floor_layers(const struct network_floors *floors)
{
	json_t *list = json_array(), *all = NULL, *key = NULL, *template = NULL;
	int r = list ? floor_layer(floors->all, &all) : -1;

	r = append(list, r, all);
	r = append_document(list, r, floors->all ? floors->all->policy : NULL, "operator");
	r = r ? r : network_list_layer(floors->key, "key", &key);
	r = append(list, r, key);
	r = r ? r : network_list_layer(floors->template, "template", &template);
	r = append(list, r, template);
	if (r == 0)
		return list;
	json_decref(list);
	return NULL;
}

/* --- the rest --- */

static json_t *private_nets(const struct network_floor *floor)
{
	json_t *list = json_array();
	char text[NETWORK_NET_BYTES];

	for (unsigned i = 0; list && floor && i < floor->private_count; i++)
		if (json_array_append_new(
			    list, json_string(network_net_text(&floor->private[i], text))) < 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

/* --- proxies --- */

static int set_text(json_t *object, const char *name, json_t *value)
{
	return json_is_string(value) ? json_object_set(object, name, value) : 0;
}

/* Adds the proxy's TLS settings, if it has any. Returns 0 or -1. */
static int set_tls(json_t *proxy, const json_t *given)
{
	json_t *tls;
	int r;

	if (!json_is_true(json_object_get(given, "enabled")))
		return 0;
	tls = json_object();
	r = set_text(tls, "name", json_object_get(given, "serverName"));
	if (r == 0)
		r = set_text(tls, "ca", json_object_get(given, "caCert"));
	if (r == 0)
		r = json_object_set(proxy, "tls", tls);
	json_decref(tls);
	return r;
}

/* Makes the client's proxy, which the layers of the floors judge. Returns NULL when out of
 * memory. */
static json_t *sandbox_proxy(size_t floors, const json_t *given)
{
	const char *address = json_string_value(json_object_get(given, "address")), *reason;
	struct network_target t = {.port = 0};
	json_t *proxy = network_target_parse(address, true, &t, &reason) == 0 /* it was checked */
				? network_proxy(&t)
				: NULL;
	int r = proxy ? json_object_set_new(proxy, "layers", json_integer((json_int_t)floors)) : -1;

	if (r == 0)
		r = set_text(proxy, "username", json_object_get(given, "username"));
	if (r == 0)
		r = set_text(proxy, "password", json_object_get(given, "password"));
	if (r == 0)
		r = set_tls(proxy, json_object_get(given, "tls"));
	if (r == 0)
		return proxy;
	json_decref(proxy);
	return NULL;
}

/* Makes the chain: the operator's proxy, then the client's. *ret stays NULL if there are none.
 * Returns 0 or -1. */
static int proxies(
	const struct network_floor *floor, size_t floors, const json_t *network, json_t **ret)
{
	const json_t *given = json_object_get(network, "egressProxy");
	json_t *list;
	int r = 0;

	if (!json_is_object(given) && !(floor && floor->proxy))
		return 0;
	list = json_array();
	if (floor && floor->proxy)
		r = json_array_append(list, floor->proxy);
	if (r == 0 && json_is_object(given))
		r = json_array_append_new(list, sandbox_proxy(floors, given));
	if (r < 0 || !list) {
		json_decref(list);
		return -1;
	}
	*ret = list;
	return 0;
}

json_t *network_policy(const struct network_floors *floors, const json_t *network, bool no_internet,
	uint64_t generation)
{
	const struct network_floor *floor = floors->all;
	json_t *layers = network_floor_layers(floors), *through = NULL, *dns = NULL;
	bool given = false; /* by the client */

	if (layers)
		dns = network_dns_choose(
			floor, layers, json_object_get(network, "dnsServers"), &given);
	if (!dns || proxies(floor, json_array_size(layers), network, &through) < 0 ||
		json_array_append_new(layers, sandbox_layer(network, no_internet)) < 0 ||
		append_document(layers, 0, json_object_get(network, "policy"), "") < 0) {
		json_decref(layers);
		json_decref(through);
		json_decref(dns);
		return NULL; /* without one of them, flows would go out that must not */
	}
	return json_pack("{s:i, s:I, s:o*, s:o, s:o, s:o*, s:o, s:o, s:{s:i, s:i, s:i, s:i}}",
		"version", 1, "generation", (json_int_t)generation, "proxies", through, "layers",
		layers, "dns", dns, "dnsGiven", given ? json_true() : NULL, "private",
		private_nets(floor), "hosts", floor ? json_incref(floor->hosts) : json_array(),
		"limits", "flows", (int)network_floor_flows(floor).sandbox, "flowsPerSecond",
		FLOWS_PER_SECOND, "datagramPeers", NETWORK_DATAGRAM_PEERS, "dnsPerSecond",
		DNS_PER_SECOND);
}

json_t *network_policy_locked(uint64_t generation, const char *reason)
{
	const struct network_target all = {.bits = 0};
	struct network_floor locked = {.mode = NETWORK_ALLOW_LIST,
		.rules = json_array(),
		.hosts = json_array(),
		.dns = json_array()};
	const struct network_floors floors = {&locked, NULL, NULL};
	json_t *rule = network_rule("lockdown", "deny", &all), *policy = NULL;

	if (rule && json_object_set_new(rule, "reason", json_string(reason)) == 0 &&
		json_array_append(locked.rules, rule) == 0 && locked.hosts && locked.dns)
		policy = network_policy(&floors, NULL, false, generation);
	json_decref(rule);
	json_decref(locked.rules);
	json_decref(locked.hosts);
	json_decref(locked.dns);
	return policy;
}

/* Adds the hosts that a text's document judges. */
static int text_inspected(const char *text, json_t *hosts)
{
	json_t *document = network_document_is(text) ? json_tree_stored(text) : NULL;
	int r = network_document_inspected(document, hosts);

	json_decref(document);
	return r;
}

json_t *network_inspected(const struct network_floors *floors, const json_t *network)
{
	json_t *hosts = json_object();
	int r = hosts ? text_inspected(floors->key, hosts) : -1;

	r = r ? r : text_inspected(floors->template, hosts);
	r = r ? r : network_document_inspected(floors->all ? floors->all->policy : NULL, hosts);
	r = r ? r : network_document_inspected(json_object_get(network, "policy"), hosts);
	if (r == 0)
		return hosts;
	json_decref(hosts);
	return NULL;
}

char *network_policy_line(json_t *policy, json_t *names)
{
	json_t *root = json_pack("{s:o, s:o*}", "policy", policy, "names", names);
	char *line = json_dumps(root, JSON_COMPACT);

	json_decref(root);
	return line;
}
