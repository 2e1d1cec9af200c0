/* Asks for data of the store (api/operator.h). The running daemon answers, or the store itself if
 * no daemon runs. */
#ifndef CLI_ASK_H
#define CLI_ASK_H

#include <jansson.h>

#include "base/error.h"
#include "base/options.h"

/* target: path and query. body may be NULL. *ret is a new reference, NULL for an empty answer; ret
 * may be NULL. */
int ask(const char *method, const char *target, const json_t *body, json_t **ret, struct error *e);

/* The same for one name in a collection; the name is encoded. */
int ask_one(const char *method, const char *collection, const char *name, const json_t *body,
	struct error *e);

/* Adds the value "yes" or "no" to an object as a boolean. Adds nothing if value is NULL. Fails with
 * ERROR_USAGE for any other value. */
int ask_add_choice(
	json_t *body, const char *name, const char *option, const char *value, struct error *e);

/* Returns the text of a member, or "" if there is none. */
const char *ask_text(const json_t *object, const char *key);

#endif
