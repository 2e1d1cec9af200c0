/* What a person is asked about a call, and which calls a decision for longer covers. In rules and
 * bodies ' stands for ". */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "rules/call_asked.h"
#include "rules_request.h"

#define TOOL(name, arguments)                                                                      \
	"{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':'" name                    \
	"','arguments':" arguments "}}"
#define MODEL(rest)  "{'model':'claude-opus','max_tokens':1,'messages':[]" rest "}"
#define OFFERS(...)  ",'tools':[" __VA_ARGS__ "]"
#define CLIENT(name) "{'name':'" name "','input_schema':{}}"
#define SEARCH	     "{'type':'web_search_20250305','name':'web_search'}"

/* A rule that asks, and a request that it asks about. */
struct asks {
	struct rules rules;
	struct call_reader *reader;
	struct rules_verdict v;
	struct call_asked asked;
};

static char *quoted(const char *text)
{
	char *copy = strdup(text);

	assert_non_null(copy);
	for (char *s = copy; *s; s++)
		*s = *s == '\'' ? '"' : *s;
	return copy;
}

static void begin(struct asks *a, const char *rules, const char *path, const char *text)
{
	_cleanup_free_ char *list = str_printf(
				    "{'version':1,'default':'deny','rules':[%s]}", rules),
			    *policy = quoted(list), *body = quoted(text);
	struct error e = {0};
	struct policy_at top = {.e = &e};
	json_t *v = json_loads(policy, 0, NULL);
	struct rules_question q;

	if (!v || rules_make(&top, v, RULES_MAX, &a->rules) < 0)
		fail_msg("%s: %s", policy, e.message);
	json_decref(v);
	a->v = rules_request_judge(&a->rules, path, body, &q, &a->reader);
	assert_int_equal(call_asked_make(a->v.rule, q.call, &a->asked), 0);
}

static void end(struct asks *a)
{
	call_reader_free(a->reader);
	rules_done(&a->rules);
}

/* Whether a decision about one body covers another one. */
static bool covers(const char *rule, const char *path, const char *one, const char *other)
{
	struct asks a, b;
	bool same;

	begin(&a, rule, path, one);
	begin(&b, rule, path, other);
	assert_true(a.v.action == RULES_ASK && b.v.action == RULES_ASK);
	assert_true(a.asked.api && a.asked.api == b.asked.api);
	same = strcmp(a.asked.digest, b.asked.digest) == 0;
	end(&a);
	end(&b);
	return same;
}

static void expect_names(const struct call_asked_names *names, const char *text)
{
	char all[512] = "";
	size_t n = 0;

	for (unsigned i = 0; i < names->count; i++)
		n += (size_t)snprintf(all + n, sizeof(all) - n, "%s ", names->names[i]);
	(void)snprintf(all + n, sizeof(all) - n, "%s", names->more ? "..." : "");
	assert_string_equal(all, text);
}

static void tools_of_mcp(void **state)
{
	static const char rule[] =
		"{'id':'ask','action':'ask','api':'mcp','tools':['pay','refund','delete_*']},"
		"{'id':'look','action':'allow','api':'mcp','tools':'read'}";
	const char *pay = TOOL("pay", "{'amount':1}"), *other = TOOL("pay", "{'amount':2}"),
		   *delete = TOOL("delete_all", "{}"), *reads = TOOL("read", "{}");
	_cleanup_free_ char *both = str_printf("[%s,%s,%s]", reads, pay, other),
			    *more = str_printf("[%s,%s]", pay, reads),
			    *two = str_printf("[%s,%s]", pay, delete),
			    *turned = str_printf("[%s,%s]", delete, pay);
	struct asks a;

	assert_true(covers(rule, "/mcp", pay, other));
	assert_false(covers(rule, "/mcp", pay, delete));
	assert_false(covers(rule, "/mcp", pay, both)); /* another layer may ask about the rest */
	assert_true(covers(rule, "/mcp", both, more));
	assert_false(covers(rule, "/mcp", pay, two));
	assert_false(covers(rule, "/mcp", delete, two));
	assert_true(covers(rule, "/mcp", two, turned));
	begin(&a, rule, "/mcp", both);
	assert_int_equal(a.asked.api, CALL_MCP);
	expect_names(&a.asked.tools, "pay read ");
	end(&a);
}

/* The values that the rule looks at count, others do not. */
static void arguments_of_mcp(void **state)
{
	static const char rule[] =
		"{'id':'ask','action':'ask','api':'mcp','tools':'write','arguments':"
		"[{'at':'/path','prefix':'/etc/'}]}",
			  any[] = "{'id':'ask','action':'ask','api':'mcp','arguments':"
				  "[{'at':'/a/0','equals':true}]}";

	assert_true(covers(rule, "/mcp", TOOL("write", "{'path':'/etc/hosts','text':'a'}"),
		TOOL("write", "{'text':'b','path':'/etc/hosts'}")));
	assert_false(covers(rule, "/mcp", TOOL("write", "{'path':'/etc/hosts'}"),
		TOOL("write", "{'path':'/etc/passwd'}")));
	assert_true(covers(any, "/mcp", TOOL("x", "{'a':[true]}"), TOOL("x", "{'a':[true,1]}")));
	assert_false(covers(any, "/mcp", TOOL("x", "{'a':[true]}"), TOOL("y", "{'a':[true]}")));
}

static void models(void **state)
{
	static const char by_model[] = "{'id':'ask','action':'ask','models':['*opus*','gpt-*']}",
			  by_tool[] = "{'id':'ask','action':'ask','tools':['pay','wire_*']}",
			  path[] = "/v1/messages";
	struct asks a;

	assert_true(covers(by_model, path, MODEL(""), MODEL(OFFERS(CLIENT("bash")))));
	assert_false(covers(by_model, path, MODEL(""), MODEL(OFFERS(SEARCH))));
	assert_false(covers(by_model, path, MODEL(""), "{'model':'claude-opus-2','messages':[]}"));
	assert_true(covers(by_tool, path, MODEL(OFFERS(CLIENT("a") "," CLIENT("pay"))),
		MODEL(OFFERS(CLIENT("pay") "," CLIENT("b")))));
	assert_false(covers(by_tool, path, MODEL(OFFERS(CLIENT("pay"))),
		MODEL(OFFERS(CLIENT("pay") "," CLIENT("wire_all")))));
	assert_false(covers(by_tool, path, MODEL(OFFERS(CLIENT("pay"))),
		"{'model':'other','tools':[" CLIENT("pay") "]}"));
	begin(&a, by_tool, path, MODEL(OFFERS(CLIENT("a") "," SEARCH "," CLIENT("pay"))));
	assert_string_equal(a.asked.model, "claude-opus");
	expect_names(&a.asked.tools, "pay a ");
	expect_names(&a.asked.server_tools, "web_search ");
	end(&a);
}

/* What is too long to be shown counts, too. */
static void many_tools(void **state)
{
	static const char rule[] = "{'id':'ask','action':'ask','api':'mcp','tools':'t*'}";
	char text[2][8192];
	struct asks a;

	for (unsigned last = 0; last < 2; last++) {
		size_t n = 0;

		for (unsigned i = 0; i < 20; i++)
			n += (size_t)snprintf(text[last] + n, sizeof(text[last]) - n,
				"%c" TOOL("t%u", "{}"), i ? ',' : '[', i == 19 && last ? 99 : i);
		(void)snprintf(text[last] + n, sizeof(text[last]) - n, "]");
	}
	assert_false(covers(rule, "/mcp", text[0], text[1]));
	begin(&a, rule, "/mcp", text[0]);
	expect_names(&a.asked.tools, "t0 t1 t2 t3 t4 t5 t6 t7 t8 t9 t10 t11 t12 t13 t14 t15 ...");
	end(&a);
}

static void rules_that_read_no_calls(void **state)
{
	static const char *const rules[] = {"{'id':'ask','action':'ask','methods':'POST'}",
		"{'id':'no','action':'deny','api':'mcp','tools':'drop'},"
		"{'id':'ask','action':'ask','api':'mcp'}"};
	struct asks a;

	for (unsigned i = 0; i < ARRAY_SIZE(rules); i++) {
		begin(&a, rules[i], "/mcp", TOOL("pay", "{}"));
		assert_int_equal(a.v.action, RULES_ASK);
		assert_int_equal(a.asked.api, 0);
		end(&a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tools_of_mcp),
		cmocka_unit_test(arguments_of_mcp),
		cmocka_unit_test(models),
		cmocka_unit_test(many_tools),
		cmocka_unit_test(rules_that_read_no_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
