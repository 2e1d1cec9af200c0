/* Samples of a sandbox's resource use, for GET /sandboxes/{id}/metrics. They form a ring of
 * STORE_SAMPLES_MAX slots of STORE_SAMPLE_INTERVAL_S each, one hour in all, indexed by time. A
 * second sample within a slot replaces the first. */
#ifndef STORE_SAMPLES_H
#define STORE_SAMPLES_H

#include <stdint.h>

#include "base/error.h"
#include "store/store.h"

enum { STORE_SAMPLE_INTERVAL_S = 5, STORE_SAMPLES_MAX = 720 };

struct store_sample {
	uint64_t at_ns;
	uint32_t cpu_count;
	uint32_t cpu_used_permille; /* 1000 is one CPU fully used */
	uint64_t mem_used_bytes, mem_total_bytes, mem_cache_bytes;
	uint64_t disk_used_bytes, disk_total_bytes;
};

/* Use a batch (store_begin) to add samples of many sandboxes. -ENOENT when the sandbox is gone. */
int store_sample_add(
	struct store *s, const char *sandbox_id, const struct store_sample *m, struct error *e);

/* Samples with from_ns <= at_ns <= to_ns, oldest first. -ENOENT when the sandbox is gone. */
int store_sample_list(struct store *s, const char *sandbox_id, uint64_t from_ns, uint64_t to_ns,
	int (*each)(void *arg, const struct store_sample *m), void *arg, struct error *e);
/* The newest one; -ENODATA when there is none. */
int store_sample_last(
	struct store *s, const char *sandbox_id, struct store_sample *ret, struct error *e);

#endif
