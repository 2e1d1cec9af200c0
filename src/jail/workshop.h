/* A workshop: the jail of an external program that takes part in building templates (npm, mvn,
 * mmdebstrap, mke2fs). Such a program is not static, opens paths and starts others. So its jail is
 * not empty: it has the host's programs and libraries to read, and one place to write.
 *
 *	user	 as root, a user of its own, in a user namespace of its own; otherwise the caller's
 *	mount	 the root is a read-only tmpfs with what the workshop names. Private /tmp and home
 *	pid	 its own, with its own /proc; all of it ends with the program, or mayfly-workshop
 *	IPC, UTS, network   its own; the host's network if it must fetch something
 *
 * Beside that: no new privileges, limits of resources, no keys, a filter of system calls (deny.h).
 *
 * It works as root with CAP_SYS_ADMIN, and without any right where user namespaces can be made. */
#ifndef JAIL_WORKSHOP_H
#define JAIL_WORKSHOP_H

#include "jail/workshop_spec.h"

/* Runs the program with this process's descriptors 0 to 2, environment and directory, and waits for
 * its end. Returns its exit status, 128 + the signal that ended it, or WORKSHOP_FAILED after a line
 * on stderr. The calling process must have one thread, and is fit for nothing but to end. */
int workshop_run(const struct workshop *w);

#endif
