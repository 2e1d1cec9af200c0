/* What `--progress json` says, event by event: programs rely on these members. */
#include "test.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/progress.h"

enum { TEXT_BYTES = 4096 };

/* What fn prints to standard error, a JSON object a line, as an array. */
static json_t *events_of(void (*fn)(struct progress_view *v))
{
	FILE *f = tmpfile();
	int before = dup(STDERR_FILENO);
	char text[TEXT_BYTES], *next, *line;
	json_t *all = json_array();
	struct progress_view v;
	ssize_t n;

	progress_view_open(&v, false);
	assert_int_equal(progress_view_choose(&v, "json", NULL), 0);
	assert_true(f && dup2(fileno(f), STDERR_FILENO) >= 0);
	fn(&v);
	progress_view_close(&v);
	fflush(NULL);
	assert_true(dup2(before, STDERR_FILENO) >= 0);
	n = pread(fileno(f), text, sizeof(text) - 1, 0);
	assert_true(n >= 0);
	text[n] = '\0';
	for (line = strtok_r(text, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
		json_t *one = json_loads(line, JSON_ALLOW_NUL, NULL);

		assert_true(json_is_object(one));
		if (json_object_get(one, "ms")) { /* any number */
			assert_true(json_integer_value(json_object_get(one, "ms")) >= 0);
			json_object_set_new(one, "ms", json_integer(0));
		}
		json_array_append_new(all, one);
	}
	(void)close(before);
	(void)fclose(f);
	return all;
}

static void expect(void (*fn)(struct progress_view *v), const char *wanted)
{
	json_t *events = events_of(fn), *want = json_loads(wanted, 0, NULL);

	assert_non_null(want);
	if (!json_equal(events, want))
		json_dumpf(events, stdout, JSON_INDENT(1));
	assert_true(json_equal(events, want));
	json_decref(events);
	json_decref(want);
}

static void stages(struct progress_view *v)
{
	v->progress.fn(v, "fetch", PROGRESS_NO_PERCENT, "a line of it");
	v->progress.fn(v, "boot", 40, NULL);
}

static void steps(struct progress_view *v)
{
	const struct progress_step one = {1, 2, 3, "RUN echo \x1b[1m", false},
				   two = {2, 2, 4, "COPY a b", true};

	progress_view_step(v, &one);
	progress_view_output(v, "some\nlines", 10);
	progress_view_note(v, 9, "LABEL means nothing");
	v->progress.fn(v, "boot", PROGRESS_NO_PERCENT, NULL);
	progress_view_step(v, &two);
}

/* Characters are whole, however the pieces are cut; what is no text is replaced. */
static void pieces(struct progress_view *v)
{
	progress_view_output(v, "a\xe2\x82", 3);
	progress_view_output(v, "\xac\xf0\x9f", 3);
	progress_view_output(v, "\x98", 1);
	progress_view_output(v, "\x80", 1);
	progress_view_output(v, "z\0y", 3);
	progress_view_output(v, "\xff.", 2);
	progress_view_output(v, "cut\xe2\x82", 5);
	progress_view_note(v, 1, "n");
}

static void failure(struct progress_view *v)
{
	struct error e = {0};

	v->progress.fn(v, "boot", PROGRESS_NO_PERCENT, NULL);
	(void)error_set(&e, ERROR_USAGE, 22, "line 2: RUM: is not an instruction");
	progress_view_failed(v, &e);
}

static void test_events(void **state)
{
	expect(stages, "[{\"stage\":\"fetch\"},{\"done\":\"fetch\",\"ms\":0},{\"stage\":\"boot\"},"
		       "{\"stage\":\"boot\",\"percent\":40},{\"done\":\"boot\",\"ms\":0}]");
	expect(steps, "[{\"step\":1,\"of\":2,\"line\":3,\"text\":\"RUN echo "
		      "\\u001b[1m\",\"cached\":false},"
		      "{\"output\":\"some\\nlines\"},{\"note\":\"LABEL means nothing\",\"line\":9},"
		      "{\"stage\":\"boot\"},{\"done\":\"boot\",\"ms\":0},"
		      "{\"step\":2,\"of\":2,\"line\":4,\"text\":\"COPY a b\",\"cached\":true}]");
	expect(failure, "[{\"stage\":\"boot\"},{\"done\":\"boot\",\"ms\":0},"
			"{\"failed\":\"line 2: RUM: is not an instruction\",\"code\":\"usage\"}]");
}

static void test_output(void **state)
{
	json_t *events = events_of(pieces);
	static const struct {
		const char *text;
		size_t n;
	} want[] = {{"a", 1}, {"\xe2\x82\xac", 3}, {"\xf0\x9f\x98\x80", 4}, {"z\0y", 3}, {"?.", 2},
		{"cut", 3}, {"??", 2}};

	assert_int_equal(json_array_size(events), 8);
	for (size_t i = 0; i < 7; i++) {
		const json_t *text = json_object_get(json_array_get(events, i), "output");

		assert_int_equal(json_string_length(text), want[i].n);
		assert_memory_equal(json_string_value(text), want[i].text, want[i].n);
	}
	json_decref(events);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_output),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
