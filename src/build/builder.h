/* Builds the image of a template from a Dockerfile. It builds every stage that the last one needs,
 * each in a microVM of its own.
 *
 * After each step that writes, the builder freezes the disk. It keeps what the step wrote under a
 * digest of all that the step depends on (step_cache.h). At the next build a stage takes its steps
 * from this cache, up to the first one that is missing. A stage's microVM boots when a step needs
 * it. To copy files from an earlier stage, the microVM of that stage is booted again, and its
 * changes are thrown away. */
#ifndef BUILD_BUILDER_H
#define BUILD_BUILDER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "build/base_snapshot.h"
#include "build/disk_budget.h"
#include "build/machine.h"
#include "dockerfile/dockerfile.h"
#include "dockerfile/ignore.h"
#include "dockerfile/vars.h"
#include "image/home.h"
#include "image/kernel_store.h"
#include "image/progress.h"

/* At most, of the microVM that a build has beside that of its step, to take files of another
 * stage. The daemon reserves it for builds of Dockerfiles (BUILD_JOB_SOURCE_MB). */
enum { BUILDER_SOURCE_MB = 512 };

struct builder_ops {
	/* step() is called when a step begins, or is taken from the cache (cached). A step that
	 * does not write, such as ENV, comes with the next that does, and was cached if that one
	 * was. output() gets what commands write. A negative result ends the build. */
	int (*step)(void *opaque, size_t number, size_t count, const struct dockerfile_step *step,
		bool cached);
	int (*output)(void *opaque, const void *data, size_t n);
	void (*note)(void *opaque, unsigned line, const char *text);
	/* Returns the network for RUN, for a network list (policy/network_list.h), or NULL for no
	 * network. The result is borrowed until the next call or the end. The callback may be NULL,
	 * too. */
	const struct machine_network *(*network)(void *opaque, const char *list);
	/* As in base.h, or NULL. */
	int (*snapshot)(void *opaque, const char *name, struct base_snapshot *ret, struct error *e);
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
	const char *network;		   /* a network list; "": anything; NULL: the base's */
	const char *start, *ready;	   /* commands; NULL: ENTRYPOINT and CMD; no command */
	const char *trust; /* PEM of authorities that RUN trusts besides the image's; or NULL */
	const char *registry, *registry_auth; /* or NULL */
	const struct oci_reach *reach;	      /* limits the registries; NULL: no limit */
	const struct option_list *mirrors;    /* of registries (oci/mirror.h); NULL: none */
	bool client;			      /* FROM and client_registry as in base.h */
	const char *client_registry;
	const char *owner; /* of the steps that are kept and found (step_cache.h); NULL: operator */
	uint64_t cache_max_ns; /* a step kept longer runs again; 0: kept for ever */
	const char *scope;  /* builds share cached steps only if their scopes are equal; NULL: "" */
	bool no_triggers;   /* those of bases are left out, as E2B's builder does */
	bool no_cache;	    /* runs all steps; what they make is kept all the same */
	const char *caches; /* the scope of RUN's caches (cache_mount.h); NULL: they are not kept */
	struct disk_budget *budget; /* of the host's disk; NULL: none */
	const struct progress *progress;
	struct builder_ops ops;
};

/* Makes images/<name>. An older image stays until the new one is complete. Blocks. A step that
 * fails is named by its number, line and text. */
int builder_run(const struct builder_options *o, struct error *e);

#endif
