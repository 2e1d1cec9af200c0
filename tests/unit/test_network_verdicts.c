/* What the policy of a network lets through, judged by the rules of docs/network.md and by the
 * worker (src/policy/network_policy, src/egress/policy). */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/net.h"
#include "egress/policy.h"
#include "network_fixture.h"
#include "policy/network_check.h"
#include "policy/network_floor.h"
#include "policy/network_list.h"
#include "policy/network_policy.h"

/* --- a judge, as docs/network.md describes it --- */

static bool host_matches(const char *rule, const char *name)
{
	size_t n = strlen(name), below = strlen(rule) - 1;

	if (strcmp(rule, "*") == 0)
		return true;
	if (strncmp(rule, "*.", 2) == 0)
		return n > below && strcmp(name + n - below, rule + 1) == 0;
	return strcmp(rule, name) == 0;
}

static bool is_in_net(const char *net, const char *address)
{
	struct network_target outer, inner;
	const char *reason;

	assert_int_equal(network_target_parse(net, false, &outer, &reason), 0);
	assert_int_equal(network_target_parse(address, false, &inner, &reason), 0);
	return network_net_is_within(&inner, &outer);
}

static bool has_port(const json_t *ports, int port)
{
	for (size_t i = 0; i < json_array_size(ports); i++)
		if (json_integer_value(json_array_get(ports, i)) == port)
			return true;
	return !ports;
}

/* The rule of a layer that decides; its id, or "default". */
static const char *layer_says(
	const json_t *layer, const char *name, const char *address, int port, bool *ret_allow)
{
	const json_t *rules = json_object_get(layer, "rules");

	for (size_t i = 0; i < json_array_size(rules); i++) {
		const json_t *rule = json_array_get(rules, i);
		const char *host = json_string_value(json_object_get(rule, "host"));
		const char *net = json_string_value(json_object_get(rule, "net"));

		assert_true(!host != !net);
		if (host ? !*name || !host_matches(host, name) : !is_in_net(net, address))
			continue;
		if (!has_port(json_object_get(rule, "ports"), port))
			continue;
		*ret_allow =
			strcmp(json_string_value(json_object_get(rule, "action")), "allow") == 0;
		return json_string_value(json_object_get(rule, "id"));
	}
	*ret_allow = strcmp(json_string_value(json_object_get(layer, "default")), "allow") == 0;
	return "default";
}

/* Whether a layer lets a name resolve. */
static bool layer_answers(const json_t *layer, const char *name)
{
	const json_t *rules = json_object_get(layer, "rules");

	for (size_t i = 0; i < json_array_size(rules); i++) {
		const json_t *rule = json_array_get(rules, i);
		const char *host = json_string_value(json_object_get(rule, "host"));
		const char *net = json_string_value(json_object_get(rule, "net"));

		if (host && host_matches(host, name))
			return true;
		if (net && strcmp(net, "0.0.0.0/0") == 0 && !json_object_get(rule, "ports"))
			return strcmp(json_string_value(json_object_get(rule, "action")),
				       "allow") == 0;
	}
	return strcmp(json_string_value(json_object_get(layer, "default")), "allow") == 0;
}

/* The rule that denies, or "" for a flow that is allowed. target: "ADDRESS:PORT",
 * "NAME=ADDRESS:PORT", or "NAME?" for the question of a name. */
static const char *judge(const json_t *policy, const char *target)
{
	const json_t *layers = json_object_get(policy, "layers");
	char name[160] = "", address[32] = "";
	const char *equals = strchr(target, '='), *colon = strrchr(target, ':');
	size_t n = strcspn(target, "?=");

	if (strchr(target, '?') || equals)
		memcpy(name, target, n);
	if (colon)
		(void)snprintf(address, sizeof(address), "%.*s",
			(int)(colon - (equals ? equals + 1 : target)),
			equals ? equals + 1 : target);
	for (size_t i = 0; i < json_array_size(layers); i++) {
		const json_t *layer = json_array_get(layers, i);
		const char *id = "question";
		bool allow;

		if (colon)
			id = layer_says(layer, name, address, atoi(colon + 1), &allow);
		else
			allow = layer_answers(layer, name);
		if (!allow)
			return id;
	}
	return "";
}

/* --- policy, target, verdict --- */

#define ALL "\"denyOut\": [\"0.0.0.0/0\"]"

static const struct {
	const char *mode;    /* "on", "off", "allow-list", with --egress-allow after blanks */
	const char *network; /* "-" in front: allow_internet_access is false */
	const char *targets; /* each with its verdict: "TARGET" allowed, "TARGET!RULE" denied by */
} verdicts[] = {
	{"on", "{}", "192.0.2.1:80 192.0.2.1:25 x.com? x.com=192.0.2.1:443"},
	{"on", "-{}",
		"192.0.2.1:80!allow_internet_access x.com?!question "
		"x.com=192.0.2.1:443!allow_internet_access"},
	{"on", "{\"denyOut\": [\"192.0.2.0/24\"]}",
		"192.0.2.1:80!denyOut[0] 192.0.3.1:80 x.com? x.com=192.0.2.255:443!denyOut[0] "
		"x.com=192.0.3.0:443"},
	{"on", "{\"denyOut\": [\"192.0.2.7\", \"198.51.100.0/24\"]}",
		"192.0.2.7:1!denyOut[0] 192.0.2.8:1 198.51.100.77:65535!denyOut[1] 198.51.101.0:1"},
	{"on", "{" ALL "}",
		"192.0.2.1:80!denyOut[0] x.com?!question 0.0.0.0:1!denyOut[0] "
		"255.255.255.255:1!denyOut[0]"},
	/* what is allowed beats what is denied, and alone forbids nothing */
	{"on", "{\"allowOut\": [\"192.0.2.1\"]}", "192.0.2.1:80 192.0.2.2:80 x.com?"},
	{"on", "{\"allowOut\": []}", "192.0.2.1:80 x.com?"},
	{"on", "{\"allowOut\": [\"192.0.2.1\"], " ALL "}",
		"192.0.2.1:80 192.0.2.1:22 192.0.2.2:80!denyOut[0] x.com?!question "
		"x.com=192.0.2.1:80"},
	{"on", "{\"allowOut\": [\"192.0.2.1\"], \"denyOut\": [\"192.0.2.0/24\"]}",
		"192.0.2.1:80 192.0.2.2:80!denyOut[0] 192.0.3.2:80 x.com?"},
	{"on", "-{\"allowOut\": [\"192.0.2.0/25\"]}",
		"192.0.2.127:80 192.0.2.128:80!allow_internet_access"},
	{"on", "{\"allowOut\": [\"0.0.0.0/0\"], " ALL "}", "192.0.2.1:80 x.com?"},
	/* names */
	{"on", "{\"allowOut\": [\"x.com\"], " ALL "}",
		"x.com? x.com=192.0.2.1:443 x.com=192.0.2.1:22 y.com?!question a.x.com?!question "
		"xx.com?!question com?!question 192.0.2.1:443!denyOut[0] "
		"y.com=192.0.2.1:443!denyOut[0]"},
	{"on", "{\"allowOut\": [\"X.Com\"], " ALL "}", "x.com? x.com=192.0.2.1:443"},
	{"on", "{\"allowOut\": [\"*.x.com\"], " ALL "}",
		"a.x.com? a.b.x.com? x.com?!question ax.com?!question .x.com?!question "
		"a.x.com.evil?!question a.x.com=192.0.2.1:1 x.com=192.0.2.1:1!denyOut[0]"},
	{"on", "{\"allowOut\": [\"*\"], " ALL "}",
		"x.com? a.b? x.com=192.0.2.1:1 192.0.2.1:1!denyOut[0]"},
	{"on", "-{\"allowOut\": [\"x.com\"]}",
		"x.com? x.com=192.0.2.1:443 y.com?!question 192.0.2.1:1!allow_internet_access"},
	{"on", "{\"allowOut\": [\"x.com\", \"192.0.2.0/24\"], " ALL "}",
		"x.com? y.com?!question 192.0.2.9:1 192.0.3.9:1!denyOut[0] x.com=198.51.100.1:1 "
		"y.com=192.0.2.9:1 y.com=192.0.3.9:1!denyOut[0]"},
	{"on", "{\"allowOut\": [\"x.com\"], \"denyOut\": [\"192.0.2.0/24\", \"0.0.0.0/0\"]}",
		"x.com=192.0.2.1:1 192.0.2.1:1!denyOut[0] 192.0.3.1:1!denyOut[1]"},
	/* ports, of Mayfly's own */
	{"on", "{\"allowOut\": [\"x.com:443\", \"192.0.2.0/24:22\"], " ALL "}",
		"x.com? x.com=198.51.100.1:443 x.com=198.51.100.1:80!denyOut[0] 192.0.2.1:22 "
		"192.0.2.1:23!denyOut[0] y.com?!question y.com=192.0.2.1:22"},
	{"on", "{\"allowOut\": [\"0.0.0.0/0:443\"], " ALL "}",
		"192.0.2.1:443 192.0.2.1:80!denyOut[0] x.com?!question"},
	{"allow-list x.com:22", "{\"allowOut\": [\"x.com:443\"], " ALL "}",
		"x.com? x.com=192.0.2.1:443!default x.com=192.0.2.1:22!denyOut[0]"},
	/* the operator: off is off */
	{"off", "{}", "192.0.2.1:80!default x.com?!question"},
	{"off", "{\"allowOut\": [\"0.0.0.0/0\"]}", "192.0.2.1:80!default x.com?!question"},
	{"off", "{\"allowOut\": [\"*\"], " ALL "}", "x.com=192.0.2.1:80!default x.com?!question"},
	{"off x.com", "{}", "x.com?!question 192.0.2.1:80!default"},
	/* what is listed without the mode changes nothing */
	{"on x.com", "{}", "y.com? 192.0.2.1:80"},
	/* the operator's list, and sandboxes that say nothing */
	{"allow-list", "{}", "192.0.2.1:80!default x.com?!question"},
	{"allow-list x.com", "{}",
		"x.com? x.com=192.0.2.1:22 y.com?!question 192.0.2.1:80!default a.x.com?!question"},
	{"allow-list x.com:443", "{}",
		"x.com? x.com=192.0.2.1:443 x.com=192.0.2.1:80!default x.com=192.0.2.1:22!default"},
	{"allow-list *.x.com *.x.com:80 y.com:22", "{}",
		"a.x.com? a.x.com=192.0.2.1:99 x.com?!question y.com? y.com=192.0.2.1:22 "
		"y.com=192.0.2.1:23!default"},
	{"allow-list 192.0.2.0/24:443 192.0.2.1:80", "{}",
		"192.0.2.7:443 192.0.2.7:80!default 192.0.2.1:80 192.0.3.1:443!default "
		"x.com?!question"},
	{"allow-list 0.0.0.0/0", "{}", "192.0.2.1:80 x.com?"},
	{"allow-list 0.0.0.0/0:443", "{}", "192.0.2.1:443 192.0.2.1:80!default x.com?!question"},
	{"allow-list *:443", "{}",
		"x.com? x.com=192.0.2.1:443 x.com=192.0.2.1:80!default 192.0.2.1:443!default"},
	{"allow-list *:443 0.0.0.0/0:443", "{}",
		"x.com? x.com=192.0.2.1:443 x.com=192.0.2.1:80!default 192.0.2.1:443"},
	/* policies: a layer of their own */
	{"on",
		"{\"policy\": {\"version\": 1, \"default\": \"deny\", \"rules\": [{\"action\": "
		"\"allow\", \"host\": \"x.com\"}, {\"id\": \"net\", \"action\": \"deny\", \"net\": "
		"\"192.0.2.0/24\"}]}}",
		"x.com? x.com=192.0.2.1:1 y.com?!question 192.0.2.1:1!net 192.0.3.1:1!default"},
	{"on",
		"{\"denyOut\": [\"192.0.2.1\"], \"policy\": {\"version\": 1, \"default\": "
		"\"allow\"}}",
		"192.0.2.1:1!denyOut[0] 192.0.2.2:1"},
	{"allow-list y.com",
		"{\"policy\": {\"version\": 1, \"default\": \"deny\", \"rules\": [{\"action\": "
		"\"allow\", \"host\": \"y.com\", \"ports\": [443]}]}}",
		"x.com?!question y.com? y.com=192.0.2.1:443 y.com=192.0.2.1:80!default"},
	/* both: the sandbox only narrows */
	{"allow-list x.com", "{\"allowOut\": [\"y.com\"], " ALL "}",
		"x.com?!question y.com?!question x.com=192.0.2.1:1!denyOut[0] "
		"y.com=192.0.2.1:1!default"},
	{"allow-list *.x.com", "{\"allowOut\": [\"a.x.com\"], " ALL "}",
		"a.x.com? a.x.com=192.0.2.1:1 b.x.com?!question b.x.com=192.0.2.1:1!denyOut[0]"},
	{"allow-list a.x.com", "{\"allowOut\": [\"*.x.com\"], " ALL "}",
		"a.x.com? a.x.com=192.0.2.1:1 b.x.com?!question b.x.com=192.0.2.1:1!default"},
	{"allow-list x.com:443", "{\"allowOut\": [\"x.com\"], " ALL "}",
		"x.com? x.com=192.0.2.1:443 x.com=192.0.2.1:80!default"},
	{"allow-list x.com", "{\"allowOut\": [\"192.0.2.1\"], " ALL "}",
		"x.com?!question x.com=192.0.2.1:1 x.com=192.0.2.2:1!denyOut[0] "
		"192.0.2.1:1!default"},
	{"allow-list x.com", "{\"denyOut\": [\"192.0.2.0/24\"]}",
		"x.com? x.com=192.0.2.1:1!denyOut[0] x.com=192.0.3.1:1 192.0.3.1:1!default"},
	{"allow-list 192.0.2.0/24", "{\"denyOut\": [\"192.0.2.128/25\"]}",
		"192.0.2.1:1 192.0.2.129:1!denyOut[0] 192.0.3.1:1!default"},
	{"allow-list 192.0.2.0/24", "{\"allowOut\": [\"0.0.0.0/0\"]}",
		"192.0.2.1:1 192.0.3.1:1!default"},
	{"allow-list 192.0.2.0/24", "{\"allowOut\": [\"x.com\"], " ALL "}",
		"192.0.2.1:1!denyOut[0] x.com=192.0.2.1:1 x.com=192.0.3.1:1!default "
		"x.com?!question"},
	{"allow-list x.com", "-{}", "x.com?!question x.com=192.0.2.1:1!allow_internet_access"},
	{"allow-list 0.0.0.0/0", "{\"allowOut\": [\"x.com\"], " ALL "}",
		"x.com? x.com=192.0.2.1:1 y.com?!question 192.0.2.1:1!denyOut[0]"},
};

/* The same by the worker's own judge. */
static const char *judge_by_worker(const struct policy *p, const char *target)
{
	static char id[POLICY_ID_MAX + 1];
	char name[160] = "", address[32] = "";
	const char *equals = strchr(target, '='), *colon = strrchr(target, ':');
	struct policy_verdict v;
	uint32_t a = 0;

	if (strchr(target, '?') || equals)
		memcpy(name, target, strcspn(target, "?="));
	if (!colon)
		return policy_judge_name(p, name).allow ? "" : "question";
	(void)snprintf(address, sizeof(address), "%.*s",
		(int)(colon - (equals ? equals + 1 : target)), equals ? equals + 1 : target);
	assert_int_equal(net_parse_address(address, &a), 0);
	v = policy_judge(p, *name ? name : NULL, a, (uint16_t)atoi(colon + 1));
	(void)snprintf(id, sizeof(id), "%s", v.allow ? "" : v.rule); /* fits */
	return id;
}

static unsigned judge_all(const json_t *policy, const char *targets, size_t row)
{
	_cleanup_free_ char *copy = strdup(targets);
	char *save = NULL;
	struct policy *p = NULL;
	struct error e = {0};
	unsigned count = 0;

	if (policy_make((json_t *)policy, &p, &e) < 0)
		fail_msg("row %zu: the worker refuses it: %s", row, e.message);

	for (char *t = strtok_r(copy, " ", &save); t; t = strtok_r(NULL, " ", &save), count++) {
		char *want = strchr(t, '!');
		const char *got;

		if (want)
			*want++ = '\0';
		if (!want)
			want = t + strlen(t);
		got = judge(policy, t);
		if (strcmp(got, judge_by_worker(p, t)) != 0)
			fail_msg("row %zu, target %s: '%s', and the worker '%s'", row, t, got,
				judge_by_worker(p, t));
		if (strcmp(got, want) != 0)
			fail_msg("row %zu: %s %s, target %s: denied by '%s', not '%s'", row,
				verdicts[row].mode, verdicts[row].network, t, got, want);
	}
	policy_free(p);
	return count;
}

static void test_verdicts(void **state)
{
	unsigned count = 0;

	(void)state; /* none */
	for (size_t i = 0; i < ARRAY_SIZE(verdicts); i++) {
		bool none = verdicts[i].network[0] == '-';
		struct network_floor *f = floor_of(verdicts[i].mode);
		json_t *network = parsed(verdicts[i].network + none), *policy;
		struct error e = {0};

		if (network_check(network, none, f, &e) < 0)
			fail_msg("row %zu: %s", i, e.message);
		policy = network_policy(&(struct network_floors){.all = f}, network, none, 1);
		assert_non_null(policy);
		count += judge_all(policy, verdicts[i].targets, i);
		json_decref(policy);
		json_decref(network);
		network_floor_free(f);
	}
	print_message("%u verdicts\n", count);
}

/* --- floors of keys and templates --- */

/* Whose rule denies; "" if nothing does. */
static void test_floors_narrow(void **state)
{
	static const struct {
		const char *mode, *key, *template, *network;
		const char *targets; /* as of the verdicts */
	} rows[] = {
		{"on", NULL, NULL, "null", "192.0.2.1:80 a.com?=192.0.2.1:80"},
		{"on", "", "", "null", "192.0.2.1:80"},
		{"on", "off", NULL, "null", "192.0.2.1:80!key"},
		{"on", NULL, "off", "null", "192.0.2.1:80!template"},
		{"on", "192.0.2.0/24", NULL, "null", "192.0.2.1:80 203.0.113.1:80!key"},
		{"on", "192.0.2.0/24:80 *.a.com", NULL, "null",
			"192.0.2.1:80 192.0.2.1:81!key x.a.com=203.0.113.1:9 "
			"b.com=203.0.113.1:9!key"},
		{"on", "192.0.2.0/24", "192.0.2.0/25", "null",
			"192.0.2.1:80 192.0.2.200:80!template 203.0.113.1:80!key"},
		{"on", "192.0.2.0/25", "off", "null", "192.0.2.1:80!template"},
		{"on", "192.0.2.0/24", NULL,
			"{\"allowOut\": [\"203.0.113.1\"], \"denyOut\": [\"0.0.0.0/0\"]}",
			"192.0.2.1:80!denyOut[0] 203.0.113.1:80!key"},
		{"off", "0.0.0.0/0", "0.0.0.0/0", "null", "192.0.2.1:80!default"},
		{"on", "nonsense..", NULL, "null", "192.0.2.1:80!key"},
	};

	(void)state; /* none */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct network_floor *f = floor_of(rows[i].mode);
		const struct network_floors floors = {f, rows[i].key, rows[i].template};
		json_t *network = json_loads(rows[i].network, JSON_DECODE_ANY, NULL);
		json_t *policy = network_policy(&floors, network, false, 1);
		_cleanup_free_ char *copy = strdup(rows[i].targets);
		char *save = NULL;
		struct policy *p = NULL;
		struct error e = {0};

		assert_int_equal(policy_make(policy, &p, &e), 0);
		for (char *t = strtok_r(copy, " ", &save); t; t = strtok_r(NULL, " ", &save)) {
			char *want = strchr(t, '!');

			if (want)
				*want++ = '\0';
			if (strcmp(judge_by_worker(p, t), want ? want : "") != 0)
				fail_msg("row %zu: %s: '%s'", i, t, judge_by_worker(p, t));
		}
		policy_free(p);
		json_decref(policy);
		json_decref(network);
		network_floor_free(f);
	}
}

/* A proxy of the client's is judged by all floors, and not by the client's own rules. */
static void test_floors_judge_proxies(void **state)
{
	struct network_floor *f = floor_of("allow-list");
	json_t *network = parsed("{\"egressProxy\": {\"address\": \"192.0.2.1:1080\"}}");
	const struct {
		struct network_floors floors;
		unsigned layers;
	} rows[] = {{{NULL, NULL, NULL}, 0}, {{f, NULL, NULL}, 1}, {{NULL, "off", "off"}, 2},
		{{f, "a.com", "b.com"}, 3}};

	(void)state; /* none */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		json_t *policy = network_policy(&rows[i].floors, network, false, 1);
		const json_t *proxy = json_array_get(json_object_get(policy, "proxies"), 0);

		assert_int_equal(
			json_integer_value(json_object_get(proxy, "layers")), rows[i].layers);
		assert_int_equal(
			json_array_size(json_object_get(policy, "layers")), rows[i].layers + 1);
		json_decref(policy);
	}
	json_decref(network);
	network_floor_free(f);
}

/* Who is asked: 'c' the client's resolver, 'o' the operator's, '-' nobody. */
static void test_floors_judge_resolvers(void **state)
{
#define NAMES                                                                                      \
	"{\"version\":1,\"default\":\"allow\",\"rules\":[{\"id\":\"n\",\"action\":\"allow\","      \
	"\"host\":\"a.com\"}]}"
#define WATCHES                                                                                    \
	"{\"version\":1,\"mode\":\"observe\",\"default\":\"deny\",\"rules\":[{\"id\":\"n\","       \
	"\"action\":\"allow\",\"host\":\"a.com\"}]}"
#define REFUSES                                                                                    \
	"{\"version\":1,\"default\":\"allow\",\"rules\":[{\"id\":\"n\",\"action\":\"deny\","       \
	"\"net\":\"6.6.6.0/24\"}]}"
#define ASKS                                                                                       \
	"{\"version\":1,\"default\":\"allow\",\"rules\":[{\"id\":\"n\",\"action\":\"ask\","        \
	"\"net\":\"6.6.6.0/24\"}]}"
#define REQUEST                                                                                    \
	"{\"version\":1,\"default\":\"allow\",\"rules\":[{\"id\":\"n\",\"action\":\"deny\","       \
	"\"methods\":[\"PUT\"]}]}"
	static const struct {
		const char *mode; /* the operator's, with its list */
		const char *key, *template;
		char asked;
	} rows[] = {
		{"on", NULL, NULL, 'c'},
		{"on", "", "", 'c'},
		{"allow-list a.com", NULL, NULL, 'o'},
		{"allow-list a.com 6.6.6.6:443", NULL, NULL, 'o'},
		{"allow-list a.com 6.6.6.6:53", NULL, NULL, 'c'},
		{"allow-list a.com 6.6.6.6", NULL, NULL, 'c'},
		{"allow-list a.com 6.6.6.0/24", NULL, NULL, 'c'},
		{"allow-list a.com 0.0.0.0/0", NULL, NULL, 'o'},
		{"allow-list a.com 0.0.0.0/0:53", NULL, NULL, 'c'},
		{"allow-list a.com 6.6.7.0/24", NULL, NULL, 'o'},
		{"allow-list *", NULL, NULL, 'o'},
		{"allow-list 0.0.0.0/0", NULL, NULL, 'c'}, /* it has no names */
		{"allow-list 192.0.2.0/24", NULL, NULL, 'o'},
		{"on", "a.com", NULL, 'o'},
		{"on", "*", NULL, 'o'},
		{"on", "*,6.6.6.6:53", NULL, 'c'},
		{"on", NULL, "a.com", 'o'},
		{"on", NULL, "a.com,6.6.6.6:53", 'c'},
		{"on", "off", NULL, 'o'},
		{"on", "nonsense..", NULL, 'o'},
		{"allow-list a.com 6.6.6.6:53", "a.com", NULL, 'o'},
		{"allow-list a.com 6.6.6.6:53", "6.6.6.6:53,a.com", "a.com", 'o'},
		{"allow-list a.com 6.6.6.6:53", "6.6.6.6:53,a.com", "6.6.6.0/25,a.com", 'c'},
		{"on", NAMES, NULL, 'o'}, /* a default is not enough */
		{"on", NULL, WATCHES, 'c'},
		{"on", REFUSES, NULL, 'o'},
		{"on", ASKS, NULL, 'o'},
		{"on", REQUEST, NULL, 'o'},
	};

	(void)state; /* none */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct network_floor *f = floor_of(rows[i].mode);
		const struct network_floors floors = {f, rows[i].key, rows[i].template};
		json_t *network = parsed("{\"dnsServers\": [\"6.6.6.6\"]}");
		json_t *policy = network_policy(&floors, network, false, 1);
		json_t *dns = json_object_get(policy, "dns");
		bool given = json_is_true(json_object_get(policy, "dnsGiven"));
		const char *first = json_string_value(json_array_get(dns, 0));
		struct error e = {0};
		bool checked = network_check(network, false, f, &e) == 0;

		assert_int_equal(json_array_size(dns), 1);
		if (strcmp(first, rows[i].asked == 'c' ? "6.6.6.6" : "8.8.8.8") != 0 ||
			given != (rows[i].asked == 'c'))
			fail_msg("row %zu: %s is asked, given %d", i, first, given);
		if (!rows[i].key && !rows[i].template && checked != (rows[i].asked == 'c'))
			fail_msg("row %zu: checked %d: %s", i, checked, e.message);
		json_decref(policy);
		json_decref(network);
		network_floor_free(f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_floors_narrow),
		cmocka_unit_test(test_floors_judge_proxies),
		cmocka_unit_test(test_floors_judge_resolvers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
