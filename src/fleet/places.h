/* Places for sandboxes on this host: of its quota (quota.h), where the pool gives way. On the loop's
 * thread. */
#ifndef FLEET_PLACES_H
#define FLEET_PLACES_H

#include "base/error.h"
#include "sandbox/sandbox.h"

struct fleet;

/* Takes the host's places for `count` sandboxes of these sizes, all or none. They are released one
 * by one, with quota_release(). */
int places_take_host(
	struct fleet *f, const struct sandbox_sizes *s, unsigned count, struct error *e);

/* Places for several of one size that are made soon. They count as the host's and as the key's. The
 * caller's. */
struct instance_places {
	const char *key_id; /* borrowed */
	struct sandbox_sizes sizes;
	unsigned count; /* that nobody has taken yet */
	struct instance_places *next;
};
/* Takes the host's places, all or none; whether the key may have them is not looked at (limits.h).
 * places_give_back() comes next in any case. */
int places_reserve(struct fleet *f, struct instance_places *p, struct error *e);
/* What was not taken. */
void places_give_back(struct fleet *f, struct instance_places *p);

/* How many are being made for the key, or are promised. */
unsigned places_coming(struct fleet *f, const char *key_id);

#endif
