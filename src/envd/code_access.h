/* Who may run code through the port of E2B's code interpreter (docs/interpreter.md). Ports are
 * public unless the sandbox has a traffic token, but running code takes the token of envd, if the
 * sandbox has one. */
#ifndef ENVD_CODE_ACCESS_H
#define ENVD_CODE_ACCESS_H

#include <stdbool.h>

#include "http/request.h"

/* token: envd's, or NULL if the sandbox is not secure. revoked: it is good for nothing any more.
 * False: a request to ROUTE_INTERPRETER_PORT that runs code without X-Access-Token, or any but
 * GET /health and OPTIONS with a wrong one. E2B's clients send it with POST /execute only. */
bool code_access_allowed(const struct request *r, const char *token, bool revoked);

#endif
