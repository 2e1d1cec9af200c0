/* Names of members, as servers compare them. Many servers take "Path", "PATH" and "path" for the
 * same member; some drop underscores and dashes ("max_tokens", "maxTokens"); and Go's encoding/json
 * folds letters as Unicode does, which takes two letters beyond ASCII to ASCII: U+017F (long s) to
 * "s", and U+212A (the sign of Kelvin) to "k".
 *
 * This is the one place that says which names are alike. Every reader of bodies, queries and
 * arguments uses it. */
#ifndef RULES_FOLD_H
#define RULES_FOLD_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

/* Writes the folded name and a NUL. Returns false if it has more than max bytes. */
bool fold_name(const char *text, size_t n, char *out, size_t max);

/* Whether some server takes one name for the other. */
bool fold_is_same(const char *a, const char *b);

/* Whether a name has letters beyond ASCII but for these two. Some server may fold them in a way of
 * its own. */
bool fold_is_foreign(const char *text, size_t n);

/* How an object has a member. */
enum fold_found {
	FOLD_NONE,  /* it has no name that is alike */
	FOLD_EXACT, /* it has this one, and no other that is alike */
	FOLD_ODD,   /* another name is alike, or foreign */
};

enum fold_found fold_find(const json_t *object, const char *name);

/* Whether a member's name makes frameworks take its value for the request's method: "_method". */
bool fold_is_override(const char *text);

#endif
