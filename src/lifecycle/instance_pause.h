/* Pauses an instance, or makes a snapshot of one that goes on. Both are jobs of the lane, one at a
 * time per instance. A kill or a death in the meantime takes effect when the job ends. */
#ifndef LIFECYCLE_INSTANCE_PAUSE_H
#define LIFECYCLE_INSTANCE_PAUSE_H

#include <stdbool.h>

#include "fleet/instance.h"
#include "store/sandboxes.h"

/* why is NULL if the sandbox is paused. */
typedef void (*instance_told)(void *arg, const struct error *why);

enum {
	PAUSE_MEMORY = 1,  /* keep its memory too, not just its disks */
	PAUSE_HEALTHY = 2, /* only if its agent answers */
	PAUSE_LIMITED = 4, /* only within the maxima of bytes kept (kept.h) */
};

/* Pauses a running instance. It is hidden at once, and comes back if the pause fails. `told` (may
 * be NULL) is called once. how: PAUSE_*. If its agent does not answer, a pause that is
 * PAUSE_HEALTHY or without memory fails with ERROR_HOST. Any other goes on and is noted as
 * STORE_EXTRA_UNRESPONSIVE. Returns -EBUSY while the instance is busy. */
int instance_pause(
	struct instance *i, unsigned how, instance_told told, void *arg, struct error *e);

/* The same, but discards the current state: the snapshot becomes the paused state. memory: whether
 * the snapshot has any. */
int instance_roll_back(struct instance *i, const char *snapshot_id, bool memory, instance_told told,
	void *arg, struct error *e);

/* Removes a paused sandbox. On return the client may be told. */
int instance_kill_paused(struct fleet *f, const struct store_sandbox *row, struct error *e);

enum {
	COPY_MEMORY = 1, /* with its memory; otherwise its disks, to boot from */
	/* The limits of kept.h apply: the caller will keep the snapshot, and writes its row before
	 * the callback returns. */
	COPY_KEPT = 2,
};

/* s is NULL on failure; by then i may be ENDING. */
typedef void (*instance_snapshotted)(
	void *arg, struct instance *i, const struct backend_snapshot *s, const struct error *why);

/* Saves the state of a running instance, which goes on, in the directory `name` of the snapshots.
 * Calls back once. how: COPY_*. Returns -EBUSY while the instance is busy. */
int instance_snapshot(struct instance *i, const char *name, unsigned how,
	instance_snapshotted snapshotted, void *arg, struct error *e);

#endif
