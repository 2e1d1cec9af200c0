/* src/api/cell_output: what of a cell's output is kept, and what that takes of memory. */
#include "test.h"

#include <jansson.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "api/code/cell_output.h"
#include "base/cleanup.h"

enum { LIMIT = 1024 * 1024 };

/* --- jansson's memory --- */

static size_t live, peak;

static void *counted_malloc(size_t n)
{
	void *p = malloc(n);

	live += p ? malloc_usable_size(p) : 0;
	peak = live > peak ? live : peak;
	return p;
}

static void counted_free(void *p)
{
	live -= p ? malloc_usable_size(p) : 0;
	free(p);
}

static int count_memory(void **state)
{
	json_set_alloc_funcs(counted_malloc, counted_free);
	return 0;
}

static size_t buffers(const struct cell_output *o)
{
	return o->line.capacity + o->out.capacity + o->err.capacity + o->results.capacity;
}

/* --- lines and answers --- */

static void take(struct cell_output *o, const char *text)
{
	assert_int_equal(cell_output_take(o, (const uint8_t *)text, strlen(text)), 0);
}

/* The answer, parsed. */
static json_t *answer_of(const struct cell_output *o)
{
	_cleanup_(buf_done) struct buf text =
		BUF_INIT(o->line.max * CELL_ESCAPE_MAX + CELL_ANSWER_EXTRA);
	json_t *more = json_pack("{s:s}", "sandboxID", "i1"), *answer;

	assert_int_equal(cell_output_answer(o, more, &text), 0);
	answer = json_loadb((const char *)buf_head(&text), buf_len(&text), JSON_ALLOW_NUL, NULL);
	assert_non_null(answer);
	json_decref(more);
	return answer;
}

/* lines make exactly this answer, without what is added to it. */
static void assert_answer(size_t limit, const char *lines, const char *want)
{
	json_t *wanted = json_loads(want, JSON_ALLOW_NUL, NULL), *answer;
	struct cell_output o;

	cell_output_init(&o, limit);
	take(&o, lines);
	answer = answer_of(&o);
	assert_non_null(wanted);
	assert_string_equal(json_string_value(json_object_get(answer, "sandboxID")), "i1");
	assert_int_equal(json_object_del(answer, "sandboxID"), 0);
	assert_true(json_equal(answer, wanted));
	json_decref(answer);
	json_decref(wanted);
	cell_output_done(&o);
}

#define TRUNCATED(out, err, results)                                                               \
	"\"truncated\":{\"stdout\":" #out ",\"stderr\":" #err ",\"results\":" #results "}"
#define WHOLE TRUNCATED(false, false, false)

static void an_ordinary_cell(void **state)
{
	assert_answer(LIMIT,
		"{\"type\":\"number_of_executions\",\"execution_count\":3}\n"
		"{\"type\":\"stdout\",\"text\":\"a\\u00e9\\n\",\"timestamp\":\"t\"}\n"
		"{\"type\":\"keepalive\"}\n"
		"{\"type\":\"stderr\",\"text\":\"\\ud83d\\ude00\\b\",\"timestamp\":\"t\"}\n"
		"{\"type\":\"result\",\"text\":\"{'a': 0.1}\",\"json\":{\"a\":0.1,\"b\":[]},"
		"\"extra\":{\"x/y\":\"\\u00e9\"},\"is_main_result\":true}\n"
		"{\"type\":\"stdout\",\"text\":\"b\"}\n"
		"{\"type\":\"result\",\"png\":\"QUJD\",\"is_main_result\":false}\n"
		"{\"type\":\"error\",\"name\":\"E\",\"value\":\"v\\u0000\",\"traceback\":\"t\"}\n"
		"{\"type\":\"error\",\"name\":\"second\"}\n"
		"{\"type\":\"end_of_execution\"}\n"
		"{\"type\":\"stdout\",\"text\":\"behind the end\"}\n",
		"{\"stdout\":\"a\u00e9\\nb\",\"stderr\":\"\U0001f600\\b\",\"results\":["
		"{\"text\":\"{'a': 0.1}\",\"json\":{\"a\":0.1,\"b\":[]},"
		"\"extra\":{\"x/y\":\"\u00e9\"},\"is_main_result\":true},"
		"{\"png\":\"QUJD\",\"is_main_result\":false}],"
		"\"error\":{\"name\":\"E\",\"value\":\"v\\u0000\",\"traceback\":\"t\"},"
		"\"executionCount\":3," WHOLE "}");
}

static void nothing(void **state)
{
	assert_answer(0, "",
		"{\"stdout\":\"\",\"stderr\":\"\",\"results\":[],\"error\":null,"
		"\"executionCount\":0," WHOLE "}");
}

static void the_type_stands_anywhere(void **state)
{
	assert_answer(LIMIT,
		"{\"type\":\"result\"}\n"
		"{\"text\":\"1\",\"type\":\"result\"}\n"
		"{ \"text\" : \"2\" , \"type\" : \"result\" , \"html\" : \"3\" }\r\n"
		"{\"type\":\"stdout\",\"text\":\"4\",\"type\":\"result\"}\n",
		"{\"stdout\":\"\",\"stderr\":\"\",\"results\":[{},{\"text\":\"1\"},"
		"{\"text\":\"2\",\"html\":\"3\"},{\"text\":\"4\"}],\"error\":null,"
		"\"executionCount\":0," WHOLE "}");
}

/* Each of them would make the answer invalid, or is of another form. */
static void no_lines(void **state)
{
	assert_answer(LIMIT,
		"\n{}\n[]\n1\nnull\nresult\n{\"type\":1}\n{\"type\":[\"result\"]}\n"
		"{\"type\":\"result\"\n{\"type\":\"result\"}}\n{\"type\":\"result\"},{}\n"
		"{\"type\":\"result\",\"a\":[}]\n{\"type\":\"result\",\"a\":NaN}\n"
		"{\"type\":\"result\",\"a\":\"\\ud800\"}\n{\"type\":\"result\",\"a\":\"\xff\"}\n"
		"{\"type\":\"result\",\"a\":1e999}\n{\"type\":\"result\",\"a\":\"\t\"}\n"
		"{\"type\":\"stdout\"}\n{\"type\":\"stdout\",\"text\":[\"a\"]}\n"
		"{\"type\":\"stdout\",\"text\":1}\n"
		"{\"type\":\"number_of_executions\",\"execution_count\":[1]}\n",
		"{\"stdout\":\"\",\"stderr\":\"\",\"results\":[],\"error\":null,"
		"\"executionCount\":0," WHOLE "}");
}

static void an_error_of_another_form(void **state)
{
	assert_answer(LIMIT, "{\"type\":\"error\",\"name\":[[]],\"value\":7}\n",
		"{\"stdout\":\"\",\"stderr\":\"\",\"results\":[],\"executionCount\":0,"
		"\"error\":{\"name\":\"\",\"value\":\"\",\"traceback\":\"\"}," WHOLE "}");
}

/* A result counts as its line. */
static void results_within_the_limit(void **state)
{
	static const char lines[] = "{\"type\":\"result\",\"text\":\"1\"}\n"
				    "{\"type\":\"result\"}\n"
				    "{\"type\":\"stdout\",\"text\":\"ab\"}\n";

	assert_answer(28 + 17 + 2, lines,
		"{\"stdout\":\"ab\",\"stderr\":\"\",\"results\":[{\"text\":\"1\"},{}],"
		"\"error\":null,\"executionCount\":0," WHOLE "}");
	assert_answer(28 + 16, lines,
		"{\"stdout\":\"ab\",\"stderr\":\"\",\"results\":[{\"text\":\"1\"}],"
		"\"error\":null,\"executionCount\":0," TRUNCATED(false, false, true) "}");
	assert_answer(27, lines,
		"{\"stdout\":\"ab\",\"stderr\":\"\",\"results\":[{}],"
		"\"error\":null,\"executionCount\":0," TRUNCATED(false, false, true) "}");
	assert_answer(1, lines,
		"{\"stdout\":\"a\",\"stderr\":\"\",\"results\":[],"
		"\"error\":null,\"executionCount\":0," TRUNCATED(true, false, true) "}");
}

/* --- lines that are longer than the limit and yet within it --- */

static void add(struct buf *to, const char *text)
{
	assert_int_equal(buf_add_str(to, text), 0);
}

static void add_times(struct buf *to, const char *text, size_t times)
{
	for (; times; times--)
		add(to, text);
}

#define LINES(name) _cleanup_(buf_done) struct buf name = BUF_INIT(64 * 1024 * 1024)
#define STDOUT	    "{\"type\":\"stdout\",\"text\":\""
#define STDERR	    "{\"type\":\"stderr\",\"text\":\""
#define STREAM_END  "\",\"timestamp\":\"2026-01-01T00:00:00.000000+00:00\"}\n"
#define RESULT	    "{\"type\":\"result\",\"text\":\"42\",\"is_main_result\":true}\n"

enum { RESULT_BYTES = sizeof(RESULT) - 2, PIECE = 60000 };

/* Taken in pieces, as a connection would have it; the answer. */
static json_t *answer_to(size_t limit, const struct buf *lines)
{
	struct cell_output o;
	json_t *answer;

	cell_output_init(&o, limit);
	for (size_t at = 0, part; at < buf_len(lines); at += part) {
		part = buf_len(lines) - at < PIECE ? buf_len(lines) - at : PIECE;
		assert_int_equal(cell_output_take(&o, buf_head(lines) + at, part), 0);
		assert_true(buf_len(&o.line) <= limit + CELL_LINE_EXTRA);
	}
	answer = answer_of(&o);
	cell_output_done(&o);
	return answer;
}

static bool was_cut(const json_t *answer, const char *what)
{
	return json_is_true(json_object_get(json_object_get(answer, "truncated"), what));
}

static void assert_text(const json_t *answer, const char *stream, const struct buf *want, size_t n)
{
	const json_t *text = json_object_get(answer, stream);

	assert_int_equal(json_string_length(text), n);
	assert_memory_equal(json_string_value(text), buf_head(want), n);
}

/* A line of `before`, n times `unit` as it is written, and a result: with the limit, of what this
 * means (`before`, n times `means`) want bytes are there, and the result if it has room. */
static void assert_long(size_t limit, const char *before, const char *unit, const char *means,
	size_t n, size_t want)
{
	LINES(lines);
	LINES(text);
	json_t *answer;
	bool results;

	add(&text, before);
	add_times(&text, means, n);
	add(&lines, STDOUT);
	add(&lines, before);
	add_times(&lines, unit, n);
	add(&lines, STREAM_END);
	assert_true(buf_len(&lines) > limit + CELL_LINE_EXTRA);
	add(&lines, RESULT);
	answer = answer_to(limit, &lines);
	assert_text(answer, "stdout", &text, want);
	results = want == buf_len(&text) && limit - want >= RESULT_BYTES;
	assert_int_equal(was_cut(answer, "stdout"), want < buf_len(&text));
	assert_int_equal(json_array_size(json_object_get(answer, "results")), results);
	assert_int_equal(was_cut(answer, "results"), !results);
	assert_false(was_cut(answer, "stderr"));
	json_decref(answer);
}

static void the_limit_counts_text_as_it_is_decoded(void **state)
{
	enum { N = 200000 };

	assert_long(LIMIT, "", "\\u6f22", "\u6f22", N, 3 * N);
	assert_long(3 * N + RESULT_BYTES, "", "\\u6f22", "\u6f22", N, 3 * N);
	assert_long(3 * N + RESULT_BYTES - 1, "", "\\u6f22", "\u6f22", N, 3 * N);
	assert_long(3 * N, "", "\\u6f22", "\u6f22", N, 3 * N); /* exactly */
	for (size_t less = 1; less <= 3; less++)
		assert_long(3 * N - less, "", "\\u6f22", "\u6f22", N, 3 * N - 3);
	assert_long(1, "", "\\u6f22", "\u6f22", N, 0);
}

static void control_characters_are_six_times_as_long(void **state)
{
	enum { N = LIMIT / 2 };

	assert_long(LIMIT, "", "\\u0001", "\x01", N, N);
	assert_long(N, "", "\\u0001", "\x01", N, N);
	assert_long(N - 1, "", "\\u0001", "\x01", N, N - 1);
}

/* Wherever a line fills its buffer, and wherever its text is cut, it is between characters. */
static void parts_are_whole_characters(void **state)
{
	static const struct {
		const char *unit, *means;
	} texts[] = {{"\\ud83d\\ude00", "\U0001f600"}, {"\\uD83D\\uDE00", "\U0001f600"},
		{"\\u00e9\\n", "\u00e9\n"}, {"\\\\\\\"", "\\\""},
		{"\\\\ud83d\\b\\b\\b\\b", "\\ud83d\b\b\b\b"}, {"\u6f22\\u0001", "\u6f22\x01"},
		{"\U0001f600\\u0001", "\U0001f600\x01"}, {"\u00e9\\t\\t", "\u00e9\t\t"}};
	static const char before[] = "aaaaaaaaaaaa";

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		for (size_t a = 0; a < sizeof(before); a++) {
			const size_t means = strlen(texts[i].means), n = 140000 / means;

			assert_long(140000 + RESULT_BYTES + a, before + strlen(before) - a,
				texts[i].unit, texts[i].means, n, n * means + a);
		}
	for (size_t less = 1; less <= 8; less++) /* of pairs */
		assert_long(80002 - less, "bb", "\\ud83d\\ude00", "\U0001f600", 20000,
			80002 - (less + 3) / 4 * 4);
}

/* The text is over where the line fills its buffer, or about. */
static void what_is_behind_a_text_is_none(void **state)
{
	enum { ROOM = 100000, FULL = ROOM + CELL_LINE_EXTRA };

	for (size_t n = FULL - 60; n < FULL + 4; n++) {
		LINES(lines);
		LINES(text);
		const size_t pairs = (n - strlen(STDOUT)) / 2, more = (n - strlen(STDOUT)) % 2;
		json_t *answer;

		add_times(&text, "\n", pairs);
		add_times(&text, "x", more);
		add(&lines, STDOUT);
		add_times(&lines, "\\n", pairs);
		add_times(&lines, "x", more);
		assert_int_equal(buf_len(&lines), n);
		add(&lines, STREAM_END RESULT);
		answer = answer_to(ROOM, &lines);
		assert_text(answer, "stdout", &text, pairs + more);
		assert_int_equal(json_array_size(json_object_get(answer, "results")), 1);
		assert_false(was_cut(answer, "stdout") || was_cut(answer, "results"));
		json_decref(answer);
	}
}

/* A line that is none from somewhere on is dropped from there on, and the next one is taken. */
static void long_lines_that_become_none(void **state)
{
	static const char *const bad[] = {
		"\\x", "\t", "\xff", "\\ud83d", "\\ud83d\\ud83d", "\\u12g4", "\\u"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		LINES(lines);
		json_t *answer;
		const char *text;

		add(&lines, STDERR);
		add_times(&lines, "\\t", 80000);
		add(&lines, bad[i]);
		add_times(&lines, "\\t", 200000);
		add(&lines, STREAM_END STDERR "after" STREAM_END RESULT);
		answer = answer_to(80000, &lines);
		text = json_string_value(json_object_get(answer, "stderr"));
		assert_true(strspn(text, "\t") > 70000 && strspn(text, "\t") <= 80000);
		assert_string_equal(text + strspn(text, "\t"), "after");
		assert_int_equal(json_array_size(json_object_get(answer, "results")), 1);
		json_decref(answer);
	}
}

static void both_streams_share_the_limit(void **state)
{
	LINES(lines);
	LINES(text);
	json_t *answer;

	add_times(&text, "\u6f22", 100000);
	add(&lines, STDOUT);
	add_times(&lines, "\\u6f22", 100000);
	add(&lines, STREAM_END STDERR);
	add_times(&lines, "\\u6f22", 100000);
	add(&lines, STREAM_END RESULT);
	answer = answer_to(400000, &lines);
	assert_text(answer, "stdout", &text, 300000);
	assert_text(answer, "stderr", &text, 99999);
	assert_false(was_cut(answer, "stdout"));
	assert_true(was_cut(answer, "stderr") && was_cut(answer, "results"));
	json_decref(answer);
}

/* --- memory --- */

/* A line of exactly n bytes and a newline: front, item after item, a text that fills it, back. */
static char *make_line(size_t n, const char *front, const char *item, const char *back)
{
	size_t unit = strlen(item), len = strlen(front);
	char *line = malloc(n + 2);

	assert_non_null(line);
	memcpy(line, front, len);
	for (; unit && len + unit + 2 + strlen(back) <= n; len += unit)
		memcpy(line + len, item, unit);
	line[len++] = '"';
	while (len + 1 + strlen(back) < n)
		line[len++] = 'x';
	line[len++] = '"';
	memcpy(line + len, back, strlen(back) + 1);
	assert_int_equal(strlen(line), n);
	line[n] = '\n';
	line[n + 1] = 0;
	return line;
}

static const char *const items[] = {
	"0,", "[],", "{},", "\"\",", "{\"\":{}},", "{\"x\":1,\"y\":2},", "[1,2],", "1e1,"};

static void results_of_small_values_cost_what_their_text_does(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(items); i++) {
		_cleanup_free_ char *line =
			make_line(LIMIT, "{\"type\":\"result\",\"json\":[", items[i], "]}");
		struct cell_output o;
		json_t *answer;

		cell_output_init(&o, LIMIT);
		peak = live;
		take(&o, line);
		assert_int_equal(peak, live); /* nothing */
		assert_true(buffers(&o) <= 3 * LIMIT + CELL_LINE_EXTRA);
		answer = answer_of(&o);
		assert_true(json_is_false(
			json_object_get(json_object_get(answer, "truncated"), "results")));
		assert_true(json_array_size(json_object_get(
				    json_array_get(json_object_get(answer, "results"), 0),
				    "json")) > LIMIT / 16);
		json_decref(answer);
		cell_output_done(&o);
	}
}

/* A line that is too long or of another type is no way around it, nor is one that no one knows. */
static void nor_do_other_lines(void **state)
{
	static const char *const fronts[] = {"{\"type\":\"stdout\",\"text\":\"a\",\"more\":[",
		"{\"type\":\"stdout\",\"text\":[", "{\"type\":\"error\",\"name\":[",
		"{\"type\":\"number_of_executions\",\"execution_count\":[", "{\"type\":[",
		"{\"type\":\"unknown\",\"a\":["};

	for (size_t i = 0; i < ARRAY_SIZE(fronts); i++) {
		_cleanup_free_ char *whole = make_line(LIMIT, fronts[i], "{},", "]}"),
				    *cut_short = make_line(LIMIT + CELL_LINE_EXTRA + 2, fronts[i],
					    "{},", "],\"b\":\"x\"}");
		struct cell_output o;

		cell_output_init(&o, LIMIT);
		peak = live;
		take(&o, whole);
		take(&o, cut_short);
		assert_true(peak - live < 4096);
		assert_true(buffers(&o) <= 3 * LIMIT + CELL_LINE_EXTRA);
		cell_output_done(&o);
	}
}

static void a_text_is_decoded_in_a_few_times_its_size(void **state)
{
	static const char *const fronts[] = {
		"{\"type\":\"stdout\",\"text\":", "{\"type\":\"error\",\"value\":"};

	for (size_t i = 0; i < ARRAY_SIZE(fronts); i++) {
		_cleanup_free_ char *line = make_line(LIMIT, fronts[i], "", "}");
		struct cell_output o;

		cell_output_init(&o, LIMIT);
		peak = live;
		take(&o, line);
		assert_true(peak - live <= 3 * (size_t)LIMIT);
		cell_output_done(&o);
	}
}

/* However long its line is, and with as much as there can be of everything else. */
static void nor_do_long_texts(void **state)
{
	static const char *const units[] = {"\\u0001", "\\u6f22", "\\ud83d\\ude00", "x", "\u6f22"};

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		_cleanup_free_ char *result =
			make_line(LIMIT / 2 - 8, "{\"type\":\"result\",\"json\":[", "{},", "]}");
		struct cell_output o;
		LINES(line);
		size_t most = 0;

		add_times(&line, units[i], LIMIT / strlen(units[i]));
		cell_output_init(&o, LIMIT);
		peak = live;
		take(&o, result);
		take(&o, STDERR "\\u0001" STREAM_END STDOUT);
		for (size_t times = 0; times < 20; times++) {
			assert_int_equal(cell_output_take(&o, buf_head(&line), buf_len(&line)), 0);
			most = buffers(&o) > most ? buffers(&o) : most;
		}
		take(&o, STREAM_END);
		assert_true(o.out_cut && !o.err_cut && !o.results_cut);
		assert_true(most <= 3 * LIMIT + CELL_LINE_EXTRA);
		assert_true(peak - live <= 3 * (size_t)(LIMIT + CELL_LINE_EXTRA));
		cell_output_done(&o);
	}
}

static void a_large_picture_is_as_it_was(void **state)
{
	static const char front[] = "{\"type\":\"result\",\"png\":", back[] = "}";
	const size_t want = LIMIT - strlen(front) - strlen(back) - 2;
	_cleanup_free_ char *line = make_line(LIMIT, front, "", back);
	struct cell_output o;
	json_t *answer, *png;

	cell_output_init(&o, LIMIT);
	take(&o, line);
	answer = answer_of(&o);
	png = json_object_get(json_array_get(json_object_get(answer, "results"), 0), "png");
	assert_int_equal(json_string_length(png), want);
	assert_memory_equal(json_string_value(png), line + strlen(front) + 1, want);
	json_decref(answer);
	cell_output_done(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_ordinary_cell),
		cmocka_unit_test(nothing),
		cmocka_unit_test(the_type_stands_anywhere),
		cmocka_unit_test(no_lines),
		cmocka_unit_test(an_error_of_another_form),
		cmocka_unit_test(results_within_the_limit),
		cmocka_unit_test(the_limit_counts_text_as_it_is_decoded),
		cmocka_unit_test(control_characters_are_six_times_as_long),
		cmocka_unit_test(parts_are_whole_characters),
		cmocka_unit_test(what_is_behind_a_text_is_none),
		cmocka_unit_test(long_lines_that_become_none),
		cmocka_unit_test(both_streams_share_the_limit),
		cmocka_unit_test(results_of_small_values_cost_what_their_text_does),
		cmocka_unit_test(nor_do_other_lines),
		cmocka_unit_test(nor_do_long_texts),
		cmocka_unit_test(a_large_picture_is_as_it_was),
		cmocka_unit_test(a_text_is_decoded_in_a_few_times_its_size),
	};

	return cmocka_run_group_tests(tests, count_memory, NULL);
}
