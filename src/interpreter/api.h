/* Serves the interpreter's HTTP endpoints (docs/interpreter.md): health, contexts, execute. */
#ifndef INTERPRETER_API_H
#define INTERPRETER_API_H

#include "interpreter/server.h"

/* A server_handler. opaque is the struct contexts. */
void api_handle(void *opaque, struct exchange *x);

#endif
