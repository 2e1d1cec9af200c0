/* Parses what the kernel reports about mounts and processes in /proc. The guest chooses the names
 * in it, so any text is parsed safely. */
#ifndef AGENT_PROCFS_H
#define AGENT_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MOUNTS_MAX = 4096 };

struct mount_point {
	char *path;	  /* owned */
	bool holds_files; /* of the sandbox itself: neither a view of the kernel nor a network file
			   * system */
};

struct mounts {			  /* all zero: none */
	struct mount_point *list; /* in mount order */
	size_t count;
};

/* Parses the text of a mountinfo file, and modifies it. Skips malformed lines. 0, -E2BIG or
 * -ENOMEM. */
int mounts_parse(char *text, struct mounts *ret);
/* Reads the mounts of this process. */
int mounts_read(struct mounts *ret);
void mounts_done(struct mounts *m);

/* Whether an absolute path lies on a mount that holds files. */
bool mounts_hold_files(const struct mounts *m, const char *path);
/* Whether such a mount is at or below the path. */
bool mounts_lead_to_files(const struct mounts *m, const char *path);

struct task_stat {
	const char *name; /* points into the text */
	uint32_t parent;
	uint64_t start; /* clock ticks since boot */
	bool counts;	/* not a kernel thread, and not ended */
};

/* Parses the text of /proc/PID/stat, and modifies it. 0 or -EBADMSG. */
int task_stat_parse(char *text, struct task_stat *ret);
/* Reads and parses DIR/stat; DIR is "/proc/PID". *text: the text, owned by the caller. 0 or
 * -errno. */
int task_read(const char *dir, char **text, struct task_stat *ret);
/* Reads a process's arguments, each ended by a NUL, as many bytes as fit. Returns how many: 0 if
 * there are none. */
size_t task_arguments(const char *dir, char *out, size_t max);

#endif
