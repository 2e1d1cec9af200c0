/* Pausing an instance, and snapshots of one that goes on. Both are jobs of the lane, one at a time for
 * an instance; what comes meanwhile (a kill, its death) waits for the job's end. */
#ifndef FLEET_INSTANCE_PAUSE_H
#define FLEET_INSTANCE_PAUSE_H

#include <stdbool.h>

#include "fleet/instance.h"
#include "store/sandboxes.h"

/* why is NULL when it is paused. */
typedef void (*instance_told)(void *arg, const struct error *why);

/* Pauses a running one: it is not found any more, and comes back if that fails. `told` (may be
 * NULL) is called once. Memory = false keeps its disks only. When its agent does not answer, a
 * pause that is `healthy`, or without memory, fails with ERROR_HOST; another goes on and is noted as
 * STORE_EXTRA_UNRESPONSIVE. -EBUSY while it is busy. */
int instance_pause(struct instance *i, bool memory, bool healthy, instance_told told, void *arg,
	struct error *e);

/* The same without keeping what it is now: its paused state is that snapshot of it. */
int instance_roll_back(struct instance *i, const char *snapshot_id, instance_told told, void *arg,
	struct error *e);

/* Removes a paused one; its client may be told at the return. */
int instance_kill_paused(struct fleet *f, const struct store_sandbox *row, struct error *e);

/* s is NULL when it failed; i may be ENDING by then. */
typedef void (*instance_snapshotted)(
	void *arg, struct instance *i, const struct backend_snapshot *s, const struct error *why);

/* Keeps the state of a running one, which goes on, as the directory `name` of the snapshots. The
 * callback is called once. -EBUSY while it is busy. */
int instance_snapshot(struct instance *i, const char *name, instance_snapshotted snapshotted,
	void *arg, struct error *e);

#endif
