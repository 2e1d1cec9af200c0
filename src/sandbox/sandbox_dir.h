/* The directories of sandboxes: one each, named by the sandbox's id, below $MAYFLY_RUN (default:
 * "sandboxes" in the state directory). Besides what mayfly-vmm keeps in it (sandbox/launch.h), a
 * sandbox's directory holds sandbox.json, its record, and disk deltas.
 *
 * The file system is the register: a sandbox exists while its directory is there, and runs while a
 * process holds the directory's lock. What was killed leaves an unlocked directory behind, which
 * the next command removes (sandbox_dirs_collect). */
#ifndef DAEMON_SANDBOX_DIR_H
#define DAEMON_SANDBOX_DIR_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum {
	SANDBOX_ID_BYTES = 21,	      /* 'i', 19 characters of a-z 0-9, and the NUL */
	SANDBOX_RECORD_MAX = 1 << 20, /* bytes of sandbox.json */
	SANDBOX_GRACE_S = 5,	      /* an unlocked directory younger than that is being made */
};

struct sandbox_dirs {
	char *path; /* owned, absolute */
	int fd;
};
#define SANDBOX_DIRS_INIT                                                                          \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* home: path of the state directory. The directory is made when missing. */
int sandbox_dirs_open(const char *home, struct sandbox_dirs *ret, struct error *e);
void sandbox_dirs_close(struct sandbox_dirs *d);

/* ERROR_NO_SPACE when their disk is full, so that what a sandbox wrote may have failed. */
int sandbox_dirs_check_room(const struct sandbox_dirs *d, struct error *e);

/* Makes a directory, with a new id unless `id` holds one already; *ret_fd is open on it. */
int sandbox_dirs_make(
	const struct sandbox_dirs *d, char id[SANDBOX_ID_BYTES], int *ret_fd, struct error *e);
/* Removes a sandbox's directory; one that is gone already is fine. */
void sandbox_dirs_remove(const struct sandbox_dirs *d, const char *id);

/* Removes what killed sandboxes left behind. */
void sandbox_dirs_collect(const struct sandbox_dirs *d);

/* When a process was started, in ticks since the host was (field 22 of /proc/PID/stat); 0: there is
 * none. With its number it names a process for good. */
uint64_t process_start_ticks(pid_t pid);

struct sandbox_record {
	char id[SANDBOX_ID_BYTES];
	char *template;	     /* owned strings, NULL when not known */
	char *command;	     /* for people, shell-quoted */
	uint64_t created_ns; /* CLOCK_REALTIME */
	unsigned cpus;
	uint64_t memory_bytes, disk_bytes;
	pid_t owner_pid, vmm_pid; /* 0: not known */
	uint64_t vmm_start;	  /* of vmm_pid; 0 when it is written: looked up */
	json_t *metadata;	  /* an object of the creator's, or NULL */
	bool hidden; /* one that the daemon only looks at, for as long as that takes: not listed */
};

void sandbox_record_done(struct sandbox_record *r);
/* Replaces sandbox.json in one step. It is not synced: no sandbox survives the host's crash. */
int sandbox_record_write(int dirfd, const struct sandbox_record *r, struct error *e);
int sandbox_record_read(int dirfd, const char *id, struct sandbox_record *ret, struct error *e);

/* The running sandboxes but hidden ones, oldest first. *ret is malloc'ed, release with
 * sandbox_list_free. */
int sandbox_list(const struct sandbox_dirs *d, struct sandbox_record **ret, size_t *ret_count,
	struct error *e);
void sandbox_list_free(struct sandbox_record *records, size_t count);

/* The one running sandbox whose id begins with `prefix`. ERROR_NOT_FOUND; ERROR_USAGE when there
 * are several. */
int sandbox_find(const struct sandbox_dirs *d, const char *prefix, char ret_id[SANDBOX_ID_BYTES],
	struct error *e);

/* Opens a sandbox's directory; ERROR_NOT_FOUND. */
int sandbox_open_dir(const struct sandbox_dirs *d, const char *id, struct error *e);

/* Ends a sandbox, whoever owns it: asks its microVM to end, kills the process of the record if it
 * does not (no other one that has its number now), and removes the directory. Blocks until it is gone, some seconds at most. */
int sandbox_kill(const struct sandbox_dirs *d, const char *id, struct error *e);

#endif
