/* What the kernel says of mounts and processes in /proc, taken apart. Names in it are the guest's:
 * whatever the text is, it is read without harm. */
#ifndef AGENT_PROCFS_H
#define AGENT_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MOUNTS_MAX = 4096 };

struct mount_point {
	char *path;	  /* owned */
	bool holds_files; /* of the sandbox's own: no view of the kernel, no network */
};

struct mounts {			  /* all zero: none */
	struct mount_point *list; /* in the order of mounting */
	size_t count;
};

/* Of the text of a mountinfo file, which is changed; what is no line of it is left out. 0, -E2BIG
 * or -ENOMEM. */
int mounts_parse(char *text, struct mounts *ret);
/* Of this process. */
int mounts_read(struct mounts *ret);
void mounts_done(struct mounts *m);

/* Whether what is at an absolute path is on a mount that holds files. */
bool mounts_hold_files(const struct mounts *m, const char *path);
/* Whether such a mount is there or below. */
bool mounts_lead_to_files(const struct mounts *m, const char *path);

struct task_stat {
	const char *name; /* in the text */
	uint32_t parent;
	uint64_t start; /* ticks since the boot */
	bool counts;	/* no thread of the kernel's, and not ended */
};

/* The text of /proc/PID/stat, which is changed. 0 or -EBADMSG. */
int task_stat_parse(char *text, struct task_stat *ret);

#endif
