/* src/policy/network_*: what clients and the operator may say about a network, and what the
 * worker is told of it. test_network_verdicts.c has what that lets through. */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/net.h"
#include "egress/policy.h"
#include "network_fixture.h"
#include "policy/network_check.h"
#include "policy/network_floor.h"
#include "policy/network_floor_json.h"
#include "policy/network_list.h"
#include "policy/network_policy.h"
#include "policy/network_rules.h"
#include "policy/network_shown.h"

#define NEEDS_ALL                                                                                  \
	"When specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' in deny "    \
	"out to block all other traffic."

/* --- targets --- */

static void test_targets(void **state)
{
	static const struct {
		const char *text;
		bool port;
		const char *want; /* "HOST:PORT", "NET:PORT", or a piece of the reason with '!' */
	} rows[] = {
		{"example.com", false, "example.com:0"},
		{"EXAMPLE.Com", false, "example.com:0"},
		{"*.example.com", false, "*.example.com:0"},
		{"*", false, "*:0"},
		{"a_b.c-d.e1", false, "a_b.c-d.e1:0"},
		{"localhost", false, "localhost:0"},
		{"xn--bcher-kva.example", false, "xn--bcher-kva.example:0"},
		{"example.com:443", true, "example.com:443"},
		{"*:80", true, "*:80"},
		{"192.0.2.1", false, "192.0.2.1/32:0"},
		{"192.0.2.9/24", false, "192.0.2.0/24:0"},
		{"0.0.0.0/0", false, "0.0.0.0/0:0"},
		{"192.0.2.1:53", true, "192.0.2.1/32:53"},
		{"10.0.0.0/8:65535", true, "10.0.0.0/8:65535"},
		{"", false, "!empty"},
		{"example.com:443", false, "!port cannot"},
		{"example.com:0", true, "!1 to 65535"},
		{"example.com:65536", true, "!1 to 65535"},
		{"example.com:", true, "!1 to 65535"},
		{"example.com:x", true, "!1 to 65535"},
		{":80", true, "!no IPv4"},
		{"::1", true, "!IPv6"},
		{"[::1]:80", true, "!IPv6"},
		{"2001:db8::/32", false, "!IPv6"},
		{"192.0.2.1/33", false, "!0 to 32"},
		{"192.0.2.1/", false, "!0 to 32"},
		{"192.0.2.1/-1", false, "!0 to 32"},
		{"192.0.2.1/2/3", false, "!0 to 32"},
		{"192.0.2", false, "!no IPv4"},
		{"192.0.2.256", false, "!no IPv4"},
		{"192.0.2.01", false, "!no IPv4"},
		{"1.2.3.4.5", false, "!no IPv4"},
		{"example.com/24", false, "!no IPv4"},
		{"0x7f000001", false, "!no host name"},
		{"example.1", false, "!no host name"},
		{"example..com", false, "!no host name"},
		{".example.com", false, "!no host name"},
		{"example.com.", false, "!no host name"},
		{"-a.com", false, "!no host name"},
		{"a-.com", false, "!no host name"},
		{"a b", false, "!no host name"},
		{"*.*.com", false, "!no host name"},
		{"*a.com", false, "!no host name"},
		{"a.*.com", false, "!no host name"},
		{"*.", false, "!empty"},
		{"b\xc3\xbc"
		 "cher.example",
			false, "!xn--"},
		{"https://example.com", true, "!it is a URL"},
		{"a/b", false, "!0 to 32"},
		{"user@example.com", false, "!no host name"},
		{"a123456789012345678901234567890123456789012345678901234567890123.x", false,
			"!no host name"},
	};

	(void)state; /* none */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char got[NETWORK_HOST_MAX + 16], net[NETWORK_NET_BYTES];
		struct network_target t;
		const char *reason = "";
		int r = network_target_parse(rows[i].text, rows[i].port, &t, &reason);

		if (rows[i].want[0] == '!') {
			assert_int_equal(r, -EINVAL);
			if (!strstr(reason, rows[i].want + 1))
				fail_msg("%s: %s", rows[i].text, reason);
			continue;
		}
		if (r < 0)
			fail_msg("%s: %s", rows[i].text, reason);
		(void)snprintf(got, sizeof(got), "%s:%u",
			t.host[0] ? t.host : network_net_text(&t, net), t.port);
		assert_string_equal(got, rows[i].want);
	}
}

static void test_names_have_a_maximum(void **state)
{
	char name[NETWORK_HOST_MAX + 2], lower[NETWORK_HOST_MAX + 1];
	struct network_target t;
	const char *reason;

	(void)state; /* none */
	for (size_t i = 0; i < sizeof(name) - 1; i++)
		name[i] = i % 32 == 31 ? '.' : 'A';
	name[NETWORK_HOST_MAX + 1] = '\0';
	name[NETWORK_HOST_MAX - 1] = 'A';
	assert_int_equal(network_target_parse(name, false, &t, &reason), -EINVAL);
	assert_non_null(strstr(reason, "128"));
	assert_int_equal(network_name_parse(name, lower, &reason), -EINVAL);
	name[NETWORK_HOST_MAX] = '\0';
	assert_int_equal(network_target_parse(name, false, &t, &reason), 0);
	assert_int_equal(strlen(t.host), NETWORK_HOST_MAX);
	assert_int_equal(network_name_parse(name, lower, &reason), 0);
	assert_string_equal(lower, t.host);
}

/* --- what clients say --- */

static void check(const char *text, bool no_internet, const char *want)
{
	struct network_floor *f = floor_new();
	struct error e = {0};
	json_t *network = parsed(text);
	int r;

	assert_int_equal(network_floor_allow_private(f, "10.1.0.0/16", &e), 0);
	r = network_check(network, no_internet, f, &e);
	if (!want && r < 0)
		fail_msg("%s: %s", text, e.message);
	if (want && (r == 0 || !strstr(e.message, want)))
		fail_msg("%s: '%s', not '%s'", text, e.message, want);
	json_decref(network);
	network_floor_free(f);
}

static void test_checks(void **state)
{
	static const struct {
		const char *text, *want; /* NULL: accepted */
	} rows[] = {
		{NULL, NULL},
		{"{}", NULL},
		{"{\"unknown\": {}}", NULL},
		{"{\"allowOut\": null, \"denyOut\": null, \"dnsServers\": null}", NULL},
		{"{\"allowOut\": [], \"denyOut\": [], \"dnsServers\": []}", NULL},
		{"{\"allowOut\": [\"192.0.2.1\", \"203.0.113.0/24\", \"0.0.0.0/0\"]}", NULL},
		{"{\"allowOut\": \"x\"}", "allowOut must be an array"},
		{"{\"allowOut\": [7]}", "allowOut[0] must be a string"},
		{"{\"allowOut\": [\"192.0.2.1\", \"::1\"]}", "allowOut[1] '::1': IPv6"},
		{"{\"allowOut\": [\"192.0.2.1:80\", \"192.0.2.0/24:443\"]}", NULL},
		{"{\"allowOut\": [\"192.0.2.1:x\"]}", "allowOut[0] '192.0.2.1:x': the port"},
		{"{\"allowOut\": [\"10.0.0.1:80\"]}", "allowOut[0] '10.0.0.1:80': private"},
		{"{\"denyOut\": [\"192.0.2.1:80\"]}", "denyOut[0] '192.0.2.1:80': a port"},
		{"{\"allowOut\": [\"10.0.0.1\"]}", "allowOut[0] '10.0.0.1': private"},
		{"{\"allowOut\": [\"10.1.2.3\"]}", NULL}, /* the operator opened it */
		{"{\"allowOut\": [\"10.1.0.0/15\"]}", "allowOut[0] '10.1.0.0/15': private"},
		{"{\"allowOut\": [\"127.0.0.1\"]}", "private"},
		{"{\"allowOut\": [\"169.254.169.254\"]}", "private"},
		{"{\"allowOut\": [\"168.63.129.16\"]}", "private"},
		{"{\"allowOut\": [\"192.0.0.192\"]}", "private"},
		{"{\"allowOut\": [\"100.100.100.200\"]}", "private"},
		{"{\"allowOut\": [\"172.31.255.255\"]}", "private"},
		{"{\"allowOut\": [\"172.32.0.0\"]}", NULL},
		{"{\"allowOut\": [\"192.168.0.0/16\"]}", "private"},
		{"{\"allowOut\": [\"198.18.0.1\"]}", "private"},
		{"{\"allowOut\": [\"224.0.0.1\"]}", "private"},
		{"{\"allowOut\": [\"0.0.0.0\"]}", "private"},
		{"{\"allowOut\": [\"example.com\"]}", NEEDS_ALL},
		{"{\"allowOut\": [\"example.com\"], \"denyOut\": [\"0.0.0.0/1\"]}", NEEDS_ALL},
		{"{\"allowOut\": [\"*\"]}", NEEDS_ALL},
		{"{\"allowOut\": [\"Example.com\", \"*.x.org\"], \"denyOut\": [\"0.0.0.0/0\"]}",
			NULL},
		{"{\"allowOut\": [\"exa mple\"], \"denyOut\": [\"0.0.0.0/0\"]}", "no host name"},
		{"{\"denyOut\": [\"example.com\"]}", "denyOut[0]: invalid denied CIDR example.com"},
		{"{\"denyOut\": [\"*\"]}", "invalid denied CIDR *"},
		{"{\"denyOut\": [\"0.0.0.0/0\", \"::/0\", \"2001:db8::1\", \"::ffff:0:0/95\"]}",
			NULL},
		{"{\"denyOut\": [\"::/0\"], \"allowOut\": [\"x.com\"]}", NEEDS_ALL},
		{"{\"denyOut\": [\"::1\", \"::g\"]}", "denyOut[1] '::g': it is no IPv6 address"},
		{"{\"denyOut\": [\"[::1]\"]}", "denyOut[0] '[::1]': it is no IPv6 address"},
		{"{\"denyOut\": [\"::1%lo\"]}", "it is no IPv6 address"},
		{"{\"denyOut\": [\"::/129\"]}", "denyOut[0] '::/129': the number"},
		{"{\"denyOut\": [\"::/\"]}", "denyOut[0] '::/': the number"},
		{"{\"denyOut\": [\"::ffff:8.8.8.8\"]}", "it stands for IPv4 addresses"},
		{"{\"denyOut\": [\"::ffff:0:0/96\"]}", "it stands for IPv4 addresses"},
		{"{\"denyOut\": [\"192.0.2.0/24\", \"10.0.0.0/8\", \"8.8.8.8\"]}", NULL},
		{"{\"denyOut\": [\"8.8.8.8/40\"]}", "denyOut[0] '8.8.8.8/40': the number"},
		{"{\"denyOut\": {}}", "denyOut must be an array"},
		{"{\"dnsServers\": [\"1.1.1.1\", \"9.9.9.9\"]}", NULL},
		{"{\"dnsServers\": [\"10.1.0.53\"]}", NULL},
		{"{\"dnsServers\": [\"127.0.0.53\"]}", "dnsServers[0] '127.0.0.53': private"},
		{"{\"dnsServers\": [\"1.1.1.0/24\"]}", "dnsServers[0] '1.1.1.0/24': it is no IPv4"},
		{"{\"dnsServers\": [\"dns.example\"]}", "dnsServers[0] 'dns.example'"},
		{"{\"dnsServers\": [1]}", "dnsServers[0] must be a string"},
		{"{\"dnsServers\": [\"1.1.1.1\",\"1.1.1.1\",\"1.1.1.1\",\"1.1.1.1\",\"1.1.1.1\","
		 "\"1.1.1.1\",\"1.1.1.1\",\"1.1.1.1\",\"1.1.1.1\",\"1.1.1.1\",\"1.1.1.1\"]}",
			"dnsServers has more than 10"},
		{"{\"httpsPorts\": [443, 8443]}", NULL},
		{"{\"httpsPorts\": [0]}", "httpsPorts[0] must be a port"},
		{"{\"httpsPorts\": [65536]}", "httpsPorts[0] must be a port"},
		{"{\"httpsPorts\": [\"443\"]}", "httpsPorts[0] must be a port"},
		{"{\"httpsPorts\": [49983]}", "httpsPorts[0]: 49983"},
		{"{\"maskRequestHost\": \"localhost:${PORT}\"}", NULL},
		{"{\"maskRequestHost\": 7}", "maskRequestHost must be a host name"},
		{"{\"maskRequestHost\": \"a\\r\\nb\"}", "maskRequestHost must be a host name"},
		{"{\"maskRequestHost\": \"\"}", NULL},
		{"{\"maskRequestHost\": \"${PORT}.${PORT}.x:${PORT}\"}", NULL},
		{"{\"maskRequestHost\": \"a b\"}", "maskRequestHost must be a host name"},
		{"{\"maskRequestHost\": \"http://a\"}", "maskRequestHost must be a host name"},
		{"{\"maskRequestHost\": \"b\\u00fccher\"}", "maskRequestHost must be a host name"},
		{"{\"allowOut\": [\"*.mayfly.internal\", \"80-x.mayfly.internal:80\"]}", NULL},
		{"{\"allowOut\": [\"mayfly.internal\"]}", NEEDS_ALL},
		{"{\"allowIn\": null}", NULL},
		{"{\"allowIn\": [\"*\", \"*:80\", \"web-1:65535\", \"i0a_Z\"]}", NULL},
		{"{\"allowIn\": \"*\"}", "allowIn must be an array"},
		{"{\"allowIn\": [\"*\", 1]}", "allowIn[1] must be a string"},
		{"{\"allowIn\": [\"\"]}", "allowIn[0] '': it is neither"},
		{"{\"allowIn\": [\"a b\"]}", "allowIn[0] 'a b': it is neither"},
		{"{\"allowIn\": [\"*a\"]}", "allowIn[0] '*a': it is neither"},
		{"{\"allowIn\": [\":80\"]}", "allowIn[0] ':80': it is neither"},
		{"{\"allowIn\": [\"*:\"]}", "allowIn[0] '*:': the port"},
		{"{\"allowIn\": [\"*:80:81\"]}", "allowIn[0] '*:80:81': the port"},
		{"{\"allowPublicTraffic\": null}", NULL},
		{"{\"allowPublicTraffic\": 0}", "allowPublicTraffic must be true or false"},
	};

	(void)state; /* none */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(rows[i].text, false, rows[i].want);
	check("{\"allowOut\": [\"example.com\"]}", true, NULL); /* it denies the rest */
}

static void test_checks_of_rules(void **state)
{
#define RULE(headers) "{\"rules\": {\"api.x.com\": [{\"transform\": {\"headers\": " headers "}}]}}"
	static const struct {
		const char *text, *want;
	} rows[] = {
		{RULE("{\"A\": \"Bearer ${e2b.secrets.openai}\"}"), NULL},
		{RULE("{\"A\": \"${e2b.identity.tokens.x} ${e2b.secrets.b} ${HOME} $ {\"}"), NULL},
		{RULE("{\"A\": \"${e2b.identity.tokens.the other.1}\"}"), NULL},
		{RULE("{\"A\": \"${e2b.identity.tokens.}\"}"), "must have 1 to 64 bytes"},
		{RULE("{}"), NULL},
		{RULE("null"), NULL},
		{"{\"rules\": null}", NULL},
		{"{\"rules\": {\"*.x.com\": [], \"X.com\": [{}]}}", NULL},
		{"{\"rules\": []}", "rules must be an object"},
		{"{\"rules\": {\"*\": []}}", "rules['*']: must be a name"},
		{"{\"rules\": {\"192.0.2.1\": []}}", "rules['192.0.2.1']: must be a name"},
		{"{\"rules\": {\"a b\": []}}", "rules['a b']: it is no host name"},
		{"{\"rules\": {\"\": []}}", "rules['']: it is empty"},
		{"{\"rules\": {\"x.com\": [], \"X.COM\": []}}", "the same name"},
		{"{\"rules\": {\"x.com\": {}}}", "must be an array"},
		{"{\"rules\": {\"x.com\": [{}, {}]}}", "more than one rule"},
		{"{\"rules\": {\"x.com\": [7]}}", "a rule must be an object"},
		{"{\"rules\": {\"x.com\": [{\"transform\": []}]}}", "transform must be an object"},
		{RULE("[]"), "headers must be an object"},
		{RULE("{\"A B\": \"x\"}"), "name of a header"},
		{RULE("{\"\": \"x\"}"), "name of a"},
		{RULE("{\"A\": 7}"), "the value of 'A'"},
		{RULE("{\"A\": \"x\\ny\"}"), "value of 'A'"},
		{RULE("{\"A\": \"x\", \"a\": \"y\"}"), "'a': the same name"},
		{RULE("{\"Content-Length\": \"1\"}"), "'Content-Length' cannot be set"},
		{RULE("{\"HOST\": \"x\"}"), "'HOST' cannot be set"},
		{RULE("{\"A\": \"${e2b.secrets.x\"}"), "a placeholder does not end"},
		{RULE("{\"A\": \"${e2b.secrets.}\"}"), "the name in a placeholder"},
		{RULE("{\"A\": \"${e2b.secrets.a.b}\"}"), "the name in a placeholder"},
		{RULE("{\"A\": \"${e2b.secrets.${e2b.secrets.a}}\"}"), "placeholder is in another"},
		{RULE("{\"A\": \"${e2b.other}\"}"), "a placeholder is neither"},
		{"{\"egressProxy\": null}", NULL},
		{"{\"egressProxy\": {\"address\": \"proxy.x.com:1080\"}}", NULL},
		{"{\"egressProxy\": {\"address\": \"192.0.2.1:1080\", \"username\": \"u\","
		 "\"password\": \"p\", \"tls\": {\"enabled\": true, \"serverName\": \"x\"}}}",
			NULL},
		{"{\"egressProxy\": {\"address\": \"192.0.2.1:1\", \"tls\": {\"enabled\": false}}}",
			NULL},
		{"{\"egressProxy\": []}", "egressProxy must be an object"},
		{"{\"egressProxy\": {}}", "egressProxy.address must be HOST:PORT"},
		{"{\"egressProxy\": {\"address\": \"x.com\"}}", "egressProxy.address must be"},
		{"{\"egressProxy\": {\"address\": \"*.x.com:1\"}}", "egressProxy.address must be"},
		{"{\"egressProxy\": {\"address\": \"192.0.2.0/24:1\"}}",
			"egressProxy.address must"},
		{"{\"egressProxy\": {\"address\": \"x.com:1\", \"password\": \"p\"}}",
			"egressProxy.password needs"},
		{"{\"egressProxy\": {\"address\": \"x.com:1\", \"username\": \"\"}}",
			"egressProxy.username must be"},
		{"{\"egressProxy\": {\"address\": \"x.com:1\", \"tls\": {}}}",
			"egressProxy.tls.enabled must be"},
		{"{\"egressProxy\": {\"address\": \"x.com:1\", \"tls\": {\"enabled\": false, "
		 "\"serverName\": \"x\"}}}",
			"egressProxy.tls: with enabled false"},
		{"{\"egressProxy\": {\"address\": \"x.com:1\", \"tls\": {\"enabled\": true, "
		 "\"caCert\": 7}}}",
			"egressProxy.tls.caCert must be"},
	};

	(void)state; /* none */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(rows[i].text, false, rows[i].want);
}

/* {"<before>0<after>", ...} */
static json_t *many(unsigned count, const char *before, const char *after, json_t *value)
{
	json_t *o = json_object();

	for (unsigned i = 0; i < count; i++) {
		char name[256];

		(void)snprintf(name, sizeof(name), "%s%u%s", before, i, after); /* fits */
		assert_int_equal(json_object_set(o, name, value), 0);
	}
	json_decref(value);
	return o;
}

static void expect_rules(json_t *rules, const char *want)
{
	struct error e = {0};
	int r = network_rules_check(rules, &e);

	if (want ? r == 0 || !strstr(e.message, want) : r < 0)
		fail_msg("'%s', not '%s'", e.message, want ? want : "");
	json_decref(rules);
}

static json_t *rule_with(json_t *headers)
{
	return json_pack("{s:[{s:{s:o}}]}", "x.com", "transform", "headers", headers);
}

static void test_limits_of_rules(void **state)
{
	char long_text[NETWORK_HEADER_VALUE_MAX + 2] = "";
	json_t *secrets = json_object();

	(void)state; /* none */
	memset(long_text, 'a', sizeof(long_text) - 1);
	expect_rules(many(NETWORK_RULES_MAX, "x", ".com", json_array()), NULL);
	expect_rules(
		many(NETWORK_RULES_MAX + 1, "x", ".com", json_array()), "more than 10 domains");
	expect_rules(rule_with(many(NETWORK_HEADERS_MAX, "X-", "", json_string("v"))), NULL);
	expect_rules(rule_with(many(NETWORK_HEADERS_MAX + 1, "X-", "", json_string("v"))),
		"more than 20 headers");
	expect_rules(rule_with(json_pack("{s:s}", "A", long_text)), "at most 2048");
	long_text[NETWORK_HEADER_VALUE_MAX] = '\0';
	expect_rules(rule_with(json_pack("{s:s}", "A", long_text)), NULL);
	long_text[NETWORK_HEADER_NAME_MAX + 1] = '\0';
	expect_rules(rule_with(json_pack("{s:s}", long_text, "v")), "at most 64");
	long_text[NETWORK_HEADER_NAME_MAX] = '\0';
	expect_rules(rule_with(json_pack("{s:s}", long_text, "v")), NULL);
	for (unsigned i = 0; i <= NETWORK_SECRETS_MAX; i++) {
		char name[16], value[64];

		(void)snprintf(name, sizeof(name), "X-%u", i / 2); /* fits, as all here */
		(void)snprintf(value, sizeof(value), "${e2b.secrets.n%u} ${e2b.secrets.N%u}",
			i & ~1u, i | 1u);
		(void)json_object_set_new(secrets, name, json_string(value));
	}
	expect_rules(rule_with(json_incref(secrets)), "more than 32 secrets");
	(void)json_object_del(secrets, "X-16");
	expect_rules(rule_with(secrets), NULL);
}

static void test_limits_of_lists(void **state)
{
	json_t *list = json_array(), *network;
	struct error e = {0};

	(void)state; /* none */
	for (unsigned i = 0; i < NETWORK_TARGETS_MAX; i++)
		(void)json_array_append_new(list, json_string("192.0.2.1"));
	network = json_pack("{s:O, s:O}", "allowOut", list, "denyOut", list);
	assert_int_equal(network_check(network, false, NULL, &e), 0);
	(void)json_array_append_new(list, json_string("192.0.2.1"));
	assert_true(network_check(network, false, NULL, &e) < 0);
	assert_int_equal(e.code, ERROR_LIMIT);
	assert_string_equal(e.message, "denyOut has more than 256 entries");
	json_decref(list);
	json_decref(network);
}

/* --- what the operator says --- */

static const char *temporary(const char *text)
{
	static char path[] = "/tmp/test-network-XXXXXX";
	int fd;

	memcpy(path + sizeof(path) - 7, "XXXXXX", 6);
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd); /* it was read back by name below */
	return path;
}

static void test_floor(void **state)
{
	struct network_floor *f = floor_new();
	struct error e = {0};

	(void)state; /* none */
	assert_int_equal(network_floor_set_mode(f, "allow-list", &e), 0);
	assert_int_equal(f->mode, NETWORK_ALLOW_LIST);
	assert_int_equal(network_floor_set_mode(f, "off", &e), 0);
	assert_int_equal(f->mode, NETWORK_OFF);
	assert_true(network_floor_set_mode(f, "maybe", &e) < 0);
	assert_non_null(strstr(e.message, "'maybe'"));
	error_clear(&e);
	assert_true(network_floor_allow(f, "a b:80", &e) < 0);
	assert_non_null(strstr(e.message, "--egress-allow: 'a b:80'"));
	error_clear(&e);
	assert_true(network_floor_allow_private(f, "intern.example", &e) < 0);
	assert_non_null(strstr(e.message, "--egress-allow-private: 'intern.example'"));
	error_clear(&e);
	for (unsigned i = 0; i < NETWORK_PRIVATE_MAX; i++)
		assert_int_equal(network_floor_allow_private(f, "10.0.0.0/8", &e), 0);
	assert_true(network_floor_allow_private(f, "10.0.0.0/8", &e) < 0);
	assert_int_equal(e.code, ERROR_LIMIT);
	error_clear(&e);
	for (unsigned i = 0; i < NETWORK_ALLOW_MAX; i++)
		assert_int_equal(network_floor_allow(f, "x.com:80", &e), 0);
	assert_true(network_floor_allow(f, "x.com", &e) < 0);
	assert_int_equal(e.code, ERROR_LIMIT);
	network_floor_free(f);
	network_floor_free(NULL);
}

static void test_hosts(void **state)
{
	static const struct {
		const char *text, *want; /* an error, or the JSON */
	} rows[] = {
		{"# nothing\n\n \t\r\n", "[]"},
		{"127.0.0.1:8443 API.test\talias.test # ours\r\n10.0.0.1 db",
			"[{\"name\":\"api.test\",\"address\":\"127.0.0.1\",\"port\":8443},"
			"{\"name\":\"alias.test\",\"address\":\"127.0.0.1\",\"port\":8443},"
			"{\"name\":\"db\",\"address\":\"10.0.0.1\"}]"},
		{"127.0.0.1\n", "line 1: no name follows"},
		{"\n127.0.0.1 # x\n", "line 2: no name follows"},
		{"127.0.0.1 a\n::1 localhost\n", "line 2: '::1': IPv6"},
		{"example.com b\n", "line 1: 'example.com': it must be ADDRESS"},
		{"127.0.0.0/8 b\n", "line 1: '127.0.0.0/8': it must be ADDRESS"},
		{"127.0.0.1:0 b\n", "line 1: '127.0.0.1:0': the port"},
		{"127.0.0.1 *.b\n", "line 1: '*.b': it is no host name"},
		{"127.0.0.1 b\n127.0.0.2 B\n", "line 2: 'b' was there before"},
	};

	(void)state; /* none */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct network_floor *f = floor_new();
		struct error e = {0};
		const char *path = temporary(rows[i].text);
		int r = network_floor_read_hosts(f, path, &e);
		char *got = json_dumps(f->hosts, JSON_COMPACT);

		if (rows[i].want[0] == '[')
			assert_int_equal(r, 0);
		else
			assert_true(r < 0 && strstr(e.message, path));
		if (!strstr(r < 0 ? e.message : got, rows[i].want))
			fail_msg("%s: %s %s", rows[i].want, e.message, got);
		free(got);
		(void)unlink(path); /* ours */
		network_floor_free(f);
	}
}

static void test_too_many_hosts(void **state)
{
	struct network_floor *f = floor_new();
	struct error e = {0};
	char *text = calloc(1, 32 * (NETWORK_HOSTS_MAX + 1));
	const char *path;

	(void)state; /* none */
	for (unsigned i = 0; i <= NETWORK_HOSTS_MAX; i++)
		(void)sprintf(text + strlen(text), "127.0.0.1 h%u\n", i); /* 32 bytes are enough */
	path = temporary(text);
	assert_true(network_floor_read_hosts(f, path, &e) < 0);
	assert_int_equal(e.code, ERROR_LIMIT);
	assert_non_null(strstr(e.message, "line 257: more than 256 names"));
	(void)unlink(path); /* ours */
	error_clear(&e);
	assert_true(network_floor_read_hosts(f, "/nonexistent", &e) < 0);
	assert_non_null(strstr(e.message, "cannot read /nonexistent"));
	free(text);
	network_floor_free(f);
}

static void test_roots(void **state)
{
	struct network_floor *f = floor_new();
	struct error e = {0};
	const char *path = temporary("no certificate\n");

	(void)state; /* none */
	assert_true(network_floor_set_roots(f, path, &e) < 0);
	assert_non_null(strstr(e.message, "has no certificate: give one in PEM"));
	assert_null(f->roots);
	(void)unlink(path); /* ours */
	error_clear(&e);
	assert_true(network_floor_set_roots(f, "/nonexistent", &e) < 0);
	assert_non_null(strstr(e.message, "--egress-roots: cannot read /nonexistent"));
	path = temporary("-----BEGIN CERTIFICATE-----\n");
	assert_int_equal(network_floor_set_roots(f, path, &e), 0);
	assert_int_equal(f->roots[0], '/');
	(void)unlink(path); /* ours */
	network_floor_free(f);
}

static void test_resolvers(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{"", "[\"8.8.8.8\"]"},
		{"search x\nnameserver ::1\n", "[\"8.8.8.8\"]"},
		{"# x\nnameserver 127.0.0.53 \noptions edns0\n  nameserver\t192.0.2.53",
			"[\"127.0.0.53\",\"192.0.2.53\"]"},
		{"nameservers 192.0.2.1\nnameserver x\n", "[\"8.8.8.8\"]"},
	};

	(void)state; /* none */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct network_floor *f = floor_new();
		const char *path = temporary(rows[i].text);
		char *got;

		network_floor_read_resolvers(f, path);
		got = json_dumps(f->dns, JSON_COMPACT);
		assert_string_equal(got, rows[i].want);
		free(got);
		(void)unlink(path); /* ours */
		network_floor_free(f);
	}
}

/* --- the policy's other members --- */

static void expect_line(const struct network_floor *f, const char *network, bool no_internet,
	json_t *names, const char *want)
{
	json_t *n = parsed(network);
	char *line = network_policy_line(
		network_policy(&(struct network_floors){.all = f}, n, no_internet, 7), names);

	assert_non_null(line);
	assert_string_equal(line, want);
	free(line);
	json_decref(n);
}

#define LIMITS                                                                                     \
	"\"limits\":{\"flows\":512,\"flowsPerSecond\":200,\"datagramPeers\":256,\"dnsPerSecond\":" \
	"100}}"

static void test_lines(void **state)
{
	struct network_floor *f = floor_of("allow-list 192.0.2.9/24:443");
	const char *path = temporary("127.0.0.1:8443 api.test\n");
	struct error e = {0};

	(void)state; /* none */
	expect_line(NULL, NULL, false, NULL,
		"{\"policy\":{\"version\":1,\"generation\":7,\"layers\":[{\"rules\":[],\"default\":"
		"\"allow\"}],\"dns\":[\"8.8.8.8\"],\"private\":[],\"hosts\":[]," LIMITS "}");
	assert_int_equal(network_floor_read_hosts(f, path, &e), 0);
	assert_int_equal(network_floor_allow_private(f, "10.1.2.3/16", &e), 0);
	expect_line(f, "{\"dnsServers\": [\"1.1.1.1\", \"10.2.0.1\", \"10.1.0.1\"]}", true,
		parsed("{\"x.com\": \"198.18.0.1\"}"),
		"{\"policy\":{\"version\":1,\"generation\":7,\"layers\":[{\"rules\":[{\"id\":"
		"\"operator[0]\",\"action\":\"allow\",\"net\":\"192.0.2.0/24\",\"ports\":[443]}],"
		"\"default\":\"deny\"},{\"rules\":[{\"id\":\"allow_internet_access\",\"action\":"
		"\"deny\",\"net\":\"0.0.0.0/"
		"0\"}],\"default\":\"allow\"}],\"dns\":[\"8.8.8.8\"],\"private\":[\"10.1.0.0/"
		"16\"],\"hosts\":[{\"name\":\"api.test\","
		"\"address\":\"127.0.0.1\",\"port\":8443}]," LIMITS
		",\"names\":{\"x.com\":\"198.18.0.1\"}}");
	expect_line(NULL, "{\"dnsServers\": [\"1.1.1.1\", \"10.1.0.1\"]}", false, NULL,
		"{\"policy\":{\"version\":1,\"generation\":7,\"layers\":[{\"rules\":[],\"default\":"
		"\"allow\"}],\"dns\":[\"1.1.1.1\"],\"dnsGiven\":true,\"private\":[],\"hosts\":[]"
		"," LIMITS "}");
	expect_line(NULL, "{\"dnsServers\": []}", false, NULL,
		"{\"policy\":{\"version\":1,\"generation\":7,\"layers\":[{\"rules\":[],\"default\":"
		"\"allow\"}],\"dns\":[],\"private\":[],\"hosts\":[]," LIMITS "}");
	(void)unlink(path); /* ours */
	network_floor_free(f);
}

static char *line_of(const struct network_floor *f, const char *key, const char *template)
{
	const struct network_floors floors = {f, key, template};

	return network_policy_line(network_policy(&floors, NULL, false, 7), NULL);
}

#define DOCUMENT(id)                                                                               \
	"{\"version\":1,\"default\":\"deny\",\"rules\":[{\"id\":\"" id "\",\"action\":\"allow\","  \
	"\"host\":\"a.test\",\"headers\":{\"x-team\":\"" id "\",\"x-key\":\"Bearer "               \
	"${e2b.secrets.owned}\",\"x-token\":\"${e2b.identity.tokens.t}\",\"cookie\":null}}]}"

/* Only the sandbox's own policy knows its secrets. */
static void test_floors_know_no_secrets(void **state)
{
	static const char *const ids[] = {"op", "of-key", "of-template", "own"};
	struct network_floor *f = floor_new();
	const struct network_floors floors = {f, DOCUMENT("of-key"), DOCUMENT("of-template")};
	json_t *network = json_pack("{s:o}", "policy", parsed(DOCUMENT("own"))), *policy, *layers;
	size_t n;

	(void)state; /* none */
	f->policy = parsed(DOCUMENT("op"));
	policy = network_policy(&floors, network, false, 7);
	layers = json_object_get(policy, "layers");
	n = json_array_size(layers);
	for (size_t i = 0, k = 0; i < n; i++) {
		json_t *rule =
			json_array_get(json_object_get(json_array_get(layers, i), "rules"), 0);
		json_t *headers = json_object_get(rule, "headers");
		bool own = i == n - 1;

		if (!headers)
			continue;
		assert_string_equal(
			json_string_value(json_object_get(headers, "x-team")), ids[k++]);
		assert_string_equal(json_string_value(json_object_get(headers, "x-key")),
			own ? "Bearer ${e2b.secrets.owned}" : "${e2b.secrets..}");
		assert_string_equal(json_string_value(json_object_get(headers, "x-token")),
			own ? "${e2b.identity.tokens.t}" : "${e2b.secrets..}");
		assert_true(json_is_null(json_object_get(headers, "cookie")));
		assert_true(!own || k == ARRAY_SIZE(ids));
	}
	json_decref(policy);
	json_decref(network);
	network_floor_free(f);
}

/* What a build is told is the policy of a sandbox. */
static void test_floor_as_json(void **state)
{
	static const char *const broken[] = {"mode", "rules", "hosts", "dns", "private"};
	const char *path = temporary("127.0.0.1:8443 api.test\n");
	struct network_floor *f = floor_of("allow-list 192.0.2.9/24:443"), *copy = NULL;
	struct error e = {0};
	json_t *json;
	char *a, *b;

	(void)state; /* none */
	assert_int_equal(network_floor_read_hosts(f, path, &e), 0);
	(void)unlink(path); /* ours, as the next one is */
	path = temporary("me:word\n");
	assert_int_equal(network_floor_allow_private(f, "10.1.2.3/16", &e), 0);
	assert_int_equal(network_floor_set_proxy(f, "10.0.0.1:1", path, &e), 0);
	(void)unlink(path);
	f->policy = parsed("{\"rules\": [{\"action\": \"deny\", \"hosts\": [\"bad.test\"]}]}");
	f->roots = strdup("/roots.pem");
	json = network_floor_to_json(f);
	assert_int_equal(network_floor_from_json(json, &copy, &e), 0);
	a = line_of(f, "x.com", "y.com:80");
	b = line_of(copy, "x.com", "y.com:80");
	assert_string_equal(a, b);
	assert_non_null(strstr(a, "bad.test"));
	assert_string_equal(copy->roots, f->roots);
	for (size_t i = 0; i < ARRAY_SIZE(broken); i++) {
		json_t *other = json_copy(json);

		(void)json_object_set_new(other, broken[i], json_integer(1));
		assert_true(network_floor_from_json(other, &copy, &e) < 0);
		assert_non_null(strstr(e.message, broken[i]));
		error_clear(&e);
		json_decref(other);
	}
	free(a);
	free(b);
	json_decref(json);
	network_floor_free(f);
	network_floor_free(copy);
}

static void test_proxy_options(void **state)
{
	static const char *const bad[] = {"", "x.com", "*.x.com:1", "192.0.2.0/24:1", "x.com:0"},
				 *const bad_logins[] = {"", "user", "user:", ":password\n"};
	struct network_floor *f = floor_new();
	struct error e = {0};

	(void)state; /* none */
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_true(network_floor_set_proxy(f, bad[i], NULL, &e) < 0);
		assert_non_null(strstr(e.message, "--egress-proxy: '"));
		error_clear(&e);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad_logins); i++) {
		const char *path = temporary(bad_logins[i]);

		assert_true(network_floor_set_proxy(f, "x.com:1", path, &e) < 0);
		assert_non_null(strstr(e.message, "must have one line USER:PASSWORD"));
		assert_null(strstr(e.message, "password"));
		error_clear(&e);
		(void)unlink(path); /* ours */
	}
	network_floor_free(f);
}

/* The operator's comes first. Only the client's is judged, by the operator's layer. */
static void test_proxies(void **state)
{
	struct network_floor *f = floor_of("allow-list");
	const char *path = temporary("me:pass:word\r\n");
	struct error e = {0};

	(void)state; /* none */
	expect_line(NULL, "{\"egressProxy\": {\"address\": \"P.x.com:1080\", \"username\": \"u\"}}",
		false, NULL,
		"{\"policy\":{\"version\":1,\"generation\":7,\"proxies\":[{\"host\":\"p.x.com\","
		"\"port\":1080,\"layers\":0,\"username\":\"u\"}],\"layers\":[{\"rules\":[],"
		"\"default\":\"allow\"}],\"dns\":[\"8.8.8.8\"],\"private\":[],\"hosts\":[]," LIMITS
		"}");
	expect_line(NULL,
		"{\"egressProxy\": {\"address\": \"p.x.com:1\", \"tls\": {\"enabled\": true, "
		"\"serverName\": \"n\", \"caCert\": null}}}",
		false, NULL,
		"{\"policy\":{\"version\":1,\"generation\":7,\"proxies\":[{\"host\":\"p.x.com\","
		"\"port\":1,\"layers\":0,\"tls\":{\"name\":\"n\"}}],\"layers\":[{\"rules\":[],"
		"\"default\":\"allow\"}],\"dns\":[\"8.8.8.8\"],\"private\":[],\"hosts\":[]," LIMITS
		"}");
	assert_int_equal(network_floor_set_proxy(f, "10.0.0.1:1", path, &e), 0);
	expect_line(f, "{\"egressProxy\": {\"address\": \"192.0.2.1:2\"}}", false, NULL,
		"{\"policy\":{\"version\":1,\"generation\":7,\"proxies\":[{\"host\":\"10.0.0.1\","
		"\"port\":1,\"trusted\":true,\"username\":\"me\",\"password\":\"pass:word\"},"
		"{\"host\":\"192.0.2.1\",\"port\":2,\"layers\":1}],\"layers\":[{\"rules\":[],"
		"\"default\":\"deny\"},{\"rules\":[],\"default\":\"allow\"}],\"dns\":[\"8.8.8.8\"],"
		"\"private\":[],\"hosts\":[]," LIMITS "}");
	(void)unlink(path); /* ours */
	network_floor_free(f);
}

static void add_hosts(struct network_floor *f, const char *text)
{
	const char *path = temporary(text);
	struct error e = {0};

	if (network_floor_read_hosts(f, path, &e) < 0)
		fail_msg("%s", e.message);
	(void)unlink(path); /* ours */
}

/* --- floors of keys and templates --- */

static void test_lists(void **state)
{
	static char many_words[4 * NETWORK_LIST_MAX + 8], long_text[NETWORK_LIST_TEXT_MAX + 2];
	const struct {
		const char *text, *want; /* NULL: accepted */
	} rows[] = {
		{NULL, NULL},
		{"", NULL},
		{"off", NULL},
		{"example.com,*.x.org:443 192.0.2.0/24\t*", NULL},
		{" , off , ", NULL},
		{"on off", "x: 'on' is no name: write on or off alone"},
		{"a.com,OFF", "x: 'OFF' is no name"},
		{"off,a.com", "x: 'off' is no name"},
		{"on", "x: 'on' is no name"}, /* who takes it has looked before */
		{"office,on.example.com", NULL},
		{"a b..c", "x: 'b..c': it is no host name"},
		{"a,::1", "x: '::1': IPv6"},
		{"a:0", "x: 'a:0': the port"},
		{many_words, "x: 64 names"},
		{long_text, "x: 4096 bytes"},
		{"{\"version\": 1, \"default\": \"deny\"}", NULL},
		{" {\"version\": 1, \"default\": \"deny\", \"rules\": [{}]}",
			"x.rules[0].action: expected"},
		{"{", "x: "},
	};

	(void)state; /* none */
	for (unsigned i = 0; i <= NETWORK_LIST_MAX; i++)
		strcat(many_words, "a,");
	memset(long_text, ' ', sizeof(long_text) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct error e = {0};
		int r = network_list_check(rows[i].text, "x", &e);

		if (rows[i].want ? r == 0 || !strstr(e.message, rows[i].want) : r < 0)
			fail_msg("%s: '%s'", rows[i].text ? rows[i].text : "-", e.message);
	}
}

/* --- bounds of flows --- */

static void expect_flows(
	uint64_t sandbox, uint64_t key, uint64_t host, struct network_flows want, const char *why)
{
	const struct network_words words = {.flows = sandbox, .key_flows = key, .host_flows = host};
	struct network_floor *f = NULL;
	struct network_flows got;
	struct error e = {0};

	if (why) {
		assert_true(network_floor_make(&words, &f, &e) < 0);
		if (!strstr(e.message, why))
			fail_msg("%s", e.message);
		return;
	}
	assert_int_equal(network_floor_make(&words, &f, &e), 0);
	got = network_floor_flows(f);
	assert_int_equal(got.sandbox, want.sandbox);
	assert_int_equal(got.key, want.key);
	assert_int_equal(got.host, want.host);
	network_floor_free(f);
}

static void test_flows(void **state)
{
	const struct network_flows none = {0};

	(void)state; /* none */
	assert_int_equal(network_floor_flows(NULL).host, NETWORK_HOST_FLOWS);
	expect_flows(0, 0, 0, (struct network_flows){512, 8192, 16384}, NULL);
	expect_flows(768, 768, 768, (struct network_flows){768, 768, 768}, NULL);
	expect_flows(0, 0, 4000, (struct network_flows){512, 4000, 4000}, NULL);
	expect_flows(0, 100, 0, (struct network_flows){100, 100, 16384}, NULL);
	expect_flows(0, 0, 8, (struct network_flows){8, 8, 8}, NULL);
	expect_flows(
		0, 20000, 0, none, "--max-key-flows: a key has at most as many as the host (16384");
	expect_flows(9, 8, 0, none, "--max-flows: a sandbox has at most as many as its key (8:");
	expect_flows(9, 0, 8, none, "--max-flows: a sandbox has at most as many as its key (8:");
}

/* --- what clients see of the limits above --- */

static void expect_shown(const struct network_floors *floors, const char *want)
{
	json_t *shown = network_floors_shown(floors);
	char *text = shown ? json_dumps(shown, JSON_COMPACT) : NULL;

	if (!want)
		assert_null(shown);
	else
		assert_string_equal(text, want);
	free(text);
	json_decref(shown);
}

static void test_shown(void **state)
{
	struct network_floor *f = floor_of("allow-list *.x.com:443 192.0.2.1 192.0.2.0/24:80"),
			     *off = floor_of("off"), *on = floor_of("on");
	const struct network_floors all = {f, " a.com , b.com:1", "off"};

	(void)state; /* none */
	expect_shown(&(struct network_floors){on, "", NULL}, NULL);
	expect_shown(&(struct network_floors){NULL, ",", NULL}, NULL);
	expect_shown(&all, "{\"operator\":{\"allow\":[\"*.x.com:443\",\"192.0.2.1\","
			   "\"192.0.2.0/24:80\"]},\"key\":{\"allow\":[\"a.com\",\"b.com:1\"]},"
			   "\"template\":{\"allow\":[]}}");
	f->policy = json_pack("{s:s}", "default", "deny");
	f->mode = NETWORK_ON;
	expect_shown(&(struct network_floors){f, "{\"version\": 1}", NULL},
		"{\"operator\":{\"policy\":true},\"key\":{\"policy\":true}}");
	f->mode = NETWORK_OFF;
	expect_shown(&(struct network_floors){f, NULL, NULL},
		"{\"operator\":{\"allow\":[],\"policy\":true}}");
	expect_shown(&(struct network_floors){off, NULL, NULL}, "{\"operator\":{\"allow\":[]}}");
	network_floor_free(f);
	network_floor_free(off);
	network_floor_free(on);
}

/* The longest of all that may be said fits. */
static void test_longest_line(void **state)
{
	struct network_floor *f = floor_of("allow-list");
	static char list[NETWORK_LIST_TEXT_MAX + 1];
	const struct network_floors floors = {f, list, list};
	json_t *allow = json_array(), *deny = json_array(), *network, *names;
	char *text = calloc(1, NETWORK_NAMES_MAX), *line;
	char name[NETWORK_HOST_MAX + 16], row[NETWORK_HOST_MAX + 64];
	struct policy *p = NULL;
	struct error e = {0};
	json_t *message;

	(void)state; /* none */
	for (size_t i = 0; i < NETWORK_HOST_MAX; i++)
		name[i] = i % 32 == 31 ? '.' : 'a';
	memcpy(name + NETWORK_HOST_MAX - 1, "a:65535", sizeof("a:65535"));
	for (unsigned i = 0; i < NETWORK_ALLOW_MAX; i++)
		assert_int_equal(network_floor_allow(f, name, &e), 0);
	for (size_t i = 0; i + 16 <= NETWORK_LIST_TEXT_MAX; i += 16)
		strcat(list, "127.127.127.127 ");
	assert_int_equal(network_list_check("127.127.127.127", "x", &e), 0);
	name[NETWORK_HOST_MAX] = '\0';
	for (unsigned i = 0; i < NETWORK_TARGETS_MAX; i++) {
		(void)json_array_append_new(allow, json_string(name));
		(void)json_array_append_new(
			deny, json_string(i ? "200.200.200.128/25" : "0.0.0.0/0"));
	}
	for (unsigned i = 0; i < NETWORK_HOSTS_MAX; i++) {
		(void)snprintf(row, sizeof(row), "200.100.100.100:65535 h%03u%s\n", i,
			name + 4); /* fits */
		add_hosts(f, row);
	}
	network = json_pack("{s:o, s:o}", "allowOut", allow, "denyOut", deny);
	assert_int_equal(network_check(network, false, f, &e), 0);
	memset(text, 'n', NETWORK_NAMES_MAX - 1);
	names = json_pack("{s:s}", "n", text + 8);
	line = network_policy_line(network_policy(&floors, network, true, UINT32_MAX), names);
	assert_non_null(line);
	print_message("%zu bytes\n", strlen(line));
	message = parsed(line);
	assert_int_equal(policy_make(json_object_get(message, "policy"), &p, &e), 0);
	policy_free(p);
	json_decref(message);
	assert_true(strlen(line) < NETWORK_POLICY_MAX);
	free(line);
	free(text);
	json_decref(network);
	network_floor_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_targets),
		cmocka_unit_test(test_names_have_a_maximum),
		cmocka_unit_test(test_checks),
		cmocka_unit_test(test_checks_of_rules),
		cmocka_unit_test(test_limits_of_rules),
		cmocka_unit_test(test_limits_of_lists),
		cmocka_unit_test(test_floor),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_too_many_hosts),
		cmocka_unit_test(test_roots),
		cmocka_unit_test(test_resolvers),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_floors_know_no_secrets),
		cmocka_unit_test(test_floor_as_json),
		cmocka_unit_test(test_proxy_options),
		cmocka_unit_test(test_proxies),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_flows),
		cmocka_unit_test(test_shown),
		cmocka_unit_test(test_longest_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
