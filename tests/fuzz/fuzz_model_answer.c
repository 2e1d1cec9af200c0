/* Answers of models: the first byte says whether they are events ('e'), and whether they are
 * compressed ('z', or 'g' of events). The rest comes whole and byte by byte, and says the same. */
#include "fuzz.h"

#include <string.h>

#include "intercept/model_answer.h"

static struct model_answer *read_answer(uint8_t kind, const uint8_t *data, size_t n, size_t piece)
{
	const char *type = kind == 'e' || kind == 'g' ? "text/event-stream; charset=utf-8"
						      : "application/json";
	struct model_answer *a = model_answer_new(type, kind == 'z' || kind == 'g' ? "gzip" : NULL);

	check(a != NULL);
	for (size_t at = 0; at < n; at += piece)
		model_answer_feed(a, data + at, n - at < piece ? n - at : piece);
	return a;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct model_answer *one, *two;
	struct model_answer_said a, b;

	if (size == 0)
		return 0;
	one = read_answer(data[0], data + 1, size - 1, size);
	two = read_answer(data[0], data + 1, size - 1, 1);
	a = model_answer_said(one);
	b = model_answer_said(two);
	check(a.counted == b.counted && a.tokens_in == b.tokens_in && a.tokens_out == b.tokens_out);
	check(a.tool_count == b.tool_count && a.tool_count <= MODEL_ANSWER_TOOLS_MAX);
	for (unsigned i = 0; i < a.tool_count; i++)
		check(strcmp(a.tools[i], b.tools[i]) == 0 &&
			strlen(a.tools[i]) <= MODEL_ANSWER_NAME_MAX);
	model_answer_free(one);
	model_answer_free(two);
	return 0;
}
