/* The language of policies: paths, rules, what they decide, and what is wrong with them. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h> /* before cmocka */

#include <cmocka.h>

#include "base/cleanup.h"
#include "proto/http_headers.h"
#include "rules/rules.h"

static uint32_t address(const char *text)
{
	uint32_t a;

	assert_int_equal(net_parse_address(text, &a), 0);
	return a;
}

static void paths_have_one_form(void **state)
{
	static const struct {
		const char *path, *clean; /* NULL: it has none */
	} rows[] = {
		{"/", "/"},
		{"*", "*"},
		{"/a/b.c", "/a/b.c"},
		{"/a/", "/a/"},
		{"/%61%2Db", "/a-b"},
		{"/a%20b", "/a b"},
		{"/%c3%a9", "/%C3%A9"},
		{"/a%3fb", "/a%3Fb"},
		{"/a%2fb", NULL},
		{"/a%5Cb", NULL},
		{"/a\\b", NULL},
		{"/a%00", NULL},
		{"/a%252fb", NULL},
		{"/a%2", NULL},
		{"/a%zz", NULL},
		{"/a;b", NULL},
		{"/public/..;/admin", NULL},
		{"/public/..%3bx/admin", NULL},
		{"/a//b", NULL},
		{"//a", NULL},
		{"/a/./b", NULL},
		{"/a/../b", NULL},
		{"/a/%2e%2E/b", NULL},
		{"/a/..", NULL},
		{"/a/.", NULL},
		{"/a/...", NULL},
		{"/a/..%20/b", NULL},
		{"/a/%20/b", NULL},
		{"/a/..b", "/a/..b"},
		{"/a%c0%afb", NULL},
		{"/a%E0%80%AFb", NULL},
		{"/a%F0%80%80%AFb", NULL},
		{"/%E0%A4%85", "/%E0%A4%85"},
		{"/\xc3\xa9", NULL},
		{"a", NULL},
		{"", NULL},
	};
	char out[RULES_PATH_MAX + 1], longest[RULES_PATH_MAX + 2];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		bool good = path_clean(rows[i].path, strlen(rows[i].path), out) == 0;

		if (good != (rows[i].clean != NULL) || (good && strcmp(out, rows[i].clean) != 0))
			fail_msg("%s became %s", rows[i].path, good ? out : "nothing");
	}
	memset(longest, 'a', sizeof(longest));
	longest[0] = '/';
	assert_int_equal(path_clean(longest, RULES_PATH_MAX, out), 0);
	assert_int_equal(strlen(out), RULES_PATH_MAX);
	assert_true(path_clean(longest, RULES_PATH_MAX + 1, out) < 0);
}

static void patterns_match_paths(void **state)
{
	static const struct {
		const char *pattern, *path;
		bool matches;
	} rows[] = {
		{"/a", "/a", true},
		{"/a", "/a/", false},
		{"/a", "/ab", false},
		{"/a/*", "/a/", false}, /* which some servers take for /a */
		{"/a/*", "/a/b", true},
		{"/a/*/c", "/a/bb/c", true},
		{"/a/b*", "/a/b", true},
		{"/a*", "/ab", true},
		{"/a*", "/ab/c", false},
		{"/a/**", "/a/", true},
		{"/a/**", "/a/b/c", true},
		{"/a/**", "/a", false},
		{"/a**", "/a", true},
		{"**", "/any/thing", true},
		{"/*/c", "/a/c", true},
		{"/*/c", "/a/b/c", false},
		{"/**/c", "/a/b/c", true},
		{"/**/c", "/c", false},
		{"/*a*/c", "/xay/c", true},
		{"/*a*/c", "/x/ac", false},
		{"/**/b*/*.git/**", "/x/y/bz/r.git/info", true},
		{"/**/b*/*.git/**", "/bz/bz/r.git/info", true},
		{"/**/b*/*.git/**", "/x/y/bz/r.gi/info", false},
		{"/**a*b", "/a/aab", true},
		{"/**a*b", "/ab/a", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct path_steps steps = {.left = PATH_STEPS_MAX};

		if (path_matches(rows[i].pattern, rows[i].path, &steps) != rows[i].matches)
			fail_msg("%s and %s", rows[i].pattern, rows[i].path);
	}
}

/* A rule that keeps requests from a server matches whatever a server may take for its path. */
static void patterns_match_widely(void **state)
{
	static const struct {
		const char *pattern, *path;
		bool matches;
	} rows[] = {
		{"/orders", "/orders", true},
		{"/orders", "/Orders", true},
		{"/Orders", "/orders", true},
		{"/orders", "/orders/", true},
		{"/orders/", "/orders", true},
		{"/orders", "/orders%20", true},
		{"/orders", "/orders.", true},
		{"/orders", "/orders%20./", true},
		{"/orders", "/orders.json", true},
		{"/orders", "/ORDERS.JSON/", true},
		{"/orders", "/orders%3Fx", true},
		{"/orders", "/orders%23x", true},
		{"/orders", "/orders%20%3Fx%23y", true},
		{"/orders", "/orders.json%3Fx=/y", true},
		{"/orders", "/order", false},
		{"/orders", "/orders/1", false},
		{"/orders", "/ordersx", false},
		{"/orders", "/orders.toolongasuffix", false},
		{"/orders", "/x/orders", false},
		{"/orders", "/.json", false},
		{"/", "/", true},
		{"/", "/.json", false},
		{"/admin/**", "/admin", true},
		{"/admin/**", "/ADMIN/x", true},
		{"/admin/**", "/admin.", true},
		{"/admin/**", "/admin%20/x", true},
		{"/admin/**", "/%20admin/x", true},
		{"/admin/**", "/admin.json", true},
		{"/admin/**", "/admin%3F/x", true},
		{"/admin/*", "/admin", true},
		{"/admin/**", "/administrator", false},
		{"/admin**", "/Administrator/x", true},
		{"/a/**/c", "/a/c", true},
		{"/a/**/**/c", "/a/c", true},
		{"/a/**/c", "/a/b/b/c", true},
		{"/**/secrets/**", "/secrets", true},
		{"/repos/*/*/secrets", "/repos/a/b/SECRETS/", true},
		{"/repos/*/*/secrets", "/repos/a/b.c/secrets", true},
		{"/repos/*/*/secrets", "/repos/a./b%20/secrets", true},
		{"/users", "/u%C5%BFers", true},
		{"/users", "/u%EF%BD%93ers", true},
		{"/users", "/us%C2%ADers", true},
		{"/users", "/users%E2%80%8B/", true},
		{"/users", "/users%E6%97%A5", false},
		{"/", "/%E6%97%A5", false},
		{"/users", "/u%F0%9D%93%88ers", true},
		{"/caf%C3%A9", "/caf%C3%A9", true},
		{"/caf%C3%A9", "/CAF%C3%89", true},
		{"/caf%C3%A9", "/cafe", false},
		{"/%E6%97%A5", "/%E6%97%A5/", true},
		{"/%E6%97%A5", "/%E6%9C%AC", false},
		{"/caf%E9", "/caf%E9", true},
		{"/a.b/c", "/A.B/c.", true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct path_steps steps = {.left = PATH_STEPS_MAX};
		char clean[RULES_PATH_MAX + 1];
		struct path_wide wide;
		bool good = path_clean(rows[i].path, strlen(rows[i].path), clean) == 0;

		if (good)
			path_widen(clean, &wide);
		if ((good && path_matches_wide(rows[i].pattern, &wide, &steps)) != rows[i].matches)
			fail_msg("%s and %s", rows[i].pattern, rows[i].path);
	}
}

/* However a pattern is made, a letter of the path takes a step for each letter of it at most. */
static void matching_takes_few_steps(void **state)
{
	char pattern[RULES_PATTERN_MAX + 1] = "/", path[RULES_PATH_MAX + 1];
	static struct path_wide wide;

	for (size_t n = 1; n + 4 <= RULES_PATTERN_MAX; n += 4)
		memcpy(pattern + n, n % 3 ? "**a*" : "*a**", 5);
	strcat(pattern, "b");
	memset(path, 'a', RULES_PATH_MAX);
	path[0] = '/';
	path[RULES_PATH_MAX] = '\0';
	path_widen(path, &wide);
	for (unsigned i = 0; i < 2; i++) {
		struct path_steps steps = {.left = UINT32_MAX}, few = {.left = 1000};

		assert_false(i ? path_matches_wide(pattern, &wide, &steps)
			       : path_matches(pattern, path, &steps));
		assert_false(steps.over);
		assert_true(UINT32_MAX - steps.left >= RULES_PATH_MAX);
		assert_true(UINT32_MAX - steps.left <=
			    (uint32_t)RULES_PATH_MAX * (RULES_PATTERN_MAX + 5));
		assert_false(i ? path_matches_wide(pattern, &wide, &few)
			       : path_matches(pattern, path, &few));
		assert_true(few.over);
		assert_int_equal(few.left, 0);
	}
}

static struct rules rules_of(const char *text)
{
	struct error e = {0};
	struct policy_at top = {.e = &e};
	json_t *v = json_loads(text, 0, NULL);
	struct rules r;

	assert_non_null(v);
	if (rules_make(&top, v, RULES_MAX, &r) < 0)
		fail_msg("%s", e.message);
	json_decref(v);
	return r;
}

static void patterns_can_match(void **state)
{
	assert_true(path_is_pattern("/caf%C3%A9/**"));
	assert_true(path_is_pattern("/a%3Fb"));
	assert_false(path_is_pattern("/a%2Fb"));
	assert_false(path_is_pattern("a"));
	assert_false(path_is_pattern(""));
}

static const char table[] =
	"{\"version\":1,\"default\":\"deny\",\"rules\":["
	"{\"id\":\"seen\",\"action\":\"log\",\"host\":\"*.github.com\"},"
	"{\"id\":\"merge\",\"action\":\"ask\",\"host\":\"api.github.com\",\"methods\":\"put\","
	"\"paths\":\"/repos/*/*/pulls/*/merge\"},"
	"{\"id\":\"secrets\",\"action\":\"deny\",\"host\":\"api.github.com\","
	"\"paths\":\"/repos/*/*/actions/secrets**\",\"reason\":\"keys are not for you\"},"
	"{\"id\":\"github\",\"action\":\"allow\",\"host\":[\"API.github.com\",\"x.test\"],"
	"\"methods\":[\"GET\",\"PUT\"],\"paths\":[\"/repos/**\",\"/user\"]},"
	"{\"id\":\"canned\",\"action\":\"respond\",\"host\":\"mock.test\",\"respond\":"
	"{\"status\":418,\"body\":\"tea\"}},"
	"{\"id\":\"plain\",\"action\":\"allow\",\"host\":\"old.test\",\"scheme\":\"http\"},"
	"{\"id\":\"db\",\"action\":\"allow\",\"host\":\"db.test\",\"ports\":5432},"
	"{\"id\":\"net\",\"action\":\"allow\",\"net\":\"192.0.2.0/24\",\"ports\":[22]}]}";

static void table_of_verdicts(void **state)
{
	static const struct {
		const char *name;
		uint16_t port;
		const char *method, *path; /* NULL: the flow */
		bool opaque;
		const char *verdict; /* "inspect", or the action */
		const char *rule;
	} rows[] = {
		{"api.github.com", 443, NULL, NULL, false, "inspect", "merge"},
		{"api.github.com", 443, "GET", "/user", false, "allow", "github"},
		{"api.github.com", 443, "GET", "/%75ser", false, "allow", "github"},
		{"api.github.com", 443, "POST", "/user", false, "deny", "default"},
		{"api.github.com", 443, "GET", "/users", false, "deny", "default"},
		{"api.github.com", 443, "GET", "/repos/a/b", false, "allow", "github"},
		{"api.github.com", 443, "PUT", "/repos/a/b/pulls/1/merge", false, "ask", "merge"},
		{"api.github.com", 443, "GET", "/repos/a/b/pulls/1/merge", false, "allow",
			"github"},
		{"api.github.com", 443, "GET", "/repos/a/b/actions/secrets/x", false, "deny",
			"secrets"},
		{"api.github.com", 443, "GET", "/repos/../repos/a/b/actions/secrets", false, "deny",
			"secrets"},
		{"api.github.com", 443, "GET", "/repos//a", false, "deny", "secrets"},
		{"api.github.com", 443, "GET", "/repos/a/b/actions;x/secrets", false, "deny",
			"secrets"},
		{"x.test", 443, "GET", "/repos/..;/user", false, "deny", "github"},
		{"api.github.com", 22, NULL, NULL, true, "ask", "merge"},
		{"x.test", 443, NULL, NULL, false, "inspect", "github"},
		{"x.test", 8443, "GET", "/user", false, "allow", "github"},
		{"x.test", 443, NULL, NULL, true, "deny", "default"},
		{"mock.test", 443, NULL, NULL, false, "inspect", "canned"},
		{"mock.test", 443, "DELETE", "//", false, "respond", "canned"},
		{"mock.test", 25, NULL, NULL, true, "deny", "default"},
		{"old.test", 443, "GET", "/", false, "deny", "default"},
		{"db.test", 5432, NULL, NULL, false, "allow", "db"},
		{"db.test", 5432, NULL, NULL, true, "allow", "db"},
		{"db.test", 5433, NULL, NULL, false, "deny", "default"},
		{NULL, 22, NULL, NULL, false, "allow", "net"},
		{NULL, 443, NULL, NULL, false, "deny", "default"},
		{"evil.test", 443, NULL, NULL, false, "deny", "default"},
	};
	struct rules r = rules_of(table);

	assert_true(r.names);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char clean[RULES_PATH_MAX + 1];
		bool good =
			rows[i].path && path_clean(rows[i].path, strlen(rows[i].path), clean) == 0;
		struct rules_verdict v = rules_judge(
			&r, &(struct rules_question){.kind = rows[i].method   ? RULES_REQUEST
							     : rows[i].opaque ? RULES_OPAQUE
									      : RULES_FLOW,
				    .name = rows[i].name,
				    .address = address(rows[i].name ? "198.51.100.1" : "192.0.2.7"),
				    .port = rows[i].port,
				    .tls = true,
				    .method = rows[i].method,
				    .path = good ? clean : NULL});
		const char *verdict = v.inspect && v.action == RULES_ALLOW
					      ? "inspect"
					      : rules_action_word(v.action);

		if (strcmp(verdict, rows[i].verdict) != 0 ||
			strcmp(rules_id(v.rule), rows[i].rule) != 0)
			fail_msg("row %zu: %s by %s", i, verdict, rules_id(v.rule));
		assert_true(!v.noted || strcmp(v.noted->id, "seen") == 0);
		assert_int_equal(v.noted != NULL,
			rows[i].name && strcmp(rows[i].name, "api.github.com") == 0);
	}
	rules_done(&r);
}

/* Servers may read a method from a header. */
static void methods_of_headers(void **state)
{
	static const struct {
		const char *name, *method, *path;
		const char *verdict, *rule;
		bool unclear;
	} rows[] = {
		{"api.github.com", "POST", "/repos/a/b/pulls/1/merge", "deny", "merge", true},
		{"api.github.com", "GET", "/user", "deny", "github", true},
		{"api.github.com", "GET", "/users", "deny", "default", false},
		{"api.github.com", "GET", "/repos/a/b/actions/secrets", "deny", "secrets", false},
		{"mock.test", "POST", "/", "respond", "canned", false},
	};
	static const char *const names[] = {"X-HTTP-Method-Override", "x-http-method",
		"X_METHOD_Override", "x-http-methods", "x-http-metho", "method"};
	struct rules r = rules_of(table);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct rules_verdict v =
			rules_judge(&r, &(struct rules_question){.kind = RULES_REQUEST,
						.name = rows[i].name,
						.port = 443,
						.tls = true,
						.method = rows[i].method,
						.two_methods = true,
						.path = rows[i].path});

		if (strcmp(rules_action_word(v.action), rows[i].verdict) != 0 ||
			strcmp(rules_id(v.rule), rows[i].rule) != 0 ||
			!v.unclear == rows[i].unclear)
			fail_msg("row %zu: %s by %s", i, rules_action_word(v.action),
				rules_id(v.rule));
	}
	rules_done(&r);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct http_header items[] = {{.name = "host"}, {.name = names[i]}};

		assert_int_equal(
			rules_has_two_methods(&(struct http_headers){items, 2}, NULL), i < 3);
	}
}

/* A person is not asked about one whose method is unsure, whatever the rule is about. */
static void two_methods_are_not_asked_about(void **state)
{
	static const char asking[] =
		"{\"default\": \"deny\", \"rules\": ["
		"{\"id\": \"pay\", \"action\": \"ask\", \"host\": \"pay.test\", \"paths\": "
		"\"/orders\"},"
		"{\"id\": \"shop\", \"action\": \"ask\", \"host\": \"shop.test\"},"
		"{\"id\": \"all\", \"action\": \"ask\", \"host\": \"all.test\"},"
		"{\"id\": \"one\", \"action\": \"deny\", \"host\": \"all.test\", \"paths\": "
		"\"/x\"}]}";
	struct rules r = rules_of(asking);
	static const struct {
		const char *name, *path, *verdict;
		bool two_methods;
	} rows[] = {
		{"pay.test", "/orders", "ask", false},
		{"pay.test", "/orders", "deny", true},
		{"pay.test", "/", "deny", true},
		/* which was asked about as a connection */
		{"shop.test", "/orders", "allow", true},
		{"all.test", "/", "allow", true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct rules_verdict v =
			rules_judge(&r, &(struct rules_question){.kind = RULES_REQUEST,
						.name = rows[i].name,
						.port = 443,
						.tls = true,
						.method = "POST",
						.two_methods = rows[i].two_methods,
						.path = rows[i].path});

		if (strcmp(rules_action_word(v.action), rows[i].verdict) != 0)
			fail_msg("row %zu: %s by %s", i, rules_action_word(v.action),
				rules_id(v.rule));
		assert_int_equal(v.unclear != NULL, i == 1);
	}
	rules_done(&r);
}

static const struct form_row {
	const char *name, *path, *method;
	bool no_form;		      /* the body is none */
	bool read;		      /* its form decides */
	const char *plain, *replaced; /* verdicts; plain without a field that replaces the method */
} form_rows[] = {
	/* any method is allowed or denied */
	{"any.test", "/", "POST", false, false, "allow", "allow"},
	{"closed.test", "/", "POST", false, false, "deny", "deny"},
	/* a rule is about methods */
	{"api.test", "/items", "POST", false, true, "allow", "deny"},
	{"api.test", "/items", "POST", true, false, "allow", "allow"},
	{"api.test", "/items", "PUT", true, false, "deny", "deny"},
	{"api.test", "/free/x", "POST", false, false, "allow", "allow"},
	{"api.test", "/canned", "POST", false, true, "respond", "deny"},
	{"api.test", "/no", "POST", false, false, "deny", "deny"},
	/* a person sees the method */
	{"pay.test", "/orders", "POST", false, true, "ask", "deny"},
	{"pay.test", "/orders", "POST", true, false, "ask", "ask"},
	{"shop.test", "/", "POST", false, false, "allow", "allow"},
	/* rules about models allow POST only; a form is none of theirs */
	{"models.test", "/v1/messages", "POST", false, true, "allow", "deny"},
	{"both.test", "/v1/messages", "POST", false, true, "deny", "deny"},
};

static struct rules form_rules(void)
{
	return rules_of(
		"{\"default\": \"deny\", \"rules\": ["
		"{\"id\": \"any\", \"action\": \"allow\", \"host\": \"any.test\"},"
		"{\"id\": \"free\", \"action\": \"allow\", \"host\": \"api.test\", \"paths\": "
		"\"/free/*\"},"
		"{\"id\": \"no\", \"action\": \"deny\", \"host\": \"api.test\", \"paths\": "
		"\"/no\"},"
		"{\"id\": \"keep\", \"action\": \"deny\", \"host\": \"api.test\", \"methods\": "
		"[\"DELETE\", \"PUT\"]},"
		"{\"id\": \"canned\", \"action\": \"respond\", \"host\": \"api.test\", \"paths\": "
		"\"/canned\", \"respond\": {}},"
		"{\"id\": \"rest\", \"action\": \"allow\", \"host\": \"api.test\"},"
		"{\"id\": \"pay\", \"action\": \"ask\", \"host\": \"pay.test\", \"paths\": "
		"\"/orders\"},"
		"{\"id\": \"shop\", \"action\": \"ask\", \"host\": \"shop.test\"},"
		"{\"id\": \"models\", \"action\": \"allow\", \"host\": \"models.test\", \"api\": "
		"\"anthropic\"},"
		"{\"id\": \"both\", \"action\": \"allow\", \"host\": \"both.test\", \"models\": "
		"\"*\"}]}");
}

static const char *verdict_of_form(
	const struct rules *r, struct rules_question q, const struct form_row *row, bool replaces)
{
	const struct call call = {.apis = CALL_FORM | CALL_MODELS,
		.unclear = "its body is not application/json in UTF-8",
		.two_methods = replaces};
	struct rules_verdict v = rules_judge(r, &q);

	if (!(v.body & CALL_FORM) != !row->read)
		fail_msg("%s%s: read: %u", row->name, row->path, v.body);
	if (v.body) {
		q.call = &call;
		q.two_methods = call.two_methods;
		v = rules_judge(r, &q);
		assert_int_equal(v.body, 0);
	}
	return rules_action_word(v.action);
}

/* A form is read only if what it says may change the verdict. */
static void forms_are_read(void **state)
{
	struct rules r = form_rules();

	for (size_t i = 0; i < ARRAY_SIZE(form_rows); i++) {
		const struct form_row *row = &form_rows[i];
		const struct rules_question q = {.kind = RULES_REQUEST,
			.name = row->name,
			.port = 443,
			.tls = true,
			.method = row->method,
			.path = row->path,
			.has_body = true,
			.form = !row->no_form};
		const char *plain = verdict_of_form(&r, q, row, false),
			   *replaced = verdict_of_form(&r, q, row, true);

		if (strcmp(plain, row->plain) != 0 || strcmp(replaced, row->replaced) != 0)
			fail_msg("%s%s: %s, %s", row->name, row->path, plain, replaced);
	}
	rules_done(&r);
}

/* Frameworks read _method, and PHP reads more as this. */
static void paths_of_headers(void **state)
{
	static const char *const names[] = {"X-Original-URL", "x_rewrite_url", "x-override-url",
		"X-Forwarded-Host", "Forwarded", "x-forwarded-prefix", "x_forwarded_uri",
		"x-original-urls", "original-url", "x-forwarded-for"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct http_header items[] = {{.name = "host"}, {.name = names[i]}};

		assert_int_equal(rules_has_two_paths(&(struct http_headers){items, 2}), i < 7);
	}
}

static void two_methods_in_a_query(void **state)
{
	static const char *const changing[] = {"_method=DELETE", "a=1&_method=PUT", "_METHOD",
		"_method", "a;_method=x", "%5Fmethod=x", "_%6d%45thod=x", ".method=x", "[method=x",
		"+_method=x", "%20_method=x", "++.method=x", "_method%00x=y",
		"&&_method=", "a#_method=x", "[method]x=1", "[_method]=x", "%5B_method%5D=x",
		"]]_method=x", "._method=x", "_method]]=x", "_method[]=x", "_method%5B0%5D=x",
		"_method[][]=x", "X-HTTP-Method-Override=PUT", "x_http_method="};
	static const char *const others[] = {"", "method=x", "_methods=x", "a_method=x",
		"__method=x", "x=_method", "_metho=d", "_method%", "_method%2", "%5", "a._method=x",
		"_method_=1", "+method=x", "a[_method]=x", "_method[a]=x", "[_methods]=x",
		"x-http-methods=y"};

	for (size_t i = 0; i < ARRAY_SIZE(changing); i++)
		if (!rules_has_two_methods(NULL, changing[i]))
			fail_msg("%s", changing[i]);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (rules_has_two_methods(NULL, others[i]))
			fail_msg("%s", others[i]);
}

static void names_are_judged(void **state)
{
	static const struct {
		const char *name;
		bool allow;
	} rows[] = {
		{"api.github.com", true},
		{"www.github.com", false},
		{"x.test", true},
		{"mock.test", true},
		{"db.test", true},
		{"evil.test", false},
	};
	struct rules r = rules_of(table);
	struct rules open =
		rules_of("{\"default\":\"allow\",\"rules\":["
			 "{\"action\":\"deny\",\"host\":\"*.evil.test\"},"
			 "{\"action\":\"deny\",\"host\":\"x.test\",\"ports\":25},"
			 "{\"action\":\"deny\",\"host\":\"y.test\",\"methods\":\"PUT\"}]}");

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(rules_judge(&r, &(struct rules_question){.kind = RULES_NAME,
							 .name = rows[i].name})
						 .action == RULES_ALLOW,
			rows[i].allow);
	assert_int_equal(rules_judge(&open, &(struct rules_question){.name = "a.evil.test"}).action,
		RULES_DENY);
	assert_int_equal(
		rules_judge(&open, &(struct rules_question){.name = "x.test"}).action, RULES_ALLOW);
	assert_int_equal(
		rules_judge(&open, &(struct rules_question){.name = "y.test"}).action, RULES_ALLOW);
	rules_done(&r);
	rules_done(&open);
}

/* A connection that is forwarded is so as a whole, and only as HTTPS. */
static void connections_are_forwarded(void **state)
{
	struct rules r =
		rules_of("{\"default\":\"allow\",\"rules\":["
			 "{\"action\":\"deny\",\"host\":\"*.test\",\"methods\":\"DELETE\"},"
			 "{\"action\":\"ask\",\"host\":\"c.test\"},"
			 "{\"action\":\"allow\",\"host\":\"*.test\",\"ports\":443,\"forward\":"
			 "{\"to\":\"https://Proxy.example:8443/v1/\"}}]}");
	struct rules_question q = {.kind = RULES_FLOW, .name = "a.test", .port = 443};
	struct rules_verdict v = rules_judge(&r, &q);

	assert_true(v.action == RULES_ALLOW && v.inspect && v.forward);
	assert_string_equal(v.forward->host, "proxy.example");
	assert_string_equal(v.forward->path, "/v1");
	assert_int_equal(v.forward->port, 8443);
	q.port = 80;
	assert_null(rules_judge(&r, &q).forward);
	q = (struct rules_question){.kind = RULES_OPAQUE, .name = "a.test", .port = 443};
	assert_null(rules_judge(&r, &q).forward);
	q = (struct rules_question){.kind = RULES_FLOW, .name = "c.test", .port = 443};
	assert_null(rules_judge(&r, &q).forward); /* a rule before it decides */
	rules_done(&r);
}

/* Who was asked about a connection is not asked again for each of its requests. */
static void a_connection_is_asked_about_once(void **state)
{
	struct rules once = rules_of("{\"default\":\"deny\",\"rules\":["
				     "{\"action\":\"ask\",\"host\":\"a.test\"}]}");
	struct rules each =
		rules_of("{\"default\":\"deny\",\"rules\":["
			 "{\"action\":\"deny\",\"host\":\"a.test\",\"methods\":\"PUT\"},"
			 "{\"action\":\"ask\",\"host\":\"a.test\"}]}");
	struct rules_question flow = {.kind = RULES_FLOW, .name = "a.test", .port = 443},
			      request = {.kind = RULES_REQUEST,
				      .name = "a.test",
				      .port = 443,
				      .tls = true,
				      .method = "GET",
				      .path = "/"};

	assert_int_equal(rules_judge(&once, &flow).action, RULES_ASK);
	assert_int_equal(rules_judge(&once, &request).action, RULES_ALLOW);
	assert_true(rules_judge(&each, &flow).inspect);
	assert_int_equal(rules_judge(&each, &request).action, RULES_ASK);
	rules_done(&once);
	rules_done(&each);
}

static void what_is_wrong_is_named(void **state)
{
#define RULE(text)   "{\"version\":1,\"default\":\"deny\",\"rules\":[" text "]}"
#define DENY(more)   RULE("{\"action\":\"deny\"," more "}")
#define ALLOW(more)  RULE("{\"action\":\"allow\"," more "}")
#define TO(url)	     "\"forward\":{\"to\":\"" url "\"}"
#define SET(headers) "\"headers\":{" headers "}"
#define FORWARD(url) ALLOW("\"host\":\"a.test\"," TO(url))
	static const struct {
		const char *text, *error;
	} rows[] = {
		{"[]", "policy: expected an object"},
		{"{\"default\":\"deny\"}", "policy.version: expected 1"},
		{"{\"version\":2,\"default\":\"deny\"}", "policy.version: expected a number"},
		{"{\"version\":1}", "policy.default: expected \"deny\" or \"allow\""},
		{"{\"version\":1,\"default\":\"ask\"}", "policy.default: "},
		{"{\"version\":1,\"default\":\"deny\",\"mode\":\"learn\"}",
			"policy.mode: expected"},
		{"{\"version\":1,\"default\":\"deny\",\"x\":1}", "policy.x: no such member"},
		{"{\"version\":1,\"default\":\"deny\",\"rules\":{}}",
			"policy.rules: expected an array"},
		{RULE("{}"), "policy.rules[0].action: expected"},
		{RULE("{\"action\":\"pray\"}"), "policy.rules[0].action: expected"},
		{RULE("{\"action\":\"deny\"},{\"action\":\"deny\",\"path\":\"/\"}"),
			"policy.rules[1].path: no such member"},
		{DENY("\"host\":\"a b\""), "policy.rules[0].host: expected a name"},
		{DENY("\"host\":[\"a\",\"*x\"]"), "policy.rules[0].host[1]: expected a name"},
		{DENY("\"host\":[]"), "policy.rules[0].host: expected at least one"},
		{DENY("\"net\":\"::1\""), "policy.rules[0].net: expected IPv4"},
		{DENY("\"ports\":[80,0]"), "policy.rules[0].ports[1]: expected a port"},
		{DENY("\"methods\":\"G T\""), "policy.rules[0].methods: expected a method"},
		{DENY("\"paths\":[\"/a\",\"b\"]"), "policy.rules[0].paths[1]: expected a path"},
		{DENY("\"paths\":\"/a?b\""), "policy.rules[0].paths: expected a path"},
		{DENY("\"paths\":\"/a;b\""), "policy.rules[0].paths: expected a path"},
		{DENY("\"paths\":\"/%61\""), "policy.rules[0].paths: expected a path"},
		{DENY("\"paths\":\"/%c3%a9\""), "policy.rules[0].paths: expected a path"},
		{DENY("\"paths\":\"/a%\""), "policy.rules[0].paths: expected a path"},
		{DENY("\"scheme\":\"ftp\""), "policy.rules[0].scheme: expected"},
		{DENY("\"host\":\"a.b\"," TO("https://x.test")), "policy.rules[0].forward: stands"},
		{ALLOW(TO("https://x.test")), "policy.rules[0].forward: stands"},
		{ALLOW("\"host\":\"a.b\",\"paths\":\"/a\"," TO("https://x.test")),
			"policy.rules[0].forward: is about"},
		{ALLOW("\"host\":\"a.b\",\"scheme\":\"http\"," TO("https://x.test")),
			"policy.rules[0].forward: is about"},
		{ALLOW("\"host\":\"a.b\",\"forward\":{}"), "policy.rules[0].forward.to: expected"},
		{ALLOW("\"host\":\"a.b\",\"forward\":{\"to\":\"https://x.test\",\"x\":1}"),
			"policy.rules[0].forward.x: no such"},
		{DENY("\"host\":\"a.b\"," SET("\"a\":\"1\"")), "policy.rules[0].headers: stands"},
		{ALLOW(SET("\"a\":\"1\"")), "policy.rules[0].headers: stands"},
		{ALLOW("\"host\":\"a.b\",\"scheme\":\"http\"," SET("\"a\":\"1\"")),
			"policy.rules[0].headers: stands"},
		{ALLOW("\"host\":\"a.b\"," SET("")), "policy.rules[0].headers: expected"},
		{ALLOW("\"host\":\"a.b\"," SET("\"a\":\"1\",\"A\":null")),
			"policy.rules[0].headers.A: the same name"},
		{ALLOW("\"host\":\"a.b\"," SET("\"a\":1")), "policy.rules[0].headers.a: expected"},
		{ALLOW("\"host\":\"a.b\"," SET("\"host\":null")),
			"policy.rules[0].headers.host: no header"},
		{ALLOW("\"host\":\"a.b\"," SET("\"a\":\"${e2b.x}\"")),
			"policy.rules[0].headers.a: a reference"},
		{ALLOW("\"host\":\"a.b\"," SET("\"a\":\"${e2b.secrets.x\"")),
			"policy.rules[0].headers.a: a reference"},
		{ALLOW("\"host\":\"*\"," SET("\"a\":\"${e2b.secrets.x}\"")),
			"policy.rules[0].headers.a: a secret"},
		{FORWARD("http://x.test"), "policy.rules[0].forward.to: expected"},
		{FORWARD("https://x"), "policy.rules[0].forward.to: expected"},
		{FORWARD("https://10.0.0.1"), "policy.rules[0].forward.to: expected"},
		{FORWARD("https://x.test:0"), "policy.rules[0].forward.to: expected"},
		{FORWARD("https://x.test:99999/"), "policy.rules[0].forward.to: expected"},
		{FORWARD("https://x.test/../a"), "policy.rules[0].forward.to: expected"},
		{FORWARD("https://x.test/a?b"), "policy.rules[0].forward.to: expected"},
		{FORWARD("https://a@x.test/"), "policy.rules[0].forward.to: expected"},
		{FORWARD("https://80-x.mayfly.internal"), "policy.rules[0].forward.to: expected"},
		{DENY("\"reason\":\"\\n\""), "policy.rules[0].reason: expected"},
		{RULE("{\"action\":\"allow\",\"reason\":\"x\"}"), "policy.rules[0].reason: only"},
		{DENY("\"respond\":{}"), "policy.rules[0].respond: is required"},
		{RULE("{\"action\":\"respond\"}"), "policy.rules[0].respond: is required"},
		{RULE("{\"action\":\"respond\",\"respond\":{\"status\":100}}"),
			"policy.rules[0].respond.status: expected"},
		{RULE("{\"action\":\"respond\",\"respond\":{\"headers\":{\"Host\":\"x\"}}}"),
			"policy.rules[0].respond.headers.Host: no header"},
		{RULE("{\"action\":\"respond\",\"respond\":{\"headers\":{\"a\":\"x\\ry\"}}}"),
			"policy.rules[0].respond.headers.a: expected"},
		{RULE("{\"action\":\"respond\",\"respond\":{\"body\":1}}"),
			"policy.rules[0].respond.body: expected"},
		{RULE("{\"action\":\"respond\",\"respond\":{\"status\":204,\"body\":\"x\"}}"),
			"policy.rules[0].respond: an answer of this status"},
		{RULE("{\"id\":\"a\",\"action\":\"deny\"},{\"id\":\"a\",\"action\":\"deny\"}"),
			"policy.rules[1].id: rules[0] has this id"},
		{RULE("{\"action\":\"ask\",\"host\":\"*.mayfly.internal\"}"),
			"policy.rules[0]: a rule for other sandboxes"},
		{DENY("\"host\":[\"*.mayfly.internal\",\"a\"]"),
			"policy.rules[0]: a rule for other sandboxes"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		json_t *v = json_loads(rows[i].text, 0, NULL);
		struct error e = {0};

		assert_non_null(v);
		assert_true(rules_check(v, "policy", &e) < 0);
		if (strncmp(e.message, rows[i].error, strlen(rows[i].error)) != 0)
			fail_msg("%s: %s", rows[i].text, e.message);
		json_decref(v);
	}
}

static json_t *document_of(size_t rules, size_t reason)
{
	json_t *v = json_pack("{s:i, s:s, s:[]}", "version", 1, "default", "deny", "rules");
	char text[RULES_REASON_MAX + 1] = "";

	memset(text, 'x', reason);
	for (size_t i = 0; i < rules; i++)
		(void)json_array_append_new(json_object_get(v, "rules"),
			json_pack("{s:s, s:s}", "action", "deny", "reason", text));
	return v;
}

static void headers_name_few_secrets(void **state)
{
	for (int n = RULES_SECRETS_MAX; n <= RULES_SECRETS_MAX + 1; n++) {
		json_t *rules = json_array(), *document;
		struct error e = {0};

		for (int i = 0; i < 2 * n; i++) {
			char text[64];

			(void)snprintf(text, sizeof(text), "a ${e2b.secrets.S%d} b", i % n);
			(void)json_array_append_new(
				rules, json_pack("{s:s, s:s, s:{s:s}}", "action", "allow", "host",
					       "a.test", "headers", "x", text));
		}
		document = json_pack(
			"{s:i, s:s, s:o}", "version", 1, "default", "deny", "rules", rules);
		assert_int_equal(rules_check(document, "policy", &e) == 0, n == RULES_SECRETS_MAX);
		if (n > RULES_SECRETS_MAX)
			assert_string_equal(e.message,
				"policy.rules[32].headers: the rules name more "
				"than 32 secrets");
		json_decref(document);
	}
}

static void documents_have_limits(void **state)
{
	json_t *most = document_of(RULES_DOCUMENT_MAX, 160), *rules = document_of(129, 1), *paths;
	struct error e = {0};
	char path[RULES_PATTERN_MAX + 1] = "";

	assert_int_equal(rules_check(most, "policy", &e), 0);
	assert_true(rules_check(rules, "policy", &e) < 0);
	assert_non_null(strstr(e.message, "at most 128"));
	e = (struct error){0};
	memset(path, '/', RULES_PATTERN_MAX);
	paths = json_array();
	for (int i = 0; i < RULES_ITEMS_MAX; i++)
		(void)json_array_append_new(paths, json_string(path));
	for (size_t i = 0; i < 8; i++)
		(void)json_object_set(
			json_array_get(json_object_get(most, "rules"), i), "paths", paths);
	assert_true(rules_check(most, "policy", &e) < 0);
	assert_non_null(strstr(e.message, "65536"));
	json_decref(paths);
	json_decref(most);
	json_decref(rules);
}

static void inspected_hosts_are_listed(void **state)
{
	struct rules r = rules_of(table),
		     any = rules_of("{\"default\":\"allow\",\"rules\":[{"
				    "\"action\":\"deny\",\"methods\":\"PUT\"}]}");
	json_t *hosts = json_object();

	assert_int_equal(rules_inspected(&r, hosts), 0);
	assert_int_equal(json_object_size(hosts), 4);
	assert_non_null(json_object_get(hosts, "api.github.com"));
	assert_non_null(json_object_get(hosts, "x.test"));
	assert_non_null(json_object_get(hosts, "mock.test"));
	assert_non_null(json_object_get(hosts, "old.test"));
	assert_int_equal(rules_inspected(&any, hosts), 0);
	assert_non_null(json_object_get(hosts, "*"));
	json_decref(hosts);
	rules_done(&r);
	rules_done(&any);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_have_one_form),
		cmocka_unit_test(patterns_match_paths),
		cmocka_unit_test(patterns_match_widely),
		cmocka_unit_test(matching_takes_few_steps),
		cmocka_unit_test(patterns_can_match),
		cmocka_unit_test(table_of_verdicts),
		cmocka_unit_test(methods_of_headers),
		cmocka_unit_test(paths_of_headers),
		cmocka_unit_test(two_methods_in_a_query),
		cmocka_unit_test(two_methods_are_not_asked_about),
		cmocka_unit_test(forms_are_read),
		cmocka_unit_test(names_are_judged),
		cmocka_unit_test(a_connection_is_asked_about_once),
		cmocka_unit_test(connections_are_forwarded),
		cmocka_unit_test(what_is_wrong_is_named),
		cmocka_unit_test(documents_have_limits),
		cmocka_unit_test(headers_name_few_secrets),
		cmocka_unit_test(inspected_hosts_are_listed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
