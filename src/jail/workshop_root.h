/* The root file system of a workshop. */
#ifndef JAIL_WORKSHOP_ROOT_H
#define JAIL_WORKSHOP_ROOT_H

#include "jail/workshop_spec.h"

enum {
	WORKSHOP_COPY_BYTES_MAX = 16 << 20, /* of all copies */
	WORKSHOP_COPY_ENTRIES_MAX = 4096,
	WORKSHOP_COPY_DEPTH_MAX = 8,
};

/* Builds the root and enters it. The calling process is the first of its pid namespace and may
 * mount in its mount namespace. Returns 0, or -errno with the path that failed in `where`. */
enum { WORKSHOP_WHERE_MAX = 4096 };
int workshop_root_enter(
	const struct workshop *w, const struct workshop_ids *ids, char where[WORKSHOP_WHERE_MAX]);

/* Makes /proc read-only for good. Call it after the id maps were written. 0 or -errno. */
int workshop_root_close_proc(void);

#endif
