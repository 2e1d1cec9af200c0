/* What a program may write, as a file or directory with all that is in it: handed over to another
 * user, and measured while it runs. */
#ifndef JAIL_HAND_H
#define JAIL_HAND_H

#include <stdint.h>
#include <sys/types.h>

enum {
	HAND_DEPTH_MAX = 120,	   /* directories in one another */
	HAND_ENTRIES_MAX = 4 << 20 /* files and directories */
};

/* Follows no link, and stays on the file system of `path`. The kernel takes away set-user-ID bits
 * of files. Only root may give files away. 0; -E2BIG for more than the limits; -errno. What was
 * handed over before a failure stays so. */
int hand_over(const char *path, uid_t uid, gid_t gid);

/* Adds the bytes that it takes on the disk, while others write. As above; -EACCES for a directory
 * that cannot be read. 0 for what is missing. */
int hand_measure(const char *path, uint64_t *bytes);

#endif
