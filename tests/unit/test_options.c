/* src/base/options: every type, both spellings, ranges, where parsing stops, what help shows. */
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/options.h"

#define MIB UINT64_C(0x100000)

struct values {
	bool help, flag, other;
	const char *text;
	struct option_list list;
	uint64_t number, bytes, duration, free_number;
};

static const struct option_spec specs[] = {
	{"flag", 'f', OPTION_FLAG, NULL, "a flag", offsetof(struct values, flag), 0, 0, false},
	{"other", 'o', OPTION_FLAG, NULL, "another", offsetof(struct values, other), 0, 0, false},
	{"text", 't', OPTION_STRING, "TEXT", "some text", offsetof(struct values, text), 0, 0,
		false},
	{"list", 'l', OPTION_LIST, "ITEM", "items", offsetof(struct values, list), 0, 0, false},
	{"number", 'n', OPTION_NUMBER, "N", "a number", offsetof(struct values, number), 1, 4,
		false},
	{"free", 0, OPTION_NUMBER, "N", "any number", offsetof(struct values, free_number), 0, 0,
		false},
	{"bytes", 'b', OPTION_BYTES, "SIZE", "a size", offsetof(struct values, bytes), 128 * MIB,
		4096 * MIB, false},
	{"duration", 'd', OPTION_DURATION, "TIME", "a time", offsetof(struct values, duration), 1,
		UINT64_C(3600000000000), false},
	{"secret", 0, OPTION_FLAG, NULL, "not shown", offsetof(struct values, other), 0, 0, true},
	{"refused", 'r', OPTION_REFUSED, NULL, "use --text", 0, 0, 0, true},
	{"help", 'h', OPTION_HELP, NULL, "help", offsetof(struct values, help), 0, 0, false},
	{.name = NULL},
};

enum { WORDS_MAX = 300 };

/* Parses the words of a NULL-terminated list behind a program's name. */
static int parse(const char *const *words, struct values *v, int *rest, struct error *e)
{
	char *argv[WORDS_MAX] = {(char *)"program"};
	int argc = 1;

	for (; *words; words++)
		argv[argc++] = (char *)*words; /* only read */
	*v = (struct values){.text = "default"};
	error_clear(e);
	return options_parse(specs, argc, argv, v, rest, e);
}

#define PARSE(v, rest, e, ...) parse((const char *const[]){__VA_ARGS__, NULL}, v, rest, e)

static void both_spellings_of_every_type(void **state)
{
	struct error e = {0};
	struct values v;
	int rest;

	assert_int_equal(PARSE(&v, &rest, &e, "--flag", "--text", "a", "--text=b", "--list=x", "-l",
				 "y", "-lz", "-n3", "--bytes", "512", "-d", "2m", "--free", "0"),
		0);
	assert_int_equal(rest, 16);
	assert_true(v.flag);
	assert_false(v.other);
	assert_false(v.help);
	assert_string_equal(v.text, "b");
	assert_int_equal(v.list.count, 3);
	assert_string_equal(v.list.items[0], "x");
	assert_string_equal(v.list.items[2], "z");
	assert_int_equal(v.number, 3);
	assert_int_equal(v.bytes, 512 * MIB);
	assert_int_equal(v.duration, UINT64_C(120000000000));
	assert_int_equal(v.free_number, 0);
}

static void empty_values_are_values(void **state)
{
	struct error e = {0};
	struct values v;
	int rest;

	assert_int_equal(PARSE(&v, &rest, &e, "--text=", "--list", ""), 0);
	assert_string_equal(v.text, "");
	assert_int_equal(v.list.count, 1);
	assert_string_equal(v.list.items[0], "");
}

static void defaults_stay(void **state)
{
	struct error e = {0};
	struct values v;
	int rest;

	assert_int_equal(PARSE(&v, &rest, &e, "word"), 0);
	assert_int_equal(rest, 1);
	assert_string_equal(v.text, "default");
}

static void a_refused_option_says_what_to_use(void **state)
{
	static const char *const spellings[] = {"-r", "-rx", "-fr", "--refused", "--refused=x"};
	struct error e = {0};
	struct values v;
	int rest;

	for (size_t i = 0; i < ARRAY_SIZE(spellings); i++) {
		assert_int_equal(PARSE(&v, &rest, &e, spellings[i], "x"), -EINVAL);
		assert_int_equal(e.code, ERROR_USAGE);
		assert_non_null(strstr(e.message, spellings[i]));
		assert_non_null(strstr(e.message, ": use --text"));
	}
}

static void parsing_stops(void **state)
{
	struct error e = {0};
	struct values v;
	int rest;

	assert_int_equal(PARSE(&v, &rest, &e, "-f", "--", "-o"), 0);
	assert_int_equal(rest, 3);
	assert_false(v.other);
	assert_int_equal(PARSE(&v, &rest, &e, "-f", "command", "-o"), 0);
	assert_int_equal(rest, 2);
	assert_false(v.other);
	/* a single dash is a word: standard input by custom */
	assert_int_equal(PARSE(&v, &rest, &e, "-f", "-", "-o"), 0);
	assert_int_equal(rest, 2);
	/* what looks like an option may be a value */
	assert_int_equal(PARSE(&v, &rest, &e, "--text", "--", "-o"), 0);
	assert_string_equal(v.text, "--");
	assert_true(v.other);
}

static void letters_in_a_row(void **state)
{
	struct error e = {0};
	struct values v;
	int rest;

	assert_int_equal(PARSE(&v, &rest, &e, "-fo", "word"), 0);
	assert_int_equal(rest, 2);
	assert_true(v.flag && v.other);
	assert_int_equal(PARSE(&v, &rest, &e, "-fn3"), 0);
	assert_true(v.flag && v.number == 3);
	assert_int_equal(PARSE(&v, &rest, &e, "-oft", "-f"), 0);
	assert_true(v.flag && v.other);
	assert_string_equal(v.text, "-f");
	assert_int_equal(PARSE(&v, &rest, &e, "-tfo"), 0);
	assert_string_equal(v.text, "fo");
	assert_false(v.flag);
}

static void help_is_no_error(void **state)
{
	struct error e = {0};
	struct values v;
	int rest;

	assert_int_equal(PARSE(&v, &rest, &e, "-h"), 0);
	assert_true(v.help);
}

static void refuse(enum error_code code, const char *message, const char *const *words)
{
	struct error e = {0};
	struct values v;
	int rest;

	assert_true(parse(words, &v, &rest, &e) < 0);
	assert_int_equal(e.code, code);
	assert_non_null(strstr(e.message, message));
	assert_null(strchr(e.message, '\n'));
}

#define REFUSE(code, message, ...) refuse(code, message, (const char *const[]){__VA_ARGS__, NULL})

static void malformed_command_lines(void **state)
{
	REFUSE(ERROR_USAGE, "did you mean --flag?", "--flga");
	REFUSE(ERROR_USAGE, "did you mean --number?", "--numbr=3");
	REFUSE(ERROR_USAGE, "--nothinglikeit", "--nothinglikeit");
	REFUSE(ERROR_USAGE, "-x", "-x");
	REFUSE(ERROR_USAGE, "-x", "-fx");
	REFUSE(ERROR_USAGE, "-=", "-f=yes");
	REFUSE(ERROR_USAGE, "needs a value", "-fn");
	REFUSE(ERROR_USAGE, "takes no value", "--flag=yes");
	REFUSE(ERROR_USAGE, "--text needs a value: TEXT", "--text");
	REFUSE(ERROR_USAGE, "needs a value", "-n");
	REFUSE(ERROR_USAGE, "expected a number", "-n", "three");
	REFUSE(ERROR_USAGE, "expected a number", "--number=");
	REFUSE(ERROR_USAGE, "expected a number", "-n", "-1");
	REFUSE(ERROR_USAGE, "expected a size", "-b", "lots");
	REFUSE(ERROR_USAGE, "expected a duration", "-d", "soon");
	/* hidden options are not proposed */
	REFUSE(ERROR_USAGE, "see --help", "--secrets");
}

static void out_of_range(void **state)
{
	REFUSE(ERROR_LIMIT, "between 1 and 4", "-n", "0");
	REFUSE(ERROR_LIMIT, "between 1 and 4", "-n", "5");
	REFUSE(ERROR_LIMIT, "between 128 MB and 4 GB", "-b", "64M");
	REFUSE(ERROR_LIMIT, "between 128 MB and 4 GB", "--bytes=5G");
	REFUSE(ERROR_LIMIT, "3600 seconds", "-d", "2h");
	REFUSE(ERROR_LIMIT, "between 1e-09 and 3600 seconds", "-d", "0");
	REFUSE(ERROR_USAGE, "--free", "--free", "99999999999999999999");
}

static void lists_have_a_maximum(void **state)
{
	const char *words[OPTION_LIST_MAX + 2];
	struct error e = {0};
	struct values v;
	int rest;

	for (int i = 0; i <= OPTION_LIST_MAX; i++)
		words[i] = "-lx";
	words[OPTION_LIST_MAX] = NULL;
	assert_int_equal(parse(words, &v, &rest, &e), 0);
	assert_int_equal(v.list.count, OPTION_LIST_MAX);
	words[OPTION_LIST_MAX] = "-lx";
	words[OPTION_LIST_MAX + 1] = NULL;
	assert_true(parse(words, &v, &rest, &e) < 0);
	assert_int_equal(e.code, ERROR_LIMIT);
}

static void help_shows_the_table(void **state)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	assert_non_null(f);
	options_print(specs, f);
	assert_int_equal(fclose(f), 0);
	assert_non_null(strstr(text, "  -f, --flag                 a flag\n"));
	assert_non_null(strstr(text, "      --free N               any number\n"));
	assert_null(strstr(text, "secret"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_spellings_of_every_type),
		cmocka_unit_test(empty_values_are_values),
		cmocka_unit_test(defaults_stay),
		cmocka_unit_test(a_refused_option_says_what_to_use),
		cmocka_unit_test(parsing_stops),
		cmocka_unit_test(letters_in_a_row),
		cmocka_unit_test(help_is_no_error),
		cmocka_unit_test(malformed_command_lines),
		cmocka_unit_test(out_of_range),
		cmocka_unit_test(lists_have_a_maximum),
		cmocka_unit_test(help_shows_the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
