/* The lines in which an interpreter tells a cell's output: whatever comes, in whatever pieces, the
 * answer stays within its limit and is valid. The input's first two bytes are the limit, the third
 * is the size of the pieces. */
#include "fuzz.h"

#include "daemon/cell_output.h"

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
	answer = cell_output_json(&o);
	check(answer);
	check(text_bytes(answer, "stdout") + text_bytes(answer, "stderr") <= limit);
	check(json_is_array(json_object_get(answer, "results")));
	json_decref(answer);
	cell_output_done(&o);
	return 0;
}
