/* The parts of the host benchmark: our sandboxes, the programs they are compared with, and what
 * sandboxes that only wait cost. All of it runs in one process, so that starting the command line
 * is not measured; that is measured beside it. */
#ifndef BENCH_HOST_H
#define BENCH_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "image/home.h"
#include "sandbox/sandbox.h"
#include "stats.h"

_Noreturn void die(const char *what, const char *why);

/* --- ours (host_sandbox.c) --- */

struct place {
	struct home home;
	struct sandbox_dirs dirs;
	const char *template;
};

/* What one sandbox took, from the call that makes it. */
struct life {
	uint64_t created_ns; /* CLOCK_MONOTONIC of the call */
	uint64_t ready_ns, output_ns, exit_ns, destroy_ns;
	uint64_t faults, exits; /* KVM's own counts up to readiness; 0: not known */
};

/* Makes a sandbox, runs argv in it (as soon as it is ready, as every client does; NULL: only
 * until ready) and destroys it. */
void live_once(const struct place *p, const char *const *argv, struct life *ret);

/* Makes `count` sandboxes, one right after the other without waiting, and waits until all are
 * ready. Their times go to s, the time until the last one is ready is returned. They stay. */
uint64_t live_together(
	const struct place *p, unsigned count, struct sandbox **ret, struct samples *s);

/* --- others (host_program.c) --- */

/* Runs a program to its end; it must succeed. Its output is thrown away. */
uint64_t time_program(const char *const argv[]);
/* Runs a program until it writes `mark`, and kills it then. 0 when that does not come in time. */
uint64_t time_until(const char *const argv[], const char *mark, unsigned timeout_s);

/* --- memory (host_memory.c) --- */

/* Of one mayfly-vmm process, in bytes. */
struct process_memory {
	uint64_t guest_written; /* anonymous pages of the guest's memory: its own */
	uint64_t guest_shared;	/* pages of the snapshot that it has mapped */
	uint64_t vmm_private;	/* everything else in the process that only it has */
	uint64_t vmm_shared;
};

void read_memory(pid_t pid, struct process_memory *ret);

/* The microVM process of a sandbox, by its record. */
pid_t vmm_pid_of(const struct place *p, const struct sandbox *s);

#endif
