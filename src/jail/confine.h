/* Rights that a process gives up for good, and limits that it sets for itself. They work on every
 * host and pass to its children. Every function returns 0 or -errno and acts on the calling thread
 * only, so call it while there is one thread. */
#ifndef JAIL_CONFINE_H
#define JAIL_CONFINE_H

#include <stdint.h>

#include "jail/kind.h"

/* Programs that it executes later gain no rights: no_new_privs, an empty bounding set, no ambient
 * capabilities, and no privilege for user 0 (securebits). The process keeps the capabilities that
 * it has now. */
int confine_gains(void);

/* For a process that keeps its user and starts programs: sets no_new_privs and drops all
 * capabilities that are not in the mask (bit n is capability n). The programs that it starts have
 * no others either. */
int confine_to(uint64_t capabilities);

/* Like confine_gains, but one capability stays, also over an exec. For a process that has become
 * another user, still has its rights, and will execute another program. */
int confine_to_one(unsigned capability);

/* Drops all capabilities. */
int confine_capabilities(void);

/* Sets resource limits (the table in confine.c gives the reasons). Limits the number of processes
 * only for JAIL_FULL, because the kernel counts all processes of a user, and only there does each
 * jailed process have a user of its own. */
int confine_resources(enum jail_kind kind);

/* Sets resource limits for programs that help to build images (workshop.h). They may write files as
 * large as the largest image. */
int confine_builder(void);

/* For a process that holds secrets: leaves no core file, and other processes of its user neither
 * trace it nor read its memory (PR_SET_DUMPABLE). Its own /proc/self stays readable to it, but as
 * another user than root it cannot write the maps of a user namespace there. Children have no core
 * files either; a program that they execute can be traced again. */
int confine_hide(void);

/* Leaves the terminal, for its children too, and makes a process group of its own: Ctrl-C is for
 * others to handle. The session stays the same: the kernel's autogroups (sched(7)) share the CPUs
 * equally among sessions, and compare priorities only within one. A session leader must not call
 * it: all of its session would lose the terminal. */
void confine_terminal(void);

/* Leaves the session keyring, which the process would otherwise share with whoever started Mayfly.
 * Also 0 if the kernel has no keyrings. */
int confine_keys(void);

/* Becomes the user and group `id`, without supplementary groups. Only makes raw system calls, so a
 * child that shares its parent's memory (vfork) may call it. */
int confine_identity(unsigned id);

#endif
