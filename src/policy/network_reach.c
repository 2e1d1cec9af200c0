#include "policy/network_reach.h"

#include <string.h>

#include "proto/json_tree.h"

enum { DNS_PORT = 53 };

static void add_end(struct egress_reach *r, const char *address, json_int_t port)
{
	struct egress_reach_end end = {.port = (uint16_t)port};

	if (r->end_count == EGRESS_REACH_ENDS_MAX)
		return; /* never: the policy has as many at most */
	end.anywhere = net_parse_address(address, &end.address) < 0; /* it is a name */
	r->ends[r->end_count++] = end;
}

/* The operator's own names. */
static void add_hosts(struct egress_reach *r, const json_t *hosts)
{
	for (size_t i = 0; i < json_array_size(hosts); i++) {
		const json_t *host = json_array_get(hosts, i);

		add_end(r, json_tree_text(host, "address"),
			json_integer_value(json_object_get(host, "port")));
	}
}

static void add_resolvers(struct egress_reach *r, const json_t *servers)
{
	for (size_t i = 0; i < json_array_size(servers); i++)
		add_end(r, json_string_value(json_array_get(servers, i)), DNS_PORT);
}

/* The operator's: all connections but those to its names and resolvers go through it. */
static void add_proxies(struct egress_reach *r, const json_t *proxies)
{
	const json_t *first = json_array_get(proxies, 0);

	if (!json_is_true(json_object_get(first, "trusted")))
		return;
	add_end(r, json_tree_text(first, "host"),
		json_integer_value(json_object_get(first, "port")));
	r->only_ends = 1;
}

void network_reach(const json_t *policy, struct egress_reach *ret)
{
	const json_t *nets = json_object_get(policy, "private");

	*ret = (struct egress_reach){.magic = EGRESS_REACH_MAGIC};
	for (size_t i = 0; i < json_array_size(nets) && i < EGRESS_REACH_NETS_MAX; i++)
		if (net_parse(json_string_value(json_array_get(nets, i)),
			    &ret->nets[ret->net_count]) == 0)
			ret->net_count++;
	add_hosts(ret, json_object_get(policy, "hosts"));
	if (!json_is_true(json_object_get(policy, "dnsGiven")))
		add_resolvers(ret, json_object_get(policy, "dns"));
	add_proxies(ret, json_object_get(policy, "proxies"));
}
