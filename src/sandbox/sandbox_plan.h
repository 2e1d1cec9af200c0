/* Plans a sandbox: finds its template's files and the requested sizes, and checks them.
 *
 * Files are named through descriptors of their directories (/proc/self/fd/N/...). So a template
 * that is replaced meanwhile is used either old or new, never mixed. */
#ifndef SANDBOX_PLAN_H
#define SANDBOX_PLAN_H

#include <stdint.h>

#include "base/error.h"
#include "image/home.h"
#include "image/template.h"
#include "sandbox/launch.h"
#include "sandbox/options.h"
#include "sandbox/prepare.h"

enum {
	PLAN_PATH_MAX = 64,
	PLAN_FILES_MAX = 4 + SNAPSHOT_LAYERS_MAX + SNAPSHOT_DISKS_MAX * (1 + SNAPSHOT_LAYERS_MAX),
};

struct sandbox_plan {
	struct template t;
	unsigned cpus;
	uint64_t memory_bytes;
	uint64_t disk_bytes;	      /* of the root file system */
	bool grow;		      /* disk_bytes is more than the snapshot's */
	int template_fd, snapshot_fd; /* of the origin, if there is one */
	char paths[PLAN_FILES_MAX][PLAN_PATH_MAX];
	unsigned path_count;
	struct kernel kernel; /* for a boot */
	char cmdline[PREPARE_CMDLINE_MAX];
	struct vmm_launch launch; /* borrows from the above; the caller sets dir */
};

#define SANDBOX_PLAN_INIT                                                                          \
	{                                                                                          \
		.template_fd = -1, .snapshot_fd = -1                                               \
	}

/* Returns the sizes that a plan would have, and the time of the template's build. Reads only the
 * template's description. */
int sandbox_plan_measure(const struct home *home, const struct sandbox_options *o,
	struct sandbox_sizes *ret, uint64_t *ret_made_s, struct error *e);

/* Fills ret. Makes a snapshot for these sizes first if the template has none. */
int sandbox_plan_make(const struct home *home, const struct sandbox_options *o,
	struct sandbox_plan *ret, struct error *e);
void sandbox_plan_done(struct sandbox_plan *p);

/* True if the template has no snapshot for these sizes yet. */
bool sandbox_plan_must_boot(const struct home *home, const struct sandbox_options *o);

/* Checks that all files of an origin are undamaged. Does not look at the state. */
int sandbox_plan_check(const struct sandbox_options *o, struct error *e);

/* Links the files that the sandbox stands on into its directory `layers` (stack.h), for its
 * snapshots. Does nothing if the two are on different file systems. */
int sandbox_plan_link(const struct sandbox_plan *p, int sandbox_fd, struct error *e);

#endif
