/* The priority of a build's processes.
 *
 * Sandboxes that compute without pause run at idle priority (lifecycle/fair.h). A build at normal
 * priority would take all CPUs from them until it ends. So builds run at idle priority, too, while
 * there is such a sandbox; both then share the CPUs equally. At other times builds have only their
 * nice value, so that other programs of the host do not starve them. */
#ifndef CATALOG_BUILD_PRIORITY_H
#define CATALOG_BUILD_PRIORITY_H

#include <stdbool.h>
#include <sys/types.h>

/* Gives idle priority to a process and all its descendants, or takes it back. Processes that they
 * start inherit it. Taking it back needs root or RLIMIT_NICE; without them this does nothing.
 * Processes that have ended are skipped. */
void build_priority_set(pid_t pid, bool idle);

#endif
