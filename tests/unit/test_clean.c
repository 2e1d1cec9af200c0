/* What of others' text reaches a terminal. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/clean.h"
#include "cli/table.h"

static void check(const char *text, const char *keep, const char *wanted)
{
	char copy[128];

	strcpy(copy, text); /* all are short */
	clean_text(copy, keep);
	assert_string_equal(copy, wanted);
}

static void test_text(void **state)
{
	check("plain \xc3\xa4\xe2\x82\xac", "", "plain \xc3\xa4\xe2\x82\xac");
	check("\x1b]0;title\a", "", "?]0;title?");
	check("a\rb\x7f", "", "a?b?");
	check("two\nlines\t.", "\n", "two\nlines?.");
	check("\xc2\x9b"
	      "2J",
		"", "??2J"); /* CSI in UTF-8 */
	check("\xc2\xa0.\xc2", "", "\xc2\xa0.\xc2");
	check("", "", "");
}

/* Everything that the function prints to that descriptor. */
static void captured(int fd, void (*print)(void), char *out, size_t size)
{
	FILE *f = tmpfile();
	int before = dup(fd);
	ssize_t n;

	assert_non_null(f);
	fflush(NULL);
	assert_true(dup2(fileno(f), fd) >= 0);
	print();
	fflush(NULL);
	assert_true(dup2(before, fd) >= 0);
	n = pread(fileno(f), out, size - 1, 0);
	assert_true(n >= 0);
	out[n] = '\0';
	close(before);
	fclose(f);
}

static void print_table(void)
{
	struct table t = {.columns = 2};

	table_add(&t, (const char *const[]){"NAME", "COMMAND"});
	table_add(&t, (const char *const[]){"a\x1b[1m", "sh\n-c \xc2\x9b\xc3\xa4"});
	assert_int_equal(table_print(&t), 0);
}

static void test_table(void **state)
{
	char out[256];

	captured(STDOUT_FILENO, print_table, out, sizeof(out));
	assert_string_equal(out, "NAME   COMMAND\na?[1m  sh?-c ??\xc3\xa4\n");
}

static void print_failure(void)
{
	clean_print_error("mayfly: ", "the agent says \x1b[2J\nand more");
}

static void test_error(void **state)
{
	char out[256];

	captured(STDERR_FILENO, print_failure, out, sizeof(out));
	assert_string_equal(out, "mayfly: the agent says ?[2J\nand more\n");
}

/* C1 in two parts, and a byte that begins none at the end of one. */
static void test_stream(void **state)
{
	static const char *const parts[] = {
		"a\x1b[\tb\r\xc2", "\x9b", "\xc2", "\xa0\xc2", "\xc2\x80.\n"};
	struct clean_stream s = {0};
	char out[64] = "";
	FILE *f = fmemopen(out, sizeof(out), "w");

	assert_non_null(f);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		clean_write(&s, f, parts[i], strlen(parts[i]));
	fclose(f);
	assert_string_equal(out, "a?[\tb\n??\xc2\xa0\xc2??.\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_error),
		cmocka_unit_test(test_stream),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
