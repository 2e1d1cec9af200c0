/* Landlock: a process forbids itself the use of paths. This is a second wall behind the jail's
 * empty root, and the only one with --jail=off. */
#ifndef JAIL_LANDLOCK_H
#define JAIL_LANDLOCK_H

#include <stdbool.h>
#include <stddef.h>

/* The version of Landlock that the kernel offers, or 0. */
int landlock_abi(void);

enum landlock_ports { LANDLOCK_NO_PORT, LANDLOCK_CONNECT };

/* From now on the calling thread and its children cannot use paths: not open, list, create or
 * remove anything. LANDLOCK_CONNECT lets them connect to any TCP port but bind to none;
 * LANDLOCK_NO_PORT forbids both (from Landlock version 4 on). They can reach no abstract Unix
 * socket of processes outside, and signal none of these (from version 6 on). Open descriptors, and
 * those received over sockets, stay usable. The caller has set no_new_privs. Returns 0 or -errno; 0
 * too if the kernel has no Landlock. */
int landlock_forbid_all(enum landlock_ports ports);

/* For a program that reads many paths and changes few. It may read and execute everything, but
 * write only at and below the n paths of `write`; missing ones are ignored. It cannot mount. It can
 * reach no abstract Unix socket of processes outside, and signal none of these (from version 6 on).
 * If `mounts` is set, it may mount, so only the sentence about sockets and signals applies. Before
 * version 2, Landlock cannot allow a file to be moved between directories, so this function does
 * nothing; mounts and rights must suffice. Otherwise as landlock_forbid_all. */
int landlock_allow(const char *const *write, size_t n, bool mounts);

#endif
