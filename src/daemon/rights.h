/* The rights of the daemon's process. */
#ifndef DAEMON_RIGHTS_H
#define DAEMON_RIGHTS_H

#include "base/error.h"

/* Hides the process (confine_hide). Logs if that fails. Call it before anything secret is read. */
void rights_hide(void);

/* Raises RLIMIT_NICE if this process may. MicroVMs of the pool (vmm/priority.h) and those that
 * computed much (lifecycle/fair.h) run at low priority, and need it to get back to the normal one.
 * A jailed process cannot raise the limit itself. */
void rights_raise(void);

/* Gives up, for good, every right that the daemon does not use: all capabilities except those of
 * the table in rights.c, all that executing a program could add, and system calls that neither it
 * nor what it starts makes (jail/deny.h). Call it while the process has
 * one thread, because each thread has rights of its own. */
int rights_drop(struct error *e);

#endif
