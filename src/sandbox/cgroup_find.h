/* Finds this process's control group (cgroup v2) in the texts of procfs. */
#ifndef SANDBOX_CGROUP_FIND_H
#define SANDBOX_CGROUP_FIND_H

#include "base/error.h"

/* mountinfo, own: the contents of /proc/self/mountinfo and /proc/self/cgroup. *ret_path (malloc'ed)
 * is the group's directory. On failure it stays NULL, and ERROR_HOST says what is wrong and what to
 * do: no cgroup v2 is mounted, version 1 has the controllers, or the mount does not show this
 * process's group. */
int cgroup_find(const char *mountinfo, const char *own, char **ret_path, struct error *e);

#endif
