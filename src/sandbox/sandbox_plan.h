/* What a sandbox is made from: its template's files and the sizes that were asked for, checked.
 *
 * Files are named through descriptors of their directories (/proc/self/fd/N/...), so that a
 * template which is replaced meanwhile is used either old or new, never mixed. */
#ifndef DAEMON_SANDBOX_PLAN_H
#define DAEMON_SANDBOX_PLAN_H

#include <stdint.h>

#include "base/error.h"
#include "sandbox/prepare.h"
#include "sandbox/options.h"
#include "image/home.h"
#include "image/template.h"
#include "sandbox/launch.h"

enum {
	PLAN_PATH_MAX = 64,
	PLAN_FILES_MAX = 4 + VMM_LAYERS_MAX + VMM_DISKS_MAX * (1 + VMM_LAYERS_MAX),
};

struct sandbox_plan {
	struct template t;
	unsigned cpus;
	uint64_t memory_bytes;
	uint64_t disk_bytes;	      /* of the root file system */
	bool grow;		      /* disk_bytes is more than the snapshot's */
	int template_fd, snapshot_fd; /* both are of the origin, if there is one */
	char paths[PLAN_FILES_MAX][PLAN_PATH_MAX];
	unsigned path_count;
	struct kernel kernel; /* of a boot */
	char cmdline[PREPARE_CMDLINE_MAX];
	struct vmm_launch launch; /* borrows from the above; dir is the caller's to set */
};

#define SANDBOX_PLAN_INIT                                                                          \
	{                                                                                          \
		.template_fd = -1, .snapshot_fd = -1                                               \
	}

/* The sizes that a plan would have, and the time of the template's build: reads its description
 * only. */
int sandbox_plan_measure(const struct home *home, const struct sandbox_options *o,
	struct sandbox_sizes *ret, uint64_t *ret_made_s, struct error *e);

/* Fills ret, making a snapshot for these sizes first if the template has none. */
int sandbox_plan_make(const struct home *home, const struct sandbox_options *o,
	struct sandbox_plan *ret, struct error *e);
void sandbox_plan_done(struct sandbox_plan *p);

/* Whether all files of an origin are undamaged; the state is not looked at. */
/* Whether there is no snapshot of the template for these sizes yet. */
bool sandbox_plan_must_boot(const struct home *home, const struct sandbox_options *o);

int sandbox_plan_check(const struct sandbox_options *o, struct error *e);

/* Links the files that it stands on into the directory `layers` (layers.h) of a sandbox, for
 * snapshots of it. Does nothing when the two are on different file systems. */
int sandbox_plan_link(const struct sandbox_plan *p, int sandbox_fd, struct error *e);

#endif
