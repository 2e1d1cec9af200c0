/* Fault points: places where tests make a program fail or die. They exist only with -DFAULT_POINTS,
 * which the test builds of a program set (tests/faults). Elsewhere they compile to nothing.
 *
 * MAYFLY_FAULT=NAME[:N] in the environment kills the process (SIGKILL) when it reaches the point
 * NAME for the N-th time. MAYFLY_FAULT=NAME[:N]=ERRNO (a number) makes the point return -ERRNO
 * instead, once. fault_set does the same from within a test; NULL sets no fault. Not
 * thread-safe. */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include "base/error.h"

#ifdef FAULT_POINTS
int fault_point(const char *name);
void fault_set(const char *spec); /* borrowed */
#else
static inline int fault_point(const char *name)
{
	(void)name; /* no faults in this build */
	return 0;
}
#endif

/* A point at which the host's disk may fail. */
static inline int fault_disk(const char *name, struct error *e)
{
	int r = fault_point(name);

	return r < 0 ? error_set_errno(e, ERROR_HOST, -r, "the host's disk failed") : 0;
}

#endif
