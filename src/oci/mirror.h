/* Mirrors: registries of the operator's that may have what another registry has, and are asked
 * before it. What a mirror does not have, or cannot give, comes from the next one, and at last from
 * the registry itself. A mirror is written
 *
 *	[REGISTRY=]HOST[:PORT][/PATH]
 *
 * HOST may have "https://" in front. Without REGISTRY it is a mirror of Docker Hub, as for docker's
 * daemon. PATH is put in front of repositories, as shared caches of several registries need it. */
#ifndef OCI_MIRROR_H
#define OCI_MIRROR_H

#include "base/error.h"
#include "base/options.h"
#include "oci/reference.h"

enum { OCI_MIRRORS_MAX = 16 };

struct oci_mirror {
	char of[OCI_REGISTRY_MAX]; /* the registry, as in a reference */
	char at[OCI_REGISTRY_MAX];
	char path[OCI_REPOSITORY_MAX]; /* "" or "some/path/" */
};

struct oci_mirrors {
	unsigned count;
	struct oci_mirror items[OCI_MIRRORS_MAX]; /* asked in this order */
};

/* Reads the values of --registry-mirror. ERROR_USAGE if one is malformed, ERROR_LIMIT if there are
 * too many. */
int oci_mirrors_parse(const struct option_list *list, struct oci_mirrors *ret, struct error *e);
int oci_mirrors_check(const struct option_list *list, struct error *e);

/* Finds the next mirror of a reference's registry at or after *at, and moves *at behind it. *ret
 * is what to ask it for. False if there is none. */
bool oci_mirrors_next(const struct oci_mirrors *m, unsigned *at, const struct oci_reference *r,
	struct oci_reference *ret);

#endif
