/* Text of guests as people see it: a table. */
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "proto/shown_text.h"

static const struct {
	const char *text, *shown;
	unsigned how;
} table[] = {
	{"", "", 0},
	{"plain ASCII ~!\"\\", "plain ASCII ~!\"\\", 0},
	{"a\"b\\c\nd\te\x7f\x01", "a\\\"b\\\\c\\nd\\te\\u{7f}\\u{1}", SHOWN_TEXT_QUOTED},
	{"a\nb\tc\rd", "a\nb\tc\\u{d}d", SHOWN_TEXT_LINES},
	{"a\nb", "a\\nb", 0},
	/* letters of one script */
	{"Stra\xc3\x9f"
	 "e \xd0\xa1\xd1\x82\xd1\x80\xd0\xbe\xd0\xba\xd0\xb0", /* Russian */
		"Stra\xc3\x9f"
		"e \xd0\xa1\xd1\x82\xd1\x80\xd0\xbe\xd0\xba\xd0\xb0",
		0},
	{"\xe6\x97\xa5\xe6\x9c\xac\xe3\x81\xae\xe3\x82\xab",
		"\xe6\x97\xa5\xe6\x9c\xac\xe3\x81\xae\xe3\x82\xab", 0},
	{"\xed\x95\x9c\xea\xb8\x80", "\xed\x95\x9c\xea\xb8\x80", 0},
	{"10\xe2\x82\xac", "10\xe2\x82\xac", 0},
	/* mixed, and wholly alike */
	{"p\xd0\xb0ypal", "p\\u{430}ypal", 0},
	{"\xd0\xbf\xd1\x80p", "\\u{43f}\\u{440}p", 0},
	{"\xd1\x80\xd0\xb0\xd1\x83", "\\u{440}\\u{430}\\u{443}", 0}, /* "pay" */
	{"\xd1\x80\xd0\xb0\xd1\x83-me", "\\u{440}\\u{430}\\u{443}-me", 0},
	{"\xce\x91\xce\x92", "\\u{391}\\u{392}", 0},
	{"\xe0\xa4\x85\xe0\xa6\x85", "\\u{905}\\u{985}", 0}, /* two of India */
	/* invisible ones, and those that move others */
	{"a\xc2\xad"
	 "b",
		"a\\u{ad}b", 0},
	{"a\xe2\x80\x8b\xe2\x80\x8c\xe2\x80\x8d"
	 "b",
		"a\\u{200b}\\u{200c}\\u{200d}b", 0},
	{"\xef\xbb\xbf\xe2\x81\xa0", "\\u{feff}\\u{2060}", 0},
	{"\xf3\xa0\x81\x81", "\\u{e0041}", 0},
	{"\xe2\x80\xae\xe2\x81\xa6\xd8\x9c", "\\u{202e}\\u{2066}\\u{61c}", 0},
	{"\xd7\x90", "\\u{5d0}", 0}, /* Hebrew */
	{"e\xcc\x81", "e\\u{301}", 0},
	{"\xc4\xb1\xc5\xbf\xc7\x83", "\\u{131}\\u{17f}\\u{1c3}", 0},
	{"\xef\xbc\xa1\xe2\x80\x93\xc2\xa0", "\\u{ff21}\\u{2013}\\u{a0}", 0}, /* wide A, dash */
	{"\xf0\x9f\x98\x80", "\\u{1f600}", 0},
	{"\xc2\x85\xe2\x80\xa8", "\\u{85}\\u{2028}", 0},
	/* no UTF-8 */
	{"\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80\xff\xe2\x80",
		"\\x{c0}\\x{af}\\x{ed}\\x{a0}\\x{80}\\x{f4}\\x{90}\\x{80}\\x{80}\\x{ff}\\x{e2}"
		"\\x{80}",
		0},
};

static void shown(void **state)
{
	for (unsigned i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_free_ char *once =
			shown_text_make(table[i].text, strlen(table[i].text), 1000, table[i].how);
		_cleanup_free_ char *twice =
			shown_text_make(once, strlen(once), 1000, table[i].how & SHOWN_TEXT_LINES);

		assert_string_equal(once, table[i].shown);
		assert_string_equal(twice, once);
	}
}

/* It ends with a whole piece. */
static void cut(void **state)
{
	static const char text[] = "ab\xe2\x80\x8b"
				   "c\xe6\x97\xa5";

	for (size_t max = 0; max < 16; max++) {
		_cleanup_free_ char *made = shown_text_make(text, strlen(text), max, 0);

		assert_true(strlen(made) <= max);
		assert_int_equal(strncmp("ab\\u{200b}c\\u{65e5}", made, strlen(made)), 0);
		assert_null(max < 10 ? strchr(made, '\\') : NULL);
	}
}

/* Whatever comes, what is written is written again as it is. */
static void any(void **state)
{
	static const char *const parts[] = {"a", " ", "\xd0\xb0", "\xd0\xb6", "\xe2\x80\x8b", "7",
		"_", "\xe6\x97\xa5", "\xff", "\\", "{", "\xcc\x81", "\xe0\xa4\x85", "\xe0\xa6\x85",
		"\xc3\xa4", "\""};
	uint32_t r = 1;

	for (unsigned n = 0; n < 20000; n++) {
		_cleanup_free_ char *once = NULL, *twice = NULL;
		char text[64] = "";

		for (unsigned i = 0; i < 10; i++)
			(void)strcat(text, parts[(r = r * 1664525 + 1013904223) >> 28]);
		once = shown_text_make(text, strlen(text), 1000, 0);
		twice = shown_text_make(once, strlen(once), 1000, 0);
		assert_string_equal(twice, once);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shown),
		cmocka_unit_test(cut),
		cmocka_unit_test(any),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
