/* What tells requests apart besides method, path and body: headers, parameters, upgrades to
 * WebSockets, and requests within requests. In policies and bodies ' stands for ". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "proto/http_headers.h"
#include "rules/call.h"
#include "rules/rules.h"

#define LIST(action) "{'version':1,'default':'" action "','rules':["

static const char aws[] =
	LIST("deny") "{'id':'read','action':'allow','methods':'POST','paths':'/',"
		     "'requestHeaders':{'X-Amz-Target':['Dynamo_1.Get*','Dynamo_1.List*']}}]}";

static const char no_delete[] =
	LIST("allow") "{'id':'no','action':'deny','requestHeaders':{'x-amz-target':'*delete*'}}]}";

static const char plain[] = LIST("deny") "{'id':'plain','action':'allow','paths':'/**',"
					 "'requestHeaders':{'prefer':null,'x-a':'1'}}]}";

static const char query[] = LIST("deny") "{'id':'look','action':'allow','paths':'/',"
					 "'query':{'Action':['Describe*','List*']}}]}";

static const char no_user[] =
	LIST("allow") "{'id':'no','action':'deny','query':{'Action':'DeleteUser'}}]}";

static const char bare[] = LIST("deny") "{'id':'bare','action':'allow','query':{'force':null}}]}";

static const char orders[] =
	LIST("deny") "{'id':'order','action':'ask','methods':'POST','paths':'/orders'},"
		     "{'id':'admin','action':'deny','paths':'/admin/**'},"
		     "{'id':'rest','action':'allow','host':'api.test','scheme':'https'}]}";

static const char named[] =
	LIST("deny") "{'id':'quiet','action':'allow','paths':'/items',"
		     "'requestHeaders':{'prefer':'return=*'}},"
		     "{'id':'admin','action':'deny','paths':'/admin/**'},"
		     "{'id':'rest','action':'allow','host':'api.test','scheme':'https'}]}";

static const char gets[] = LIST("deny") "{'id':'get','action':'allow','methods':'GET'},"
					"{'id':'batch','action':'allow','paths':'/v1/$batch'},"
					"{'id':'put','action':'allow','methods':'POST'}]}";

static const char no_get[] =
	LIST("allow") "{'id':'no','action':'deny','methods':'GET','paths':'/x'}]}";

static const char tools[] = LIST("deny") "{'id':'read','action':'allow','paths':'/mcp','api':'mcp',"
					 "'tools':'read_*'},{'id':'live','action':'allow',"
					 "'paths':'/live','upgrade':true},"
					 "{'id':'rest','action':'allow','paths':'/**'}]}";

static const char no_tools[] = LIST("deny") "{'id':'rest','action':'allow','paths':'/**'}]}";

static const char costs[] = LIST("deny") "{'id':'all','action':'allow','budget':{'requests':10}}]}";

#define SOCKET "upgrade: websocket"
#define FORM   "content-type: application/x-www-form-urlencoded"
#define PARTS  "content-type: multipart/form-data; boundary=b"

static const struct row {
	const char *policy, *method, *target;
	const char *headers[3]; /* "name: value" */
	const char *body, *verdict;
} rows[] = {
	/* headers */
	{aws, "POST", "/", {"x-amz-target: Dynamo_1.GetItem"}, NULL, "allow"},
	{aws, "POST", "/", {"X-AMZ-TARGET: Dynamo_1.ListTables"}, NULL, "allow"},
	{aws, "POST", "/", {"x-amz-target: Dynamo_1.DeleteTable"}, NULL, "deny"},
	{aws, "POST", "/", {"x-amz-target: dynamo_1.getitem"}, NULL, "deny"},
	{aws, "POST", "/", {NULL}, NULL, "deny"},
	{aws, "POST", "/", {"x-amz-target: Dynamo_1.GetItem", "x-amz-target: Dynamo_1.DeleteTable"},
		NULL, "unclear"},
	{aws, "POST", "/", {"x-amz-target: Dynamo_1.GetItem", "x_amz_target: Dynamo_1.DeleteTable"},
		NULL, "unclear"},
	{no_delete, "POST", "/", {"x-amz-target: Dynamo_1.DeleteTable"}, NULL, "deny"},
	{no_delete, "POST", "/", {"x-amz-target: dynamo_1.DELETETABLE"}, NULL, "deny"},
	{no_delete, "POST", "/", {"x_amz_target: Dynamo_1.DeleteTable"}, NULL, "unclear"},
	{no_delete, "POST", "/", {"x-amz-target: Dynamo_1.GetItem"}, NULL, "allow"},
	{no_delete, "POST", "/", {NULL}, NULL, "allow"},
	{plain, "GET", "/", {"x-a: 1"}, NULL, "allow"},
	{plain, "GET", "/", {"x-a: 1", "prefer: x"}, NULL, "deny"},
	{plain, "GET", "/", {"x-a: 2"}, NULL, "deny"},
	/* parameters */
	{query, "GET", "/?Action=DescribeInstances&Version=1", {NULL}, NULL, "allow"},
	{query, "GET", "/?Action=%44escribeInstances", {NULL}, NULL, "allow"},
	{query, "GET", "/?Action=DeleteUser", {NULL}, NULL, "deny"},
	{query, "GET", "/?action=DescribeInstances", {NULL}, NULL, "unclear"},
	{query, "GET", "/?Action=DescribeInstances&Action=DeleteUser", {NULL}, NULL, "unclear"},
	{query, "GET", "/?Action=DescribeInstances&%61ction=DeleteUser", {NULL}, NULL, "unclear"},
	{query, "GET", "/?Action=DescribeInstances&Action[]=DeleteUser", {NULL}, NULL, "unclear"},
	{query, "GET", "/?Action=DescribeInstances%5D=x", {NULL}, NULL, "unclear"},
	{query, "GET", "/?Action=DescribeInstances;Action=DeleteUser", {NULL}, NULL, "unclear"},
	{query, "GET", "/?x=1;Action=DescribeInstances", {NULL}, NULL, "unclear"},
	{query, "GET", "/?Action=Describe%00Delete", {NULL}, NULL, "unclear"},
	{query, "GET", "/?Action=Describe%zz", {NULL}, NULL, "unclear"},
	{query, "GET", "/?Action=DescribeX&%00Action=DeleteUser", {NULL}, NULL, "unclear"},
	{query, "GET", "/", {NULL}, NULL, "deny"},
	{query, "POST", "/", {FORM}, "Action=DescribeInstances", "allow"},
	{query, "POST", "/", {FORM}, "Action=DeleteUser", "deny"},
	{query, "POST", "/?Action=DescribeInstances", {FORM}, "Action=DeleteUser", "unclear"},
	{query, "POST", "/?Action=DescribeInstances", {FORM}, "x=1", "allow"},
	{query, "POST", "/?Action=DescribeInstances", {PARTS}, "--b--", "unclear"},
	{query, "POST", "/?Action=DescribeInstances", {FORM, "content-encoding: gzip"}, "x",
		"unclear"},
	{query, "POST", "/?Action=DescribeInstances", {"content-type: application/json"}, "{}",
		"allow"},
	{no_user, "GET", "/?Action=DeleteUser", {NULL}, NULL, "deny"},
	{no_user, "GET", "/?Action=deleteuser", {NULL}, NULL, "deny"},
	{no_user, "GET", "/?ACTION=DeleteUser", {NULL}, NULL, "unclear"},
	{no_user, "POST", "/", {FORM}, "Action=DeleteUser", "deny"},
	{no_user, "POST", "/", {NULL}, "Action=DeleteUser", "deny"},
	{no_user, "POST", "/", {FORM}, "Action=ListUsers", "allow"},
	{no_user, "GET", "/?Action=ListUsers", {NULL}, NULL, "allow"},
	{bare, "GET", "/", {NULL}, NULL, "allow"},
	{bare, "GET", "/?force=1", {NULL}, NULL, "deny"},
	{bare, "GET", "/?Force=1", {NULL}, NULL, "unclear"},
	/* headers that choose the action */
	{orders, "POST", "/", {"x-amz-target: X.Delete"}, NULL, "unclear"},
	{orders, "POST", "/", {"SOAPAction: \"x\""}, NULL, "unclear"},
	{orders, "POST", "/", {"content-type: application/soap+xml; action=\"x\""}, NULL,
		"unclear"},
	{orders, "COPY", "/a", {"Destination: /admin/x"}, NULL, "unclear"},
	{orders, "POST", "/", {"next-action: 7"}, NULL, "unclear"},
	{orders, "GET", "/", {"x-other: 1"}, NULL, "allow"},
	{orders, "POST", "/orders", {"prefer: x"}, NULL, "ask"}, /* a person sees it */
	{named, "POST", "/items", {"prefer: return=minimal"}, NULL, "allow"},
	{named, "POST", "/items", {"prefer: respond-async"}, NULL, "allow"},
	{named, "POST", "/other", {"soapaction: x"}, NULL, "unclear"},
	/* requests within requests */
	{orders, "POST", "/v1/$batch", {NULL}, NULL, "unclear"},
	{orders, "POST", "/v1/%24BATCH/", {NULL}, NULL, "unclear"},
	{orders, "POST", "/batch", {NULL}, NULL, "unclear"},
	{orders, "POST", "/batch/drive/v3", {NULL}, NULL, "unclear"},
	{orders, "POST", "/x/_bulk", {NULL}, NULL, "unclear"},
	{orders, "POST", "/trpc/a,b?batch=1", {NULL}, NULL, "unclear"},
	{orders, "POST", "/bucket?delete", {NULL}, NULL, "unclear"},
	{orders, "POST", "/x", {"content-type: multipart/mixed; boundary=b"}, NULL, "unclear"},
	{orders, "POST", "/x", {"content-type: application/http"}, NULL, "unclear"},
	{orders, "POST", "/x/batches", {NULL}, NULL, "allow"},
	{orders, "POST", "/a/batch/b", {NULL}, NULL, "allow"},
	{orders, "GET", "/bucket?delete", {NULL}, NULL, "allow"},
	{gets, "POST", "/v1/x", {NULL}, NULL, "allow"},
	{gets, "POST", "/v1/batch", {NULL}, NULL, "unclear"},
	{gets, "POST", "/v1/$batch", {NULL}, NULL, "unclear"}, /* by the rule before */
	{no_get, "HEAD", "/x", {NULL}, NULL, "deny"},
	{no_get, "PUT", "/x", {NULL}, NULL, "allow"},
	/* WebSockets */
	{tools, "GET", "/mcp", {NULL}, NULL, "allow"},
	{tools, "GET", "/mcp", {SOCKET}, NULL, "unclear"},
	{tools, "GET", "/other", {SOCKET}, NULL, "unclear"},
	{tools, "GET", "/live", {SOCKET}, NULL, "allow"},
	{no_tools, "GET", "/other", {SOCKET}, NULL, "allow"},
	{costs, "GET", "/", {SOCKET}, NULL, "unclear"},
	{costs, "GET", "/", {NULL}, NULL, "allow"},
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

static int make(const char *text, struct rules *r, struct error *e)
{
	_cleanup_free_ char *copy = quoted(text);
	struct policy_at top = {.e = e};
	json_t *v = json_loads(copy, 0, NULL);
	int made;

	assert_non_null(v);
	made = rules_make(&top, v, RULES_MAX, r);
	json_decref(v);
	return made;
}

/* Splits "name: value". */
static unsigned split(const struct row *row, char texts[3][128], struct http_header items[3])
{
	unsigned n = 0;

	for (; n < 3 && row->headers[n]; n++) {
		char *colon;

		(void)snprintf(texts[n], sizeof(texts[n]), "%s", row->headers[n]); /* fits */
		colon = strchr(texts[n], ':');
		*colon = '\0';
		items[n] = (struct http_header){
			texts[n], colon + 2, strlen(texts[n]), strlen(colon + 2)};
	}
	return n;
}

static void check_row(const struct row *row, size_t n)
{
	char clean[RULES_PATH_MAX + 1], texts[3][128];
	struct http_header items[3];
	struct http_headers h = {items, split(row, texts, items)};
	const char *mark = strchr(row->target, '?');
	struct rules_question q = {.kind = RULES_REQUEST,
		.name = "api.test",
		.port = 443,
		.tls = true,
		.method = row->method,
		.query = mark ? mark + 1 : NULL,
		.headers = &h,
		.upgrade = http_header_get(&h, "upgrade"),
		.has_body = row->body,
		.form = rules_may_be_form(row->method, row->body, &h)};
	struct error e = {0};
	struct rules_verdict v;
	struct call_reader *reader = NULL;
	struct rules r;

	assert_int_equal(make(row->policy, &r, &e), 0);
	if (path_clean(row->target, strcspn(row->target, "?"), clean) == 0)
		q.path = clean;
	v = rules_judge(&r, &q);
	if (v.body) {
		reader = call_reader_new(v.body, q.path, &h);
		assert_non_null(reader);
		(void)call_reader_feed(reader, row->body, row->body ? strlen(row->body) : 0);
		q.call = call_reader_end(reader);
		q.two_methods = q.call->two_methods;
		v = rules_judge(&r, &q);
	}
	if (strcmp(v.unclear ? "unclear" : rules_action_word(v.action), row->verdict) != 0)
		fail_msg("%zu: %s %s %s: %s by %s%s%s", n, row->method, row->target,
			row->headers[0] ? row->headers[0] : "", rules_action_word(v.action),
			rules_id(v.rule), v.unclear ? ": " : "", v.unclear ? v.unclear : "");
	call_reader_free(reader);
	rules_done(&r);
}

static void requests_are_told_apart(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check_row(&rows[i], i);
}

static void what_is_wrong(void **state)
{
	static const struct {
		const char *rule, *message;
	} wrong[] = {
		{"'requestHeaders':1", "rules[0].requestHeaders: expected an object"},
		{"'requestHeaders':{}", "rules[0].requestHeaders: expected an object"},
		{"'requestHeaders':{'a b':'x'}", "rules[0].requestHeaders.a b: no header"},
		{"'requestHeaders':{'a':[]}", "rules[0].requestHeaders.a: expected at least one"},
		{"'requestHeaders':{'a':7}", "rules[0].requestHeaders.a: expected null, or"},
		{"'requestHeaders':{'a-b':'x','A_B':'y'}", "rules[0].requestHeaders: two names"},
		{"'query':{'':'x'}", "rules[0].query.: expected a name"},
		{"'query':{'a':'x','_A':'y'}", "rules[0].query: two names"},
		{"'upgrade':false", "rules[0].upgrade: expected true"},
		{"'upgrade':1", "rules[0].upgrade: expected true"},
		{"'action':'deny','upgrade':true", "rules[0].upgrade: stands in rules that"},
		{"'host':'a.test','forward':{'to':'https://b.test'},'query':{'a':'b'}",
			"rules[0].forward: is about connections"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		char text[256];
		struct error e = {0};
		struct rules r;

		(void)snprintf(text, sizeof(text), LIST("deny") "{%s%s}]}",
			strstr(wrong[i].rule, "action") ? "" : "'action':'allow',",
			wrong[i].rule); /* fits */
		assert_true(make(text, &r, &e) < 0);
		if (strncmp(e.message, wrong[i].message, strlen(wrong[i].message)) != 0)
			fail_msg("%s: %s", wrong[i].rule, e.message);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_are_told_apart),
		cmocka_unit_test(what_is_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
