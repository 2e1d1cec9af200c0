/* Trees of JSON, held against jansson's own, and what they may cost. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "proto/json_tree.h"

static const char *reason_of(const char *text, size_t n, unsigned flags)
{
	const char *reason = NULL;
	json_t *tree = json_tree_parse(text, n, flags, &reason);

	json_decref(tree);
	return reason;
}

static void as_jansson(void **state)
{
	static const char *const texts[] = {"{}", " {\"a\" : [ ] , \"b\":{ }}\n",
		"{\"a\":[1,-2,0.5,-1e-3,1E+2,true,false,null,\"\"]}",
		"{\"\\u00e9\\ud83d\\ude00\\\"\\\\\\/\\b\\f\\n\\r\\t\":\"\xc3\xa9\\u20ac\\u007f\"}",
		"{\"a\":\"\\\\\",\"b\":\"x\\\"\"}", "{\"a\":9223372036854775807}",
		"{\"a\":{\"b\":{\"c\":[[[\"d\"]]]}}}", "{\"a\":1,\"a\":2}"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		const char *reason = "";
		json_t *ours = json_tree_parse(texts[i], strlen(texts[i]), 0, &reason);
		json_t *theirs = json_loads(texts[i], 0, NULL);

		assert_non_null(theirs);
		assert_true(json_equal(ours, theirs));
		json_decref(ours);
		json_decref(theirs);
	}
}

static void what_is_refused(void **state)
{
	static const char twice[] = "{\"a\":1,\"\\u0061\":2}", nul[] = "{\"a\":\"\\u0000\"}";

	assert_string_equal(
		reason_of(twice, strlen(twice), JSON_TREE_UNIQUE), "duplicate object key");
	assert_null(reason_of(twice, strlen(twice), 0));
	assert_string_equal(
		reason_of(nul, strlen(nul), JSON_TREE_NO_NUL), "\\u0000 is not allowed");
	assert_null(reason_of(nul, strlen(nul), 0));
	assert_non_null(reason_of("[]", 2, 0));
	assert_non_null(reason_of("{} x", 4, 0));
	assert_non_null(reason_of("", 0, 0));
	assert_null(json_tree_stored(NULL));
}

/* {"a":[ITEM,ITEM,...]} */
static const char *reason_of_many(const char *item, size_t count)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(16 << 20);

	assert_int_equal(buf_add_str(&b, "{\"a\":["), 0);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(buf_add_str(&b, i ? "," : ""), 0);
		assert_int_equal(buf_add_str(&b, item), 0);
	}
	assert_int_equal(buf_add_str(&b, "]}"), 0);
	return reason_of((const char *)buf_head(&b), buf_len(&b), 0);
}

static void what_it_may_cost(void **state)
{
	static const char many[] = "the JSON has too many values";

	/* the object and its array are two of them */
	assert_null(reason_of_many("{}", JSON_TREE_WORK_MAX / 32 - 2));
	assert_string_equal(reason_of_many("{}", JSON_TREE_WORK_MAX / 32 - 1), many);
	assert_null(reason_of_many("0.1234567890", 20000));
	assert_string_equal(reason_of_many("0.12345678901234567890123456789012", 20000), many);
	assert_null(reason_of_many("\"\\n\\n\\n\\n\"", 20000));
	assert_string_equal(
		reason_of_many(
			"\"\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\"",
			20000),
		many);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_jansson),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(what_it_may_cost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
