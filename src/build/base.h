/* What FROM names, when it is no stage: nothing (`scratch`), a template of this host, or an
 * image that others made (oci/source.h). */
#ifndef BUILD_BASE_H
#define BUILD_BASE_H

#include <stdbool.h>

#include "base/error.h"
#include "build/disk_budget.h"
#include "build/stage.h"
#include "build/template_from.h"
#include "image/home.h"
#include "image/progress.h"

struct base_options {
	const struct home *home;	      /* templates and blobs */
	const struct home *work;	      /* where images are made, under numbers */
	const char *registry, *registry_auth; /* or NULL */
	const struct oci_reach *reach;	      /* of registries; NULL: anywhere */
	bool client; /* templates of the operator and images of registries only; with `reach` */
	/* HOST or HOST/PATH, the operator's, which may be anywhere; or NULL. With `client`. */
	const char *client_registry;
	uint32_t disk_mb;	    /* of images; 0: as they need */
	bool no_cache;		    /* makes images anew */
	struct disk_budget *budget; /* that images which are made count against; NULL: none */
	const struct progress *progress;
};

/* Fills a state, with the digest of its disk. Images are made once, and kept in the cache of steps.
 * number: of the stage, for a name. */
int base_find(const struct base_options *o, const char *name, unsigned number,
	struct stage_state *ret, struct error *e);

#endif
