/* Requests about files that finish at once. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "entry.h"
#include "guest.h"
#include "path.h"
#include "requests.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

bool files_resolve(struct conn *c, enum agent_type request, const char *spec, const char *path,
	struct user *u, char out[AGENT_PATH_MAX + 1])
{
	static struct user unused;
	int r;

	if (!u)
		u = &unused;
	/* Common case: an absolute path with the default owner needs no user. */
	if (u == &unused && path[0] == '/' && !spec[0]) {
		r = path_resolve(path, "/", out);
	} else {
		if (user_find(spec, u) < 0) {
			conn_error(c, AGENT_ERR_BAD_USER, request, ENOENT, "user %s",
				spec[0] ? spec : guest.user);
			return false;
		}
		if (!path[0])
			path = guest.workdir[0] ? guest.workdir : u->home;
		r = path_resolve(path, u->home, out);
	}
	if (r < 0)
		files_error(c, request, -r, path);
	return r == 0;
}

void files_error(struct conn *c, enum agent_type request, int err, const char *path)
{
	conn_error(c, error_class_of(err), request, err, "%s", path);
}

void files_reply_entry(struct conn *c, enum agent_type request, const char *path, unsigned flags)
{
	static struct entry_text text;
	struct agent_entry e;
	int r = entry_fill(path, flags, &text, &e);

	if (r < 0)
		files_error(c, request, -r, path);
	else
		conn_send(c, AGENT_ENTRY, &e);
}

void request_stat(struct conn *c, const struct agent_frame *f)
{
	char path[AGENT_PATH_MAX + 1];
	struct agent_stat m;

	if (conn_decode(c, f, &m) && conn_check_flags(c, AGENT_STAT, m.flags, STAT_FLAGS) &&
		files_resolve(c, AGENT_STAT, m.user, m.path, NULL, path))
		files_reply_entry(c, AGENT_STAT, path, m.flags);
}

/* As with E2B: an existing directory is EXISTS, anything else in its place NOT_DIRECTORY. */
static int make_directory(const struct agent_mkdir *m, const struct user *u, const char *path)
{
	struct stat st;
	int r = 0;

	if (m->flags & AGENT_MKDIR_PARENTS)
		r = path_make_parents(path, u->uid, u->gid);
	if (r < 0)
		return r;
	if (mkdir(path, m->mode & 07777) < 0) {
		if (errno == EEXIST && stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
			return -ENOTDIR;
		return -errno;
	}
	(void)!chmod(path, m->mode & 07777); /* we just made it; only the umask is in the way */
	(void)!chown(path, u->uid, u->gid);
	return 0;
}

void request_mkdir(struct conn *c, const struct agent_frame *f)
{
	char path[AGENT_PATH_MAX + 1];
	struct agent_mkdir m;
	struct user u;
	int r;

	if (!conn_decode(c, f, &m) ||
		!conn_check_flags(c, AGENT_MKDIR, m.flags, AGENT_MKDIR_PARENTS) ||
		!files_resolve(c, AGENT_MKDIR, m.user, m.path, &u, path))
		return;
	r = make_directory(&m, &u, path);
	if (r < 0)
		files_error(c, AGENT_MKDIR, -r, path);
	else
		files_reply_entry(c, AGENT_MKDIR, path, 0);
}

void request_move(struct conn *c, const struct agent_frame *f)
{
	char from[AGENT_PATH_MAX + 1], to[AGENT_PATH_MAX + 1];
	struct agent_move m;
	struct stat st;
	struct user u;
	int r = 0;

	if (!conn_decode(c, f, &m) ||
		!conn_check_flags(
			c, AGENT_MOVE, m.flags, AGENT_MOVE_PARENTS | AGENT_MOVE_NO_REPLACE) ||
		!files_resolve(c, AGENT_MOVE, m.user, m.from, &u, from) ||
		!files_resolve(c, AGENT_MOVE, m.user, m.to, &u, to))
		return;
	if (lstat(from, &st) < 0) {
		files_error(c, AGENT_MOVE, errno, from);
		return;
	}
	if (m.flags & AGENT_MOVE_PARENTS)
		r = path_make_parents(to, u.uid, u.gid);
	if (r == 0 && syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to,
			      m.flags & AGENT_MOVE_NO_REPLACE ? RENAME_NOREPLACE : 0) < 0)
		r = -errno;
	if (r == -EINVAL)
		conn_error(c, AGENT_ERR_INVALID, AGENT_MOVE, 0,
			"a directory cannot be moved into itself: %s lies in it", to);
	else if (r < 0)
		files_error(c, AGENT_MOVE, -r, to);
	else
		files_reply_entry(c, AGENT_MOVE, to, 0);
}

static int set_attr(const struct agent_set_attr *m, const char *path)
{
	int at = m->flags & AGENT_SET_NO_FOLLOW ? AT_SYMLINK_NOFOLLOW : 0;
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}};
	int64_t ns = m->mtime_ns % (int64_t)NS_PER_S;
	uid_t uid;
	gid_t gid;

	if (m->flags & AGENT_SET_OWNER) {
		if (user_find_ids(m->owner, &uid, &gid) < 0)
			return -ESRCH;
		if (fchownat(AT_FDCWD, path, uid, gid, at) < 0)
			return -errno;
	}
	/* After the owner: chown clears set-user-ID. */
	if ((m->flags & AGENT_SET_MODE) && chmod(path, m->mode & 07777) < 0)
		return -errno;
	times[1] = (struct timespec){(time_t)(m->mtime_ns / (int64_t)NS_PER_S - (ns < 0)),
		(long)(ns < 0 ? ns + (int64_t)NS_PER_S : ns)};
	if ((m->flags & AGENT_SET_MTIME) && utimensat(AT_FDCWD, path, times, at) < 0)
		return -errno;
	return 0;
}

void request_set_attr(struct conn *c, const struct agent_frame *f)
{
	char path[AGENT_PATH_MAX + 1];
	struct agent_set_attr m;
	int r;

	if (!conn_decode(c, f, &m) ||
		!conn_check_flags(c, AGENT_SET_ATTR, m.flags,
			AGENT_SET_MODE | AGENT_SET_OWNER | AGENT_SET_MTIME | AGENT_SET_NO_FOLLOW) ||
		!files_resolve(c, AGENT_SET_ATTR, m.user, m.path, NULL, path))
		return;
	if ((m.flags & AGENT_SET_MODE) && (m.flags & AGENT_SET_NO_FOLLOW)) {
		conn_error(c, AGENT_ERR_INVALID, AGENT_SET_ATTR, 0, "links have no mode");
		return;
	}
	r = set_attr(&m, path);
	if (r == -ESRCH)
		conn_error(c, AGENT_ERR_BAD_USER, AGENT_SET_ATTR, ENOENT, "owner %s", m.owner);
	else if (r < 0)
		files_error(c, AGENT_SET_ATTR, -r, path);
	else
		files_reply_entry(c, AGENT_SET_ATTR, path,
			m.flags & AGENT_SET_NO_FOLLOW ? 0 : AGENT_STAT_FOLLOW);
}

/* --- extended attributes --- */

static int remove_xattrs(const char *path, const char *prefix)
{
	char names[AGENT_XATTR_BYTES_MAX];
	ssize_t n = listxattr(path, names, sizeof(names));

	if (n < 0)
		return errno == EOPNOTSUPP ? 0 : -errno; /* then there are no attributes */
	for (const char *p = names; p < names + n; p += strlen(p) + 1)
		if (strncmp(p, prefix, strlen(prefix)) == 0 && removexattr(path, p) < 0 &&
			errno != ENODATA)
			return -errno;
	return 0;
}

static int set_xattr(unsigned flags, const char *path, const char *name, const char *value)
{
	uint8_t bytes[64];
	size_t n = strlen(value) / 2;

	if (strncmp(name, "user.", 5) == 0)
		return setxattr(path, name, value, strlen(value), 0) < 0 ? -errno : 0;
	if (!(flags & AGENT_XATTRS_CAPABILITY) || strcmp(name, ENTRY_CAPABILITY) != 0)
		return -EINVAL;
	if (strlen(value) % 2 || n > sizeof(bytes) || !str_from_hex(value, n, bytes))
		return -EINVAL;
	return setxattr(path, name, bytes, n, 0) < 0 ? -errno : 0;
}

static int set_xattrs(const struct agent_set_xattrs *m, const char *path)
{
	const char *name, *value;
	size_t pos = 0;
	int r = m->flags & AGENT_XATTRS_REPLACE ? remove_xattrs(path, m->prefix) : 0;

	while (r == 0 && agent_strings_next(&m->pairs, &pos, &name) &&
		agent_strings_next(&m->pairs, &pos, &value))
		r = set_xattr(m->flags, path, name, value);
	return r;
}

void request_set_xattrs(struct conn *c, const struct agent_frame *f)
{
	char path[AGENT_PATH_MAX + 1];
	struct agent_set_xattrs m;
	int r;

	if (!conn_decode(c, f, &m) ||
		!conn_check_flags(c, AGENT_SET_XATTRS, m.flags,
			AGENT_XATTRS_REPLACE | AGENT_XATTRS_CAPABILITY) ||
		!files_resolve(c, AGENT_SET_XATTRS, m.user, m.path, NULL, path))
		return;
	if ((m.pairs.count & 1) ||
		((m.flags & AGENT_XATTRS_REPLACE) && strncmp(m.prefix, "user.", 5) != 0)) {
		conn_error(c, AGENT_ERR_INVALID, AGENT_SET_XATTRS, 0,
			"attributes come as names and values, and only those of user.");
		return;
	}
	r = set_xattrs(&m, path);
	if (r < 0)
		files_error(c, AGENT_SET_XATTRS, -r, path);
	else
		conn_send(c, AGENT_OK, NULL);
}
