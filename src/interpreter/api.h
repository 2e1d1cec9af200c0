/* Serves the interpreter's HTTP endpoints (protocol section 4.1): health, contexts, execute. */
#ifndef INTERPRETER_API_H
#define INTERPRETER_API_H

#include <jansson.h>

#include "base/error.h"
#include "interpreter/context.h"
#include "interpreter/server.h"

/* A server_handler. opaque is the struct contexts. */
void api_handle(void *opaque, struct exchange *x);

/* Send a whole answer, which ends the exchange. */
void api_reply_json(struct exchange *x, json_t *j /* taken; NULL: out of memory */);
void api_reply_text(struct exchange *x, unsigned status, const char *text);
void api_reply_error(struct exchange *x, const struct error *e);

#endif
