/* A directory that appears whole or not at all.
 *
 * It is built as `.tmp-<name>` next to its final place and renamed when complete. The builder holds
 * a lock (flock) on the temporary directory; it is both the mutual exclusion of two builds of one
 * name and the proof that somebody still works on it: an unlocked `.tmp-*` is the leftover of a
 * killed build, and whoever starts the next build in that area removes it. */
#ifndef IMAGE_WORKDIR_H
#define IMAGE_WORKDIR_H

#include <stdbool.h>

#include "base/error.h"

struct workdir {
	int area_fd; /* borrowed: the directory that holds all of them */
	int fd;	     /* the temporary directory, locked */
	char *name;  /* owned: the final name */
	char *tmp;   /* owned: the temporary name */
};

#define WORKDIR_INIT                                                                               \
	{                                                                                          \
		.area_fd = -1, .fd = -1                                                            \
	}

/* Removes leftovers, then makes and locks an empty temporary directory for `name`. ERROR_EXISTS
 * when another process builds that name now. what: "image", "template", for the message. */
int workdir_begin(
	int area_fd, const char *name, const char *what, struct workdir *ret, struct error *e);

/* Puts the directory in place, replacing an older one of that name, whose open files stay usable;
 * durable when it returns. The workdir is empty afterwards. */
int workdir_commit(struct workdir *w, struct error *e);

/* Removes what was built; does nothing after workdir_commit. */
void workdir_abort(struct workdir *w);

/* Removes leftovers of killed builds and what was held when it was removed; failures are left to the next
 * one. */
void workdir_sweep(int area_fd);

/* Makes a finished directory disappear at once, then frees its space: 0, -ENOENT, -errno. While
 * somebody holds it, that is left to the next sweep. */
int workdir_remove(int area_fd, const char *name);

/* From here until this descriptor of a finished directory is closed all of its files stay; -ENOENT when
 * it was removed, ERROR_NOT_FOUND. what: as above. */
int workdir_hold(int fd, const char *what, struct error *e);

/* True for the names of finished directories (as opposed to "." and temporary ones). */
bool workdir_is_finished_name(const char *name);

/* Sorted names of the finished directories; a malloc'ed NULL-terminated list. */
int workdir_list(int area_fd, char ***ret);
void workdir_list_free(char **names); /* NULL is fine */

#endif
