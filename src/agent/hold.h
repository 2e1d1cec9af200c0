/* Holds processes still while a snapshot is taken of the guest. They continue when it is done; in a
 * sandbox made from the snapshot, once that has its identity. So no process draws the same random
 * numbers as its siblings, or sees an old clock. */
#ifndef AGENT_HOLD_H
#define AGENT_HOLD_H

#include <stdbool.h>

/* Makes the control group for new processes (guest.cgroup_fd). Not called under test, where HOLD
 * holds requests only. */
void hold_open(void);

/* While this is true, only requests that neither start processes nor wait for any are served. */
bool hold_is_on(void);
void hold_end(void); /* does nothing if no hold is on */

#endif
