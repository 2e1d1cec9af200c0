/* Samples of durations, their percentiles, and a small JSON writer: what the benchmarks share. */
#ifndef BENCH_STATS_H
#define BENCH_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Durations in ns, as many as were allocated for. */
struct samples {
	uint64_t *ns; /* owned */
	size_t count, max;
	bool sorted;
};

/* Ends the program when there is no memory: a benchmark cannot go on. */
void samples_init(struct samples *s, size_t max);
void samples_done(struct samples *s);
void samples_add(struct samples *s, uint64_t ns);
/* The nearest-rank percentile (0 < p <= 100), 0 without samples. Sorts the samples. */
uint64_t samples_percentile(struct samples *s, double p);
uint64_t samples_mean(const struct samples *s);

/* Writes a document depth first; the writer puts in commas and line ends. key is NULL in arrays.
 * With a NULL file every call does nothing. */
enum { REPORT_DEPTH_MAX = 8 };
struct report {
	FILE *f; /* borrowed */
	unsigned depth;
	bool filled[REPORT_DEPTH_MAX];
};
void report_open(struct report *j, const char *key, char bracket); /* '{' or '[' */
void report_close(struct report *j, char bracket);		   /* '}' or ']' */
void report_string(struct report *j, const char *key, const char *value);
void report_integer(struct report *j, const char *key, uint64_t value);
void report_number(struct report *j, const char *key, double value);
/* {"count", "p50_us", "p90_us", "p99_us", "min_us", "mean_us", "max_us"} */
void report_samples(struct report *j, const char *key, struct samples *s);

/* What the figures depend on: CPU, kernel, memory, time. */
void report_machine(struct report *j);
void print_machine(void);

#endif
