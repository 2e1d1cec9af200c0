/* What a process gives up by itself, for good, whatever the host offers: rights and limits. All of
 * it is inherited by its children. Every function returns 0 or -errno and concerns the calling
 * thread, so a process calls them before it has others. */
#ifndef JAIL_CONFINE_H
#define JAIL_CONFINE_H

#include <stdint.h>

#include "jail/kind.h"

/* Later programs gain no rights: no_new_privs, an empty bounding set, no ambient capabilities, and
 * user 0 means nothing. The capabilities that the process has now stay. */
int confine_gains(void);

/* For a process that keeps its user, and starts others: no_new_privs, and no capabilities but
 * those of the set (bits by number) that it has now. What it starts has no others either. */
int confine_to(uint64_t capabilities);

/* For a process that goes on as another user, but has its rights still, and becomes another
 * program: the same as confine_gains, but this capability stays, also for that program. */
int confine_to_one(unsigned capability);

/* Drops all capabilities. */
int confine_capabilities(void);

/* Limits of resources (the table in confine.c says why). The number of processes is limited only
 * for JAIL_FULL: elsewhere it counts all that the user has. */
int confine_resources(enum jail_kind kind);

/* Limits for programs that take part in building images (workshop.h). Their files are as large as
 * images may be. */
int confine_builder(void);

/* Leaves the keys of the session behind, which a process would otherwise share with whoever started
 * Mayfly. 0 as well where the kernel has no keys. */
int confine_keys(void);

/* Becomes the user and group `id`, without further groups. Makes system calls only, so it is fit
 * for a child that shares its parent's memory. */
int confine_identity(unsigned id);

#endif
