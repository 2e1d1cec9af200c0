/* A sandbox's own control group, which limits what its processes take of the host: mayfly-vmm, and
 * mayfly-egress if it has traffic.
 *
 *	memory.max	the guest's memory, 1/64 of it for page tables, and CGROUP_MEMORY_BESIDE for
 *			the rest of mayfly-vmm: sockets' buffers and what it writes to its disk.
 *			Swap is off. The page cache of files is charged to the group that reads a
 *			page first, also of a template that all share. The kernel takes such pages
 *			back before it kills anything, so they cost time at most. Not set if the
 *			sandbox's files are on a tmpfs, where they are memory that cannot be taken
 *			back. mayfly-egress has cgroup_worker_bytes() on top, which is also its own
 *			limit, so it does not take the VMM's. If the group is full all the same, the
 *			kernel kills mayfly-egress first (egress_spawn.h), and only that.
 *	cpu.max		its CPUs, and a tenth of one for the device threads
 *	cpu.weight	100 for each CPU; cpu.idle instead while it wants too much
 *	pids.max	its CPUs, CGROUP_THREADS and the worker
 *	io.max		by option
 *
 * The sandbox's directory has a link `cgroup` to the group. It is made before the group and removed
 * after it, so whoever removes the directory finds the group: no process needs to know the tree. A
 * link is followed only to a directory of cgroup v2 with the sandbox's own id as its name. */
#ifndef SANDBOX_CGROUP_H
#define SANDBOX_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "sandbox/cgroup_tree.h"

#define CGROUP_MEMORY_BESIDE (UINT64_C(64) << 20)

enum { CGROUP_THREADS = 32, CGROUP_WORKER_THREADS = 1 };

/* The private memory of a sandbox's worker: a quarter of the guest's, within these bounds. */
#define CGROUP_WORKER_MIN (UINT64_C(96) << 20)
#define CGROUP_WORKER_MAX (UINT64_C(896) << 20)
uint64_t cgroup_worker_bytes(uint64_t guest_bytes);

struct cgroup_limits {
	unsigned cpus;
	uint64_t memory_bytes; /* of the guest; 0: no limit */
	struct cgroup_io io;
};

/* Finds the disk that a directory is on, for io.max. ERROR_HOST: it is on none (a network file
 * system, for example). */
int cgroup_io_find_disk(int dirfd, struct cgroup_io *io, struct error *e);

/* Makes the group of a sandbox with its limits. dirfd: of the sandbox's directory. Returns a
 * descriptor for vmm_launch, or -errno; then cgroup_remove removes what was made. */
int cgroup_make(const struct cgroup_tree *t, const char *id, int dirfd,
	const struct cgroup_limits *l, struct error *e);

/* Opens a sandbox's group. -ENOENT: it has none. */
int cgroup_open(int dirfd, const char *id);
/* Its path, malloc'ed; NULL: it has none. */
char *cgroup_path(int dirfd, const char *id);

/* Sets or renews all limits. */
int cgroup_set_limits(int cgroup_fd, const struct cgroup_limits *l, struct error *e);

/* idle: others run first (cpu.idle, Linux 5.15), until it is set to false with the sandbox's CPUs,
 * or the limits are renewed. 0 or -errno. */
int cgroup_set_idle(int cgroup_fd, bool idle, unsigned cpus);

/* Removes the group. Its processes have 200 ms to end by themselves: a worker reports its
 * last flows then. Kills what is left. -ENOENT: there is none. -EBUSY: a process does not
 * end within a second; try again later. Never touches another group. */
int cgroup_remove(int dirfd, const char *id);

/* The same for a group of any kind in that directory. Waits at most so long. */
int cgroup_remove_at(int parent_fd, const char *id, unsigned wait_ms);

struct cgroup_usage {
	uint64_t memory_bytes; /* with page cache */
	uint64_t oom_kills;
	uint64_t throttled, throttled_us; /* periods and time in which it waited for cpu.max */
};

/* What cannot be read stays 0. */
void cgroup_read_usage(int cgroup_fd, struct cgroup_usage *ret);

/* Of all sandboxes' groups together. */
struct cgroup_totals {
	uint64_t groups, memory_bytes, oom_kills;
};

/* t may be NULL: zeros. */
void cgroup_tree_read(const struct cgroup_tree *t, struct cgroup_totals *ret);

/* True if the kernel killed the sandbox's process because memory ran out. e says whether it reached
 * memory.max or the host had none left (ERROR_SANDBOX). */
bool cgroup_explain_end(int dirfd, const char *id, struct error *e);

#endif
