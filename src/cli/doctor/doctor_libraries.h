/* The check of `mayfly doctor` that concerns libraries inside of Mayfly's static programs. */
#ifndef CLI_DOCTOR_LIBRARIES_H
#define CLI_DOCTOR_LIBRARIES_H

#include "cli/doctor/doctor.h"

/* Adds "libraries": warns if this host has a newer version of a library than a static program was
 * linked with, as after a security update. Asks dpkg; without it nothing is added. */
void doctor_check_libraries(struct doctor *d);

#endif
