/* The files of a workshop. */
#ifndef JAIL_WORKSHOP_ROOT_H
#define JAIL_WORKSHOP_ROOT_H

#include "jail/workshop_spec.h"

enum {
	WORKSHOP_COPY_BYTES_MAX = 16 << 20, /* of all copies */
	WORKSHOP_COPY_ENTRIES_MAX = 4096,
	WORKSHOP_COPY_DEPTH_MAX = 8,
};

/* Makes the root and enters it. The process has a mount namespace, which it may change, and is the
 * first of its pid namespace. Returns 0, or -errno and the path that it failed at
 * (WORKSHOP_WHERE_MAX bytes). */
enum { WORKSHOP_WHERE_MAX = 4096 };
int workshop_root_enter(
	const struct workshop *w, const struct workshop_ids *ids, char where[WORKSHOP_WHERE_MAX]);

/* Makes its /proc read-only, for good: after the maps of ids are written. 0 or -errno. */
int workshop_root_close_proc(void);

#endif
