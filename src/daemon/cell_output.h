/* The output of one cell, gathered from the interpreter's lines (docs/interpreter.md) within a
 * limit.
 *
 * What comes is a guest's word: lines that are none are dropped, and nothing in here grows beyond
 * the limit and CELL_LINE_EXTRA. Text beyond the limit is cut, a result that does not fit is left
 * out; `truncated` of the answer names what that happened to. */
#ifndef DAEMON_CELL_OUTPUT_H
#define DAEMON_CELL_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { CELL_LINE_EXTRA = 64 * 1024 };

struct cell_output {
	size_t left; /* of the limit */
	struct buf line;
	bool skipping; /* the rest of a line that was too long */
	struct buf out, err;
	json_t *results, *error; /* error: NULL until one comes */
	json_int_t count;	 /* of executions; 0: not told */
	bool out_cut, err_cut, results_cut;
	bool ended; /* the last line came */
};

/* limit: bytes of text, and of results as they come. */
void cell_output_init(struct cell_output *o, size_t limit);
void cell_output_done(struct cell_output *o);

/* Takes bytes of the answer's body. 0 or -ENOMEM. */
int cell_output_take(struct cell_output *o, const uint8_t *data, size_t n);

/* {stdout, stderr, results, error, executionCount, truncated}; NULL when out of memory. */
json_t *cell_output_json(const struct cell_output *o);

#endif
