/* The ids of a user namespace: which users of the host its users are. */
#ifndef JAIL_IDS_H
#define JAIL_IDS_H

#include <sys/types.h>

/* Writes map (user_namespaces(7)) to /proc/PID/NAME, for instance uid_map. 0 or -errno. */
int ids_write(pid_t pid, const char *name, const char *map);

/* Maps one user and group of the calling process's new namespace to themselves: who it was before,
 * or is in the namespace around. Needs no rights. pid: 0 for the caller. 0 or -errno. */
int ids_map_one(pid_t pid, uid_t uid, gid_t gid);

#endif
