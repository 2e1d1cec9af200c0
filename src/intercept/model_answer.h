/* What the API of a model answers: how many tokens it counted, and which tools the model calls.
 * Read while it passes, as one JSON text or as a stream of events (SSE), with constant memory. A
 * help to those who count: what cannot be read is left out, and nothing is refused.
 *
 * Counts are the server's own, and the largest of a stream, where they add up. */
#ifndef INTERCEPT_MODEL_ANSWER_H
#define INTERCEPT_MODEL_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MODEL_ANSWER_TOOLS_MAX = 16, MODEL_ANSWER_NAME_MAX = 80 };

struct model_answer_said {
	bool counted; /* it said how many */
	uint64_t tokens_in, tokens_out;
	const char *tools[MODEL_ANSWER_TOOLS_MAX]; /* that the model calls, each once */
	unsigned tool_count;
};

struct model_answer;

/* content_type: of the answer; NULL when that is none of these, or there is no memory. */
struct model_answer *model_answer_new(const char *content_type);
void model_answer_free(struct model_answer *a); /* NULL is fine */
void model_answer_feed(struct model_answer *a, const void *data, size_t n);

/* So far. Texts are valid until the next call. NULL: nothing. */
struct model_answer_said model_answer_said(const struct model_answer *a);

#endif
