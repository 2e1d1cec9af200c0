/* The files that a jailed program may write: gives them to the program's user before it runs, and
 * measures their size while it runs. A path names a file, or a directory with everything below
 * it. */
#ifndef JAIL_HAND_H
#define JAIL_HAND_H

#include <stdint.h>
#include <sys/types.h>

enum {
	HAND_DEPTH_MAX = 120,	   /* directories in one another */
	HAND_ENTRIES_MAX = 4 << 20 /* files and directories */
};

/* Changes the owner of everything at and below `path`; only root may. Does not follow symbolic
 * links or enter another file system. The kernel clears set-user-ID bits of files. Returns 0,
 * -E2BIG (over the limits above) or -errno. A failure does not undo what was changed before it. */
int hand_over(const char *path, uid_t uid, gid_t gid);

/* Adds the bytes on disk of everything at and below `path` to *bytes. Others may write meanwhile.
 * Follows the same rules; -EACCES for a directory that cannot be read. What does not exist counts
 * nothing. */
int hand_measure(const char *path, uint64_t *bytes);

#endif
