/* What the files of a machine share: machine.c (its life), machine_calls.c (requests to its agent),
 * and the tests' double of machine.c. */
#ifndef BUILD_MACHINE_INTERNAL_H
#define BUILD_MACHINE_INTERNAL_H

#include "base/clock.h"
#include "build/machine.h"

enum { MACHINE_CALL_S = 120 };

struct machine {
	struct machine_options o;
	int fd; /* its directory */
	struct vmm *vmm;
	struct agent_conn *agent;
	const struct machine_network *network; /* or NULL */
	void *served;			       /* of it */
	unsigned freezes;		       /* number of the delta that its disk writes to */
};

static inline uint64_t machine_after(unsigned seconds)
{
	return clock_monotonic_ns() + seconds * NS_PER_S;
}

#endif
