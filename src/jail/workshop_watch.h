/* Waits for the first process of a workshop, and kills it if the files that it may write become too
 * large. It measures them again and again, and uses at most a twentieth of a CPU for that; but at
 * once if so much of the disk was taken meanwhile that the limit may be exceeded. It looks twice a
 * second, so a program can exceed the limit by what it writes in that time. Files that are removed
 * but still open do not count. */
#ifndef JAIL_WORKSHOP_WATCH_H
#define JAIL_WORKSHOP_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "jail/workshop_spec.h"

/* What the last measurement found. */
struct workshop_measure {
	uint64_t left_bytes, /* that may still be written */
		free_bytes;  /* of the disk, when it began */
	int pause_ms;	     /* until the next is due in any case */
};

/* The most bytes that the files may have. */
uint64_t workshop_watch_limit(const struct workshop *w);

/* Whether to measure again, with so many bytes of the disk free. For tests. */
bool workshop_watch_is_due(const struct workshop_measure *last, int waited_ms, uint64_t free_bytes);

/* Sets *status as waitpid(2) does. Returns 0 or -errno: -EFBIG (too many bytes), -E2BIG (too many
 * files or too deep directories), -EACCES (a directory that cannot be read). The process has ended
 * in any case. */
int workshop_watch(const struct workshop *w, pid_t pid, int *status);

#endif
