/* Sends requests to the running daemon of this state directory, over its admin socket. */
#ifndef CLI_ADMIN_H
#define CLI_ADMIN_H

#include <jansson.h>

#include "base/error.h"
#include "image/home.h"

/* Makes one request. body may be NULL. *ret receives the answer's JSON, a new reference, or NULL
 * for an empty answer; ret may be NULL. Returns -ECONNREFUSED, without filling e, if no daemon
 * runs. An answer of 4xx or 5xx is an error with the daemon's message. */
int admin_call(const struct home *home, const char *method, const char *path, const json_t *body,
	json_t **ret, struct error *e);

#endif
