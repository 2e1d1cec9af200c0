/* States that the database does not know, moved aside instead of removed.
 *
 * A daemon finds paused sandboxes or snapshots without a row when it died between the two, or when an
 * older database was restored. Only the operator can tell which, so they stay in `aside` for some
 * days, within some of the disk's space; the oldest go first. */
#ifndef FLEET_ASIDE_H
#define FLEET_ASIDE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "image/home.h"

enum { ASIDE_DAYS = 7, ASIDE_PERCENT = 10 /* of the file system */ };

struct aside_options {
	uint32_t days;	/* 0: the defaults above, as the next */
	uint64_t bytes; /* the newest one stays even if it takes more */
};

/* Of a fleet, which fills in the first three. */
struct aside {
	uv_loop_t *loop;
	const struct home *home;
	struct aside_options options;
	uv_work_t work; /* of a sweep */
	bool busy;
	/* Of the last sweep. */
	unsigned count;
	uint64_t bytes;
};

/* Renames the directory `name` of an area to `aside/<area>-<name>-<seconds>`, as of now. 0 or
 * -errno, and then it is where it was. */
int aside_put(const struct home *h, enum home_area area, const char *name);

/* Removes what is too old or too much, in a worker. Does nothing while one is at it. */
void aside_sweep(struct aside *a);

#endif
