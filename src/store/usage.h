/* Metering: what a sandbox used, per sandbox, and per key and day (UTC).
 *
 * The daemon reports absolute counters of a run, never differences. The store keeps the last report
 * and adds the growth to the totals in the same commit. So a report that is repeated after a crash
 * adds nothing, and the next report makes up for a lost one. If daemon and microVM crash together,
 * only the use since the last report is lost. */
#ifndef STORE_USAGE_H
#define STORE_USAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "store/store.h"

/* Microseconds and MiB-seconds: years of a full host fit into 63 bits. The caller computes absolute
 * values (memory MiB * uptime), so rounding errors do not add up. */
struct store_counters {
	uint64_t uptime_us;
	uint64_t cpu_us;
	uint64_t memory_mib_s;
	uint64_t disk_mib_s;
	uint64_t net_in_bytes; /* from clients of the sandbox, and to them */
	uint64_t net_out_bytes;
	uint64_t egress_in_bytes; /* from servers that the sandbox has reached, and to them */
	uint64_t egress_out_bytes;
	uint64_t flows_allowed, flows_denied;
};

/* Records counters of a sandbox's current run. `run` is any number that differs between two runs of
 * a sandbox (the vmm's start time). When it changes, counters start again from 0. A counter that
 * goes backwards within a run counts as unchanged. The growth is spread evenly over the days since
 * the last report, so monthly totals stay right when the daemon was down. */
int store_usage_record(struct store *s, const char *sandbox_id, const char *key_id, uint64_t run,
	const struct store_counters *absolute, uint64_t at_ns, struct error *e);

/* The last report of the sandbox's run `run`, so that a daemon which counts bytes itself can
 * continue from there. Zeros when there was no report of that run. */
int store_usage_of_run(struct store *s, const char *sandbox_id, uint64_t run,
	struct store_counters *ret, struct error *e);

struct store_sandbox_usage {
	const char *sandbox_id;
	const char *key_id;
	uint64_t first_ns, last_ns;  /* first and last report */
	struct store_counters total; /* over all runs */
};

/* Lists sandboxes with a report at from_ns or later, of one key or (NULL) of all. Latest report
 * first, at most limit. */
int store_usage_sandboxes(struct store *s, const char *key_id, uint64_t from_ns, uint32_t limit,
	int (*each)(void *arg, const struct store_sandbox_usage *u), void *arg, struct error *e);

/* Totals of whole days (UTC) that begin in [from_ns, to_ns). */
struct store_key_usage {
	const char *key_id;
	uint64_t day_ns; /* start of the day; store_usage_days only */
	struct store_counters total;
};

/* One entry per key; key_id NULL: all keys that used something. */
int store_usage_keys(struct store *s, const char *key_id, uint64_t from_ns, uint64_t to_ns,
	int (*each)(void *arg, const struct store_key_usage *u), void *arg, struct error *e);
/* One entry per day with use, oldest first. */
int store_usage_days(struct store *s, const char *key_id, uint64_t from_ns, uint64_t to_ns,
	int (*each)(void *arg, const struct store_key_usage *u), void *arg, struct error *e);

/* The bounds of the calendar month (UTC) that contains t. */
void store_month_of(uint64_t t_ns, uint64_t *ret_from_ns, uint64_t *ret_to_ns);

#endif
