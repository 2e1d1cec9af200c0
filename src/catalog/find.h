/* Finds the template that a client's word means. In this order:
 *   - the key's own template of that name,
 *   - the template with that id, if the key may use it,
 *   - the operator's template of that name, or with that id. With a tag, it is the template that
 *     the operator calls NAME:TAG.
 * So a name alone never leads to a template that a stranger published. A private template of
 * another key is not found by name. By id it gives ERROR_FORBIDDEN.
 *
 * A name with a namespace means a template of that team, which has this id or name: the key's own,
 * else the oldest public one. */
#ifndef CATALOG_FIND_H
#define CATALOG_FIND_H

#include <stdbool.h>

#include "base/error.h"
#include "proto/route.h"
#include "store/catalog.h"

struct fleet;

struct found_template {
	bool built;		  /* by a client: `row` is valid; else by the operator */
	bool mine;		  /* it belongs to the key */
	struct store_catalog row; /* valid if `built` */
	char name[STORE_NAME_MAX + 1];
};

/* key_id: the key that asks. all: the operator asks, who may use every template. Ignores the tag. A
 * template of the operator that is found need not exist. Fails with ERROR_NOT_FOUND or
 * ERROR_FORBIDDEN. */
int find_template(struct fleet *f, const char *key_id, bool all, const struct template_ref *ref,
	struct found_template *ret, struct error *e);

/* Whether the tag is one that the template may have: the operator's have none but `default`, and
 * what stands in their names. */
bool find_tag_fits(const struct found_template *t, const struct template_ref *ref);

/* Finds the build that a tag names, or the one with that id. The build's id is also the name of its
 * directory, which stays for a minute at least. Fails with ERROR_NOT_FOUND. */
int find_directory(struct fleet *f, const struct found_template *t, const struct template_ref *ref,
	char ret[STORE_NAME_MAX + 1], struct error *e);

#endif
