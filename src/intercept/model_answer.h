/* Reads the answer of a model's API while it passes: how many tokens the server counted, and which
 * tools the model calls. The answer is one JSON text or a stream of server-sent events, perhaps
 * compressed with gzip. Memory is constant. This only informs: parts that cannot be read are left
 * out, and nothing is refused.
 *
 * Counts are the server's own. In a stream they grow, so the largest counts. */
#ifndef INTERCEPT_MODEL_ANSWER_H
#define INTERCEPT_MODEL_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MODEL_ANSWER_TOOLS_MAX = 16, MODEL_ANSWER_NAME_MAX = 80 };

struct model_answer_said {
	bool counted; /* the server gave counts, and nothing is missing of a compressed answer */
	uint64_t tokens_in, tokens_out;
	const char *tools[MODEL_ANSWER_TOOLS_MAX]; /* tools that the model calls, each once */
	unsigned tool_count;
};

struct model_answer;

/* content_type, coding: the answer's; coding may be NULL. Returns NULL if it is neither of the two
 * forms, has a coding that cannot be read (gunzip.h), or when out of memory. */
struct model_answer *model_answer_new(const char *content_type, const char *coding);
void model_answer_free(struct model_answer *a); /* NULL is fine */
void model_answer_feed(struct model_answer *a, const void *data, size_t n);

/* Returns what was read so far. Strings are valid until the next call. If a is NULL the result is
 * empty. */
struct model_answer_said model_answer_said(const struct model_answer *a);

#endif
