/* Writes the id maps of a user namespace (user_namespaces(7)): which users of the host its users
 * are; and picks ranges of ids that nobody else uses. */
#ifndef JAIL_IDS_H
#define JAIL_IDS_H

#include <sys/types.h>

/* Writes map (user_namespaces(7)) to /proc/PID/NAME, for instance uid_map. 0 or -errno. */
int ids_write(pid_t pid, const char *name, const char *map);

/* Maps one user and one group of a new namespace to the same numbers outside. Needs no rights if
 * they are the caller's own ids outside. pid: a process in that namespace; 0: the caller. 0 or
 * -errno. */
int ids_map_one(pid_t pid, uid_t uid, gid_t gid);

/* Claims one of `count` ranges of ids: the first that is free from `first` on, and after the last
 * one from 0 on. It is the caller's until the descriptor that is returned is closed. *ret: the
 * range's number. -EADDRINUSE: all are taken. Claims are names of abstract sockets, so they hold
 * among processes of one network namespace. */
int ids_claim(unsigned first, unsigned count, unsigned *ret);

#endif
