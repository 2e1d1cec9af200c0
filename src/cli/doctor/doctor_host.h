/* Checks of `mayfly doctor` that concern the host's kernel and CPU, beyond whether sandboxes run:
 * isolation between sandboxes, clocks, and what slows each start. */
#ifndef CLI_DOCTOR_HOST_H
#define CLI_DOCTOR_HOST_H

#include <stdbool.h>

#include "cli/doctor/doctor.h"

/* root: "", or in tests a directory that stands for /. Each check reads a few files of sysfs or
 * procfs; it says nothing about a missing file. */

/* CPU or kernel vulnerabilities that are not mitigated. SMT: core_scheduling says whether sandboxes
 * can be kept from sharing a core. */
void doctor_check_isolation(struct doctor *d, const char *root, bool core_scheduling);
/* KVM gives guests a precise clock only if the host's own clock is the TSC. */
void doctor_check_clock(struct doctor *d, const char *root);
/* vm.overcommit_memory. */
void doctor_check_overcommit(struct doctor *d, const char *root);
/* The kernel thread that each VM starts. release: from uname. Adds nothing if all is well. */
void doctor_check_vm_start(struct doctor *d, const char *root, const char *release);
/* A host that kills programs for split locks kills guests, too. Adds nothing if all is well. */
void doctor_check_split_locks(struct doctor *d, const char *root);

/* Runs all of them for this host. */
void doctor_check_host(struct doctor *d);

#endif
