/* Builds the image of a template from a Dockerfile: every stage that the last one needs, in a
 * microVM of its own.
 *
 * A stage's microVM boots from the disk of its base, when a step needs it. When the stage is
 * complete, the guest shuts down, and the disk becomes a file that the next stage or the
 * template stands on. A microVM of an earlier stage runs again, without changes, while files are
 * copied from it. */
#ifndef BUILD_BUILDER_H
#define BUILD_BUILDER_H

#include <stddef.h>

#include "base/error.h"
#include "build/dockerfile.h"
#include "build/ignore.h"
#include "build/vars.h"
#include "image/home.h"
#include "image/kernel_store.h"
#include "image/progress.h"

struct builder_ops {
	/* A step begins, or what a command writes. Negative: the build ends. */
	int (*step)(void *opaque, size_t number, size_t count, const struct dockerfile_step *step);
	int (*output)(void *opaque, const void *data, size_t n);
	void (*note)(void *opaque, unsigned line, const char *text);
	void *opaque;
};

struct builder_options {
	const struct home *home;
	const char *name; /* of the template, and of its image */
	const struct dockerfile *file;
	const struct vars *args; /* --build-arg */
	int context_fd;
	const struct ignore *ignore;
	const struct kernel *kernel;
	uint32_t cpus, memory_mb, disk_mb; /* 0: defaults */
	const char *network; /* a network list; "": anything; NULL: as the base's sandboxes */
	const char *registry, *registry_auth; /* or NULL */
	const struct progress *progress;
	struct builder_ops ops;
};

/* Makes images/<name>. An older image stays until the new one is complete. Blocks. A step that
 * fails is named by its number, line and text. */
int builder_run(const struct builder_options *o, struct error *e);

#endif
