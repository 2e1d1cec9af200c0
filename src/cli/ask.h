/* Asking for what the store knows (daemon/operator.h): the running daemon, or the store itself when
 * there is none. */
#ifndef CLI_ASK_H
#define CLI_ASK_H

#include <jansson.h>

#include "base/error.h"
#include "base/options.h"

/* target: path and query. body may be NULL. *ret (may be NULL) is a new reference, NULL for an
 * empty answer. */
int ask(const char *method, const char *target, const json_t *body, json_t **ret, struct error *e);

/* The same for a path of a collection and one of its names, which is encoded. */
int ask_one(const char *method, const char *collection, const char *name, const json_t *body,
	struct error *e);

/* "yes" or "no" (NULL: leave out) into an object; ERROR_USAGE. */
int ask_add_choice(
	json_t *body, const char *name, const char *option, const char *value, struct error *e);

/* Text of a member, "" when there is none. */
const char *ask_text(const json_t *object, const char *key);

#endif
