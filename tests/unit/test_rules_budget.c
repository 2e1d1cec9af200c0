/* Budgets of rules: what is wrong with them, what they decide, and what tokens cost. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h> /* before cmocka */

#include <cmocka.h>

#include "base/cleanup.h"
#include "rules/rules.h"
#include "rules_request.h"

#define DOCUMENT(more, rule) "{\"version\":1,\"default\":\"deny\"," more "\"rules\":[" rule "]}"
#define RULE(budget)                                                                               \
	DOCUMENT("", "{\"id\":\"a\",\"action\":\"allow\",\"api\":\"openai\",\"budget\":" budget "}")
#define PRICES(prices) DOCUMENT("\"prices\":" prices ",", "")

static void what_is_wrong_is_named(void **state)
{
	static const struct {
		const char *text, *error; /* NULL: nothing */
	} rows[] = {
		{RULE("{\"requests\":1}"), NULL},
		{RULE("{\"requests\":1,\"tokens\":2,\"usd\":0.5,\"per\":\"key\","
		      "\"window\":\"total\",\"then\":\"ask\"}"),
			NULL},
		{RULE("5"), "policy.rules[0].budget: expected an object"},
		{RULE("{}"), "policy.rules[0].budget: expected \"requests\""},
		{RULE("{\"request\":1}"), "policy.rules[0].budget.request: no such member"},
		{RULE("{\"requests\":0}"), "policy.rules[0].budget.requests: expected a whole"},
		{RULE("{\"requests\":1.5}"), "policy.rules[0].budget.requests: expected a whole"},
		{RULE("{\"tokens\":\"5\"}"), "policy.rules[0].budget.tokens: expected a whole"},
		{RULE("{\"tokens\":1000000000001}"), "policy.rules[0].budget.tokens: expected"},
		{RULE("{\"usd\":0}"), "policy.rules[0].budget.usd: expected a number from 1e-06"},
		{RULE("{\"usd\":-1}"), "policy.rules[0].budget.usd: expected"},
		{RULE("{\"usd\":1e9}"), "policy.rules[0].budget.usd: expected"},
		{RULE("{\"usd\":1,\"per\":\"user\"}"),
			"policy.rules[0].budget.per: expected \"sandbox\" or \"key\""},
		{RULE("{\"usd\":1,\"window\":\"hour\"}"),
			"policy.rules[0].budget.window: expected \"day\" or \"total\""},
		{RULE("{\"usd\":1,\"then\":1}"),
			"policy.rules[0].budget.then: expected \"deny\" or \"ask\""},
		{DOCUMENT("", "{\"id\":\"a\",\"action\":\"deny\",\"budget\":{\"requests\":1}}"),
			"policy.rules[0].budget: only rules that allow"},
		{DOCUMENT("", "{\"action\":\"allow\",\"budget\":{\"requests\":1}}"),
			"policy.rules[0].budget: the rule needs an id"},
		{DOCUMENT("", "{\"id\":\"a\",\"action\":\"allow\",\"budget\":{\"tokens\":1}}"),
			"policy.rules[0].budget: tokens and usd are for models"},
		{DOCUMENT("", "{\"id\":\"a\",\"action\":\"allow\",\"api\":\"mcp\","
			      "\"budget\":{\"usd\":1}}"),
			"policy.rules[0].budget: tokens and usd are for models"},
		{DOCUMENT("", "{\"id\":\"a\",\"action\":\"allow\",\"api\":\"mcp\","
			      "\"budget\":{\"requests\":1}}"),
			NULL},
		{DOCUMENT("", "{\"id\":\"0123456789012345678901234567890123456789012345678\","
			      "\"action\":\"allow\",\"budget\":{\"requests\":1}}"),
			"policy.rules[0].id: of a rule with a budget"},
		{PRICES("{\"claude-*\":{\"in\":3,\"out\":15.5},\"free\":{\"in\":0,\"out\":0}}"),
			NULL},
		{PRICES("[]"), "policy.prices: expected an object"},
		{PRICES("{\"a\":5}"), "policy.prices.a: expected an object"},
		{PRICES("{\"a\":{\"in\":1}}"), "policy.prices.a: expected \"in\" and \"out\""},
		{PRICES("{\"a\":{\"in\":1,\"out\":-1}}"), "policy.prices.a.out: expected"},
		{PRICES("{\"a\":{\"in\":1,\"out\":10001}}"), "policy.prices.a.out: expected"},
		{PRICES("{\"a b\":{\"in\":1,\"out\":1}}"), "policy.prices.a b: expected"},
		{PRICES("{\"\":{\"in\":1,\"out\":1}}"), "policy.prices.: expected"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		json_t *v = json_loads(rows[i].text, 0, NULL);
		struct error e = {0};
		int r = rules_check(v, "policy", &e);

		assert_non_null(v);
		if (rows[i].error ? r == 0 || !strstr(e.message, rows[i].error) : r < 0)
			fail_msg("%s: %s", rows[i].text, e.message);
		json_decref(v);
	}
}

static void there_are_not_too_many(void **state)
{
	json_t *rules = json_array(), *all, *prices = json_object();
	struct error e = {0};
	char id[16];

	for (unsigned i = 0; i <= RULES_BUDGETS_MAX; i++) {
		(void)snprintf(id, sizeof(id), "r%u", i);
		json_array_append_new(rules, json_pack("{s:s, s:s, s:{s:i}}", "id", id, "action",
						     "allow", "budget", "requests", 1));
	}
	all = json_pack("{s:i, s:s, s:O}", "version", 1, "default", "deny", "rules", rules);
	assert_true(rules_check(all, "policy", &e) < 0);
	assert_string_equal(e.message, "policy.rules: more than 16 have a budget");
	json_array_remove(rules, 0);
	assert_int_equal(rules_check(all, "policy", &e), 0);
	for (unsigned i = 0; i <= RULES_PRICES_MAX; i++) {
		(void)snprintf(id, sizeof(id), "m%u", i);
		json_object_set_new(prices, id, json_pack("{s:i, s:i}", "in", 1, "out", 1));
	}
	json_object_set(all, "prices", prices);
	assert_true(rules_check(all, "policy", &e) < 0);
	json_object_del(prices, "m0");
	assert_int_equal(rules_check(all, "policy", &e), 0);
	json_decref(all);
	json_decref(rules);
	json_decref(prices);
}

static struct rules rules_of(const char *text)
{
	json_t *v = json_loads(text, 0, NULL);
	struct error e = {0};
	struct policy_at top = {.e = &e};
	struct rules r;

	assert_non_null(v);
	if (rules_make(&top, v, RULES_MAX, &r) < 0)
		fail_msg("%s", e.message);
	json_decref(v);
	return r;
}

static void prices_are_sums(void **state)
{
	struct rules r = rules_of(PRICES("{\"Claude-Opus*\":{\"in\":5,\"out\":25},"
					 "\"claude-*\":{\"in\":0.25,\"out\":1.25}}"));
	const struct rules_price *opus = rules_price_of(r.prices, "claude-opus-9"),
				 *haiku = rules_price_of(r.prices, "claude-haiku");

	assert_null(rules_price_of(r.prices, "gpt"));
	assert_null(rules_price_of(r.prices, ""));
	assert_null(rules_price_of(NULL, "gpt"));
	assert_int_equal(rules_price_micros(opus, 1000000, 0), 5000000);
	assert_int_equal(rules_price_micros(opus, 1000, 1000), 30000);
	assert_int_equal(rules_price_micros(haiku, 1, 0), 1); /* rounded up */
	assert_int_equal(rules_price_micros(haiku, 0, 0), 0);
	assert_int_equal(rules_price_micros(NULL, 5, 5), 0);
	assert_int_equal(
		rules_price_micros(opus, UINT64_MAX, UINT64_MAX), UINT64_C(1000000000000000));
	rules_done(&r);
}

/* A request with a body, as the rules see it. */
static struct rules_verdict judge(const struct rules *r, const char *path, const char *body)
{
	struct rules_question q;
	struct call_reader *reader;
	struct rules_verdict v = rules_request_judge(r, path, body, &q, &reader);

	call_reader_free(reader);
	return v;
}

static void what_has_no_price_is_denied(void **state)
{
	struct rules r = rules_of(DOCUMENT("\"prices\":{\"gpt-*\":{\"in\":1,\"out\":1}},",
		"{\"id\":\"a\",\"action\":\"allow\",\"api\":\"openai\",\"budget\":{\"usd\":1}}"));
	struct rules_verdict v = judge(&r, "/v1/responses", "{\"model\":\"GPT-5\"}");

	assert_true(v.action == RULES_ALLOW && v.rule->budget->limits.micros == 1000000);
	assert_ptr_equal(v.rule->budget->prices, r.prices);
	v = judge(&r, "/v1/responses", "{\"model\":\"o9\"}");
	assert_int_equal(v.action, RULES_DENY);
	assert_string_equal(v.unclear, "its model has no price in the policy");
	v = judge(&r, "/v1/responses", "{}");
	assert_int_equal(v.action, RULES_DENY);
	rules_done(&r);
}

#define CALL(tool)                                                                                 \
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"" tool     \
	"\"}}"

/* Of a batch, the message that costs counts, wherever it stands. */
static void batches_cost(void **state)
{
	struct rules r = rules_of(DOCUMENT("",
		"{\"id\":\"free\",\"action\":\"allow\",\"api\":\"mcp\",\"tools\":\"look\"},"
		"{\"id\":\"a\",\"action\":\"allow\",\"api\":\"mcp\",\"tools\":\"buy\","
		"\"budget\":{\"requests\":1}},"
		"{\"id\":\"b\",\"action\":\"allow\",\"api\":\"mcp\",\"tools\":\"sell\","
		"\"budget\":{\"requests\":1}}"));
	struct rules_verdict v = judge(&r, "/mcp", "[" CALL("look") "," CALL("buy") "]");

	assert_true(v.action == RULES_ALLOW && strcmp(v.rule->id, "a") == 0);
	v = judge(&r, "/mcp", "[" CALL("buy") "," CALL("buy") "," CALL("look") "]");
	assert_true(v.action == RULES_ALLOW && strcmp(v.rule->id, "a") == 0);
	v = judge(&r, "/mcp", "[" CALL("look") "]");
	assert_true(v.action == RULES_ALLOW && !v.rule->budget);
	v = judge(&r, "/mcp", "[" CALL("buy") "," CALL("look") "," CALL("sell") "]");
	assert_int_equal(v.action, RULES_DENY);
	assert_non_null(strstr(v.unclear, "several budgets"));
	v = judge(&r, "/mcp", "[" CALL("buy") "," CALL("sell") "," CALL("look") "]");
	assert_int_equal(v.action, RULES_DENY);
	rules_done(&r);
}

/* The headers of a rule go with no message that another rule allows. */
static void batches_have_headers_of_one_rule(void **state)
{
	struct rules r = rules_of("{\"version\":1,\"default\":\"allow\",\"rules\":["
				  "{\"id\":\"a\",\"action\":\"allow\",\"host\":\"api.test\","
				  "\"api\":\"mcp\",\"tools\":[\"read\",\"list\"],"
				  "\"headers\":{\"x-key\":\"secret\"}},"
				  "{\"id\":\"b\",\"action\":\"allow\",\"api\":\"mcp\","
				  "\"tools\":\"look\"},"
				  "{\"id\":\"c\",\"action\":\"ask\",\"api\":\"mcp\","
				  "\"tools\":\"pay\"}]}");
	static const char *const apart[] = {"[" CALL("read") "," CALL("look") "]",
		"[" CALL("look") "," CALL("read") "]", "[" CALL("read") "," CALL("other") "]",
		"[" CALL("look") "," CALL("other") "," CALL("list") "]",
		"[" CALL("read") "," CALL("pay") "]", "[" CALL("pay") "," CALL("read") "]"};
	struct rules_verdict v = judge(&r, "/mcp", "[" CALL("read") "," CALL("list") "]");

	assert_true(v.action == RULES_ALLOW && v.rule->header_count == 1);
	v = judge(&r, "/mcp", "[" CALL("look") "," CALL("other") "]");
	assert_int_equal(v.action, RULES_ALLOW);
	for (unsigned i = 0; i < ARRAY_SIZE(apart); i++) {
		v = judge(&r, "/mcp", apart[i]);
		assert_int_equal(v.action, RULES_DENY);
		assert_non_null(strstr(v.unclear, "headers are not for all"));
	}
	rules_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_wrong_is_named),
		cmocka_unit_test(there_are_not_too_many),
		cmocka_unit_test(prices_are_sums),
		cmocka_unit_test(what_has_no_price_is_denied),
		cmocka_unit_test(batches_cost),
		cmocka_unit_test(batches_have_headers_of_one_rule),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
