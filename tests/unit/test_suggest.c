/* Policies made of activities: they allow what happened, and nothing else. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h> /* before cmocka */

#include <cmocka.h>

#include "base/cleanup.h"
#include "policy/suggest.h"
#include "rules/rules.h"

#define FLOW(target, port)                                                                         \
	"{\"kind\":\"flow\",\"verdict\":\"allowed\"," target ",\"port\":" port "}"
#define NAME(name) "\"name\":\"" name "\",\"address\":\"192.0.2.1\""
#define REQUEST(name, method, path)                                                                \
	"{\"kind\":\"request\",\"verdict\":\"allowed\",\"name\":\"" name                           \
	"\",\"port\":443,\"method\":\"" method "\",\"path\":\"" path "\"}"

static json_t *policy_of(const char *const *records, unsigned *ret_unsure)
{
	struct suggest s;
	struct error e = {0};
	json_t *policy = NULL;

	assert_int_equal(suggest_begin(&s), 0);
	for (; *records; records++) {
		json_t *v = json_loads(*records, 0, NULL);

		assert_non_null(v);
		if (suggest_note(&s, v, &e) < 0)
			fail_msg("%s", e.message);
		json_decref(v);
	}
	if (suggest_policy(&s, &policy, &e) < 0)
		fail_msg("%s", e.message);
	if (ret_unsure)
		*ret_unsure = s.unsure;
	suggest_done(&s);
	return policy;
}

static void what_happened_is_allowed(void **state)
{
	static const char *const records[] = {FLOW(NAME("a.test"), "443"),
		FLOW(NAME("b.test"), "443"), FLOW(NAME("c.test"), "443"),
		FLOW(NAME("c.test"), "22"), FLOW("\"address\":\"198.51.100.7\"", "5432"),
		FLOW(NAME("api.test"), "443"), REQUEST("api.test", "GET", "/user"),
		REQUEST("api.test", "GET", "/repos/%61"), REQUEST("api.test", "HEAD", "/user"),
		REQUEST("api.test", "HEAD", "/repos/a"), REQUEST("api.test", "POST", "/orders"),
		REQUEST("api.test", "GET", "/x/../y"), REQUEST("api.test", "GET", "/**"),
		"{\"kind\":\"flow\",\"verdict\":\"denied\",\"name\":\"evil.test\",\"port\":443}",
		"{\"kind\":\"flow\",\"verdict\":\"allowed\",\"direction\":\"in\",\"name\":"
		"\"in.test\",\"port\":80}",
		"{\"kind\":\"lost\",\"count\":1}", NULL};
	static const char wanted[] =
		"{\"default\":\"deny\",\"rules\":["
		"{\"action\":\"allow\",\"net\":[\"198.51.100.7\"],\"ports\":[5432]},"
		"{\"action\":\"allow\",\"host\":[\"a.test\",\"b.test\"],\"ports\":[443]},"
		"{\"action\":\"allow\",\"host\":[\"api.test\"],\"methods\":[\"GET\",\"HEAD\"],"
		"\"paths\":[\"/repos/a\",\"/user\"],\"ports\":[443]},"
		"{\"action\":\"allow\",\"host\":[\"api.test\"],\"methods\":[\"POST\"],\"paths\":"
		"[\"/orders\"],\"ports\":[443]},"
		"{\"action\":\"allow\",\"host\":[\"c.test\"],\"ports\":[22,443]}],\"version\":1}";
	unsigned unsure;
	json_t *policy = policy_of(records, &unsure);
	char *text = json_dumps(policy, JSON_COMPACT | JSON_SORT_KEYS);

	assert_string_equal(text, wanted);
	assert_int_equal(unsure, 2);
	free(text);
	json_decref(policy);
}

#define ASKED(path, members)                                                                       \
	REQUEST("api.test", "POST", path),                                                         \
		"{\"kind\":\"model\",\"verdict\":\"allowed\",\"name\":\"api.test\",\"port\":443,"  \
		"\"method\":\"POST\",\"path\":\"" path "\"," members "}"

/* What rules say of requests to models, if that is known of all to a path. */
static void models_are_named(void **state)
{
	static const char *const records[] = {
		ASKED("/v1/messages", "\"api\":\"anthropic\",\"model\":\"claude-2\""),
		ASKED("/v1/messages", "\"api\":\"anthropic\",\"model\":\"claude-1\""),
		ASKED("/a/responses", "\"api\":\"openai\",\"model\":\"gpt\","
				      "\"serverTools\":[\"web_search\"]"),
		/* some that are not known */
		ASKED("/b/responses", "\"api\":\"openai\",\"model\":\"gpt\","
				      "\"serverTools\":[\"web_search\",\"...\"]"),
		/* no rules about bodies could allow these */
		ASKED("/c/responses", "\"api\":\"openai\",\"model\":\"gpt\",\"unclear\":\"x\""),
		ASKED("/d/responses", "\"api\":\"openai\",\"model\":\"g*\""),
		ASKED("/e/responses", "\"api\":\"openai\",\"model\":\"gpt\""),
		REQUEST("api.test", "POST", "/e/responses"), NULL};
	static const char head[] =
		"{\"action\":\"allow\",\"api\":[\"openai\"],\"host\":[\"api.test\"],"
		"\"methods\":[\"POST\"],\"models\":[\"gpt\"],\"paths\":[\"/";
	json_t *policy = policy_of(records, NULL);
	_cleanup_free_ char *text = json_dumps(policy, JSON_COMPACT | JSON_SORT_KEYS),
			    *wanted = NULL;

	assert_true(
		asprintf(&wanted,
			"{\"default\":\"deny\",\"rules\":["
			"{\"action\":\"allow\",\"api\":[\"anthropic\"],\"host\":[\"api.test\"],"
			"\"methods\":[\"POST\"],\"models\":[\"claude-2\",\"claude-1\"],\"paths\":"
			"[\"/v1/messages\"],\"ports\":[443],\"serverTools\":false},"
			"%sa/responses\"],\"ports\":[443],\"serverTools\":[\"web_search\"]},"
			"%sb/responses\"],\"ports\":[443]},"
			"{\"action\":\"allow\",\"host\":[\"api.test\"],\"methods\":[\"POST\"],"
			"\"paths\":[\"/c/responses\",\"/d/responses\",\"/e/responses\"],"
			"\"ports\":[443]}],\"version\":1}",
			head, head) > 0);
	assert_string_equal(text, wanted);
	json_decref(policy);
}

#define RPC(path, mcp)                                                                             \
	"{\"kind\":\"request\",\"verdict\":\"allowed\",\"name\":\"api.test\",\"port\":443,"        \
	"\"method\":\"POST\",\"path\":\"" path "\",\"mcp\":\"" mcp "\"}"
#define CALLED(path, tool)                                                                         \
	RPC(path, "tools"),                                                                        \
		"{\"kind\":\"tool\",\"verdict\":\"allowed\",\"name\":\"api.test\",\"port\":443,"   \
		"\"method\":\"POST\",\"path\":\"" path "\",\"tool\":\"" tool "\"}"

/* Tools that were called are named, where rules about tools would allow all requests of a path. */
static void tools_are_named(void **state)
{
	static const char *const records[] = {RPC("/mcp", "tools"), CALLED("/mcp", "read_file"),
		CALLED("/mcp", "search"), CALLED("/mcp", "search"),
		REQUEST("api.test", "GET", "/mcp"),
		/* no rule with these names could allow them */
		CALLED("/other", "read_file"), RPC("/other", "other"), CALLED("/odd", "a*"),
		RPC("/none", "tools"), CALLED("/unread", "search"),
		REQUEST("api.test", "POST", "/unread"), NULL};
	json_t *policy = policy_of(records, NULL);
	_cleanup_free_ char *text = json_dumps(policy, JSON_COMPACT | JSON_SORT_KEYS);

	assert_string_equal(text,
		"{\"default\":\"deny\",\"rules\":["
		"{\"action\":\"allow\",\"api\":[\"mcp\"],\"host\":[\"api.test\"],\"methods\":"
		"[\"POST\"],\"paths\":[\"/mcp\"],\"ports\":[443],\"tools\":[\"read_file\","
		"\"search\"]},"
		"{\"action\":\"allow\",\"host\":[\"api.test\"],\"methods\":[\"POST\"],\"paths\":"
		"[\"/none\",\"/odd\",\"/other\",\"/unread\"],\"ports\":[443]},"
		"{\"action\":\"allow\",\"host\":[\"api.test\"],\"methods\":[\"GET\"],\"paths\":"
		"[\"/mcp\"],\"ports\":[443]}],\"version\":1}");
	json_decref(policy);
}

static struct rules judge_of(json_t *policy)
{
	struct error e = {0};
	struct policy_at top = {.e = &e};
	struct rules r;

	if (rules_make(&top, policy, RULES_MAX, &r) < 0)
		fail_msg("%s", e.message);
	return r;
}

static void many_paths_become_wider(void **state)
{
	char text[256];
	struct suggest s;
	struct error e = {0};
	json_t *policy = NULL;
	struct rules r;
	struct rules_question q = {.kind = RULES_REQUEST,
		.name = "api.test",
		.port = 443,
		.tls = true,
		.method = "GET",
		.path = "/users/never-seen/x"};

	assert_int_equal(suggest_begin(&s), 0);
	for (unsigned i = 0; i < 2 * SUGGEST_PATHS_MAX; i++) {
		json_t *v;

		(void)snprintf(text, sizeof(text),
			"{\"kind\":\"request\",\"verdict\":\"allowed\",\"name\":\"%s.test\","
			"\"port\":443,"
			"\"method\":\"GET\",\"path\":\"/users/u%u/x\"}",
			i < SUGGEST_PATHS_MAX / 2 ? "api" : "all", i);
		v = json_loads(text, 0, NULL);
		assert_int_equal(suggest_note(&s, v, &e), 0);
		json_decref(v);
	}
	assert_int_equal(suggest_policy(&s, &policy, &e), 0);
	r = judge_of(policy);
	assert_int_equal(rules_judge(&r, &q).action, RULES_ALLOW);
	q.path = "/other";
	assert_int_equal(rules_judge(&r, &q).action, RULES_DENY);
	q.name = "all.test";
	assert_int_equal(rules_judge(&r, &q).action, RULES_ALLOW);
	rules_done(&r);
	json_decref(policy);
	suggest_done(&s);
}

static void targets_have_a_limit(void **state)
{
	struct suggest s;
	struct error e = {0};
	json_t *policy = NULL;
	int r = 0;
	unsigned i;

	assert_int_equal(suggest_begin(&s), 0);
	for (i = 0; r == 0 && i <= SUGGEST_TARGETS_MAX; i++) {
		char name[32];
		json_t *v;

		(void)snprintf(name, sizeof(name), "n%u.test", i);
		v = json_pack("{s:s, s:s, s:s, s:i}", "kind", "flow", "verdict", "allowed", "name",
			name, "port", 443);
		r = suggest_note(&s, v, &e);
		json_decref(v);
	}
	assert_int_equal(i, SUGGEST_TARGETS_MAX + 1);
	assert_int_equal(e.code, ERROR_LIMIT);
	error_clear(&e);
	assert_int_equal(suggest_policy(&s, &policy, &e), 0);
	assert_int_equal(json_array_size(json_object_get(policy, "rules")),
		SUGGEST_TARGETS_MAX / RULES_ITEMS_MAX);
	json_decref(policy);
	suggest_done(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_happened_is_allowed),
		cmocka_unit_test(models_are_named),
		cmocka_unit_test(tools_are_named),
		cmocka_unit_test(many_paths_become_wider),
		cmocka_unit_test(targets_have_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
