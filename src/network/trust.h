/* Makes a guest trust our authorities. The daemon writes them into the guest's files through the
 * agent.
 *
 * TRUST_FILE holds only our authorities and is written last. If it is right already, no file is
 * written. The guest's bundle is looked for where Debian, Fedora, SUSE and Alpine have it. If there
 * is none, TRUST_BUNDLE is made. If Debian's bundle has no authority of ours, ours are appended. In
 * all other cases a copy replaces the bundle. It has ours at its end, and no older ones of ours.
 * Programs with a store of their own (Java's, browsers') do not read these files. Root in the guest
 * may change them. */
#ifndef NETWORK_TRUST_H
#define NETWORK_TRUST_H

#include <stdbool.h>

#include "base/error.h"
#include "fleet/instance.h"

enum { TRUST_PATIENCE_MS = 10000 };

/* Whether this sandbox's guest has to trust an authority of ours. */
bool trust_is_wanted(const struct instance *i);

/* Begins to write the files. environment: processes that start later in a running sandbox are told,
 * too. done is called once, perhaps before the return, with NULL or the error. It is not called if
 * i->trust_close is called without `tell`. If an installation is in progress already, it ends first
 * and calls its done with NULL. */
void trust_install(struct instance *i, bool environment,
	void (*done)(void *arg, const struct error *why), void *arg);

#endif
