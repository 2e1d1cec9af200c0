/* A workshop: the jail of an external program that helps to build templates (npm, mvn, mmdebstrap,
 * mke2fs). Such a program needs libraries, opens paths and starts other programs. So its jail is
 * not empty: it shows the host's programs and libraries read-only, and a few paths to write.
 *
 *	user	 as root, a user of its own, in a user namespace of its own; otherwise the caller's
 *	mount	 the root is a read-only tmpfs with what the workshop names. Private /tmp and home
 *	pid	 its own, with its own /proc; all of it ends with the program, or mayfly-workshop
 *	IPC, UTS, network   its own; the host's network if it must fetch something
 *
 * In addition: no_new_privs, resource limits, no session keyring, Landlock, and a seccomp filter
 * (deny.h).
 *
 * It needs root with CAP_SYS_ADMIN, or else a host that allows user namespaces. For WORKSHOP_ROOT
 * it then also needs newuidmap and subordinate ids (subordinate.h). */
#ifndef JAIL_WORKSHOP_H
#define JAIL_WORKSHOP_H

#include "jail/workshop_spec.h"

/* Runs the program with this process's descriptors 0 to 2, environment and working directory, and
 * waits for its end. Returns its exit status, 128 + the signal that killed it, or WORKSHOP_FAILED
 * after a line on stderr. The calling process must have one thread, and must exit afterwards. */
int workshop_run(const struct workshop *w);

#endif
