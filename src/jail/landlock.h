/* Landlock: a process forbids itself all paths. It is a second wall behind the empty root, and the
 * first one where there is no jail. */
#ifndef JAIL_LANDLOCK_H
#define JAIL_LANDLOCK_H

/* The version of Landlock that the kernel offers, or 0. */
int landlock_abi(void);

/* From now on the calling thread and its children can neither open, list, create nor remove anything
 * by path, bind or connect a TCP port (version 4), reach abstract Unix sockets of others or signal
 * others (version 6). Descriptors that are open, or come over sockets, stay usable. Needs
 * no_new_privs. 0 as well where the kernel has no Landlock, else -errno. */
int landlock_forbid_all(void);

#endif
