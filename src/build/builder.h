/* Builds the image of a template from a Dockerfile: every stage that the last one needs, in a
 * microVM of its own.
 *
 * After each step that writes, the disk is frozen, and what the step wrote is kept under a digest
 * of all that the step depends on (step_cache.h). Steps of a stage that are kept do not run again,
 * up to the first one that is not. A stage's microVM boots when a step needs it. A microVM of an
 * earlier stage runs again, without changes, while files are copied from it. */
#ifndef BUILD_BUILDER_H
#define BUILD_BUILDER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "build/disk_budget.h"
#include "build/dockerfile.h"
#include "build/ignore.h"
#include "build/machine.h"
#include "build/vars.h"
#include "image/home.h"
#include "image/kernel_store.h"
#include "image/progress.h"

struct builder_ops {
	/* A step begins, or what it made before is taken (cached); what a command writes. Negative:
	 * the build ends. */
	int (*step)(void *opaque, size_t number, size_t count, const struct dockerfile_step *step,
		bool cached);
	int (*output)(void *opaque, const void *data, size_t n);
	void (*note)(void *opaque, unsigned line, const char *text);
	/* The network of RUN, of what sandboxes may reach; borrowed until the next call or the end.
	 * NULL: none. May be NULL: none. */
	const struct machine_network *(*network)(void *opaque, const char *list);
	void *opaque;
};

struct builder_options {
	const struct home *home;
	const char *name; /* of the template, and of its image */
	const struct dockerfile *file;
	const struct vars *args;	     /* --build-arg */
	const struct build_secrets *secrets; /* or NULL */
	int context_fd;
	bool context_parts; /* files.h */
	const struct ignore *ignore;
	const struct kernel *kernel;
	uint32_t cpus, memory_mb, disk_mb; /* 0: defaults */
	const char *network;	   /* a network list; "": anything; NULL: as the base's sandboxes */
	const char *start, *ready; /* commands; NULL: ENTRYPOINT and CMD; none */
	const char *roots;	   /* of TLS servers, for `policy`; or NULL */
	const char *registry, *registry_auth; /* or NULL */
	const struct oci_reach *reach;	      /* of registries; NULL: anywhere */
	bool client; /* FROM as base.h has it for clients; with the operator's registry, or NULL */
	const char *client_registry;
	const char *scope; /* steps are taken only from builds with the same words; NULL: "" */
	bool no_cache;	   /* runs all steps; what they make is kept all the same */
	bool caches;	   /* of RUN --mount=type=cache are kept: only the operator's */
	struct disk_budget *budget; /* of the host's disk; NULL: none */
	const struct progress *progress;
	struct builder_ops ops;
};

/* Makes images/<name>. An older image stays until the new one is complete. Blocks. A step that
 * fails is named by its number, line and text. */
int builder_run(const struct builder_options *o, struct error *e);

#endif
