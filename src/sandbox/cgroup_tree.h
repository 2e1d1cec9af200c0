/* The directory of the sandboxes' control groups (cgroup v2). It lies in a directory that was
 * delegated to us.
 *
 *	DELEGATED/daemon		our own processes, if they were in DELEGATED
 *	DELEGATED/sandboxes/ID		one sandbox each (cgroup.h)
 *
 * The kernel allows processes only in leaves. `sandboxes` is a level of its own because systemd,
 * when it restarts a unit, takes controllers away from DELEGATED. It cannot while `sandboxes` uses
 * them for its children. If the delegated directory is the root of the hierarchy, where all
 * processes are, a sandbox's group is ROOT/mayfly/ID.
 *
 * Most users have no delegated directory. Their sandboxes run without groups. */
#ifndef SANDBOX_CGROUP_TREE_H
#define SANDBOX_CGROUP_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* The disk that the sandboxes' files are on, and the limits for each sandbox; 0: no limit. */
struct cgroup_io {
	unsigned major, minor;
	uint64_t bytes_per_s, ops_per_s; /* for reading, and as much for writing */
};

struct cgroup_tree {
	char *path; /* owned: of the directory that has the sandboxes' groups */
	int fd;
	bool io;		 /* io.max can be set */
	struct cgroup_io io_max; /* the owner sets it after opening */
};
#define CGROUP_TREE_INIT                                                                           \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* Checks what cgroup_tree_open would do, and changes nothing. ERROR_HOST with what is missing and
 * what to do. path: a directory of cgroup v2, or NULL: this process's own group. */
int cgroup_tree_check(const char *path, struct error *e);

/* Makes the directories and enables the controllers. Moves processes out of the delegated group
 * itself: all of them (move_all), or just this one, whose failure then is an error. */
int cgroup_tree_open(const char *path, bool move_all, struct cgroup_tree *ret, struct error *e);
void cgroup_tree_close(struct cgroup_tree *t);

/* cgroup_tree_open for a directory that need not be a real one. For tests. */
int cgroup_tree_open_at(
	const char *delegated, bool move_all, struct cgroup_tree *ret, struct error *e);

#endif
