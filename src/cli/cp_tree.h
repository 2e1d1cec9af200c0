/* Whole directories to and from a sandbox. Links are followed, as scp does, but for those that lead
 * to a directory above; what is no file or directory, and what vanishes or may not be read, is left
 * out, named on standard error, and counted. Modes of files are kept, of directories on this side
 * only. */
#ifndef CLI_CP_TREE_H
#define CLI_CP_TREE_H

#include <sys/types.h>

#include "base/error.h"
#include "cli/remote_files.h"

enum { CP_DEPTH_MAX = 64 };

struct cp {
	struct remote_files files;
	mode_t umask;
	unsigned left_out;
};

/* One file; name: in dirfd (AT_FDCWD: a path). What is there and no regular file is written into.
 */
int cp_file_down(struct cp *cp, const char *path, const json_t *entry, int dirfd, const char *name,
	struct error *e);
/* fd: of the open file. */
int cp_file_up(struct cp *cp, int fd, const char *path, struct error *e);

/* What is in a directory into another, which is there. */
int cp_tree_down(struct cp *cp, const char *path, int dirfd, struct error *e);
int cp_tree_up(struct cp *cp, int dirfd, const char *path, struct error *e);

#endif
