/* A directory that appears as a whole or not at all.
 *
 * It is built as `.tmp-<name>` next to its final place, and renamed when complete. The builder
 * holds a lock (flock) on the temporary directory. The lock keeps two builds of one name apart, and
 * shows that somebody still works on it. An unlocked `.tmp-*` is the leftover of a killed build:
 * the next build in that area removes it. */
#ifndef IMAGE_WORKDIR_H
#define IMAGE_WORKDIR_H

#include <stdbool.h>

#include "base/error.h"

struct workdir {
	int area_fd; /* borrowed: the parent directory */
	int fd;	     /* the temporary directory, locked */
	char *name;  /* owned: the final name */
	char *tmp;   /* owned: the temporary name */
};

#define WORKDIR_INIT                                                                               \
	{                                                                                          \
		.area_fd = -1, .fd = -1                                                            \
	}

/* Whether images and templates may be called so (base/str.h); else ERROR_USAGE, -EINVAL. */
int workdir_check_name(const char *name, struct error *e);

/* Removes leftovers, then makes and locks an empty temporary directory for `name`. ERROR_EXISTS
 * when another process is building that name. what: "image" or "template", for the message. */
int workdir_begin(
	int area_fd, const char *name, const char *what, struct workdir *ret, struct error *e);

/* Puts the directory in place, durably, and replaces an older one of that name. Open files of the
 * older one stay usable, and all of it while somebody holds it (workdir_hold). The workdir is empty
 * afterwards. */
int workdir_commit(struct workdir *w, struct error *e);

/* Removes what was built. Does nothing after workdir_commit. */
void workdir_abort(struct workdir *w);

/* Removes leftovers of killed builds, and removed directories that were held. The next sweep
 * retries failures. */
void workdir_sweep(int area_fd);

/* Makes a finished directory disappear at once, then frees its space: 0, -ENOENT, -errno. If
 * somebody holds it, the next sweep frees the space. */
int workdir_remove(int area_fd, const char *name);

/* Removes all finished directories that are called `<owner>.` and more. */
void workdir_remove_owned(int area_fd, const char *owner);

/* Keeps a finished directory from being removed until fd, a descriptor of it, is closed. Waits for
 * a removal in progress; ERROR_NOT_FOUND (-ENOENT) if the directory is gone then. what: as
 * above. */
int workdir_hold(int fd, const char *what, struct error *e);

/* Lists the finished directories by name, sorted: a malloc'ed NULL-terminated list. */
int workdir_list(int area_fd, char ***ret);
void workdir_list_free(char **names); /* NULL is fine */

#endif
