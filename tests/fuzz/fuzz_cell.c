/* The lines in which an interpreter tells a cell's output: whatever comes, in whatever pieces, the
 * answer stays within its limit and is valid. The input's first two bytes are the limit, the third
 * is the size of the pieces. */
#include "fuzz.h"

#include "api/code/cell_output.h"

/* It is read by a parser that had no part in it. */
static json_t *answer_of(const struct cell_output *o, size_t limit)
{
	struct buf text = BUF_INIT(limit * CELL_ESCAPE_MAX + CELL_ANSWER_EXTRA);
	json_t *more = json_pack("{s:b}", "more", true), *answer;

	check(cell_output_answer(o, more, &text) == 0);
	answer = json_loadb((const char *)buf_head(&text), buf_len(&text), JSON_ALLOW_NUL, NULL);
	check(answer);
	check(json_is_true(json_object_get(answer, "more")));
	json_decref(more);
	buf_done(&text);
	return answer;
}

static size_t text_bytes(const json_t *answer, const char *key)
{
	const json_t *text = json_object_get(answer, key);

	check(json_is_string(text));
	return json_string_length(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct cell_output o;
	size_t limit, piece;
	json_t *answer;

	if (n < 3)
		return 0;
	limit = (size_t)data[0] + 256 * (size_t)data[1];
	piece = (size_t)data[2] * 64 + 1;
	cell_output_init(&o, limit);
	for (data += 3, n -= 3; n;) {
		size_t part = n < piece ? n : piece;

		check(cell_output_take(&o, data, part) == 0);
		check(buf_len(&o.line) <= limit + CELL_LINE_EXTRA);
		data += part;
		n -= part;
	}
	answer = answer_of(&o, limit);
	check(text_bytes(answer, "stdout") + text_bytes(answer, "stderr") + buf_len(&o.results) <=
		limit);
	check(json_is_array(json_object_get(answer, "results")));
	json_decref(answer);
	cell_output_done(&o);
	return 0;
}
