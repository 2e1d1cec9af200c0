/* `mayfly doctor --egress`: shows that a sandbox does not reach what it must not, whatever the
 * policy. */
#ifndef CLI_DOCTOR_EGRESS_H
#define CLI_DOCTOR_EGRESS_H

#include <stdbool.h>

#include "base/error.h"

/* Makes a sandbox of the daemon, runs mayfly-probe in it as root, and prints a line for each probe.
 * Meanwhile it listens on this host, to see whether anything arrives. Returns 0, the exit status of
 * ERROR_HOST if something is open, or -errno. */
int doctor_egress(const char *template, bool json, struct error *e);

#endif
