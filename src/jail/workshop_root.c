#include "jail/workshop_root.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"

/* mount_setattr(2), Linux 5.12. */
enum {
	NR_MOUNT_SETATTR = 442,
	ATTR_RDONLY = 1,
	ATTR_NOSUID = 2,
	ATTR_NODEV = 4,
	RECURSIVE = 0x8000
};

struct attributes {
	uint64_t set, clear, propagation, userns_fd;
};

/* The directory on which the new root is built: any whose files are not needed. */
#define PLACE "/proc"

#define ROOT_OPTIONS "mode=0755,size=64m,nr_inodes=16k"

static const char *const system_paths[] = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64",
	"/libx32", "/opt", "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf",
	"/etc/ld.so.conf.d", "/etc/localtime", "/etc/os-release"};

static const char *const network_paths[] = {"/etc/resolv.conf", "/etc/hosts", "/etc/host.conf",
	"/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols", "/etc/ssl/certs",
	"/etc/ssl/openssl.cnf"};

static const char *const devices[] = {
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"};

struct root {
	const struct workshop_ids *ids;
	int fd;
	uint64_t copied_bytes;
	unsigned copied_entries;
};

static int make_inside(char out[PATH_MAX], const char *path)
{
	int n = snprintf(out, PATH_MAX, PLACE "%s", path);

	return *path != '/' ? -EINVAL : n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

static int make_parent(const char *path)
{
	_cleanup_free_ char *p = strdup(path);
	char *slash = p ? strrchr(p, '/') : NULL;

	if (!slash)
		return -ENOMEM;
	*slash = '\0';
	return file_mkdir_p(p, 0755);
}

static int make_file(const char *path)
{
	int r = make_parent(path),
	    fd = r < 0 ? -1 : open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0)
		return r < 0 ? r : -errno;
	(void)close(fd); /* only a place */
	return 0;
}

static int set_attributes(const char *path, uint64_t set, int flags)
{
	struct attributes a = {.set = set};

	return syscall(NR_MOUNT_SETATTR, AT_FDCWD, path, flags, &a, sizeof(a)) < 0 ? -errno : 0;
}

/* --- what the host has --- */

static int bind_to(const char *path, const struct stat *st, const char *inside, uint64_t attributes)
{
	int r = S_ISDIR(st->st_mode)	    ? file_mkdir_p(inside, 0755)
		: access(inside, F_OK) == 0 ? 0 /* in another directory that is bound */
					    : make_file(inside);

	if (r < 0)
		return r;
	if (mount(path, inside, NULL, MS_BIND | MS_REC, NULL) < 0)
		return -errno;
	return set_attributes(inside, attributes, RECURSIVE);
}

static int copy_link(const char *target, const char *inside)
{
	int r = make_parent(inside);

	if (r < 0)
		return r;
	return symlink(target, inside) < 0 && errno != EEXIST ? -errno : 0;
}

/* Until the root is entered, other links would lead to files of the host. */
static bool is_downward(const char *path, char target[PATH_MAX])
{
	ssize_t n = readlink(path, target, PATH_MAX - 1);

	target[n > 0 ? n : 0] = '\0';
	return n > 0 && *target != '/' && !strstr(target, "..");
}

/* A symbolic link to a directory stays a link if it leads down from its own directory, like /bin.
 * Other links become what they lead to. */
static int bind(const char *path, uint64_t attributes)
{
	char inside[PATH_MAX], target[PATH_MAX];
	struct stat link, st;
	int r = make_inside(inside, path);

	if (r < 0)
		return r;
	if (lstat(path, &link) < 0 || stat(path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISLNK(link.st_mode) && S_ISDIR(st.st_mode) && is_downward(path, target))
		return copy_link(target, inside);
	return bind_to(path, &st, inside, attributes);
}

static int bind_all(const char *const *paths, size_t n, uint64_t attributes, char *where)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		r = bind(paths[i], attributes);
		if (r < 0)
			(void)snprintf(where, WORKSHOP_WHERE_MAX, "%s", paths[i]);
	}
	return r;
}

/* --- copies --- */

static int open_in_root(const struct root *root, const char *path)
{
	const struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
	long fd = syscall(SYS_openat2, root->fd, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

/* Opens a directory of the new root; links in it cannot lead out of the root. Makes missing
 * directories. -EROFS: there is a dangling link. */
static int open_directory(const struct root *root, const char *path)
{
	_cleanup_free_ char *parent = NULL;
	_cleanup_close_ int fd = -1;
	int r = open_in_root(root, path);
	char *slash;

	if (r != -ENOENT)
		return r;
	parent = strdup(path);
	slash = parent ? strrchr(parent, '/') : NULL;
	if (!slash)
		return -ENOMEM; /* all begin with one */
	*slash = '\0';
	fd = open_directory(root, *parent ? parent : "/");
	if (fd < 0)
		return fd;
	if (slash[1] && mkdirat(fd, slash + 1, 0755) < 0 && errno != EEXIST)
		return -errno;
	r = open_in_root(root, path);
	return r == -ENOENT ? -EROFS : r;
}

static int write_file(
	struct root *root, const char *path, const struct stat *st, const char *data, size_t n)
{
	_cleanup_free_ char *parent = strdup(path);
	_cleanup_close_ int dir = -1, fd = -1;
	char *slash = parent ? strrchr(parent, '/') : NULL;
	int r;

	if (!slash)
		return -ENOMEM; /* as above */
	*slash = '\0';
	dir = open_directory(root, *parent ? parent : "/");
	if (dir < 0)
		return dir;
	fd = openat(dir, slash + 1, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : fd_write_full(fd, data, n);
	if (r == 0 && (fchmod(fd, st->st_mode & 0777) < 0 ||
			      fchown(fd, root->ids->uid, root->ids->gid) < 0))
		r = -errno;
	return r;
}

static int copy_file(struct root *root, const char *path, const struct stat *st)
{
	_cleanup_free_ char *data = NULL;
	size_t n = 0;
	int r = file_read(AT_FDCWD, path, WORKSHOP_COPY_BYTES_MAX, &data, &n);

	if (r == -EACCES)
		return 0; /* the caller could not read it either */
	if (r == 0 && (root->copied_bytes += n) > WORKSHOP_COPY_BYTES_MAX)
		r = -EFBIG;
	return r < 0 ? r : write_file(root, path, st, data, n);
}

static int copy(struct root *root, const char *path, int depth);

static int copy_children(struct root *root, const char *path, int depth)
{
	_cleanup_close_ int made = -1;
	DIR *d = opendir(path);
	struct dirent *de;
	int r = 0;

	made = d ? open_directory(root, path) : -errno;
	r = made < 0 ? made : 0;
	while (d && r == 0 && (de = readdir(d))) {
		_cleanup_free_ char *child = str_printf("%s/%s", path, de->d_name);

		if (file_is_dots(de->d_name))
			continue;
		r = child ? copy(root, child, depth + 1) : -ENOMEM;
	}
	if (d)
		(void)closedir(d); /* read-only */
	return r == -EACCES ? 0 : r;
}

/* Follows symbolic links, since the user named the path. */
static int copy(struct root *root, const char *path, int depth)
{
	struct stat st;

	if (depth > WORKSHOP_COPY_DEPTH_MAX || ++root->copied_entries > WORKSHOP_COPY_ENTRIES_MAX)
		return -E2BIG;
	if (stat(path, &st) < 0)
		return errno == ENOENT || errno == EACCES ? 0 : -errno;
	if (S_ISDIR(st.st_mode))
		return copy_children(root, path, depth);
	return S_ISREG(st.st_mode) ? copy_file(root, path, &st) : 0;
}

static int copy_all(struct root *root, const struct workshop_paths *paths, char *where)
{
	int r = 0;

	for (unsigned i = 0; i < paths->count && r == 0; i++) {
		r = copy(root, paths->items[i], 0);
		if (r == -EROFS)
			r = 0; /* it lies in a directory that is bound already */
		if (r < 0)
			(void)snprintf(where, WORKSHOP_WHERE_MAX, "%s", paths->items[i]);
	}
	return r;
}

static int make_copies(struct root *root, const struct workshop *w, char *where)
{
	int r;

	root->fd = open(PLACE, O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = root->fd < 0 ? -errno : copy_all(root, &w->copy, where);
	cleanup_close_p(&root->fd);
	return r;
}

/* --- what only the workshop has --- */

static int mount_tmpfs(const struct root *root, const char *path, const char *options)
{
	char inside[PATH_MAX];
	int r = make_inside(inside, path);

	if (r == 0)
		r = file_mkdir_p(inside, 0755);
	if (r == 0 && mount("none", inside, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
		r = -errno;
	if (r == 0 && lchown(inside, root->ids->uid, root->ids->gid) < 0)
		r = -errno;
	return r;
}

static int make_private(const struct root *root, const struct workshop *w)
{
	int r = mount_tmpfs(root, "/tmp", "mode=1777,size=1g,nr_inodes=256k");

	if (r == 0 && w->home && strcmp(w->home, "/") != 0)
		r = mount_tmpfs(root, w->home, "mode=0700,size=256m,nr_inodes=64k");
	if (r == 0)
		r = mount_tmpfs(root, "/dev/shm", "mode=1777,size=64m,nr_inodes=4k");
	if (r == 0)
		r = file_mkdir_p(PLACE "/var", 0755);
	return r == 0 && symlink("/tmp", PLACE "/var/tmp") < 0 ? -errno : r;
}

static int make_device_links(void)
{
	static const char *const links[][2] = {{"/proc/self/fd", PLACE "/dev/fd"},
		{"/proc/self/fd/0", PLACE "/dev/stdin"}, {"/proc/self/fd/1", PLACE "/dev/stdout"},
		{"/proc/self/fd/2", PLACE "/dev/stderr"}};

	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		if (symlink(links[i][0], links[i][1]) < 0)
			return -errno;
	return 0;
}

/* Makes /etc/passwd and /etc/group with the program's user. For mmdebstrap they are the host's. */
static int make_accounts(const struct workshop *w, const struct workshop_ids *ids)
{
	_cleanup_free_ char *passwd =
		str_printf("root:x:0:0::/:/bin/sh\nbuilder:x:%u:%u::%s:/bin/sh\n",
			(unsigned)ids->inside, (unsigned)ids->inside, w->home ? w->home : "/");
	_cleanup_free_ char *group =
		str_printf("root:x:0:\nbuilder:x:%u:\n", (unsigned)ids->inside);
	int r = passwd && group ? file_mkdir_p(PLACE "/etc", 0755) : -ENOMEM;

	if (r < 0 || w->user == WORKSHOP_ROOT)
		return r;
	r = file_write_atomic(AT_FDCWD, PLACE "/etc/passwd", passwd, strlen(passwd), 0644);
	return r < 0 ? r
		     : file_write_atomic(AT_FDCWD, PLACE "/etc/group", group, strlen(group), 0644);
}

static int make_proc(void)
{
	if (mkdir(PLACE "/proc", 0555) < 0 ||
		mount("proc", PLACE "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return -errno;
	return 0;
}

static int begin(void)
{
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("none", PLACE, "tmpfs", MS_NOSUID | MS_NODEV, ROOT_OPTIONS) < 0)
		return -errno;
	return 0;
}

static int finish(void)
{
	if (chdir(PLACE) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
		umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return -errno;
	return set_attributes("/", ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV, 0);
}

static int bind_host(const struct workshop *w, char *where)
{
	static const uint64_t read_only = ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV;
	int r = bind_all(system_paths, ARRAY_SIZE(system_paths), read_only, where);

	if (r == 0 && w->network)
		r = bind_all(network_paths, ARRAY_SIZE(network_paths), read_only, where);
	if (r == 0)
		r = bind_all(devices, ARRAY_SIZE(devices), ATTR_RDONLY | ATTR_NOSUID, where);
	if (r == 0)
		r = bind_all(w->read.items, w->read.count, read_only, where);
	return r == 0 ? bind_all(w->write.items, w->write.count, ATTR_NOSUID | ATTR_NODEV, where)
		      : r;
}

int workshop_root_enter(
	const struct workshop *w, const struct workshop_ids *ids, char where[WORKSHOP_WHERE_MAX])
{
	struct root root = {.ids = ids, .fd = -1};
	int r;

	(void)snprintf(where, WORKSHOP_WHERE_MAX, "/"); /* fits */
	r = begin();
	if (r == 0)
		r = make_private(&root, w);
	if (r == 0)
		r = make_accounts(w, ids);
	if (r == 0)
		r = bind_host(w, where);
	if (r == 0)
		r = make_copies(&root, w, where);
	if (r == 0)
		r = make_device_links();
	if (r < 0)
		return r;
	(void)snprintf(where, WORKSHOP_WHERE_MAX, "/proc"); /* fits */
	r = make_proc();
	return r < 0 ? r : finish();
}

int workshop_root_close_proc(void)
{
	return set_attributes("/proc", ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV, 0);
}
