/* Makes a guest trust our authorities: writes them into its files, from the host's side, with the
 * agent's operations on files.
 *
 * TRUST_FILE has just ours; it is written last, and if it is right already nothing is done. The
 * guest's own bundle is where Debian, Fedora, SUSE or Alpine has it, or a new one. It gets a copy of
 * ours at its end, in place of an older copy, and is replaced as a whole. Programs with a store of their own (Java's,
 * browsers') do not read these files. What the guest's root does to them is up to it. */
#ifndef NETWORK_TRUST_H
#define NETWORK_TRUST_H

#include <stdbool.h>

#include "base/error.h"
#include "fleet/instance.h"

enum { TRUST_PATIENCE_MS = 10000, TRUST_BUNDLE_MAX = 1024 * 1024 };

/* Whether this sandbox's guest has to trust anything of ours, and has files for it. */
bool trust_is_wanted(const struct instance *i);

/* Begins. environment: new processes are told, too, for a sandbox that runs. done is called once,
 * perhaps before the return; why: NULL, or what went wrong. Never if the maker gives the instance up
 * (i->trust_close). One that is under way ends first, as if it had succeeded. */
void trust_install(struct instance *i, bool environment,
	void (*done)(void *arg, const struct error *why), void *arg);

#endif
