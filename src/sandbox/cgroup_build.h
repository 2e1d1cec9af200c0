/* Control groups of builds: DELEGATED/builds/ID, beside the directory of the sandboxes' groups
 * (cgroup_tree.h); ROOT/mayfly-builds/ID in the root of the hierarchy. All builds together have a
 * fifth of the CPU time that all sandboxes have, when both want it. A group has no other limits: a
 * build's memory is that of its microVMs, its disk has a budget.
 *
 * What a build starts is in its group, so it can be ended whatever it did. ID is the build's UUID.
 * t may be NULL everywhere: there are no groups. */
#ifndef SANDBOX_CGROUP_BUILD_H
#define SANDBOX_CGROUP_BUILD_H

#include <sys/types.h>

#include "sandbox/cgroup_tree.h"

/* Makes the group and moves a process that has started nothing yet into it. 0 or -errno; on failure
 * there is no group. */
int cgroup_build_enter(const struct cgroup_tree *t, const char *id, pid_t pid);

/* Kills what is in the group and removes it. Does not wait: -EBUSY when a process has not ended
 * yet, so call it again. -ENOENT: there is none. */
int cgroup_build_remove(const struct cgroup_tree *t, const char *id);

/* Ends what builds of an earlier daemon have left, and removes their groups. Waits up to a second
 * for each. */
void cgroup_build_sweep(const struct cgroup_tree *t);

#endif
