/* src/proto: base64, JSON text, timestamps. */
#include "test.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base64.h"
#include "proto/json_text.h"
#include "proto/timestamp.h"

/* --- base64 --- */

static void rfc_4648_vectors(void **state)
{
	static const char *const vectors[][2] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="},
		{"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="},
		{"foobar", "Zm9vYmFy"}, {"\xfb\xff\xbf", "+/+/"}};
	char text[16];
	uint8_t back[16];

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		size_t n = strlen(vectors[i][0]), len = strlen(vectors[i][1]);

		assert_int_equal(base64_encoded_len(n), len);
		base64_encode(text, vectors[i][0], n);
		assert_memory_equal(text, vectors[i][1], len);
		assert_int_equal(base64_decode(back, vectors[i][1], len), n);
		assert_memory_equal(back, vectors[i][0], n);
	}
	assert_int_equal(base64_encode_nopad(text, "f", 1), 2);
	assert_int_equal(base64_encode_url(text, "\xfb\xff\xbf", 3), 4);
	assert_memory_equal(text, "-_-_", 4);
}

static void base64_round_trips(void **state)
{
	uint8_t data[300], back[400];
	char text[404];

	for (size_t n = 0; n < sizeof(data); n++) {
		for (size_t i = 0; i < n; i++)
			data[i] = (uint8_t)(i * 151 + n * 7);
		base64_encode(text, data, n);
		assert_int_equal(base64_decode(back, text, base64_encoded_len(n)), n);
		assert_memory_equal(back, data, n);
		assert_int_equal(base64_decode(back, text, base64_encode_url(text, data, n)), n);
		assert_memory_equal(back, data, n);
	}
}

static void both_alphabets_with_and_without_padding(void **state)
{
	static const char *const good[] = {"-_-_", "+/+/", "+_-/", "Zg==", "Zg", "Zm8=", "Zm8"};
	static const char *const bad[] = {"Z", "Zg=", "Zg===", "=",
		"====", "Z===", "Zm9v=", "Zm9v==", "Zm9vY", "Zh==", "Zm9=", "Zm9",
		"Zg==Zg==", "Z g=", "Zm9v\n", "Zm9v Zm9v", "Zm%v", "Zm8==", "\xff\xff\xff\xff",
		"Zm=v"};
	uint8_t out[16];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(base64_decode(out, good[i], strlen(good[i])) > 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(base64_decode(out, bad[i], strlen(bad[i])), -EINVAL);
}

static void base64_into_a_buffer(void **state)
{
	struct buf b = BUF_INIT(8);

	assert_int_equal(base64_decode_to(&b, "YWJjYWJj", 8), 0);
	assert_int_equal(base64_decode_to(&b, "YWI=", 4), 0); /* fits to the byte */
	assert_int_equal(base64_decode_to(&b, "YQ", 2), -EMSGSIZE);
	assert_memory_equal(buf_head(&b), "abcabcab", 8);
	buf_clear(&b);
	assert_int_equal(base64_decode_to(&b, "!!!!", 4), -EINVAL);
	assert_int_equal(base64_decode_to(&b, "Y", 1), -EINVAL);
	assert_int_equal(buf_len(&b), 0);
	buf_done(&b);
}

/* --- JSON --- */

static void expect_json(const char *s, size_t n, enum json_text_mode mode, const char *want)
{
	struct buf b = BUF_INIT(1 << 16);

	assert_int_equal(json_text_string(&b, s, n, mode), 0);
	assert_int_equal(buf_add_u8(&b, 0), 0);
	assert_string_equal((const char *)buf_head(&b), want);
	buf_done(&b);
}

static void json_escapes(void **state)
{
	expect_json("", 0, JSON_TEXT_UTF8, "\"\"");
	expect_json("plain text, long enough for words", 33, JSON_TEXT_UTF8,
		"\"plain text, long enough for words\"");
	expect_json("a\"b\\c/\b\f\n\r\t\x01\x1f\x7f", 14, JSON_TEXT_UTF8,
		"\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\"");
	expect_json("\b\x7f", 2, JSON_TEXT_ASCII, "\"\\b\\u007f\"");
	expect_json("a\0b", 3, JSON_TEXT_UTF8, "\"a\\u0000b\"");
	expect_json("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9, JSON_TEXT_UTF8,
		"\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"");
	expect_json("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9, JSON_TEXT_ASCII,
		"\"\\u00e4\\u20ac\\ud83d\\ude00\"");
	/* Line separators split lines in Python, so ASCII mode must hide them. */
	expect_json("\xe2\x80\xa8\xc2\x85", 5, JSON_TEXT_ASCII, "\"\\u2028\\u0085\"");
}

static void json_of_what_is_not_utf8(void **state)
{
	expect_json("a\xff"
		    "b\xc3",
		4, JSON_TEXT_ASCII, "\"a\\ufffdb\\ufffd\"");
	expect_json("\xed\xa0\x80", 3, JSON_TEXT_ASCII, "\"\\ufffd\\ufffd\\ufffd\"");
	expect_json("\xc0\x80", 2, JSON_TEXT_UTF8, "\"\xef\xbf\xbd\xef\xbf\xbd\"");
	assert_true(json_text_is_utf8("\xf4\x8f\xbf\xbf", 4));
	assert_false(json_text_is_utf8("\xf4\x90\x80\x80", 4));
	assert_false(json_text_is_utf8("\xe0\x80\x80", 3));
	assert_false(json_text_is_utf8("\xf0\x80\x80\x80", 4));
	assert_false(json_text_is_utf8("\xf8\x88\x80\x80\x80", 5));
	assert_false(json_text_is_utf8("a\x80", 2));
	assert_false(json_text_is_utf8("\xe2\x82", 2));
}

/* Every byte at every place in a word, read back by a JSON parser. */
static void json_comes_back(void **state)
{
	for (unsigned mode = 0; mode < 2; mode++)
		for (unsigned c = 0; c < 0x80; c++)
			for (unsigned at = 0; at < 17; at++) {
				struct buf b = BUF_INIT(1 << 10);
				char text[17];
				json_t *j;

				memset(text, 'x', sizeof(text));
				text[at] = (char)c;
				assert_int_equal(json_text_string(&b, text, sizeof(text), mode), 0);
				j = json_loadb((const char *)buf_head(&b), buf_len(&b),
					JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
				assert_int_equal(json_string_length(j), sizeof(text));
				assert_memory_equal(json_string_value(j), text, sizeof(text));
				json_decref(j);
				buf_done(&b);
			}
}

static void json_into_a_full_buffer(void **state)
{
	for (size_t max = 0; max < 12; max++) {
		struct buf b = BUF_INIT(max);

		assert_int_equal(json_text_string(&b, "ab\n\xff", 4, JSON_TEXT_ASCII), -EMSGSIZE);
		buf_done(&b);
	}
}

/* --- timestamps --- */

static void timestamps_are_written(void **state)
{
	char out[TIMESTAMP_BYTES];

	assert_string_equal(timestamp_format_ns(0, out), "1970-01-01T00:00:00Z");
	assert_string_equal(timestamp_format_ns(UINT64_C(1785585600500000000), out),
		"2026-08-01T12:00:00.500Z");
	assert_string_equal(timestamp_format_ns(1000, out), "1970-01-01T00:00:00.000001Z");
	assert_string_equal(timestamp_format_ns(UINT64_MAX, out), "2554-07-21T23:34:33.709551615Z");
	assert_string_equal(timestamp_format((struct timestamp){.s = -1, .ns = 1}, out),
		"1969-12-31T23:59:59.000000001Z");
	assert_string_equal(
		timestamp_format((struct timestamp){.s = INT64_MIN}, out), "0001-01-01T00:00:00Z");
	assert_string_equal(timestamp_format((struct timestamp){.s = INT64_MAX}, out),
		"9999-12-31T23:59:59.999999999Z");
	assert_string_equal(
		timestamp_format((struct timestamp){.s = 951782400}, out), "2000-02-29T00:00:00Z");
}

static void timestamps_are_read(void **state)
{
	static const struct {
		const char *text;
		int64_t s;
		uint32_t ns;
	} cases[] = {
		{"1970-01-01T00:00:00.000Z", 0, 0},
		{"2026-08-01t12:00:00z", 1785585600, 0},
		{"2026-08-01 14:00:00.5+02:00", 1785585600, 500000000},
		{"2026-08-01T06:30:00.123456789012-05:30", 1785585600, 123456789},
		{"2016-12-31T23:59:60Z", 1483228799, 0},
		{"0001-01-01T00:00:00Z", INT64_C(-62135596800), 0},
		{"1969-12-31T23:59:59.9Z", -1, 900000000},
	};
	struct timestamp t;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(timestamp_parse(cases[i].text, &t), 0);
		assert_int_equal(t.s, cases[i].s);
		assert_int_equal(t.ns, cases[i].ns);
	}
}

static void malformed_timestamps_are_refused(void **state)
{
	static const char *const bad[] = {"", "2026", "2026-08-01", "2026-08-01T12:00:00",
		"2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-02-29T00:00:00Z",
		"2026-08-32T00:00:00Z", "2026-08-01T24:00:00Z", "2026-08-01T00:60:00Z",
		"2026-08-01T00:00:61Z", "2026-08-01T00:00:00.Z", "2026-08-01T00:00:00+2:00",
		"2026-08-01T00:00:00+24:00", "2026-08-01T00:00:00Zx", "0000-01-01T00:00:00Z",
		"0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-00:01", "2026-8-01T00:00:00Z",
		"1900-02-29T00:00:00Z", " 2026-08-01T00:00:00Z"};
	struct timestamp t;
	uint64_t ns;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(timestamp_parse(bad[i], &t), -EINVAL);
	assert_int_equal(timestamp_parse_ns("1969-12-31T23:59:59Z", &ns), -ERANGE);
	assert_int_equal(timestamp_parse_ns("2600-01-01T00:00:00Z", &ns), -ERANGE);
	assert_int_equal(timestamp_parse_ns("x", &ns), -EINVAL);
	assert_int_equal(timestamp_parse_ns("2026-08-01T12:00:00.000000001Z", &ns), 0);
	assert_int_equal(ns, UINT64_C(1785585600000000001));
}

static void timestamps_come_back(void **state)
{
	char out[TIMESTAMP_BYTES];
	struct timestamp t;

	for (int64_t s = INT64_C(-62135596800); s < INT64_C(253402300800);
		s += INT64_C(86400) * 13 + 12345) {
		assert_int_equal(
			timestamp_parse(timestamp_format((struct timestamp){.s = s}, out), &t), 0);
		assert_int_equal(t.s, s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rfc_4648_vectors),
		cmocka_unit_test(base64_round_trips),
		cmocka_unit_test(both_alphabets_with_and_without_padding),
		cmocka_unit_test(base64_into_a_buffer),
		cmocka_unit_test(json_escapes),
		cmocka_unit_test(json_of_what_is_not_utf8),
		cmocka_unit_test(json_comes_back),
		cmocka_unit_test(json_into_a_full_buffer),
		cmocka_unit_test(timestamps_are_written),
		cmocka_unit_test(timestamps_are_read),
		cmocka_unit_test(malformed_timestamps_are_refused),
		cmocka_unit_test(timestamps_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
