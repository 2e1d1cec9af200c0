#include "policy/network_dns.h"

#include "base/net.h"
#include "rules/rules.h"

enum { DNS_PORT = 53 };

/* Whether a rule means this resolver, and not just any server. */
static bool names_resolver(const struct rules_rule *rule)
{
	bool some = rule && rule->net_count;

	if (rule && rule->port_count)
		return true;
	for (unsigned i = 0; some && i < rule->net_count; i++)
		some = rule->nets[i].mask != 0;
	return some;
}

static bool layer_allows(json_t *layer, uint32_t address)
{
	struct error e = {0};
	struct rules rules = {0};
	struct rules_verdict v;
	bool allowed = rules_make(&(struct policy_at){.e = &e}, layer, RULES_MAX, &rules) == 0;

	if (allowed && !rules.observe) {
		v = rules_judge(&rules,
			&(struct rules_question){
				.kind = RULES_OPAQUE, .address = address, .port = DNS_PORT});
		allowed = v.action == RULES_ALLOW && (!rules.names || names_resolver(v.rule));
	}
	rules_done(&rules);
	return allowed;
}

bool network_dns_allows(json_t *layers, uint32_t address)
{
	bool allowed = true;

	for (size_t i = 0; allowed && i < json_array_size(layers); i++)
		allowed = layer_allows(json_array_get(layers, i), address);
	return allowed;
}

static json_t *operators(const struct network_floor *floor)
{
	return floor ? json_incref(floor->dns) : json_pack("[s]", NETWORK_DNS_DEFAULT);
}

static bool is_allowed(const struct network_floor *floor, json_t *layers, const char *text)
{
	struct network_target t = {.bits = 32};

	return text && net_parse_address(text, &t.net) == 0 && !network_floor_forbids(floor, &t) &&
	       network_dns_allows(layers, t.net);
}

json_t *network_dns_choose(
	const struct network_floor *floor, json_t *layers, const json_t *given, bool *ret_given)
{
	json_t *list;

	*ret_given = json_is_array(given);
	if (!*ret_given)
		return operators(floor);
	list = json_array();
	for (size_t i = 0; list && i < json_array_size(given); i++) {
		json_t *one = json_array_get(given, i);

		if (is_allowed(floor, layers, json_string_value(one)) &&
			json_array_append(list, one) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	*ret_given = json_array_size(list) > 0;
	if (!list || !json_array_size(given) || *ret_given)
		return list;
	json_decref(list);
	return operators(floor);
}
