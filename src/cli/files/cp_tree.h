/* Copies whole directories to and from a sandbox. Follows links as scp does, except links to a
 * parent directory. It skips what is no file or directory, what vanishes, and what may not be read;
 * it names these on standard error and counts them. It keeps the modes of files, but those of
 * directories only when it copies to this host. */
#ifndef CLI_CP_TREE_H
#define CLI_CP_TREE_H

#include <sys/types.h>

#include "base/error.h"
#include "cli/remote/remote_files.h"

enum { CP_DEPTH_MAX = 64 };

struct cp {
	struct remote_files files;
	mode_t umask;
	unsigned left_out;
};

/* Copies one file to `name` in dirfd (AT_FDCWD: a path). If something other than a regular file
 * exists there, it is written into. */
int cp_file_down(struct cp *cp, const char *path, const json_t *entry, int dirfd, const char *name,
	struct error *e);
/* fd: the open file. */
int cp_file_up(struct cp *cp, int fd, const char *path, struct error *e);

/* Copies the contents of a directory into another, existing one. */
int cp_tree_down(struct cp *cp, const char *path, int dirfd, struct error *e);
int cp_tree_up(struct cp *cp, int dirfd, const char *path, struct error *e);

#endif
