/* Who may run code through the port of E2B's code interpreter (docs/interpreter.md). Ports are
 * public unless the sandbox has a traffic token, but running code takes the token of envd, if the
 * sandbox has one. */
#ifndef ENVD_CODE_ACCESS_H
#define ENVD_CODE_ACCESS_H

#include <stdbool.h>

#include "http/request.h"

/* token: envd's, or NULL if the sandbox is not secure. revoked: it is good for nothing any more.
 * Without X-Access-Token a request to ROUTE_INTERPRETER_PORT passes only if its exact method and
 * path are among those that E2B's clients send so: GET /health, OPTIONS, and the calls about
 * contexts. Other spellings take the token, because a service may decode or fold paths in its own
 * way. A wrong token passes with GET /health and OPTIONS only. */
bool code_access_allowed(const struct request *r, const char *token, bool revoked);

#endif
