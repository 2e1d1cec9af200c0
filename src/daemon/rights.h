/* The rights of the daemon's process. */
#ifndef DAEMON_RIGHTS_H
#define DAEMON_RIGHTS_H

#include "base/error.h"

/* Lets microVMs get back from a low priority to the normal one, if this process may allow that: of
 * the pool (vmm/priority.h), and who wanted much (lifecycle/fair.h). In a jail nothing can raise
 * the limit. */
void rights_raise(void);

/* Gives up, for good, every right that the daemon does not use: capabilities but those of the table
 * in rights.c, and whatever executing a program could add. For a process that has one thread still:
 * each thread has rights of its own. */
int rights_drop(struct error *e);

#endif
