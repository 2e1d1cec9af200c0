/* What the two halves of bench-snapshots share. */
#ifndef BENCH_SNAPSHOTS_H
#define BENCH_SNAPSHOTS_H

#include <stdint.h>

#include "stats.h"

#define BENCH_MEMORY_BYTES (UINT64_C(256) << 20)

/* Ends the program with a message. */
_Noreturn void bench_die(const char *what, const char *why);

/* One line: p50, p90, p99 and least in ms, the ratio of the medians (floor may be NULL). */
void bench_row(const char *name, struct samples *s, struct samples *floor);

/* forks.c: the same by processes, with mayfly-vmm beside this program: forks, roll-backs, claims.
 * path: a directory to be created. */
void bench_forks(const char *path, unsigned rounds, struct report *j);
/* Only the freeze of a microVM, and that it goes on. */
void bench_freezes(const char *path, unsigned rounds, struct report *j);

#endif
