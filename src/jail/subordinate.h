/* Gives this process the subordinate ids of its user (subuid(5)), so that it can be root of them
 * without being root of the host. */
#ifndef JAIL_SUBORDINATE_H
#define JAIL_SUBORDINATE_H

#include <sys/types.h>

/* Moves this process into a user namespace of its own, in which it has all capabilities. There the
 * user who runs it is root, and `count` ids from uid and gid on are those from 1 on. newuidmap and
 * newgidmap, which check the range, map them: they are set-user-ID programs, and write to stderr
 * why they fail. The calling process must have one thread. -ENOENT: they are not installed. -EPERM:
 * this process may not gain rights (no_new_privs), or they refused. */
int subordinate_enter(uid_t uid, gid_t gid, unsigned count);

#endif
