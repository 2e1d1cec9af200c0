/* Creations with an Idempotency-Key: the same key and body return the same sandbox.
 *
 * A finished creation is in the store, written in the sandbox's commit (store/creations.h). Only
 * the daemon knows one in progress. If the daemon dies before the commit, nothing was made, and the
 * client may ask again. */
#ifndef API_ONCE_H
#define API_ONCE_H

#include <jansson.h>
#include <stdbool.h>

#include "http/request.h"
#include "store/creations.h"

/* One such creation; in the list of api_once.c while `claimed`. */
struct api_once {
	struct store_creation creation; /* word "": the client sent none */
	char key_id[STORE_UUID_BYTES];
	bool claimed;
	struct api_once *next;
};

/* Reads the header, and hashes the body and the API's version. False: answered. */
bool api_once_take(struct request *r, const json_t *body, bool v2, struct api_once *ret);

/* Returns true if such a creation exists or is in progress; the request was answered with it. */
bool api_once_answer(struct request *r, const struct api_once *o);

/* Enter and leave the list of creations in progress. Without a word both do nothing. */
void api_once_claim(struct api_once *o);
void api_once_release(struct api_once *o);

#endif
