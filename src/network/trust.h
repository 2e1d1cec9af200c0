/* Makes a guest trust our authorities: writes them into its files, from the host's side, with the
 * agent's operations on files.
 *
 * TRUST_FILE holds only our authorities and is written last. If it is already right, no file is
 * written. The guest's bundle is where Debian, Fedora, SUSE or Alpine has it; without one,
 * TRUST_BUNDLE is made. Ours are appended to Debian's, if it has none of ours. Else the bundle is
 * replaced by a copy with ours at its end, instead of an older copy of ours.
 * Programs with a store of their own (Java's, browsers') do not read these files. Root in the guest
 * may change them. */
#ifndef NETWORK_TRUST_H
#define NETWORK_TRUST_H

#include <stdbool.h>

#include "base/error.h"
#include "fleet/instance.h"

enum { TRUST_PATIENCE_MS = 10000, TRUST_BUNDLE_MAX = 1024 * 1024 };

/* Whether this sandbox's guest has to trust anything of ours, and has files for it. */
bool trust_is_wanted(const struct instance *i);

/* Begins. environment: also tell processes started later in a sandbox that already runs. done is
 * called once, maybe before the return, with NULL or the error; not if i->trust_close was called
 * without `tell`. Beginning again ends the one under way first, which then calls its done with
 * NULL. */
void trust_install(struct instance *i, bool environment,
	void (*done)(void *arg, const struct error *why), void *arg);

#endif
