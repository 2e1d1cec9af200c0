/* Other spellings of what rules deny or ask about: paths, names of members, arguments. What a
 * server may take for it never passes. In policies and bodies ' stands for ". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "rules/call.h"
#include "rules/fold.h"
#include "rules/rules.h"

#define LIST(action)   "{'version':1,'default':'" action "','rules':["
#define HARD(argument) "{'id':'hard','action':'deny','api':'mcp','arguments':[" argument "]}]}"
#define SOFT(argument) "{'id':'soft','action':'allow','api':'mcp','arguments':[" argument "]}]}"
#define CALL(arguments)                                                                            \
	"{'jsonrpc':'2.0','id':1,'method':'tools/"                                                 \
	"call','params':{'name':'t','arguments':{" arguments "}}}"

/* The order that consent.md shows: a person is asked about orders, and the rest is allowed. */
static const char orders[] = LIST(
	"deny") "{'id':'exact','action':'allow','paths':'/orders/list'},"
		"{'id':'order','action':'ask','methods':'POST','paths':['/orders','/orders/*']},"
		"{'id':'admin','action':'deny','paths':'/admin/**'},"
		"{'id':'mock','action':'respond','paths':'/mock','respond':{'status':200}},"
		"{'id':'rest','action':'allow','paths':'/**'}]}";

static const char tools[] =
	LIST("allow") "{'id':'drop','action':'deny','api':'mcp','tools':'drop_*'}]}";
static const char reads[] =
	LIST("deny") "{'id':'read','action':'allow','api':'mcp','tools':'read_*'}]}";
static const char model[] = LIST("allow") "{'id':'dear','action':'deny','models':'*opus*'}]}";
static const char shell[] = LIST("allow") "{'id':'no','action':'deny','tools':'drop'}]}";

static const char no_etc[] = LIST("allow") HARD("{'at':'/path','prefix':'/etc/'}");
static const char notes[] = LIST("deny") SOFT("{'at':'/path','prefix':'/notes/'}");
static const char no_sql[] = LIST("allow") HARD("{'at':'/q','prefix':'drop '}");
static const char no_id[] = LIST("allow") HARD("{'at':'/id','equals':9007199254740993}");
static const char one_id[] = LIST("deny") SOFT("{'at':'/id','equals':9007199254740993}");
static const char no_force[] = LIST("allow") HARD("{'at':'/force','equals':true}");
static const char no_mode[] = LIST("allow") HARD("{'at':'/a/mode','equals':'wipe'}");
static const char both[] =
	LIST("allow") HARD("{'at':'/path','prefix':'/etc/'},{'at':'/mode','equals':'w'}");

static const struct row {
	const char *policy, *path, *body, *verdict; /* "unclear": denied as such */
} rows[] = {
	/* paths */
	{orders, "/orders", NULL, "ask"},
	{orders, "/Orders", NULL, "ask"},
	{orders, "/orders/", NULL, "ask"},
	{orders, "/orders%20", NULL, "ask"},
	{orders, "/orders.", NULL, "ask"},
	{orders, "/orders.json", NULL, "ask"},
	{orders, "/orders%3fx", NULL, "ask"},
	{orders, "/orders%23", NULL, "ask"},
	{orders, "/orders%09", NULL, "unclear"},
	{orders, "/orders;x", NULL, "unclear"},
	{orders, "//orders", NULL, "unclear"},
	{orders, "/x/../orders", NULL, "unclear"},
	{orders, "/%6Frders", NULL, "ask"},
	{orders, "/order%C5%BF", NULL, "ask"},
	{orders, "/orders/list", NULL, "allow"},
	{orders, "/orders/List", NULL, "ask"},
	{orders, "/orders/list/", NULL, "ask"},
	{orders, "/admin", NULL, "deny"},
	{orders, "/ADMIN/x", NULL, "deny"},
	{orders, "/admin./x", NULL, "deny"},
	{orders, "/admin%20/x", NULL, "deny"},
	{orders, "/Mock/", NULL, "respond"},
	{orders, "/other", NULL, "allow"},
	{orders, "/administrator", NULL, "allow"},
	/* members of MCP */
	{reads, "/m", "{'id':1,'method':'tools/call','params':{'name':'read_x'}}", "allow"},
	{reads, "/m",
		"{'id':1,'method':'tools/"
		"call','params':{'name':'read_x'},'param\u017f':{'name':'x'}}",
		"unclear"},
	{reads, "/m", "{'id':1,'method':'tools/call','param\u017f':{'name':'drop_x'}}", "unclear"},
	{reads, "/m",
		"{'id':1,'method':'tools/call','params':{'name':'read_x','na\uff4de':'drop_x'}}",
		"unclear"},
	{reads, "/m", "{'id':1,'method':'tools/call','params':{'name':'read_x','na-me':'drop_x'}}",
		"unclear"},
	{tools, "/m", "{'id':1,'method':'tools/call','params':{'name':'drop_db'}}", "deny"},
	{tools, "/m", "{'id':1,'method':'tools/call','params':{'name':'Drop_DB'}}", "deny"},
	{tools, "/m", "{'id':1,'method':'Tools/Call','params':{'name':'drop_db'}}", "unclear"},
	{tools, "/m", "{'id':1,'method':'tools/call','params':{'name':'keep','_meta':{'x':1}}}",
		"allow"},
	/* members of models */
	{model, "/v1/messages", "{'model':'x','metadata':{'\u540d':1}}", "allow"},
	{model, "/v1/messages", "{'model':'x','mo-del':'opus'}", "unclear"},
	{model, "/v1/messages", "{'model':'x','\uff4dodel':'opus'}", "unclear"},
	{model, "/V1/messages%3F", "{'model':'opus'}", "deny"},
	{model, "/v1/messages.", "{'model':'opus'}", "deny"},
	{shell, "/v1/chat/completions", "{'model':'x','tools':[{'name':'drop'}]}", "deny"},
	{shell, "/v1/responses", "{'model':'x','tools':[{'function':{'name':'Drop'}}]}", "deny"},
	/* prefixes */
	{no_etc, "/m", CALL("'path':'/etc/passwd'"), "deny"},
	{no_etc, "/m", CALL("'path':'/etc'"), "deny"},
	{no_etc, "/m", CALL("'path':'//etc/passwd'"), "deny"},
	{no_etc, "/m", CALL("'path':'/x/../etc/passwd'"), "deny"},
	{no_etc, "/m", CALL("'path':'/../etc/passwd'"), "deny"},
	{no_etc, "/m", CALL("'path':'/./etc//passwd'"), "deny"},
	{no_etc, "/m", CALL("'path':'/ETC/passwd'"), "deny"},
	{no_etc, "/m", CALL("'path':'etc/passwd'"), "deny"},
	{no_etc, "/m", CALL("'path':'/etc /passwd'"), "deny"},
	{no_etc, "/m", CALL("'path':' /etc/passwd'"), "unclear"},
	{no_etc, "/m", CALL("'path':'/\u00e9tc/passwd'"), "deny"},
	{no_etc, "/m", CALL("'path':'../../etc/passwd'"), "unclear"},
	{no_etc, "/m", CALL("'path':'/x/.. /etc/passwd'"), "unclear"},
	{no_etc, "/m", CALL("'path':'/%65tc/passwd'"), "unclear"},
	{no_etc, "/m", CALL("'path':'\\\\etc\\\\passwd'"), "unclear"},
	{no_etc, "/m", CALL("'path':'/etc\\u0009/x'"), "unclear"},
	{no_etc, "/m", CALL("'path':'file:///etc/passwd'"), "unclear"},
	{no_etc, "/m", CALL("'path':'~root/x'"), "unclear"},
	{no_etc, "/m", CALL("'path':['/etc/passwd']"), "unclear"},
	{no_etc, "/m", CALL("'Path':'/etc/passwd'"), "unclear"},
	{no_etc, "/m", CALL("'path':'/tmp/x','pa_th':'/etc/passwd'"), "unclear"},
	{no_etc, "/m", CALL("'path':'/tmp/x','pat\u0125':'/etc/passwd'"), "unclear"},
	{no_etc, "/m", CALL("'path':'/tmp/etc/x'"), "allow"},
	{no_etc, "/m", CALL("'path':'/etcetera'"), "allow"},
	{no_etc, "/m", CALL("'path':'/tmp/a b/\u540d.txt'"), "allow"},
	{no_etc, "/m", CALL("'path':5"), "allow"},
	{no_etc, "/m", CALL("'other':1"), "allow"},
	{no_etc, "/m", "{'id':1,'method':'tools/call','params':{'name':'t','arguments':'{}'}}",
		"unclear"},
	{notes, "/m", CALL("'path':'/notes/a b.txt'"), "allow"},
	{notes, "/m", CALL("'path':'/notes/./a'"), "allow"},
	{notes, "/m", CALL("'path':'/Notes/a'"), "deny"},
	{notes, "/m", CALL("'path':'/notes/../x'"), "deny"},
	{notes, "/m", CALL("'path':'/notes/%2e%2e/x'"), "unclear"},
	{notes, "/m", CALL("'path':'/notes/..%2fx'"), "unclear"},
	{notes, "/m", CALL("'path':'/notes/ .. /x'"), "unclear"},
	{notes, "/m", CALL("'path':'/notes/..\\\\x'"), "unclear"},
	{notes, "/m", CALL("'path':'/notes/a','PATH':'/etc/x'"), "unclear"},
	{notes, "/m", CALL("'path':'100% sure'"), "deny"},
	{no_sql, "/m", CALL("'q':'DROP table'"), "deny"},
	{no_sql, "/m", CALL("'q':'\\n drop table'"), "deny"},
	{no_sql, "/m", CALL("'q':'select 100%'"), "allow"},
	/* values */
	{no_id, "/m", CALL("'id':9007199254740993"), "deny"},
	{no_id, "/m", CALL("'id':9007199254740992"), "unclear"},
	{no_id, "/m", CALL("'id':9007199254740992.0"), "unclear"},
	{no_id, "/m", CALL("'id':'9007199254740993'"), "unclear"},
	{no_id, "/m", CALL("'id':9223372036854775808"), "unclear"},
	{no_id, "/m", CALL("'id':7"), "allow"},
	{no_id, "/m", CALL("'id':null"), "allow"},
	{one_id, "/m", CALL("'id':9007199254740993"), "allow"},
	{one_id, "/m", CALL("'id':9007199254740992"), "deny"},
	{no_force, "/m", CALL("'force':true"), "deny"},
	{no_force, "/m", CALL("'force':'yes'"), "unclear"},
	{no_force, "/m", CALL("'force':1"), "unclear"},
	{no_force, "/m", CALL("'force':false"), "allow"},
	{no_mode, "/m", CALL("'a':{'mode':' WIPE'}"), "deny"},
	{no_mode, "/m", CALL("'a':{'mode':'keep'}"), "allow"},
	{no_mode, "/m", CALL("'A':{'mode':'wipe'}"), "unclear"},
	{no_mode, "/m", CALL("'a':'{}'"), "unclear"},
	{both, "/m", CALL("'path':'/etc/%','mode':'r'"), "allow"},
	{both, "/m", CALL("'path':'/etc/%','mode':'w'"), "unclear"},
};

static char *quoted(const char *text)
{
	char *copy = strdup(text);

	assert_non_null(copy);
	for (char *s = copy; *s; s++)
		if (*s == '\'')
			*s = '"';
	return copy;
}

static struct rules rules_of(const char *text)
{
	_cleanup_free_ char *copy = quoted(text);
	struct error e = {0};
	struct policy_at top = {.e = &e};
	json_t *v = json_loads(copy, 0, NULL);
	struct rules r;

	assert_non_null(v);
	if (rules_make(&top, v, RULES_MAX, &r) < 0)
		fail_msg("%s", e.message);
	json_decref(v);
	return r;
}

static void check_row(const struct row *row, size_t n)
{
	_cleanup_free_ char *body = row->body ? quoted(row->body) : NULL;
	struct rules r = rules_of(row->policy);
	char clean[RULES_PATH_MAX + 1];
	struct rules_question q = {.kind = RULES_REQUEST,
		.name = "api.test",
		.port = 443,
		.tls = true,
		.method = "POST",
		.path = path_clean(row->path, strlen(row->path), clean) == 0 ? clean : NULL,
		.has_body = body};
	struct rules_verdict v = rules_judge(&r, &q);
	struct call_reader *reader = NULL;
	const char *verdict;

	if (v.body) {
		assert_non_null(body);
		reader = call_reader_new(v.body, q.path, NULL);
		assert_non_null(reader);
		(void)call_reader_feed(reader, body, strlen(body));
		q.call = call_reader_end(reader);
		v = rules_judge(&r, &q);
	}
	verdict = v.unclear ? "unclear" : rules_action_word(v.action);
	if (strcmp(verdict, row->verdict) != 0)
		fail_msg("%zu: %s %s: %s by %s%s%s", n, row->path, row->body ? row->body : "",
			verdict, rules_id(v.rule), v.unclear ? ": " : "",
			v.unclear ? v.unclear : "");
	call_reader_free(reader);
	rules_done(&r);
}

static void other_spellings(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check_row(&rows[i], i);
}

static void names_that_are_alike(void **state)
{
	static const struct {
		const char *a, *b;
		bool same;
	} names[] = {
		{"params", "Params", true},
		{"params", "PARAM\u017f", true},
		{"make", "ma\u212ae", true},
		{"max_tokens", "maxTokens", true},
		{"max-tokens", "__maxtokens", true},
		{"params", "param", false},
		{"param", "params", false},
		{"", "_", true},
		{"a", "\u00e1", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (fold_is_same(names[i].a, names[i].b) != names[i].same)
			fail_msg("%s and %s", names[i].a, names[i].b);
	assert_true(fold_is_foreign("p\u00e4th", 5));
	assert_false(fold_is_foreign("path\u017f\u212a", 9));
	assert_true(fold_is_override("_method"));
	assert_true(fold_is_override("_Method"));
	assert_false(fold_is_override("method"));
}

/* A policy and a path that take too many steps are refused, not matched for seconds. */
static void too_many_steps(void **state)
{
	static const char begin[] = LIST("allow") "{'id':'slow','action':'deny','paths':[";
	char text[8192], path[4097];
	size_t n = sizeof(begin) - 1;
	struct row row = {text, path, NULL, "unclear"};

	memcpy(text, begin, n);
	for (unsigned i = 0; i < 8; i++) {
		n += (size_t)sprintf(text + n, "%s'/", i ? "," : "");
		for (unsigned k = 0; k < 60; k++, n += 4)
			memcpy(text + n, "**a*", 4);
		memcpy(text + n, "b'", 2);
		n += 2;
	}
	memcpy(text + n, "]}]}", 5);
	memset(path, 'a', sizeof(path) - 1);
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	check_row(&row, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_that_are_alike),
		cmocka_unit_test(other_spellings),
		cmocka_unit_test(too_many_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
