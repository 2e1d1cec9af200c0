/* Answers of the interpreter's endpoints. */
#ifndef INTERPRETER_API_REPLY_H
#define INTERPRETER_API_REPLY_H

#include <jansson.h>

#include "base/error.h"
#include "interpreter/server.h"

/* Send a whole answer, which ends the exchange. */
void api_reply_json(struct exchange *x, json_t *j /* taken; NULL: out of memory */);
void api_reply_text(struct exchange *x, unsigned status, const char *text);
void api_reply_error(struct exchange *x, const struct error *e);

#endif
