/* The monthly allowance of keys whose tier has a hard stop: minutes of all sandboxes of a key in a
 * calendar month (UTC). When it is used up, the key can neither create nor resume sandboxes, and
 * its running ones are paused. Those that belong to one request cannot be paused, so they are
 * ended. */
#ifndef LIFECYCLE_ALLOWANCE_H
#define LIFECYCLE_ALLOWANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct fleet;

/* Fails with ERROR_FORBIDDEN when the key may not have another running sandbox. */
int allowance_check(struct fleet *f, const char *key_id, struct error *e);

/* Returns end_ns, or the earlier time at which one running sandbox uses up what is left. */
uint64_t allowance_clamp(struct fleet *f, const char *key_id, uint64_t end_ns);

/* Why a sandbox that reached its deadline ends: "allowance" if the key's minutes are used up, so
 * the deadline was clamped; otherwise NULL. Static. */
const char *allowance_reason(struct fleet *f, const char *key_id);

struct instance;
bool allowance_may_pause(const struct instance *i);

/* Pauses or ends the sandboxes of all keys that have used up their allowance. Sets a timer for the
 * next key that soon will. Call it every few seconds. */
void allowance_enforce(struct fleet *f);
/* The same for one key, after a new sandbox has started to use its minutes. */
void allowance_enforce_key(struct fleet *f, const char *key_id);

#endif
