/* Limits on what is kept of sandboxes: paused ones and snapshots, per key and in all, in number and
 * bytes. The rest of the disk is for running sandboxes.
 *
 * A sandbox that will be paused at its deadline takes a place from its creation. Its pause is a
 * promise, so it is not refused later.
 *
 * What pauses and snapshots under way will keep counts too (lane.h): a snapshot's place at once,
 * and its bytes, as many as its memory and disk may have, when it begins. One that finds less than
 * that left waits for the others, and is refused if nothing is left then. So the maximum of bytes,
 * and the reserve of the disk, are exceeded by one state at most. */
#ifndef FLEET_KEPT_H
#define FLEET_KEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "fleet/fleet.h"

enum {
	KEPT_KEY_COUNT = 500,
	KEPT_ALL_COUNT = 10000,
	KEPT_KEY_PERCENT = 25, /* of the file system */
	KEPT_ALL_PERCENT = 75,
	KEPT_RESERVE_PERCENT = 2,
};
#define KEPT_RESERVE_MAX (UINT64_C(2) << 30)

/* Fills in the defaults of struct kept_options. */
int kept_init(struct fleet *f, struct error *e);

/* Whether a key may keep `count` more states, or promise them. Fails with ERROR_TOO_MANY for the
 * key's own limits, ERROR_NO_SPACE for those of all keys. count 0: the state has its place already.
 * Only the latter limits apply to the operator's key. */
int kept_check(struct fleet *f, const char *key_id, unsigned count, struct error *e);

/* Whether the disk has room for one more state; otherwise ERROR_NO_SPACE. */
int kept_check_disk(struct fleet *f, struct error *e);

/* Whether a pause or snapshot that has its place may begin. limited: the maxima of bytes apply to
 * it, not just the disk's reserve. -EAGAIN: when others under way are done. Otherwise as above. */
int kept_admit(struct fleet *f, const char *key_id, bool limited, struct error *e);

#endif
