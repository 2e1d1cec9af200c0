/* src/proto/json_scan: an object's members, where they stand. What is JSON and what is not is also
 * held against jansson, by tests/fuzz/fuzz_json.c. */
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "proto/json_scan.h"

static void assert_slice(struct json_slice s, const char *text)
{
	assert_int_equal(s.len, strlen(text));
	assert_memory_equal(s.text, text, s.len);
}

/* The count of members, or -EINVAL. Of a copy, so that AddressSanitizer sees what is read behind
 * it. */
static int count(const char *text, size_t n)
{
	_cleanup_free_ char *copy = malloc(n + !n);
	struct json_members members;
	struct json_member m;
	int found = 0, r;

	assert_non_null(copy);
	memcpy(copy, text, n);
	members = json_members_of(copy, n);
	while ((r = json_members_next(&members, &m)) > 0)
		found++;
	assert_int_equal(json_members_next(&members, &m), r); /* it stays so */
	return r < 0 ? r : found;
}

static void members_as_they_are_written(void **state)
{
	static const char text[] =
		" { \"a\" : [1, {\"b\": 2}] ,\"\\u00e9\":\"x\\\"}\",\"a\":-1e5}\n";
	struct json_members members = json_members_of(text, strlen(text));
	struct json_member m;

	assert_int_equal(json_members_next(&members, &m), 1);
	assert_slice(m.key, "\"a\"");
	assert_slice(m.value, "[1, {\"b\": 2}]");
	assert_slice(m.whole, "\"a\" : [1, {\"b\": 2}]");
	assert_int_equal(json_members_next(&members, &m), 1);
	assert_slice(m.key, "\"\\u00e9\"");
	assert_slice(m.value, "\"x\\\"}\"");
	assert_int_equal(json_members_next(&members, &m), 1);
	assert_slice(m.whole, "\"a\":-1e5");
	assert_int_equal(json_members_next(&members, &m), 0);
}

static void what_is_an_object(void **state)
{
	static const char *const good[] = {"{}", " {\t} \r\n", "{\"\":null}", "{\"a\":true}",
		"{\"a\":false}", "{\"a\":[]}", "{\"a\":[[],{}]}", "{\"a\":0}", "{\"a\":-0.5E+7}",
		"{\"a\":9223372036854775807}", "{\"a\":-9223372036854775808}", "{\"a\":1e308}",
		"{\"a\":0.1234567890123456789012345}", "{\"a\":1e-400}", "{\"a\":\"\\u0000\"}",
		"{\"a\":\"\\ud83d\\ude00\"}", "{\"a\":\"\xc3\xa9\x7f\"}", "{\"a\":\"\\\\\"}"};
	static const char *const bad[] = {"", " ", "[]", "1", "null", "{", "}", "{}{}", "{} x",
		"{,}", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{\"a\":1 \"b\":2}", "{a:1}", "{1:1}",
		"{\"a\":[1,]}", "{\"a\":[,1]}", "{\"a\":[1 2]}", "{\"a\":[}]", "{\"a\":[1}",
		"{\"a\":{\"b\"}}", "{\"a\":nul}", "{\"a\":nulls}", "{\"a\":True}", "{\"a\":NaN}",
		"{\"a\":Infinity}", "{\"a\":01}", "{\"a\":-}", "{\"a\":+1}", "{\"a\":.5}",
		"{\"a\":1.}", "{\"a\":1e}", "{\"a\":1e+}", "{\"a\":0x1}",
		"{\"a\":9223372036854775808}", "{\"a\":1e309}", "{\"a\":\"}", "{\"a\":\"\\\"}",
		"{\"a\":\"\\", "{\"a\":01", "{\"a\":12", "{\"a\":1.5", "{\"a\":1e5",
		"{\"a\":\"\\x\"}", "{\"a\":\"\\u12\"}", "{\"a\":\"\\u12g4\"}", "{\"a\":\"\n\"}",
		"{\"a\":\"\\ud83d\"}", "{\"a\":\"\\ud83d\\u0041\"}", "{\"a\":\"\\ude00\"}",
		"{\"a\":\"\xc3\"}", "{\"a\":\"\xc0\x80\"}", "{\"a\":\"\xed\xa0\x80\"}",
		"{\"a\\u0000\":1}", "{\"a\":'b'}", "{\"a\":1}/**/"};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_true(count(good[i], strlen(good[i])) >= 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(count(bad[i], strlen(bad[i])), -EINVAL);
	assert_int_equal(count("{\"a\":1\0}", 8), -EINVAL);
}

/* Wherever it is cut it is none. */
static void every_beginning(void **state)
{
	static const char text[] =
		"{\"a\":[1,-2.5e3,true,false,null,{}],\"b\":{\"c\":\"\\ud83d\\ude00\\n\xc3\xa9\"}}";
	size_t n = strlen(text);

	assert_int_equal(count(text, n), 2);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(count(text, i), -EINVAL);
}

/* {"a":[[[...]]]} */
static int nested(size_t levels)
{
	_cleanup_free_ char *text = malloc(2 * levels + 8);

	assert_non_null(text);
	memcpy(text, "{\"a\":", 5);
	memset(text + 5, '[', levels);
	memset(text + 5 + levels, ']', levels);
	text[5 + 2 * levels] = '}';
	return count(text, 2 * levels + 6);
}

static void depth_has_a_limit(void **state)
{
	assert_int_equal(nested(JSON_SCAN_DEPTH_MAX), 1);
	assert_int_equal(nested(JSON_SCAN_DEPTH_MAX + 1), -EINVAL);
	assert_int_equal(nested(1000 * 1000), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_as_they_are_written),
		cmocka_unit_test(what_is_an_object),
		cmocka_unit_test(every_beginning),
		cmocka_unit_test(depth_has_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
