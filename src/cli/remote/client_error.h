/* Converts the daemon's refusals to errors of the command line. They have three forms:
 * {"code","message"} of the control API and envd, {"code":"not_found","message"} of Connect, and
 * the end of a Connect stream. The header Mayfly-Error, if present, is more precise. */
#ifndef CLI_CLIENT_ERROR_H
#define CLI_CLIENT_ERROR_H

#include <jansson.h>

#include "base/error.h"
#include "proto/http.h"

/* Returns 0 for a status below 400. Otherwise fills e and returns -errno. body: the answer's, or
 * NULL. */
int client_error_of(const struct http_head *head, const json_t *body, struct error *e);

/* For the member "error" of a stream's last message; 0 if it is NULL. */
int client_stream_error(const struct http_head *head, const json_t *error, struct error *e);

#endif
