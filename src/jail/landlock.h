/* Landlock: a process forbids itself all paths. It is a second wall behind the empty root, and the
 * first one where there is no jail. */
#ifndef JAIL_LANDLOCK_H
#define JAIL_LANDLOCK_H

#include <stdbool.h>
#include <stddef.h>

/* The version of Landlock that the kernel offers, or 0. */
int landlock_abi(void);

enum landlock_ports { LANDLOCK_NO_PORT, LANDLOCK_CONNECT };

/* Holds for the calling thread and its children from now on. They can use no path: not open, list,
 * create or remove. LANDLOCK_CONNECT allows connect to any TCP port, bind to none; LANDLOCK_NO_PORT
 * forbids both (version 4). They can reach no abstract Unix socket of others, and signal nobody
 * else (version 6). Descriptors that are open, or come over sockets, stay usable. Needs
 * no_new_privs. Returns 0, also if the kernel has no Landlock, or -errno. */
int landlock_forbid_all(enum landlock_ports ports);

/* For a program that opens paths, but changes few: all it may read and start, and below these
 * paths write as well (those that are missing do not count). It can mount nothing, and reach no
 * abstract Unix socket of others and signal nobody else (version 6). mounts: it may mount, so that
 * only the last sentence holds. Otherwise as above. Paths are left to mounts and rights where
 * Landlock cannot rename files between directories (before version 2). */
int landlock_allow(const char *const *write, size_t n, bool mounts);

#endif
