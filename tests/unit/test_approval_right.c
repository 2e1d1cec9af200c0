/* Who may decide: every rule beside everybody, and every decision. */
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "network/approval_right.h"
#include "policy/network_floor.h"
#include "policy/rule_digest.h"

/* For operator, key, link: '-' none, '1' once, '+' for longer, too. */
static const struct {
	const char *who, *links, *may;
} table[] = {
	{"operator", "no", "+--"},
	{"key", "no", "++-"},
	{"key", "once", "++1"},
	{"key", "longer", "+++"},
	{"person", "no", "+--"},
	{"person", "once", "+-1"},
	{"person", "longer", "+-+"},
	{NULL, NULL, "++1"},	       /* stored by an older daemon */
	{"operator", "longer", "+--"}, /* what no rule says */
	{"operators", "once", "+--"},
	{"key", "always", "++-"},
};

static int check(const char *question, enum approval_by by, bool allow,
	enum store_approval_for scope, bool accepts)
{
	const struct approval_decider d = {.by = by, .accepts_unseen = accepts};
	const struct store_approval a = {
		.state = allow ? STORE_APPROVAL_ALLOWED : STORE_APPROVAL_DENIED, .scope = scope};
	struct error e = {0};

	return approval_right_check(question, &d, &a, &e);
}

static char *question(const char *who, const char *links, bool unseen)
{
	json_t *o = json_pack("{s:s*, s:s*}", "who", who, "links", links);
	char *text;

	if (unseen)
		(void)json_object_set_new(o, "unseen", json_true());
	text = json_dumps(o, 0);
	json_decref(o);
	return text;
}

static void everybody_decides(void **state)
{
	for (unsigned i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_free_ char *seen = question(table[i].who, table[i].links, false);
		_cleanup_free_ char *unseen = question(table[i].who, table[i].links, true);
		struct error e = {0};

		for (int by = 0; by < APPROVAL_BYS_; by++)
			for (int scope = 0; scope < STORE_APPROVAL_FORS_; scope++) {
				char may = table[i].may[by];
				bool good =
					may == '+' || (may == '1' && scope == STORE_APPROVAL_ONCE);

				for (int allow = 0; allow < 2; allow++)
					assert_int_equal(check(seen, by, allow, scope, false),
						good ? 0 : -EACCES);
				/* what is not all shown needs a word, and no link allows it */
				assert_int_equal(
					check(unseen, by, false, scope, false), good ? 0 : -EACCES);
				assert_int_equal(check(unseen, by, true, scope, false),
					!good || by == APPROVAL_BY_LINK ? -EACCES : -EINVAL);
				assert_int_equal(check(unseen, by, true, scope, true),
					!good || by == APPROVAL_BY_LINK ? -EACCES : 0);
			}
		assert_int_equal(approval_right_check_end(seen, &e),
			table[i].may[APPROVAL_BY_KEY] == '+' ? 0 : -EACCES);
	}
	assert_int_equal(check("no JSON", APPROVAL_BY_KEY, true, 0, true), -EACCES);
}

static void links_are_made(void **state)
{
	static const struct {
		const char *who, *links, *rule;
		bool link, operators;
	} rows[] = {
		{"operator", "no", "operator.pay", false, false},
		{"key", "once", "operator.pay", true, false},
		{"key", "no", "pay", false, false},
		{"person", "once", "pay", true, false},
		{"person", "once", "template.pay", true, false},
		{"person", "once", "operator.pay", true, true},
		{"person", "longer", "key.pay", true, true},
		{"person", "no", "key.pay", false, true},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_free_ char *text = question(rows[i].who, rows[i].links, false);
		bool operators;

		assert_int_equal(
			approval_right_has_link(text, rows[i].rule, &operators), rows[i].link);
		assert_int_equal(operators, rows[i].operators);
	}
}

/* What rules say. layer: "key", "template", or "" for the sandbox's own. */
static const struct {
	const char *layer, *ask, *words;
} rules[] = {
	{"", "", "key once"},
	{"template", "", "key once"},
	{"key", "", "operator no"},
	{"key", ",\"ask\":{}", "operator no"},
	{"key", ",\"ask\":{\"who\":\"key\"}", "key once"},
	{"key", ",\"ask\":{\"who\":\"person\"}", "person once"},
	{"key", ",\"ask\":{\"who\":\"key\",\"links\":\"longer\"}", "key longer"},
	{"", ",\"ask\":{\"who\":\"operator\"}", "operator no"},
	{"", ",\"ask\":{\"links\":\"no\"}", "key no"},
	{"", ",\"ask\":{\"links\":\"longer\"}", "key longer"},
};

static void rules_say_who(void **state)
{
	for (unsigned i = 0; i < ARRAY_SIZE(rules); i++) {
		_cleanup_free_ char *text = str_printf(
			"{\"version\":1,\"default\":\"allow\",\"rules\":[{\"id\":\"pay\","
			"\"action\":\"ask\",\"host\":\"a.test\"%s}]}",
			rules[i].ask);
		bool own = !rules[i].layer[0], key = strcmp(rules[i].layer, "key") == 0;
		const struct network_floors floors = {
			NULL, key ? text : NULL, !own && !key ? text : NULL};
		_cleanup_free_ char *id = str_printf("%s%spay", rules[i].layer, own ? "" : ".");
		json_t *document = json_loads(text, 0, NULL),
		       *network = own ? json_pack("{s:O}", "policy", document) : NULL;
		struct rule_digests *d = rule_digests_new(&floors, network);
		struct rules_ask ask = rule_digests_ask(d, id);
		_cleanup_free_ char *words = str_printf(
			"%s %s", rules_ask_who_word(ask.who), rules_ask_links_word(ask.links));

		assert_string_equal(words, rules[i].words);
		ask = rule_digests_ask(d, "none");
		assert_true(ask.who == RULES_ASK_KEY && ask.links == RULES_ASK_ONCE);
		rule_digests_free(d);
		json_decref(network);
		json_decref(document);
	}
}

/* A layer below with the same id admits nobody else. */
static void the_strictest_counts(void **state)
{
	static const char high[] = "{\"version\":1,\"default\":\"allow\",\"rules\":[{\"id\":"
				   "\"pay\",\"action\":\"ask\","
				   "\"host\":\"a.test\"}]}";
	json_t *network = json_pack("{s:{s:i, s:s, s:[{s:s, s:s, s:s, s:{s:s, s:s}}]}}", "policy",
		"version", 1, "default", "allow", "rules", "id", "key.pay", "action", "ask", "host",
		"a.test", "ask", "who", "key", "links", "longer");
	struct rule_digests *d =
		rule_digests_new(&(struct network_floors){NULL, high, NULL}, network);
	struct rules_ask ask = rule_digests_ask(d, "key.pay");

	assert_non_null(network);
	assert_true(ask.who == RULES_ASK_OPERATOR && ask.links == RULES_ASK_NO_LINKS);
	rule_digests_free(d);
	json_decref(network);
}

static void words_are_checked(void **state)
{
	static const char *const wrong[] = {"{\"ask\":1}", "{\"ask\":{\"who\":\"me\"}}",
		"{\"ask\":{\"who\":1}}", "{\"ask\":{\"links\":true}}",
		"{\"ask\":{\"links\":\"always\"}}", "{\"ask\":{\"whom\":\"key\"}}",
		"{\"ask\":{\"who\":\"operator\",\"links\":\"once\"}}", "{\"ask\":null}"};

	for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++) {
		json_t *rule = json_loads(wrong[i], 0, NULL);
		struct rules_ask ask;

		assert_non_null(rules_ask_read(rule, RULES_ASK_KEY, &ask));
		assert_true(ask.who == RULES_ASK_OPERATOR && ask.links == RULES_ASK_NO_LINKS);
		json_decref(rule);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everybody_decides),
		cmocka_unit_test(links_are_made),
		cmocka_unit_test(rules_say_who),
		cmocka_unit_test(the_strictest_counts),
		cmocka_unit_test(words_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
