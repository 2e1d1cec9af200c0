/* Creations with an Idempotency-Key: the same key and body return the same sandbox.
 *
 * The store holds finished creations; each is written in the commit of its sandbox
 * (store/creations.h). Creations in progress are known to the daemon's memory only. If the daemon
 * dies before the commit, nothing was made, and the client may ask again. */
#ifndef API_ONCE_H
#define API_ONCE_H

#include <jansson.h>
#include <stdbool.h>

#include "http/request.h"
#include "store/creations.h"

/* One such creation. While `claimed`, it is in the list of api_once.c. */
struct api_once {
	struct store_creation creation; /* word "": the client sent none */
	char key_id[STORE_UUID_BYTES];
	bool claimed;
	struct api_once *next;
};

/* Reads the header, and hashes the body with the API's version. Returns false if it answered the
 * request. */
bool api_once_take(struct request *r, const json_t *body, bool v2, struct api_once *ret);

/* Returns true if it answered the request: with the sandbox of a finished creation, with 409 if the
 * creation is in progress, with 422 if it has another body, or with an error of the store. */
bool api_once_answer(struct request *r, const struct api_once *o);

/* Enter and leave the list of creations in progress. If the client sent no Idempotency-Key, both do
 * nothing. */
void api_once_claim(struct api_once *o);
void api_once_release(struct api_once *o);

#endif
