/* How much may be kept of sandboxes: paused ones and snapshots, per key and in all, in number and
 * bytes. The rest of the disk is for sandboxes that run.
 *
 * A sandbox that will be paused at its deadline takes a place from its beginning: it was promised to be
 * there later, so its pause is not refused. Bytes are counted when a state is written, so a key may
 * go beyond its maximum by what it writes at the same moment (lane.h). */
#ifndef FLEET_KEPT_H
#define FLEET_KEPT_H

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

/* Whether a key may have so many more kept, or promised to be: ERROR_TOO_MANY for its own limits,
 * ERROR_NO_SPACE for those of all. count 0: one that has its place already. The operator's key has
 * only the latter. */
int kept_check(struct fleet *f, const char *key_id, unsigned count, struct error *e);

/* Whether the disk has room for one more state; ERROR_NO_SPACE. */
int kept_check_disk(struct fleet *f, struct error *e);

#endif
