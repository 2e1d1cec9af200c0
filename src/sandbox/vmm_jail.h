/* How the microVMs of this process are jailed. */
#ifndef SANDBOX_VMM_JAIL_H
#define SANDBOX_VMM_JAIL_H

#include "base/error.h"
#include "jail/kind.h"

/* "on" (what holds without a call) or "off", the value of --jail: of all launches from now on. Not
 * thread-safe. */
int vmm_jail_configure(const char *word, struct error *e);

/* Makes the launcher now instead of at the first launch. ret (may be NULL): what kind of jail
 * microVMs get. ERROR_HOST, with the remedy, where there can be none. Thread-safe. */
int vmm_jail_prepare(enum jail_kind *ret, struct error *e);

#endif
