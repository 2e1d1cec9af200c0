/* Parses the policy's JSON. Every member is checked. An unknown member is an error, because an
 * older worker must not ignore a newer daemon's rule. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "egress/policy.h"
#include "egress/proxy.h"

enum { DNS_PORT = 53 };

static int take_layers(const struct policy_at *top, json_t *object, struct policy *p)
{
	json_t *layers;
	unsigned left = POLICY_RULES_MAX;
	struct policy_at at = policy_member(top, "layers");
	int n = policy_get_array(top, object, "layers", POLICY_LAYERS_MAX, &layers), r = 0;

	if (n == 0)
		return policy_bad(&at, "expected at least one");
	for (int i = 0; i < n && r == 0; i++) {
		struct policy_at one = policy_item(&at, (size_t)i);
		struct rules *layer = &p->layers[p->layer_count++];

		r = rules_make(&one, json_array_get(layers, (size_t)i), left, layer);
		left -= layer->count;
	}
	return n < 0 ? n : r;
}

/* --- the rest --- */

static int take_server(const struct policy_at *at, const char *text, struct policy_server *ret)
{
	char copy[NET_TEXT_BYTES + 6] = "";
	char *colon, *end;
	unsigned long port = DNS_PORT;

	(void)snprintf(copy, sizeof(copy), "%s", text ? text : ""); /* what is cut is no address */
	colon = strchr(copy, ':');
	if (colon) {
		*colon++ = '\0';
		port = *colon >= '1' && *colon <= '9' ? strtoul(colon, &end, 10) : 0;
		if (port > UINT16_MAX || (port && *end))
			port = 0;
	}
	if (port == 0 || net_parse_address(copy, &ret->address) < 0)
		return policy_bad(at, "expected an IPv4 address, or ADDRESS:PORT");
	ret->port = (uint16_t)port;
	return 0;
}

static int take_servers(const struct policy_at *top, json_t *object, struct policy *p)
{
	json_t *servers, *given = json_object_get(object, "dnsGiven");
	struct policy_at at = policy_member(top, "dns"), given_at = policy_member(top, "dnsGiven");
	int n = policy_get_array(top, object, "dns", POLICY_DNS_MAX, &servers), r = 0;

	for (int i = 0; i < n && r == 0; i++) {
		struct policy_at one = policy_item(&at, (size_t)i);

		r = take_server(&one, json_string_value(json_array_get(servers, (size_t)i)),
			&p->dns[p->dns_count++]);
	}
	if (n >= 0 && given && !json_is_boolean(given))
		return policy_bad(&given_at, "expected true or false");
	p->dns_given = json_is_true(given);
	return n < 0 ? n : r;
}

static int take_private(const struct policy_at *top, json_t *object, struct policy *p)
{
	json_t *nets;
	struct policy_at at = policy_member(top, "private");
	int n = policy_get_array(top, object, "private", POLICY_PRIVATE_MAX, &nets);

	for (int i = 0; i < n; i++) {
		const char *text = json_string_value(json_array_get(nets, (size_t)i));
		struct policy_at one = policy_item(&at, (size_t)i);

		if (!text || net_parse(text, &p->private[p->private_count++]) < 0)
			return policy_bad(&one, "expected IPv4 in CIDR form, 10.1.0.0/16");
	}
	return n < 0 ? n : 0;
}

static int take_own_host(const struct policy_at *at, json_t *object, struct policy_host *h)
{
	static const char *const names[] = {"name", "address", "port", NULL};
	struct policy_at name_at = policy_member(at, "name"),
			 address_at = policy_member(at, "address");
	const char *name, *address;
	unsigned port = 0;
	int r = policy_known_members(at, object, names);

	r = r ? r : policy_get_number(at, object, "port", 1, UINT16_MAX, &port);
	if (r < 0)
		return r;
	name = policy_text(object, "name");
	address = policy_text(object, "address");
	if (!name || !policy_is_host(name))
		return policy_bad(&name_at, "expected a name in lower case");
	if (!address || net_parse_address(address, &h->address) < 0)
		return policy_bad(&address_at, "expected an IPv4 address");
	h->port = (uint16_t)port;
	h->name = strdup(name);
	return h->name ? 0 : -ENOMEM;
}

static int take_hosts(const struct policy_at *top, json_t *object, struct policy *p)
{
	json_t *hosts;
	struct policy_at at = policy_member(top, "hosts");
	int n = policy_get_array(top, object, "hosts", POLICY_HOSTS_MAX, &hosts), r = 0;

	if (n <= 0)
		return n;
	p->hosts = calloc((size_t)n, sizeof(p->hosts[0]));
	if (!p->hosts)
		return -ENOMEM;
	for (int i = 0; i < n && r == 0; i++) {
		struct policy_at one = policy_item(&at, (size_t)i);

		p->host_count++;
		r = take_own_host(&one, json_array_get(hosts, (size_t)i), &p->hosts[i]);
	}
	return r;
}

static int take_limits(const struct policy_at *top, json_t *object, struct policy_limits *l)
{
	static const char *const names[] = {"flows", "flowsPerSecond", "datagramPeers",
		"dnsPerSecond", "connectSeconds", "datagramSeconds", NULL};
	json_t *limits = json_object_get(object, "limits");
	struct policy_at at = policy_member(top, "limits");
	int r = limits ? policy_known_members(&at, limits, names) : 0;

	*l = (struct policy_limits){512, 200, 256, 100, 130, 60};
	if (r < 0 || !limits)
		return r;
	r = policy_get_number(&at, limits, "flows", 0, POLICY_FLOWS_MAX, &l->flows);
	r = r ? r
	      : policy_get_number(&at, limits, "flowsPerSecond", 0, 100000, &l->flows_per_second);
	r = r ? r : policy_get_number(&at, limits, "datagramPeers", 0, 256, &l->datagram_peers);
	r = r ? r : policy_get_number(&at, limits, "dnsPerSecond", 0, 100000, &l->dns_per_second);
	r = r ? r : policy_get_number(&at, limits, "connectSeconds", 1, 130, &l->connect_seconds);
	return r ? r
		 : policy_get_number(&at, limits, "datagramSeconds", 1, 600, &l->datagram_seconds);
}

static int take_head(const struct policy_at *top, json_t *object, struct policy *p)
{
	struct policy_at at = policy_member(top, "generation");
	json_t *generation;
	unsigned version = 0;
	int r = policy_get_number(top, object, "version", POLICY_VERSION, POLICY_VERSION, &version);

	if (r == 0 && version == 0)
		return error_set(
			top->e, ERROR_USAGE, EINVAL, "version: expected %d", POLICY_VERSION);
	generation = json_object_get(object, "generation");
	if (r == 0 && json_integer_value(generation) < 1) /* 0 for what is no number, too */
		return policy_bad(&at, "expected a number from 1 on");
	p->generation = (uint64_t)json_integer_value(generation);
	return r;
}

static bool names_decide(const struct policy *p)
{
	for (unsigned i = 0; i < p->layer_count; i++)
		if (p->layers[i].names)
			return true;
	return false;
}

int policy_make(json_t *value, struct policy **ret, struct error *e)
{
	static const char *const names[] = {"version", "generation", "layers", "dns", "dnsGiven",
		"private", "hosts", "limits", "intercept", "proxies", NULL};
	struct policy *p = calloc(1, sizeof(*p));
	struct policy_at top = {.e = e};
	json_t *intercepted, *proxies;
	int r = p ? 0 : -ENOMEM;

	r = r ? r : policy_known_members(&top, value, names);
	r = r ? r : take_head(&top, value, p);
	r = r ? r : take_layers(&top, value, p);
	r = r ? r : take_servers(&top, value, p);
	r = r ? r : take_private(&top, value, p);
	r = r ? r : take_hosts(&top, value, p);
	r = r ? r : take_limits(&top, value, &p->limits);
	intercepted = json_object_get(value, "intercept");
	if (r == 0 && intercepted)
		r = intercept_make(intercepted, &p->intercept, e);
	proxies = json_object_get(value, "proxies");
	if (r == 0 && proxies)
		r = proxy_chain_make(proxies, &p->proxies, e);
	if (r < 0) {
		policy_free(p);
		return r == -ENOMEM ? error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory") : r;
	}
	p->names = names_decide(p) || p->intercept;
	*ret = p;
	return 0;
}
