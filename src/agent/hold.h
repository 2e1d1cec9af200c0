/* Processes stand still while a snapshot is made of the guest, and go on when the sandbox that came of
 * it has its identity: none draws random numbers that its siblings draw too, or sees an old clock. */
#ifndef AGENT_HOLD_H
#define AGENT_HOLD_H

#include <stdbool.h>

/* Makes the control group that processes are started in (guest.cgroup_fd); not under test, where HOLD
 * holds requests only. */
void hold_open(void);

/* While it is on, only requests that neither start processes nor wait for any are taken. */
bool hold_is_on(void);
void hold_end(void); /* also when it is not on */

#endif
