/* The operations that make and end sandboxes. In the product a sandbox is a microVM; tests of the
 * HTTP side put a native agent in its place. make and end block and run in worker threads. */
#ifndef SANDBOX_BACKEND_H
#define SANDBOX_BACKEND_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "image/home.h"
#include "jail/kind.h"
#include "sandbox/launch.h"
#include "sandbox/sandbox.h"
#include "sandbox/sandbox_dir.h"

/* A file in the directory of every sandbox that a daemon made. One without a row in the store is
 * garbage. Sandboxes without the file belong to `mayfly run`. */
#define BACKEND_MARK "daemon"
/* A file in the directory of a sandbox that has a row, or had one. If the store does not know it,
 * an older database was restored. */
#define BACKEND_KNOWN "known"
/* A file in the directory of a sandbox that has BACKEND_KNOWN, but that the database did not know
 * when the daemon started. */
#define BACKEND_UNKNOWN "unknown"

struct backend_sandbox {
	char id[SANDBOX_ID_BYTES];
	int dirfd;
	int egress_fd;	 /* far end of its egress channel; 0 or less: it has none */
	struct vmm *vmm; /* NULL: nobody waits for the process */
	pid_t pid;	 /* process that dies with the sandbox; holds the directory's lock */
	enum jail_kind jail;
	char *template; /* owned strings */
	char *user, *workdir;
	char *network; /* what it may reach at most (policy/network_list.h), or NULL */
	char **env;    /* of the template, NULL-terminated */
	unsigned cpus;
	uint64_t memory_bytes, disk_bytes;
	bool grow; /* the guest must be told disk_bytes */
};

struct backend_snapshot {
	uint64_t stop_ns;    /* how long the microVM stood still */
	uint64_t held_ns;    /* the same for its processes, stop_ns included; 0: not held */
	uint64_t own_bytes;  /* on disk, besides what it shares */
	uint64_t kept_bytes; /* footprint.h; not filled by the backend */
};

struct backend {
	/* Returns the sizes that a sandbox with these options would have, and the time of its
	 * template's build. Makes nothing. Called on the loop: reads a small file. */
	int (*measure)(const struct home *home, const struct sandbox_options *o,
		struct sandbox_sizes *ret, uint64_t *ret_made_s, struct error *e);
	/* True if `make` must boot the template first, because it has no snapshot of these sizes.
	 * That takes long, and `make` calls the options' progress meanwhile; if progress refuses,
	 * it ends. NULL: never. Called on the loop, as `measure`. */
	bool (*must_boot)(const struct home *home, const struct sandbox_options *o);
	/* Makes the directory (with the mark, before anything runs in it) and starts a sandbox that
	 * outlives us. Only id, template, origin, sizes, metadata and paused of the options count.
	 * Paused: nothing in it runs before `resume`, it has no record and is not listed, and the
	 * VM is complete when this returns. On failure nothing is left. */
	int (*make)(const struct home *home, const struct sandbox_dirs *dirs,
		const struct sandbox_options *o, struct backend_sandbox *ret, struct error *e);
	/* Makes a sandbox that was made paused one like others. If this fails, end it. NULL: there
	 * is no pool. */
	int (*resume)(struct backend_sandbox *s, json_t *metadata, struct error *e);
	/* Ends the sandbox and removes its directory. vmm as made, or NULL for an adopted one. */
	int (*end)(const struct sandbox_dirs *dirs, const char *id, struct vmm *vmm, pid_t pid,
		struct error *e);

	/* The next three take the sandbox's directory. They may be NULL: then there are no pauses
	 * and snapshots. */

	/* Stops the sandbox and keeps its state, durably, as the directory `name` of an area
	 * (image/home.h, stack.h). The caller then calls `end`. memory = false: keeps only its
	 * disks, after the guest has written its caches. On failure the sandbox runs as before. */
	int (*pause)(int dirfd, bool memory, int area_fd, const char *name, struct error *e);
	/* Keeps its state the same way and lets it go on. It stands still for stop_ns. memory as
	 * for a pause. On failure it goes on as before. */
	int (*snapshot)(int dirfd, bool memory, int area_fd, const char *name,
		struct backend_snapshot *ret, struct error *e);
	/* Makes a sandbox run again after a daemon died during pause or snapshot. */
	int (*settle)(int dirfd, struct error *e);
	/* Stops the CPUs of a running sandbox, or lets them go on. The guest's monotonic clock
	 * stands still meanwhile. If that is so already, does nothing. NULL: sandboxes cannot be
	 * frozen. */
	int (*freeze)(int dirfd, bool on, struct error *e);
	bool network; /* its sandboxes have an egress channel */
	/* Stands before paths in guests where the daemon installs certificates. NULL: it installs
	 * none. */
	const char *guest_root;
	/* Checks that all files of a state are undamaged, without loading it. */
	int (*check)(const struct sandbox_options *o, struct error *e);
};

extern const struct backend backend_vmm;

/* Operations of backend_vmm that are in backend_snapshot.c. */
int backend_vmm_pause(int dirfd, bool memory, int area_fd, const char *name, struct error *e);
int backend_vmm_snapshot(int dirfd, bool memory, int area_fd, const char *name,
	struct backend_snapshot *ret, struct error *e);
int backend_vmm_settle(int dirfd, struct error *e);

/* Releases everything but vmm. */
void backend_sandbox_done(struct backend_sandbox *s);
/* Makes the file BACKEND_MARK, or one of the other two. */
int backend_mark(int dirfd, struct error *e);
int backend_mark_as(int dirfd, const char *mark, struct error *e);

#endif
