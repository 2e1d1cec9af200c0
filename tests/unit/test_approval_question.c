/* Questions for people, made of messages of workers. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "network/approval_question.h"

static const uint8_t RULE[STORE_APPROVAL_HASH] = {1};

#define ASKED                                                                                      \
	"'rule':'pay','host':'shop.test','port':443,'scheme':'https','method':'POST',"             \
	"'path':'/mcp','pathDigest':'aa','digest':'bb'"
#define PAY ",'call':{'api':'mcp','tools':['pay']}"

static json_t *parse(const char *text)
{
	_cleanup_free_ char *copy = strdup(text);
	json_t *v;

	for (char *s = copy; *s; s++)
		*s = *s == '\'' ? '"' : *s;
	v = json_loads(copy, 0, NULL);
	assert_non_null(v);
	return v;
}

static struct approval_question make(const char *text)
{
	struct approval_question q;
	json_t *said = parse(text);

	assert_int_equal(approval_question_make(said, NULL, NULL, RULE, &q), 0);
	json_decref(said);
	return q;
}

/* Whether a lasting decision about one answers the other, and whether both are the same. */
static void compare(const char *one, const char *other, bool target, bool same)
{
	struct approval_question a = make(one), b = make(other);

	assert_int_equal(memcmp(a.target, b.target, sizeof(a.target)) == 0, target);
	assert_int_equal(memcmp(a.same, b.same, sizeof(a.same)) == 0, same);
	approval_question_done(&a);
	approval_question_done(&b);
}

static void calls_are_targets(void **state)
{
	compare("{" ASKED PAY ",'callDigest':'c1'}", "{" ASKED PAY ",'callDigest':'c2'}", false,
		false);
	compare("{" ASKED PAY ",'callDigest':'c1'}",
		"{" ASKED ",'call':{'api':'mcp','tools':['pay','look']},'callDigest':'c1'}", true,
		false);
	compare("{" ASKED PAY ",'callDigest':'c1'}", "{" ASKED "}", false, false);
	compare("{" ASKED "}", "{" ASKED "}", true, true);
}

/* A decision for longer is about headers that name an action. */
static void actions_are_targets(void **state)
{
	compare("{" ASKED ",'actionDigest':'a1'}", "{" ASKED ",'actionDigest':'a2'}", false, false);
	compare("{" ASKED ",'actionDigest':'a1'}", "{" ASKED "}", false, false);
	compare("{" ASKED "}", "{" ASKED ",'headers':[{'name':'a','value':'b'}]}", true, false);
}

static void headers_are_cut(void **state)
{
	struct approval_question q;
	json_t *said = parse("{" ASKED "}"), *list = json_array(), *shown;
	_cleanup_free_ char *text = NULL;
	char value[301];

	(void)snprintf(value, sizeof(value), "%0300d", 0);
	(void)json_array_append_new(list, json_string("no header"));
	for (int i = 0; i < 40; i++)
		(void)json_array_append_new(
			list, json_pack("{s:s, s:s, s:i}", "name", value, "value", value, "x", 1));
	(void)json_object_set_new(said, "headers", list);
	assert_int_equal(approval_question_make(said, NULL, NULL, RULE, &q), 0);
	shown = json_loads(q.text, 0, NULL);
	list = json_object_get(shown, "headers");
	assert_int_equal(json_array_size(list), 15);
	assert_int_equal(json_object_size(json_array_get(list, 0)), 2);
	assert_int_equal(
		json_string_length(json_object_get(json_array_get(list, 14), "value")), 131);
	text = approval_headers_text(shown, "/");
	assert_int_equal(strlen(text), 15 * (67 + 131 + 3));
	json_decref(shown);
	json_decref(said);
	approval_question_done(&q);
}

/* Text is shown as it is, whatever a worker says, and what is not all shown is told. */
static void texts_are_written_anew(void **state)
{
	struct approval_question q =
		make("{" ASKED ",'preview':'a\xe2\x80\xae\\nb\\u001b','program':'p\xd0\xb0y',"
		     "'partial':true,'hiddenBytes':3,'hidden':['to\xe2\x80\x8bken']}");
	json_t *shown = json_loads(q.text, 0, NULL);

	assert_string_equal(
		json_string_value(json_object_get(shown, "preview")), "a\\u{202e}\nb\\u{1b}");
	assert_string_equal(json_string_value(json_object_get(shown, "program")), "p\\u{430}y");
	assert_string_equal(json_string_value(json_array_get(json_object_get(shown, "hidden"), 0)),
		"to\\u{200b}ken");
	assert_true(json_is_true(json_object_get(shown, "unseen")));
	json_decref(shown);
	approval_question_done(&q);
	q = make("{" ASKED ",'preview':'a'}");
	assert_null(strstr(q.text, "unseen"));
	approval_question_done(&q);
	q = make("{" ASKED ",'bodyCoding':'gzip'}");
	assert_non_null(strstr(q.text, "unseen"));
	approval_question_done(&q);
}

/* What is shown is bounded, whatever a worker says. */
static void calls_are_cut(void **state)
{
	struct approval_question q;
	json_t *said = parse("{" ASKED ",'call':{'api':'mcp','model':5,'more':1,'methods':[],"
			     "'serverTools':'x'},'callDigest':'c1'}"),
	       *tools = json_array(), *shown, *call;
	char name[101];

	for (int i = 0; i < 40; i++) {
		(void)snprintf(name, sizeof(name), "%0100d", i);
		(void)json_array_append_new(tools, i == 1 ? json_integer(1) : json_string(name));
	}
	(void)json_object_set_new(json_object_get(said, "call"), "tools", tools);
	assert_int_equal(approval_question_make(said, NULL, NULL, RULE, &q), 0);
	shown = json_loads(q.text, 0, NULL);
	call = json_object_get(shown, "call");
	assert_null(json_object_get(shown, "callDigest"));
	assert_int_equal(json_object_size(call), 2);
	assert_string_equal(json_string_value(json_object_get(call, "api")), "mcp");
	tools = json_object_get(call, "tools");
	assert_int_equal(json_array_size(tools), 16);
	assert_int_equal(json_string_length(json_array_get(tools, 15)), 64);
	json_decref(shown);
	json_decref(said);
	approval_question_done(&q);
}

static void expect_text(const char *approval, const char *text)
{
	json_t *v = parse(approval);
	_cleanup_free_ char *got = approval_call_text(v);

	if (text)
		assert_string_equal(got, text);
	else
		assert_null(got);
	json_decref(v);
}

static void calls_as_text(void **state)
{
	expect_text("{" ASKED "}", NULL);
	expect_text("{'call':{'api':'mcp','tools':['pay','look'],'methods':['resources/read']}}",
		"mcp tools pay, look methods resources/read");
	expect_text("{'call':{'api':'openai','model':'gpt-5','serverTools':['web_search'],"
		    "'tools':['bash','...']}}",
		"openai model gpt-5 server tools web_search tools bash, ...");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_are_targets),
		cmocka_unit_test(calls_are_cut),
		cmocka_unit_test(texts_are_written_anew),
		cmocka_unit_test(actions_are_targets),
		cmocka_unit_test(headers_are_cut),
		cmocka_unit_test(calls_as_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
