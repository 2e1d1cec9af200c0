/* What sandboxes are made of: microVMs in the product; the tests of the HTTP side put a native
 * agent there. make and end block and are called in worker threads. */
#ifndef DAEMON_BACKEND_H
#define DAEMON_BACKEND_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "sandbox/sandbox.h"
#include "sandbox/sandbox_dir.h"
#include "image/home.h"
#include "sandbox/launch.h"

/* A file in the directory of every sandbox that a daemon made: without a row in the store nobody
 * knows it. Others belong to `mayfly run`. */
#define BACKEND_MARK "daemon"

struct backend_sandbox {
	char id[SANDBOX_ID_BYTES];
	int dirfd;
	struct vmm *vmm; /* NULL: the process is not waited for */
	pid_t pid;	 /* that dies when the sandbox does; holds the directory's lock */
	char *template;	 /* owned strings */
	char *user, *workdir;
	char **env; /* of the template, NULL-terminated */
	unsigned cpus;
	uint64_t memory_bytes, disk_bytes;
	bool grow; /* the guest must be told disk_bytes */
};

struct backend_snapshot {
	uint64_t stop_ns;    /* of the microVM */
	uint64_t held_ns;    /* of what runs in it, that included; 0: its processes were not held */
	uint64_t own_bytes;  /* on disk, besides what it shares */
	uint64_t kept_bytes; /* footprint.h; not filled by the backend */
};

struct backend {
	/* What a sandbox of these options would be, and the time of its template's build, without
	 * making anything. Called on the loop: reads a small file. */
	int (*measure)(const struct home *home, const struct sandbox_options *o,
		struct sandbox_sizes *ret, uint64_t *ret_made_s, struct error *e);
	/* Whether `make` has to boot the template first, since it has no snapshot of these sizes. Long; it
	 * calls the options' progress meanwhile, whose refusal ends it. NULL: never. As `measure`. */
	bool (*must_boot)(const struct home *home, const struct sandbox_options *o);
	/* Makes the directory (with the mark, before anything runs in it) and starts a sandbox that
	 * outlives us. Only id, template, origin, sizes, metadata and paused of the options count.
	 * Paused: nothing in it runs before `resume`, it has no record, so that it is not listed,
	 * and it is there, wholly, at the return. On failure nothing is left. */
	int (*make)(const struct home *home, const struct sandbox_dirs *dirs,
		const struct sandbox_options *o, struct backend_sandbox *ret, struct error *e);
	/* Makes one that was made paused a sandbox like others. On failure it is to be ended.
	 * NULL: there is no pool. */
	int (*resume)(struct backend_sandbox *s, json_t *metadata, struct error *e);
	/* Ends it and removes its directory. vmm as made, or NULL for an adopted one. */
	int (*end)(const struct sandbox_dirs *dirs, const char *id, struct vmm *vmm, pid_t pid,
		struct error *e);

	/* The four about snapshots, of the sandbox's directory, may be NULL: not served. */

	/* Stops it and keeps its state, durably, as the directory `name` of an area
	 * (image/workdir.h, layers.h); `end` comes next. memory = false: its disks only, after the
	 * guest has written what it had not yet. On failure it runs as before. */
	int (*pause)(int dirfd, bool memory, int area_fd, const char *name, struct error *e);
	/* Keeps its state likewise and lets it go on; it stands still for stop_ns. On failure it
	 * goes on as before. */
	int (*snapshot)(int dirfd, int area_fd, const char *name, struct backend_snapshot *ret,
		struct error *e);
	/* Brings a sandbox of an earlier daemon, which died during one of them, to where it runs.
	 */
	int (*settle)(int dirfd, struct error *e);
	/* Whether a state can be loaded, without doing it: all of its files are undamaged. */
	int (*check)(const struct sandbox_options *o, struct error *e);
};

extern const struct backend backend_vmm;

/* Of backend_vmm (backend_snapshot.c). */
int backend_vmm_pause(int dirfd, bool memory, int area_fd, const char *name, struct error *e);
int backend_vmm_snapshot(
	int dirfd, int area_fd, const char *name, struct backend_snapshot *ret, struct error *e);
int backend_vmm_settle(int dirfd, struct error *e);

/* Releases everything but vmm. */
void backend_sandbox_done(struct backend_sandbox *s);
/* Makes the file BACKEND_MARK. */
int backend_mark(int dirfd, struct error *e);

#endif
