/* Finds the template that a client's word means. In this order:
 *   - the key's own template of that name,
 *   - the template with that id, if the key may use it,
 *   - the operator's template of that name, or with that id.
 * So a public template of another key is found by its id only: a name never leads to what a
 * stranger published.
 * A template that another key has for itself is as one that does not exist, but for whoever knows
 * its id: ERROR_FORBIDDEN. */
#ifndef CATALOG_FIND_H
#define CATALOG_FIND_H

#include <stdbool.h>

#include "base/error.h"
#include "proto/route.h"
#include "store/catalog.h"

struct fleet;

struct found_template {
	bool built;		  /* by a client: `row`; else by the operator */
	bool mine;		  /* the key's own */
	struct store_catalog row; /* of `built` */
	char name[STORE_NAME_MAX + 1];
};

/* key_id: who asks. all: the operator, who may use everything. ERROR_NOT_FOUND, ERROR_FORBIDDEN.
 * The operator's template need not exist. Does not look at the tag. */
int find_template(struct fleet *f, const char *key_id, bool all, const struct template_ref *ref,
	struct found_template *ret, struct error *e);

/* The build that a tag names, and so the name of its directory. ERROR_NOT_FOUND. */
int find_directory(struct fleet *f, const struct found_template *t, const struct template_ref *ref,
	char ret[STORE_NAME_MAX + 1], struct error *e);

#endif
