/* Limits on what is kept of sandboxes: paused ones and snapshots, per key and in all, in number and
 * bytes. The rest of the disk is for running sandboxes.
 *
 * A sandbox that will be paused at its deadline takes a place from its creation. Its pause is a
 * promise, so it is not refused later.
 *
 * Pauses and snapshots under way count, too (lane.h). A snapshot takes its place when it is
 * requested. When a job begins, as many bytes count as its memory and disk may have. A job that
 * finds fewer left waits until no others are under way, and is refused if nothing is left then. So
 * one state at most can exceed the maximum of bytes and the reserve of the disk. */
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
 * it, not just the disk's reserve. -EAGAIN: ask again when another job under way is done. Otherwise
 * as above. */
int kept_admit(struct fleet *f, const char *key_id, bool limited, struct error *e);

#endif
