/* Formats the lines of a streamed execution (docs/interpreter.md): one JSON object each, ASCII
 * only, ended by a newline. All functions append to a buffer and return 0, -EMSGSIZE or -ENOMEM. */
#ifndef INTERPRETER_LINES_H
#define INTERPRETER_LINES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

int lines_add_count(struct buf *out, json_int_t count);
/* type: "stdout" or "stderr". */
int lines_add_text(struct buf *out, const char *type, const char *text, size_t n);
int lines_add_error(struct buf *out, const char *name, const char *value, const char *traceback);
/* The same, from the content of a Jupyter `error` message or of a reply. */
int lines_add_kernel_error(struct buf *out, const json_t *content);
/* data: a MIME bundle. */
int lines_add_result(struct buf *out, const json_t *data, bool is_main);
int lines_add_type(struct buf *out, const char *type); /* a line without fields */

#endif
