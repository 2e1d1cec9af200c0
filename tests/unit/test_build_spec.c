/* src/build/spec: E2B's steps as those of a Dockerfile, without quotes meaning anything. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "build/disk_budget.h"
#include "build/spec.h"
#include "dockerfile/expand.h"

#define ON_IMAGE(steps)                                                                            \
	"{\"build\": \"b\", \"cpus\": 2, \"memoryMB\": 512, \"base\": {\"image\": "                \
	"\"r.test/x:1\"}, "                                                                        \
	"\"steps\": [" steps "]}"

static const struct home no_home = HOME_INIT;

static const char *nothing(void *opaque, const char *name)
{
	return strcmp(name, "SET") == 0 ? "value" : NULL;
}

/* What a word means to a Dockerfile. */
static void means(const char *word, const char *wanted)
{
	const struct expand_scope scope = {nothing, NULL, '\\'};
	char *got = NULL;

	assert_int_equal(expand_word(&scope, word, &got, NULL), 0);
	assert_string_equal(got, wanted);
	free(got);
}

/* The n-th step of a client's step `line`. */
static const struct dockerfile_step *step_of(const struct spec *s, unsigned line, unsigned n)
{
	const struct dockerfile_steps *steps = &s->file.stages[0].steps;

	for (size_t i = 0; i < steps->count; i++)
		if (steps->items[i].line == line && n-- == 0)
			return &steps->items[i];
	fail_msg("there is no such step");
	return NULL;
}

static int read_spec(const char *text, struct spec *s, struct error *e)
{
	int r = spec_read(text, strlen(text), s, e);

	return r == 0 ? spec_make_steps(&no_home, s, e) : r;
}

static void parse(const char *text, struct spec *s)
{
	struct error e = {0};

	if (read_spec(text, s, &e) < 0)
		fail_msg("%s", e.message);
}

static void test_base(void **state)
{
	struct spec s;

	parse(ON_IMAGE(""), &s);
	means(s.file.stages[0].base, "docker://r.test/x:1");
	assert_int_equal(step_of(&s, 0, 0)->kind, DOCKERFILE_ENTRYPOINT);
	assert_int_equal(step_of(&s, 0, 3)->kind, DOCKERFILE_RUN); /* makes the user */
	means(step_of(&s, 0, 4)->words.items[0], "user");
	means(step_of(&s, 0, 5)->words.items[0], "/home/user");
	assert_int_equal(s.cpus, 2);
	spec_done(&s);
}

/* From a step on, nothing is taken from the cache. */
static void test_force(void **state)
{
	struct spec s;

	parse(ON_IMAGE("{\"type\": \"RUN\", \"args\": [\"a\"]}, "
		       "{\"type\": \"RUN\", \"args\": [\"b\"], \"force\": true}, "
		       "{\"type\": \"RUN\", \"args\": [\"c\"]}"),
		&s);
	assert_false(s.force || step_of(&s, 1, 0)->force);
	assert_true(step_of(&s, 2, 0)->force && step_of(&s, 3, 0)->force);
	spec_done(&s);
}

/* A step that has a cache. */
static void test_cache(void **state)
{
	struct spec s;

	parse(ON_IMAGE("{\"type\": \"RUN\", \"args\": [\"a\"], \"cache\": \"pip\"}, "
		       "{\"type\": \"RUN\", \"args\": [\"b\"]}"),
		&s);
	means(dockerfile_flag(step_of(&s, 1, 0), "mount"),
		"type=cache,mode=0777,target=" SPEC_CACHE_DIR ",id=pip");
	assert_null(dockerfile_flag(step_of(&s, 2, 0), "mount"));
	spec_done(&s);
}

static void test_run(void **state)
{
	struct spec s;

	parse(ON_IMAGE("{\"type\": \"RUN\", \"args\": [\"echo '$SET'\", \"root\"]}"), &s);
	assert_int_equal(step_of(&s, 1, 0)->kind, DOCKERFILE_USER);
	means(step_of(&s, 1, 0)->words.items[0], "root");
	assert_true(step_of(&s, 1, 1)->exec);
	assert_string_equal(step_of(&s, 1, 1)->words.items[4], "echo '$SET'");
	means(step_of(&s, 1, 2)->words.items[0], "user");
	spec_done(&s);
}

static void test_words(void **state)
{
	struct spec s;

	parse(ON_IMAGE("{\"type\": \"ENV\", \"args\": [\"A\", \"\\\"$SET\\\" 'x' \\\\ ${SET}\"]},"
		       "{\"type\": \"WORKDIR\", \"args\": [\"/a b/$SET\"]}"),
		&s);
	assert_string_equal(step_of(&s, 1, 0)->words.items[0], "A");
	means(step_of(&s, 1, 0)->words.items[1], "\"value\" 'x' \\ value");
	means(step_of(&s, 2, 0)->words.items[0], "/a b/value");
	spec_done(&s);
}

static void copied(const char *source, const char *owner, const char *wanted, const char *by)
{
	char text[512];
	struct spec s;

	(void)snprintf(text, sizeof(text),
		ON_IMAGE("{\"type\": \"USER\", \"args\": [\"me\"]},"
			 "{\"type\": \"COPY\", \"args\": [\"%s\", \"/to/\", \"%s\", \"644\"], "
			 "\"files\": \"/f\"}"),
		source, owner);
	parse(text, &s);
	means(step_of(&s, 2, 0)->words.items[0], wanted);
	means(step_of(&s, 2, 0)->words.items[1], "/to/");
	means(dockerfile_flag(step_of(&s, 2, 0), "chown"), by);
	means(dockerfile_flag(step_of(&s, 2, 0), "chmod"), "644");
	assert_int_equal(s.step_count, 1);
	assert_int_equal(s.steps[0].number, 2);
	assert_string_equal(s.steps[0].files, "/f");
	spec_done(&s);
}

static void test_copy(void **state)
{
	copied("a/b.txt", "", "2/a/b.txt", "me:me");
	copied("a/*.txt", "o", "2/a/", "o:o");
	copied("*", "o:p", "2/", "o:p");
	copied(".", "1", "2/.", "1:1");
	copied("$SET dir", "", "2/$SET dir", "me:me");
}

/* One archive for two steps is unpacked once. */
static void test_copy_twice(void **state)
{
	struct spec s;

	parse(ON_IMAGE("{\"type\": \"COPY\", \"args\": [\"a\", \"/\"], \"files\": \"/f\"},"
		       "{\"type\": \"COPY\", \"args\": [\"b\", \"/\"], \"files\": \"/g\"},"
		       "{\"type\": \"COPY\", \"args\": [\"c\", \"/\"], \"files\": \"/f\"}"),
		&s);
	assert_int_equal(s.step_count, 2);
	means(step_of(&s, 1, 0)->words.items[0], "1/a");
	means(step_of(&s, 2, 0)->words.items[0], "2/b");
	means(step_of(&s, 3, 0)->words.items[0], "1/c");
	spec_done(&s);
}

static void test_disk_budget(void **state)
{
	struct disk_budget d = {.fd = -1, .bytes_max = 100};
	struct error e = {0}, full = {0};
	uint64_t left;

	d.fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(disk_budget_take(&d, 60, &e), 0);
	assert_int_equal(disk_budget_left(&d, 30, &left, &e), 0);
	assert_int_equal(left, 30);
	assert_int_equal(disk_budget_left(&d, 4096, &left, &e), 0);
	assert_int_equal(left, 40);
	assert_int_equal(disk_budget_take(&d, 40, &e), 0);
	assert_true(disk_budget_take(&d, 1, &e) < 0);
	assert_int_equal(e.code, ERROR_LIMIT);
	assert_int_equal(disk_budget_left(&d, 1, &left, NULL), -EDQUOT);
	assert_int_equal(disk_budget_room(&d, 0, NULL), 0);
	d.reserve_bytes = UINT64_C(1) << 60;
	assert_true(disk_budget_room(&d, 0, &full) < 0);
	assert_int_equal(full.code, ERROR_NO_SPACE);
	(void)close(d.fd); /* a directory */
}

static void test_refused(void **state)
{
	static const char *const texts[] = {"", "[]", "{}", "{\"build\": \"b\"}",
		"{\"build\": \"../b\", \"base\": {\"image\": \"x\"}}",
		"{\"build\": \"b\", \"base\": {\"image\": \"x\", \"template\": \"y\"}}",
		ON_IMAGE("{\"type\": \"COPY\", \"args\": [\"a\", \"b\"]}"),
		ON_IMAGE("{\"type\": \"JUMP\", \"args\": [\"a\"]}"),
		ON_IMAGE("{\"type\": \"RUN\"}"), ON_IMAGE("1")};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct error e = {0};
		struct spec s;

		assert_true(read_spec(texts[i], &s, &e) < 0);
		assert_int_equal(e.code, ERROR_USAGE);
		spec_done(&s);
	}
}

static void test_login_command(void **state)
{
	char *line = NULL, *much = calloc(1, 5000);

	assert_int_equal(spec_login_command("echo 'a' \"$B\"", &line, NULL), 0);
	assert_non_null(strstr(line, "bash -l -c"));
	free(line);
	memset(much, 'x', 4999);
	assert_true(spec_login_command(much, &line, NULL) < 0);
	free(much);
}

static void test_words_of_failure(void **state)
{
	static const struct {
		unsigned step;
		const char *why, *text;
	} cases[] = {
		{1, "the command ended with status 3",
			"failed to run command 'echo no; exit 3': exit status 3"},
		{1, "user root123: No such file or directory",
			"failed to run command 'echo no; exit 3': command failed: unauthenticated: "
			"invalid username: 'root123'"},
		{1, "it took longer than 3600 s",
			"failed to run command 'echo no; exit 3': it took longer than 3600 s"},
		{2, "the command ended with status 1", "failed to create user: exit status 1"},
		{3, "/f: Not a directory", "failed to create workdir: /f: Not a directory"},
		{4, "why", NULL},
		{5, "why", NULL},
		{0, "why", NULL},
	};
	struct spec s;

	parse(ON_IMAGE("{\"type\": \"RUN\", \"args\": [\"echo no; exit 3\", \"u\"]},"
		       "{\"type\": \"USER\", \"args\": [\"u\"]},"
		       "{\"type\": \"WORKDIR\", \"args\": [\"/f\"]},"
		       "{\"type\": \"ENV\", \"args\": [\"A\", \"1\"]}"),
		&s);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *got = spec_words_of_failure(&s, cases[i].step, cases[i].why);

		if (cases[i].text)
			assert_string_equal(got, cases[i].text);
		else
			assert_null(got);
	}
	spec_done(&s);
}

/* A long command is cut between two characters. */
static void test_words_of_a_long_command(void **state)
{
	char command[600] = "x", text[1200];
	_cleanup_free_ char *got = NULL;
	struct spec s;

	for (unsigned i = 0; i < 200; i++)
		(void)strcat(command, "\u00e9");
	(void)snprintf(text, sizeof(text),
		ON_IMAGE("{\"type\": \"RUN\", \"args\": [\"%s\", \"u\"]}"), command);
	parse(text, &s);
	got = spec_words_of_failure(&s, 1, "why");
	command[299] = '\0';
	assert_non_null(strstr(got, command));
	assert_non_null(strstr(got, "\u00e9': why"));
	spec_done(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_base),
		cmocka_unit_test(test_run),
		cmocka_unit_test(test_force),
		cmocka_unit_test(test_cache),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_copy),
		cmocka_unit_test(test_copy_twice),
		cmocka_unit_test(test_disk_budget),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_login_command),
		cmocka_unit_test(test_words_of_failure),
		cmocka_unit_test(test_words_of_a_long_command),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
