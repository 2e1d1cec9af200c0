/* Gathers the output of one cell from the interpreter's lines (docs/interpreter.md), within a
 * limit.
 *
 * The input comes from a guest and is not trusted. Invalid lines are dropped, and nothing here
 * grows beyond the limit plus CELL_LINE_EXTRA. Text beyond the limit is cut, and a result that does
 * not fit is left out. The answer's `truncated` names what was cut or left out.
 *
 * The limit counts decoded text; a line may be CELL_ESCAPE_MAX times longer. If a stream's line
 * fills its buffer and has the form that our interpreter writes, its text is taken in parts.
 * Anything after the text is ignored. Other lines of that length are dropped: a result counts as
 * its line, so it would not have fitted.
 *
 * A result is checked and kept as text, and never parsed: a tree of many small values takes up to
 * eighty times its text. The module holds only the current line, the kept output, and an error.
 * Line and output hold at most twice the limit plus CELL_LINE_EXTRA. Their buffers grow in steps,
 * so they take at most three times the limit. Decoding a line's text, or a part of it, takes
 * another three times its size. */
#ifndef API_CELL_OUTPUT_H
#define API_CELL_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
	CELL_LINE_EXTRA = 64 * 1024,
	CELL_ESCAPE_MAX = 6, /* bytes of "\u0000" for one decoded byte */
	CELL_ANSWER_EXTRA = 2 * 1024 * 1024,
};

struct cell_output {
	size_t left; /* rest of the limit */
	struct buf line;
	bool skipping; /* dropping the rest of a line that was too long */
	struct buf out, err;
	struct buf results; /* JSON, with commas between them */
	json_t *error;	    /* NULL until one comes */
	json_int_t count;   /* the execution count; 0: not reported */
	bool out_cut, err_cut, results_cut;
	bool ended; /* the last line has come */
};

/* limit: how many bytes of decoded text and of results, as received, are kept. */
void cell_output_init(struct cell_output *o, size_t limit);
void cell_output_done(struct cell_output *o);

/* Takes bytes of the answer's body. Returns 0 or -ENOMEM. */
int cell_output_take(struct cell_output *o, const uint8_t *data, size_t n);

/* Returns how many bytes it holds. */
size_t cell_output_bytes(const struct cell_output *o);

/* Appends {stdout, stderr, results, error, executionCount, truncated} and the members of `more`.
 * The answer takes at most CELL_ESCAPE_MAX times the limit (if all output is control characters)
 * plus CELL_ANSWER_EXTRA (for the largest error). Returns 0, -ENOMEM (also if `more` is NULL) or
 * -EMSGSIZE. */
int cell_output_answer(const struct cell_output *o, json_t *more, struct buf *out);

#endif
