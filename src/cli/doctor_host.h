/* What `mayfly doctor` says about the host's kernel and CPU beyond "it runs": isolation between
 * sandboxes, clocks, what costs time at each start. */
#ifndef CLI_DOCTOR_HOST_H
#define CLI_DOCTOR_HOST_H

#include <stdbool.h>

#include "cli/doctor.h"

/* root: "" or, in tests, a directory that stands for /. Each reads a few files of sysfs or procfs; a
 * file that is not there is nothing to say about. */

/* Flaws that the CPU or kernel leaves open. SMT: core_scheduling says whether sandboxes can be kept
 * from sharing a core. */
void doctor_check_isolation(struct doctor *d, const char *root, bool core_scheduling);
/* KVM gives guests a precise clock when the host's own is the TSC. */
void doctor_check_clock(struct doctor *d, const char *root);
/* vm.overcommit_memory. */
void doctor_check_overcommit(struct doctor *d, const char *root);
/* The kernel's thread that each VM starts. release: uname's. Nothing is added when all is well. */
void doctor_check_vm_start(struct doctor *d, const char *root, const char *release);
/* A host that ends programs for split locks ends guests too. Nothing is added when all is well. */
void doctor_check_split_locks(struct doctor *d, const char *root);

/* All of them, of this host. */
void doctor_check_host(struct doctor *d);

#endif
