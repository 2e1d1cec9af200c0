/* Reserves places for sandboxes on this host, from its quota (quota.h). The pool makes room if
 * needed. For the loop's thread. */
#ifndef FLEET_PLACES_H
#define FLEET_PLACES_H

#include "base/error.h"
#include "sandbox/sandbox.h"

struct fleet;

/* Takes places for `count` sandboxes of these sizes, all or none. Release them one by one with
 * quota_release(). */
int places_take_host(
	struct fleet *f, const struct sandbox_sizes *s, unsigned count, struct error *e);

/* Places for several sandboxes of one size that will be made soon. They count against the host and
 * the key. The caller owns the struct. */
struct instance_places {
	const char *key_id; /* borrowed */
	struct sandbox_sizes sizes;
	unsigned count; /* not taken yet */
	struct instance_places *next;
};
/* Takes the host's places, all or none. Does not check the key's limits (limits.h).
 * places_give_back() must follow, also after a failure. */
int places_reserve(struct fleet *f, struct instance_places *p, struct error *e);
/* Gives back the places that nobody took. */
void places_give_back(struct fleet *f, struct instance_places *p);

/* The number of the key's sandboxes that are being made or promised. */
unsigned places_coming(struct fleet *f, const char *key_id);

#endif
