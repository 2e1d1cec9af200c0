/* Where the time of a restore goes: counts and times the system calls and thread creations that
 * the VMM's library makes, by standing in front of them at link time (--wrap). Only the calls of
 * the thread that has it switched on are counted; otherwise they cost one comparison more. */
#ifndef BENCH_CALLS_H
#define BENCH_CALLS_H

#include <stdbool.h>
#include <stdint.h>

struct calls_row {
	const char *name;
	uint64_t count, ns, max_ns;
};

void calls_enable(bool on);
void calls_clear(void);
/* Most expensive first; returns the number of rows. */
unsigned calls_rows(const struct calls_row **ret);

#endif
