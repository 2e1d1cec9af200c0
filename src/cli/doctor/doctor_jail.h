/* The checks of `mayfly doctor` that concern the jail of sandboxes' processes. */
#ifndef CLI_DOCTOR_JAIL_H
#define CLI_DOCTOR_JAIL_H

#include "cli/doctor/doctor.h"

/* Adds "namespaces", "jail", "workshops", "landlock" and "seccomp". Makes a launcher, which ends
 * with this process. */
void doctor_check_jail(struct doctor *d);

#endif
