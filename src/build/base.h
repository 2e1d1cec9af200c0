/* Finds what FROM names if it names no stage: nothing (`scratch`), a snapshot, a template of this
 * host, or an OCI image (oci/source.h). */
#ifndef BUILD_BASE_H
#define BUILD_BASE_H

#include <stdbool.h>

#include "base/error.h"
#include "build/base_snapshot.h"
#include "build/disk_budget.h"
#include "build/stage.h"
#include "build/template_from.h"
#include "image/home.h"
#include "image/progress.h"

struct base_options {
	const struct home *home;	      /* templates and blobs */
	const struct home *work;	      /* where images are made; their names are numbers */
	const char *registry, *registry_auth; /* or NULL */
	const struct oci_reach *reach;	      /* limits the registries; NULL: no limit */
	const struct option_list *mirrors;    /* of registries (oci/mirror.h); NULL: none */
	bool client; /* only the operator's templates and images of registries; needs `reach` */
	/* The operator's registry, HOST or HOST/PATH, which `reach` does not limit; or NULL. Used
	 * with `client`. */
	const char *client_registry;
	/* Returns 1 and fills ret, whose id is borrowed until the next call, if the name means a
	 * snapshot, and else 0. NULL: none does. */
	int (*snapshot)(void *opaque, const char *name, struct base_snapshot *ret, struct error *e);
	void *opaque;
	uint32_t disk_mb;	    /* size of images; 0: what they need */
	bool no_cache;		    /* makes images again */
	struct disk_budget *budget; /* new images count against it; NULL: no budget */
	const struct progress *progress;
};

/* Fills a state with the base's disk and its digest. An image is made once and then kept in the
 * cache of steps. number: the stage's number, for the name of a directory. */
int base_find(const struct base_options *o, const char *name, unsigned number,
	struct stage_state *ret, struct error *e);

#endif
