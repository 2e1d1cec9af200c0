/* FREEZE, LIST_TASKS and TREE: the content of a guest, for comparing two of its states. Both lists
 * can be long, so helper processes make them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "env_files.h"
#include "files.h"
#include "guest.h"
#include "helper.h"
#include "hold.h"
#include "names.h"
#include "procfs.h"
#include "requests.h"

/* The agent's own files, which every identity rewrites. */
static bool is_own(const char *path)
{
	return strcmp(path, "/run/mayfly") == 0 || strcmp(path, ENV_FILES_DIR) == 0;
}

/* --- FREEZE --- */

void request_freeze(struct conn *c, const struct agent_frame *f)
{
	if (guest.init)			 /* under test: do not stop the machine's processes */
		(void)kill(-1, SIGSTOP); /* everything but us; having none is fine */
	hold_end();			 /* what was held then stops at once */
	conn_send(c, AGENT_OK, NULL);
}

/* --- LIST_TASKS --- */

static bool is_same_file(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Joins the arguments by blanks, as many as fit; false when there are none. */
static bool read_command(const char *dir, char out[AGENT_TEXT_MAX + 1])
{
	size_t n = task_arguments(dir, out, AGENT_TEXT_MAX);

	while (n > 0 && !out[n - 1])
		n--;
	for (size_t i = 0; i < n; i++)
		if (!out[i])
			out[i] = ' ';
	out[n] = '\0';
	return n > 0;
}

/* Lists one task. Skips one that ended meanwhile, the agent and its helpers. */
static void list_task(int fd, const char *pid)
{
	char dir[32], path[64], command[AGENT_TEXT_MAX + 1];
	_cleanup_free_ char *text = NULL;
	struct task_stat st;
	struct agent_task m;

	(void)snprintf(dir, sizeof(dir), "/proc/%.16s", pid); /* a number */
	(void)snprintf(path, sizeof(path), "%s/exe", dir);
	if (is_same_file(path, "/proc/self/exe"))
		return;
	if (task_read(dir, &text, &st) < 0 || !st.counts)
		return;
	if (!read_command(dir, command))
		(void)snprintf(command, sizeof(command), "[%.64s]", st.name);
	m = (struct agent_task){.pid = (uint32_t)strtoul(pid, NULL, 10),
		.parent = st.parent,
		.start = st.start,
		.command = command};
	helper_reply(fd, AGENT_TASK, &m);
}

static void tasks_work(int fd, const void *arg)
{
	DIR *d = opendir("/proc");
	unsigned left = AGENT_TASKS_MAX;
	struct dirent *e;

	if (!d) {
		helper_error(fd, AGENT_LIST_TASKS, errno, "/proc");
		return;
	}
	while (left && (e = readdir(d)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9') {
			list_task(fd, e->d_name);
			left--;
		}
	(void)closedir(d); /* read-only */
	if (left)
		helper_reply(fd, AGENT_END, NULL);
	else
		helper_error(fd, AGENT_LIST_TASKS, E2BIG, "too many processes to be listed");
}

void request_list_tasks(struct conn *c, const struct agent_frame *f)
{
	helper_run(c, AGENT_LIST_TASKS, tasks_work, NULL);
}

/* --- TREE --- */

enum { OUT_BYTES = 64 * 1024, OUT_MAX = 2 * OUT_BYTES };

struct walk {
	int fd;
	struct mounts mounts;
	struct buf out;
	unsigned left;	     /* nodes that may still be sent */
	char path[PATH_MAX]; /* AGENT_PATH_MAX and a NUL */
};

static void flush(struct walk *w)
{
	helper_write(w->fd, &w->out);
	buf_clear(&w->out);
}

static int64_t to_ns(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int tell(struct walk *w, const struct stat *st)
{
	static char target[AGENT_PATH_MAX + 1];
	struct agent_node m = {
		.mode = st->st_mode,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.inode = st->st_ino,
		.device = S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode) ? st->st_rdev : 0,
		.size = (uint64_t)st->st_size,
		.mtime_ns = to_ns(st->st_mtim),
		.ctime_ns = to_ns(st->st_ctim),
		.path = w->path,
		.target = target,
	};
	ssize_t n = S_ISLNK(st->st_mode) ? readlink(w->path, target, AGENT_PATH_MAX) : 0;

	target[n > 0 ? n : 0] = '\0';
	if (!w->left)
		return -E2BIG;
	w->left--;
	if (agent_encode(&w->out, AGENT_NODE, &m) < 0)
		return -ENOMEM;
	if (buf_len(&w->out) >= OUT_BYTES)
		flush(w);
	return 0;
}

static int enter(struct walk *w, size_t length, dev_t dev, bool files);

/* Reports w->path and everything below. Skips what vanishes meanwhile. files: the parent directory
 * holds files of the sandbox. If it does not, only paths to mounts that do are followed. */
static int visit(struct walk *w, size_t length, dev_t dev, bool files)
{
	struct stat st;
	int r = 0;

	if (is_own(w->path) || (!files && !mounts_lead_to_files(&w->mounts, w->path)) ||
		lstat(w->path, &st) < 0)
		return 0;
	if (st.st_dev != dev)
		files = mounts_hold_files(&w->mounts, w->path);
	if (files)
		r = tell(w, &st);
	return r == 0 && S_ISDIR(st.st_mode) ? enter(w, length, st.st_dev, files) : r;
}

static int enter(struct walk *w, size_t length, dev_t dev, bool files)
{
	_cleanup_(names_done) struct names n = {0};
	int r = names_read(w->path, &n);

	if (r < 0)
		return r == -ENOMEM || r == -E2BIG ? r : 0;
	if (w->path[length - 1] != '/')
		w->path[length++] = '/';
	for (size_t i = 0; r == 0 && i < n.count; i++) {
		size_t part = strlen(n.sorted[i]);

		if (length + part > AGENT_PATH_MAX)
			continue;
		memcpy(w->path + length, n.sorted[i], part + 1);
		r = visit(w, length + part, dev, files);
	}
	return r;
}

/* Follows links in the path: nodes get the directory's real path. */
static int walk_all(struct walk *w, const char *path)
{
	struct stat st;
	int r;

	if (!realpath(path, w->path) || stat(w->path, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	r = mounts_read(&w->mounts);
	return r < 0 ? r
		     : enter(w, strlen(w->path), st.st_dev, mounts_hold_files(&w->mounts, w->path));
}

static void tree_work(int fd, const void *arg)
{
	static struct walk w = {.out = BUF_INIT(OUT_MAX)};
	int r;

	w.fd = fd;
	w.left = AGENT_TREE_NODES_MAX;
	r = walk_all(&w, arg);
	flush(&w);
	if (r == -E2BIG)
		helper_error(fd, AGENT_TREE, E2BIG, "more files than can be listed");
	else if (r < 0)
		helper_error(fd, AGENT_TREE, -r, arg);
	else
		helper_reply(fd, AGENT_END, NULL);
}

void request_tree(struct conn *c, const struct agent_frame *f)
{
	char path[AGENT_PATH_MAX + 1];
	struct agent_tree m;

	if (conn_decode(c, f, &m) && conn_check_flags(c, AGENT_TREE, m.flags, 0) &&
		files_resolve(c, AGENT_TREE, m.user, m.path, NULL, path))
		helper_run(c, AGENT_TREE, tree_work, path);
}
