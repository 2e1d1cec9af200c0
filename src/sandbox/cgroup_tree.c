#include "sandbox/cgroup_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "sandbox/cgroup_find.h"

#define OWN_LEAF   "daemon"
#define SANDBOXES  "sandboxes"
#define ROOT_GROUP "mayfly" /* in the hierarchy's root */

#define DELEGATE                                                                                   \
	"as a service: Delegate=yes and DelegateSubgroup=daemon; for one command: systemd-run "    \
	"--user --scope -p Delegate=yes mayfly ...; without systemd: mayfly serve --cgroup "       \
	"DIRECTORY"

enum {
	PROC_FILE_MAX = 1 << 20,
	CONTROL_MAX = 4096, /* cgroup.controllers */
	MOVE_ROUNDS = 8,    /* processes may fork while they are moved */
	OWN_WEIGHT = 1000,  /* the daemon's; a sandbox has 100 for each CPU */
};

static const char *const needed[] = {"cpu", "memory", "pids"};

static int open_directory(int dirfd, const char *path)
{
	int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* --- where --- */

static int own_group(char **ret, struct error *e)
{
	_cleanup_free_ char *mounts = NULL, *own = NULL;

	if (file_read(AT_FDCWD, "/proc/self/mountinfo", PROC_FILE_MAX, &mounts, NULL) < 0 ||
		file_read(AT_FDCWD, "/proc/self/cgroup", PROC_FILE_MAX, &own, NULL) < 0)
		return error_set(e, ERROR_HOST, ENOENT,
			"this process's cgroup is unknown: mount proc on /proc");
	return cgroup_find(mounts, own, ret, e);
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The only group without a type is the hierarchy's root. */
static bool is_root(const char *path)
{
	_cleanup_free_ char *type = str_printf("%s/cgroup.type", path);

	return type && access(type, F_OK) < 0;
}

/* Whether a group is marked as delegated, as systemd does. Root can write to every group, so it
 * needs the mark to know which it may use. */
static bool is_marked(const char *path)
{
	return getxattr(path, "trusted.delegate", NULL, 0) > 0 ||
	       getxattr(path, "user.delegate", NULL, 0) > 0;
}

static bool is_managed(void)
{
	return access("/run/systemd/system", F_OK) == 0;
}

/* Whether our own group is one that systemd, the daemon before us, or we have made for us. */
static bool is_own_leaf(const char *path)
{
	return strcmp(last_part(path), OWN_LEAF) == 0;
}

/* Before version 254, systemd puts a unit's process into the unit's own group. That fails while
 * groups of sandboxes are below it, so the service could not be started again. */
static bool is_restarted_unit(const char *path)
{
	return str_ends_with(path, ".service") && getenv("INVOCATION_ID") && is_managed();
}

static int check_own(const char *group, const char *delegated, struct error *e)
{
	if (is_restarted_unit(group))
		return error_set(e, ERROR_HOST, ENOTSUP,
			"systemd started us in its unit's own cgroup, and could not do so again "
			"while sandboxes have groups in it: systemd 254 or later, with "
			"DelegateSubgroup=daemon");
	if (geteuid() == 0 && !is_marked(delegated))
		return error_set(e, ERROR_HOST, EACCES,
			"the cgroup %s is not delegated to us: " DELEGATE, delegated);
	return 0;
}

/* The delegated directory: given, or that of our own group. */
static int find_delegated(const char *path, char **ret, struct error *e)
{
	_cleanup_free_ char *own = NULL;
	int r;

	if (path) {
		*ret = strdup(path);
		return *ret ? 0 : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	}
	r = own_group(&own, e);
	if (r < 0)
		return r;
	*ret = strdup(own);
	if (!*ret)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	if (is_own_leaf(own))
		(*ret)[strlen(own) - strlen(OWN_LEAF) - 1] = '\0';
	r = check_own(own, *ret, e);
	if (r < 0) {
		free(*ret);
		*ret = NULL;
	}
	return r;
}

static int check_type(const char *delegated, struct error *e)
{
	struct statfs s;

	if (statfs(delegated, &s) < 0)
		return error_set_errno(e, ERROR_HOST, errno,
			"cannot use the cgroup %s: give a directory of cgroup v2", delegated);
	if (s.f_type != CGROUP2_SUPER_MAGIC)
		return error_set(e, ERROR_HOST, ENOTSUP,
			"%s is no directory of cgroup v2: give one below /sys/fs/cgroup",
			delegated);
	return 0;
}

/* --- what it has --- */

/* Whether the list "cpuset cpu io" has this word. */
static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; (p = strstr(p, word)); p += n)
		if ((p == list || p[-1] == ' ') && strchr(" \n", p[n]))
			return true;
	return false;
}

static int read_controllers(int fd, const char *name, char **ret)
{
	return file_read(fd, name, CONTROL_MAX, ret, NULL);
}

static int check_controllers(int fd, const char *delegated, bool *ret_io, struct error *e)
{
	_cleanup_free_ char *list = NULL;

	if (read_controllers(fd, "cgroup.controllers", &list) < 0)
		return error_set(e, ERROR_HOST, ENOENT,
			"%s is no directory of cgroup v2: give one below /sys/fs/cgroup",
			delegated);
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (!has_word(list, needed[i]))
			return error_set(e, ERROR_HOST, ENOTSUP,
				"the cgroup %s has no controller %s: "
				"Delegate=cpu io memory pids in its unit (of users: "
				"user@.service), or enable it in cgroup.subtree_control "
				"above",
				delegated, needed[i]);
	*ret_io = has_word(list, "io");
	return 0;
}

static int check_writable(int fd, const char *delegated, struct error *e)
{
	if (faccessat(fd, ".", W_OK, AT_EACCESS) < 0 ||
		faccessat(fd, "cgroup.procs", W_OK, AT_EACCESS) < 0 ||
		faccessat(fd, "cgroup.subtree_control", W_OK, AT_EACCESS) < 0)
		return error_set(e, ERROR_HOST, errno,
			"the cgroup %s is not delegated to this user: " DELEGATE, delegated);
	return 0;
}

static int check_delegated(const char *delegated, int *ret_fd, bool *ret_io, struct error *e)
{
	_cleanup_close_ int fd = open_directory(AT_FDCWD, delegated);
	int r;

	if (fd < 0)
		return error_set_errno(e, ERROR_HOST, -fd,
			"cannot use the cgroup %s: give a directory of cgroup v2", delegated);
	r = check_controllers(fd, delegated, ret_io, e);
	if (r == 0)
		r = check_writable(fd, delegated, e);
	if (r == 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}

int cgroup_tree_check(const char *path, struct error *e)
{
	_cleanup_free_ char *delegated = NULL;
	_cleanup_close_ int fd = -1;
	bool io;
	int r = find_delegated(path, &delegated, e);

	if (r == 0)
		r = check_type(delegated, e);
	return r < 0 ? r : check_delegated(delegated, &fd, &io, e);
}

/* --- making it --- */

/* Moves what is in the group itself into a leaf, a process each time. A kernel's thread or one that
 * has just ended cannot be moved; enabling the controllers tells. */
static void move_listed(int fd, int leaf_fd, bool all)
{
	_cleanup_free_ char *list = NULL;
	char *next, *line, own[16];

	(void)snprintf(own, sizeof(own), "%d", (int)getpid()); /* fits */
	if (file_read(fd, "cgroup.procs", PROC_FILE_MAX, &list, NULL) < 0)
		return;
	for (line = strtok_r(list, "\n", &next); line; line = strtok_r(NULL, "\n", &next))
		if (all || strcmp(line, own) == 0)
			(void)file_write_text(leaf_fd, "cgroup.procs", line); /* see above */
}

static int move_processes(int fd, bool all)
{
	_cleanup_close_ int leaf_fd = -1;

	if (mkdirat(fd, OWN_LEAF, 0755) < 0 && errno != EEXIST)
		return -errno;
	leaf_fd = open_directory(fd, OWN_LEAF);
	if (leaf_fd < 0)
		return leaf_fd;
	move_listed(fd, leaf_fd, all);
	return 0;
}

/* Enables one controller at a time, so that the optional one cannot spoil the others. */
static int enable_controllers(int fd, bool *io)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(needed); i++) {
		char word[16];

		(void)snprintf(word, sizeof(word), "+%s", needed[i]); /* fits */
		r = file_write_text(fd, "cgroup.subtree_control", word);
	}
	if (r == 0 && *io)
		*io = file_write_text(fd, "cgroup.subtree_control", "+io") == 0;
	return r;
}

static bool has_processes(int fd)
{
	_cleanup_free_ char *list = NULL;

	return file_read(fd, "cgroup.procs", PROC_FILE_MAX, &list, NULL) == 0 && *list;
}

static int prepare(int fd, bool root, bool move_all, bool *io)
{
	int r = 0;

	for (unsigned i = 0; !root && i < MOVE_ROUNDS && r == 0 && has_processes(fd); i++)
		r = move_processes(fd, move_all);
	return r < 0 ? r : enable_controllers(fd, io);
}

static int make_group(int fd, const char *name, bool *io)
{
	_cleanup_close_ int group_fd = -1;
	int r;

	if (mkdirat(fd, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	group_fd = open_directory(fd, name);
	if (group_fd < 0)
		return group_fd;
	r = enable_controllers(group_fd, io);
	return r < 0 ? r : TAKE_FD(group_fd);
}

/* Gives the daemon more weight, so that it can still end sandboxes when they use all CPUs. */
static void favour_own(int fd)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%d", OWN_WEIGHT);	 /* fits */
	(void)file_write_text(fd, OWN_LEAF "/cpu.weight", text); /* there may be no such group */
}

static int open_at(
	const char *delegated, bool root, bool move_all, struct cgroup_tree *ret, struct error *e)
{
	struct cgroup_tree t = CGROUP_TREE_INIT;
	const char *name = root ? ROOT_GROUP : SANDBOXES;
	_cleanup_close_ int fd = -1;
	int r = check_delegated(delegated, &fd, &t.io, e);

	if (r < 0)
		return r;
	r = prepare(fd, root, move_all, &t.io);
	if (r == 0)
		r = t.fd = make_group(fd, name, &t.io);
	if (r == -EBUSY)
		return error_set(e, ERROR_HOST, EBUSY,
			"other processes are in the cgroup %s itself: " DELEGATE, delegated);
	if (r >= 0) {
		favour_own(fd);
		t.path = str_printf("%s/%s", delegated, name);
		r = t.path ? 0 : -ENOMEM;
	}
	if (r < 0) {
		cgroup_tree_close(&t);
		return error_set_errno(e, ERROR_HOST, -r,
			"cannot make groups in the cgroup %s: " DELEGATE, delegated);
	}
	*ret = t;
	return 0;
}

int cgroup_tree_open_at(
	const char *delegated, bool move_all, struct cgroup_tree *ret, struct error *e)
{
	return open_at(delegated, false, move_all, ret, e);
}

int cgroup_tree_open(const char *path, bool move_all, struct cgroup_tree *ret, struct error *e)
{
	_cleanup_free_ char *delegated = NULL;
	int r = find_delegated(path, &delegated, e);

	if (r == 0)
		r = check_type(delegated, e);
	return r < 0 ? r : open_at(delegated, is_root(delegated), move_all, ret, e);
}

void cgroup_tree_close(struct cgroup_tree *t)
{
	cleanup_close_p(&t->fd);
	t->fd = -1;
	free(t->path);
	t->path = NULL;
}
