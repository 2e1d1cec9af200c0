/* Hands a file or directory over to another user, with all that is in it. */
#ifndef JAIL_HAND_H
#define JAIL_HAND_H

#include <sys/types.h>

enum {
	HAND_DEPTH_MAX = 120,	   /* directories in one another */
	HAND_ENTRIES_MAX = 4 << 20 /* files and directories */
};

/* Follows no link, and stays on the file system of `path`. The kernel takes away set-user-ID bits
 * of files. Only root may give files away. 0; -E2BIG for more than the limits; -errno. What was
 * handed over before a failure stays so. */
int hand_over(const char *path, uid_t uid, gid_t gid);

#endif
