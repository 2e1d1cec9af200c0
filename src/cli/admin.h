/* Asking the running daemon of this state directory, over its administrator's socket. */
#ifndef CLI_ADMIN_H
#define CLI_ADMIN_H

#include <jansson.h>

#include "base/error.h"
#include "image/home.h"

/* One request. body may be NULL. *ret (a new reference, NULL for an empty answer; ret may be NULL)
 * is the answer's JSON. -ECONNREFUSED, without filling e, when no daemon runs; an answer of 4xx or
 * 5xx is an error with the daemon's message. */
int admin_call(const struct home *home, const char *method, const char *path, const json_t *body,
	json_t **ret, struct error *e);

#endif
