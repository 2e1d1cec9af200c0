/* Work that nobody waits for: a thread runs at idle priority (SCHED_IDLE) for a while, so that it takes
 * only what processors have to spare. */
#ifndef VMM_PRIORITY_H
#define VMM_PRIORITY_H

#include <stdbool.h>

/* Lowers the calling thread; threads that it creates are lowered as well. False, and nothing is
 * changed, where the way back is forbidden: it takes CAP_SYS_NICE or RLIMIT_NICE (systemd:
 * LimitNICE=0). */
bool priority_lower(void);

/* Undoes it for the calling thread. */
void priority_restore(void);

#endif
