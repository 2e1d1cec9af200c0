/* Moves states that the database does not know aside, instead of removing them.
 *
 * A daemon finds a paused sandbox or snapshot without a row in two cases: it died between writing
 * the two, or somebody restored an older database. Only the operator can tell which. So such states
 * stay in `aside` for some days and within a share of the disk; the oldest are removed first. An
 * entry whose name does not have the form that aside_put() gives stays and does not count. */
#ifndef FLEET_ASIDE_H
#define FLEET_ASIDE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "image/home.h"

enum { ASIDE_DAYS = 7, ASIDE_PERCENT = 10 /* of the file system */ };

struct aside_options {
	uint32_t days;	/* 0: the default above; the same for bytes */
	uint64_t bytes; /* the newest state stays even if it takes more */
};

/* Part of a fleet, which fills in the first three fields. */
struct aside {
	uv_loop_t *loop;
	const struct home *home;
	struct aside_options options;
	uv_work_t work; /* of a sweep */
	bool busy;
	/* Results of the last sweep. */
	unsigned count;
	uint64_t bytes;
};

/* Renames the directory `name` of an area to `aside/<area>-<name>-<seconds>`, with the current
 * time. Returns 0 or -errno; on failure the directory stays where it is. */
int aside_put(const struct home *h, enum home_area area, const char *name);

/* Removes states that are too old or take too much space, in a worker. No-op during a sweep. */
void aside_sweep(struct aside *a);

#endif
