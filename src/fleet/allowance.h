/* The allowance of keys whose tier stops hard: minutes of all their sandboxes in a calendar month
 * (UTC). When it is used up no sandbox is made or resumed, and those that run are paused. Only those
 * that cannot be, since they belong to one request, are ended. */
#ifndef DAEMON_ALLOWANCE_H
#define DAEMON_ALLOWANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct fleet;

/* ERROR_FORBIDDEN when the key may not have another sandbox running. */
int allowance_check(struct fleet *f, const char *key_id, struct error *e);

/* end_ns, or the sooner time at which a sandbox that runs alone has used up what is left. */
uint64_t allowance_clamp(struct fleet *f, const char *key_id, uint64_t end_ns);

/* Why a sandbox that reached its deadline ends: "allowance" when the deadline was clamped to what
 * is used up now, else NULL. Static. */
const char *allowance_reason(struct fleet *f, const char *key_id);

struct instance;
bool allowance_may_pause(const struct instance *i);

/* Pauses or ends the sandboxes of all keys that have used up theirs, and is called again when the next one
 * will have. To be called every few seconds. */
void allowance_enforce(struct fleet *f);
/* The same for one key, whose new sandbox uses it up sooner. */
void allowance_enforce_key(struct fleet *f, const char *key_id);

#endif
