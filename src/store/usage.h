/* Metering: what a sandbox used, per sandbox and per key and day (UTC).
 *
 * The daemon reports absolute counters of a run, never differences: the store keeps the last report
 * and adds what is new to the totals in the same commit. So a report that is repeated after a crash
 * adds nothing, one that was lost is made good by the next, and a crash of daemon and microVM
 * together loses at most what was used since the last report. */
#ifndef STORE_USAGE_H
#define STORE_USAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "store/store.h"

/* Microseconds and MiB-seconds, so that years of a full host fit into 63 bits. A caller computes
 * absolute values (memory MiB * uptime), so rounding does not add up. */
struct store_counters {
	uint64_t uptime_us;
	uint64_t cpu_us;
	uint64_t memory_mib_s;
	uint64_t disk_mib_s;
	uint64_t net_in_bytes;
	uint64_t net_out_bytes;
};

/* Counters of a sandbox's current run. `run` is any number that differs between two runs of a
 * sandbox (the vmm's start time): counters start again from 0 when it changes. A counter that went
 * backwards within a run counts as unchanged. The growth since the last report is spread evenly
 * over the days between them, so that a month's border is right after a daemon was down. */
int store_usage_record(struct store *s, const char *sandbox_id, const char *key_id, uint64_t run,
	const struct store_counters *absolute, uint64_t at_ns, struct error *e);

/* What the sandbox's run `run` reported last, so that a daemon which counts for itself (bytes) can
 * go on from there; zeros when there was no report of that run. */
int store_usage_of_run(struct store *s, const char *sandbox_id, uint64_t run,
	struct store_counters *ret, struct error *e);

struct store_sandbox_usage {
	const char *sandbox_id;
	const char *key_id;
	uint64_t first_ns, last_ns;  /* of the reports */
	struct store_counters total; /* of all its runs */
};

/* The sandbox may be gone. total only, no pointers. */
int store_usage_sandbox(
	struct store *s, const char *sandbox_id, struct store_counters *ret, struct error *e);

/* Sandboxes with a report at from_ns or later, of one key or (NULL) all, the latest report first,
 * at most limit. */
int store_usage_sandboxes(struct store *s, const char *key_id, uint64_t from_ns, uint32_t limit,
	int (*each)(void *arg, const struct store_sandbox_usage *u), void *arg, struct error *e);

/* Totals of whole days (UTC) that begin in [from_ns, to_ns). */
struct store_key_usage {
	const char *key_id;
	uint64_t day_ns; /* midnight at its start; of store_usage_days only */
	struct store_counters total;
};

/* One entry a key; key_id NULL: all keys that used something. */
int store_usage_keys(struct store *s, const char *key_id, uint64_t from_ns, uint64_t to_ns,
	int (*each)(void *arg, const struct store_key_usage *u), void *arg, struct error *e);
/* One entry a day that saw use, oldest first. */
int store_usage_days(struct store *s, const char *key_id, uint64_t from_ns, uint64_t to_ns,
	int (*each)(void *arg, const struct store_key_usage *u), void *arg, struct error *e);

/* Borders of the calendar month (UTC) that holds t. */
void store_month_of(uint64_t t_ns, uint64_t *ret_from_ns, uint64_t *ret_to_ns);

#endif
