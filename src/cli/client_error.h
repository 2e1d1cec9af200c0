/* What the daemon says when it refuses, as errors of the command line. It says it in three forms:
 * the control API's and envd's {"code","message"}, Connect's {"code":"not_found","message"}, and
 * the end of a Connect stream; the header Mayfly-Error has the finer word, where there is one. */
#ifndef CLI_CLIENT_ERROR_H
#define CLI_CLIENT_ERROR_H

#include <jansson.h>

#include "base/error.h"
#include "proto/http.h"

/* 0 below 400; else fills e and returns -errno. body: the answer's, or NULL. */
int client_error_of(const struct http_head *head, const json_t *body, struct error *e);

/* The member "error" of a stream's last message: 0 when it is NULL. */
int client_stream_error(const struct http_head *head, const json_t *error, struct error *e);

#endif
