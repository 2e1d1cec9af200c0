/* The directories of sandboxes: one each, named by the sandbox's id, below $MAYFLY_RUN (default:
 * "sandboxes" in the state directory). Besides mayfly-vmm's files (sandbox/launch.h), a sandbox's
 * directory holds its record, sandbox.json, and disk deltas.
 *
 * The file system is the register. A sandbox exists while its directory does, and runs while a
 * process holds the directory's lock. A killed sandbox leaves an unlocked directory behind, which
 * the next command removes (sandbox_dirs_collect). */
#ifndef SANDBOX_DIR_H
#define SANDBOX_DIR_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "jail/kind.h"
#include "sandbox/cgroup_tree.h"

enum {
	SANDBOX_ID_BYTES = 21,	      /* 'i', 19 characters of a-z 0-9, and the NUL */
	SANDBOX_RECORD_MAX = 1 << 20, /* bytes of sandbox.json */
	SANDBOX_GRACE_S = 5,	      /* an unlocked directory younger than this is being made */
};

struct sandbox_dirs {
	char *path; /* owned, absolute */
	int fd;
	const struct cgroup_tree *cgroups; /* borrowed: for new sandboxes; NULL: without groups */
};
#define SANDBOX_DIRS_INIT                                                                          \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* home: path of the state directory. Creates the directory if it is missing. */
int sandbox_dirs_open(const char *home, struct sandbox_dirs *ret, struct error *e);
void sandbox_dirs_close(struct sandbox_dirs *d);

/* ERROR_NO_SPACE when their disk is full: what a sandbox wrote may then have failed. */
int sandbox_dirs_check_room(const struct sandbox_dirs *d, struct error *e);

/* Makes a directory, with a new id unless `id` already holds one. *ret_fd is open on it. */
int sandbox_dirs_make(
	const struct sandbox_dirs *d, char id[SANDBOX_ID_BYTES], int *ret_fd, struct error *e);
/* Makes the control group of a sandbox (cgroup.h) if `cgroups` is set. *ret_fd is for vmm_launch;
 * -1: none. On failure sandbox_dirs_remove removes what was made. */
int sandbox_dirs_make_cgroup(const struct sandbox_dirs *d, const char *id, int dirfd, unsigned cpus,
	uint64_t memory_bytes, int *ret_fd, struct error *e);
/* Sets the limits of its group anew, if it has one: they may have been changed or lost since. */
int sandbox_dirs_renew_cgroup(const struct sandbox_dirs *d, const char *id, int dirfd,
	unsigned cpus, uint64_t memory_bytes, struct error *e);
/* Removes a sandbox's control group, killing what is in it, and its directory. One that is already
 * gone is fine. If the group cannot be removed now, the directory stays for
 * sandbox_dirs_collect. */
void sandbox_dirs_remove(const struct sandbox_dirs *d, const char *id);

/* Removes what killed sandboxes left behind. */
void sandbox_dirs_collect(const struct sandbox_dirs *d);

/* Returns when a process started, in ticks since the host did (field 22 of /proc/PID/stat); 0:
 * there is none. Together with its number it identifies a process for good. */
uint64_t process_start_ticks(pid_t pid);

/* The CPU time of a process and its threads; 0: there is none, or it is gone. */
uint64_t process_cpu_ns(pid_t pid);

struct sandbox_record {
	char id[SANDBOX_ID_BYTES];
	char *template;	     /* owned strings, NULL when not known */
	char *command;	     /* for people, shell-quoted */
	uint64_t created_ns; /* CLOCK_REALTIME */
	unsigned cpus;
	uint64_t memory_bytes, disk_bytes;
	pid_t owner_pid, vmm_pid; /* 0: not known */
	uint64_t vmm_start;	  /* of vmm_pid; 0 in a record to be written: looked up */
	enum jail_kind jail;	  /* of its process; JAIL_OFF in records of earlier versions */
	json_t *metadata;	  /* an object that the creator gave, or NULL */
	bool hidden;		  /* not listed: the daemon only looks at it for a moment */
};

void sandbox_record_done(struct sandbox_record *r);
/* Replaces sandbox.json atomically. It is not synced: no sandbox survives a crash of the host. */
int sandbox_record_write(int dirfd, const struct sandbox_record *r, struct error *e);
int sandbox_record_read(int dirfd, const char *id, struct sandbox_record *ret, struct error *e);

/* Lists running sandboxes except hidden ones, oldest first. *ret is malloc'ed; release it with
 * sandbox_list_free. */
int sandbox_list(const struct sandbox_dirs *d, struct sandbox_record **ret, size_t *ret_count,
	struct error *e);
void sandbox_list_free(struct sandbox_record *records, size_t count);

/* Opens a sandbox's directory; ERROR_NOT_FOUND. */
int sandbox_open_dir(const struct sandbox_dirs *d, const char *id, struct error *e);

/* Ends a sandbox, whoever owns it, and removes its directory. Asks its microVM to end. If that
 * fails, kills the process of the record, but never a later one with its number. Blocks until it is
 * gone, some seconds at most. */
int sandbox_kill(const struct sandbox_dirs *d, const char *id, struct error *e);

#endif
