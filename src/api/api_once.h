/* Creations with an Idempotency-Key: the same word and body again give the same sandbox.
 *
 * What was made stands in the store, in the commit of the sandbox (store/creations.h). What is being
 * made is known to the daemon only: one that dies before the commit has made nothing, and the client
 * may ask again. */
#ifndef API_ONCE_H
#define API_ONCE_H

#include <jansson.h>
#include <stdbool.h>

#include "http/request.h"
#include "store/creations.h"

/* One under way; in the list of api_once.c while `claimed`. */
struct api_once {
	struct store_creation creation; /* word "": none was given */
	char key_id[STORE_UUID_BYTES];
	bool claimed;
	struct api_once *next;
};

/* Reads the header, and hashes the body and the version of the API. False: answered. */
bool api_once_take(struct request *r, const json_t *body, bool v2, struct api_once *ret);

/* True: there was such a creation, or is one, and the request was answered with it. */
bool api_once_answer(struct request *r, const struct api_once *o);

/* While it is being made. Without a word both do nothing. */
void api_once_claim(struct api_once *o);
void api_once_release(struct api_once *o);

#endif
