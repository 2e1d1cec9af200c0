/* Work that nobody waits for: a thread runs at idle priority (SCHED_IDLE) for a while, so it uses
 * only spare CPU time. */
#ifndef VMM_PRIORITY_H
#define VMM_PRIORITY_H

#include <stdbool.h>

/* Lowers the calling thread; threads that it creates later inherit this. Returns false and changes
 * nothing if raising it again is not allowed, which takes CAP_SYS_NICE or RLIMIT_NICE (systemd:
 * LimitNICE=0). */
bool priority_lower(void);

/* Restores the calling thread's priority. */
void priority_restore(void);

#endif
