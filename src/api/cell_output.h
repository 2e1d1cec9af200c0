/* The output of one cell, gathered from the interpreter's lines (docs/interpreter.md) within a
 * limit.
 *
 * What comes is a guest's word: lines that are none are dropped, and nothing in here grows beyond
 * the limit and CELL_LINE_EXTRA. Text beyond the limit is cut, a result that does not fit is left
 * out; `truncated` of the answer names what that happened to.
 *
 * The limit counts text as it is decoded; a line has up to CELL_ESCAPE_MAX times that. Of a stream's
 * line that fills its buffer, in the form that our interpreter writes, the text is taken part by
 * part, and what comes behind the text is not looked at. Others that long are dropped: a result
 * counts as its line, and would not have fitted.
 *
 * A result is checked and kept as the text that it is, and never parsed: a tree of very many small
 * values takes up to eighty times its text. All that is held is the line that comes and what is
 * kept, together at most twice the limit and CELL_LINE_EXTRA (of the buffers' memory, which grows
 * ahead, three times), and an error; to decode a line's text, or a part, takes three times its size
 * on top. */
#ifndef DAEMON_CELL_OUTPUT_H
#define DAEMON_CELL_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
	CELL_LINE_EXTRA = 64 * 1024,
	CELL_ESCAPE_MAX = 6, /* bytes of "\u0000" */
	CELL_ANSWER_EXTRA = 2 * 1024 * 1024,
};

struct cell_output {
	size_t left; /* of the limit */
	struct buf line;
	bool skipping; /* the rest of a line that was too long */
	struct buf out, err;
	struct buf results; /* JSON, with commas between them */
	json_t *error;	    /* NULL until one comes */
	json_int_t count;   /* of executions; 0: not told */
	bool out_cut, err_cut, results_cut;
	bool ended; /* the last line came */
};

/* limit: bytes of text, and of results as they come. */
void cell_output_init(struct cell_output *o, size_t limit);
void cell_output_done(struct cell_output *o);

/* Takes bytes of the answer's body. 0 or -ENOMEM. */
int cell_output_take(struct cell_output *o, const uint8_t *data, size_t n);

/* Bytes that it holds. */
size_t cell_output_bytes(const struct cell_output *o);

/* Appends {stdout, stderr, results, error, executionCount, truncated} and the members of `more` (NULL
 * is -ENOMEM). Has at most CELL_ESCAPE_MAX times the limit, should all of it be control characters,
 * and CELL_ANSWER_EXTRA, for the largest error. 0, -ENOMEM or -EMSGSIZE. */
int cell_output_answer(const struct cell_output *o, json_t *more, struct buf *out);

#endif
