/* `mayfly template build -t NAME DIR`: a template from a Dockerfile. */
#ifndef CLI_TEMPLATE_DOCKERFILE_H
#define CLI_TEMPLATE_DOCKERFILE_H

#include <stdbool.h>

#include "base/error.h"
#include "base/options.h"
#include "cli/progress.h"
#include "image/home.h"
#include "image/kernel_store.h"
#include "policy/network_floor.h"

struct template_dockerfile_options {
	const char *name;   /* -t; NULL: no Dockerfile was asked for */
	const char *base;   /* what FROM names, in place of a Dockerfile; NULL: there is one */
	const char *file;   /* -f; NULL: DIR/Dockerfile */
	const char *target; /* a stage; NULL: the last one */
	struct option_list args, secrets;
	bool no_cache;
	uint64_t cache_max_ns;	   /* as in struct builder_options */
	const char *start, *ready; /* commands, or NULL */
	const char *guest_ca;	   /* file of authorities that RUN trusts; or NULL */
	/* from the other options */
	const char *registry, *registry_auth;
	const struct option_list *mirrors; /* of registries; NULL: none */
	const char *network;		   /* as in struct builder_options */
	struct network_words floor;	   /* the operator's network options; `mode` is not used */
	uint32_t cpus, memory_mb, disk_mb;
};

/* Whether an option was given that means a Dockerfile. */
bool template_dockerfile_is_asked(const struct template_dockerfile_options *o);

/* Makes the image of that name. The names and the output of steps go to standard error. dir: NULL
 * with `base`. */
int template_dockerfile_build(const struct template_dockerfile_options *o, const char *dir,
	const struct home *home, const struct kernel *kernel, struct progress_view *view,
	struct error *e);

/* Makes the template of that image. Boots it, or takes the files of an earlier template of the same
 * image. baseline: as for prepare_template(). */
int template_dockerfile_prepare(const struct template_dockerfile_options *o,
	const struct home *home, const struct kernel *kernel, const char *baseline,
	struct progress_view *view, struct error *e);

#endif
