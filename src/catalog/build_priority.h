/* The priority of a build's processes.
 *
 * Sandboxes that compute without pause run at idle priority (lifecycle/fair.h). Beside them a build
 * would take all CPUs, however long it is. So builds run at idle priority, too, while there is such
 * a sandbox, and they share the rest equally. Otherwise nothing lowers them further than their nice
 * value, so that other programs of the host do not starve them. */
#ifndef CATALOG_BUILD_PRIORITY_H
#define CATALOG_BUILD_PRIORITY_H

#include <stdbool.h>
#include <sys/types.h>

/* Gives idle priority to a process and all that descend from it, or takes it back. What they start
 * inherits it. Changes nothing where it could not be taken back: that takes root or RLIMIT_NICE.
 * What has ended meanwhile does not count. */
void build_priority_set(pid_t pid, bool idle);

#endif
