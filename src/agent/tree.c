/* LIST and recursive REMOVE: long walks, done in helper processes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "entry.h"
#include "files.h"
#include "helper.h"
#include "names.h"
#include "requests.h"

/* --- LIST --- */

struct listing {
	unsigned flags;
	char path[AGENT_PATH_MAX + 1];
	unsigned depth;
};

static int list(int fd, char *path, size_t length, unsigned flags, unsigned depth);

/* Lists one entry and everything below it. Skips what vanishes meanwhile or cannot be read. */
static void list_entry(int fd, char *path, size_t length, unsigned flags, unsigned depth)
{
	static struct entry_text text;
	struct agent_entry e;

	if (entry_fill(path, flags, &text, &e) < 0)
		return;
	helper_reply(fd, AGENT_ENTRY, &e);
	if (depth > 1 && S_ISDIR(e.mode))
		(void)list(fd, path, length, flags, depth - 1);
}

static int list(int fd, char *path, size_t length, unsigned flags, unsigned depth)
{
	_cleanup_(names_done) struct names n = {0};
	int r = names_read(path, &n);

	if (r < 0)
		return r;
	if (path[length - 1] != '/')
		path[length++] = '/';
	for (size_t i = 0; i < n.count; i++) {
		size_t part = strlen(n.sorted[i]);

		if (length + part >= AGENT_PATH_MAX)
			continue;
		memcpy(path + length, n.sorted[i], part + 1);
		list_entry(fd, path, length + part, flags, depth);
	}
	return 0;
}

static void list_work(int fd, const void *arg)
{
	struct listing l = *(const struct listing *)arg;
	char shown[AGENT_PATH_MAX + 1];
	int r;

	strcpy(shown, l.path);
	r = list(fd, l.path, strlen(l.path), l.flags, l.depth);
	if (r < 0)
		helper_error(fd, AGENT_LIST, -r, shown);
	else
		helper_reply(fd, AGENT_END, NULL);
}

void request_list(struct conn *c, const struct agent_frame *f)
{
	struct listing l;
	struct agent_list m;

	if (!conn_decode(c, f, &m) ||
		!conn_check_flags(c, AGENT_LIST, m.flags, AGENT_STAT_XATTRS | AGENT_STAT_RESOLVE) ||
		!files_resolve(c, AGENT_LIST, m.user, m.path, NULL, l.path))
		return;
	if (m.depth > AGENT_LIST_DEPTH_MAX) {
		conn_error(c, AGENT_ERR_LIMIT, AGENT_LIST, 0, "depth %u is over %d", m.depth,
			AGENT_LIST_DEPTH_MAX);
		return;
	}
	l.flags = m.flags;
	l.depth = m.depth ? m.depth : 1;
	helper_run(c, AGENT_LIST, list_work, &l);
}

/* --- REMOVE --- */

static void remove_work(int fd, const void *arg)
{
	const char *path = arg;
	int r = file_remove_tree(AT_FDCWD, path);

	if (r < 0)
		helper_error(fd, AGENT_REMOVE, -r, path);
	else
		helper_reply(fd, AGENT_OK, NULL);
}

void request_remove(struct conn *c, const struct agent_frame *f)
{
	char path[AGENT_PATH_MAX + 1];
	struct agent_remove m;
	bool directory;
	struct stat st;

	if (!conn_decode(c, f, &m) ||
		!conn_check_flags(c, AGENT_REMOVE, m.flags, AGENT_REMOVE_RECURSIVE) ||
		!files_resolve(c, AGENT_REMOVE, m.user, m.path, NULL, path))
		return;
	if (strcmp(path, "/") == 0) {
		conn_error(c, AGENT_ERR_INVALID, AGENT_REMOVE, 0, "/ cannot be removed");
		return;
	}
	directory = lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
	/* A file or an empty directory needs no helper. */
	if ((directory ? rmdir(path) : unlink(path)) == 0 || errno == ENOENT)
		conn_send(c, AGENT_OK, NULL);
	else if (directory && (m.flags & AGENT_REMOVE_RECURSIVE) &&
		 (errno == ENOTEMPTY || errno == EEXIST))
		helper_run(c, AGENT_REMOVE, remove_work, path);
	else
		files_error(c, AGENT_REMOVE, errno, path);
}
