/* Runtimes (fleet/runtimes.h): which there are, and creations that name one. */
#ifndef API_API_RUNTIMES_H
#define API_API_RUNTIMES_H

#include <jansson.h>

#include "store/sandboxes.h"

struct request;

/* Reads the name of a runtime and finds its template, which is there. If it is not, a build of it
 * begins where the operator allows that. Returns false if it answered the request: 400 for a name
 * that is none, 404 without the template, 503 while it is built and for a while after that has
 * failed. */
bool api_runtime_take(struct request *r, const json_t *name, char ret[STORE_NAME_MAX + 1]);

#endif
