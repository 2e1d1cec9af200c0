#include "sandbox/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"

#define LINK "cgroup" /* in the sandbox's directory */
#define MIB  (UINT64_C(1) << 20)

enum {
	FILE_MAX = 16384, /* of a group's files */
	PERIOD_US = 100000,
	SLACK_US = PERIOD_US / 10,
	WEIGHT = 100, /* for each CPU; the kernel's maximum is 10,000 */
	WEIGHT_MAX = 10000,
	TABLES_SHARE =
		64, /* of the memory: 1/512 each for the host's and KVM's page tables, twice */
	GRACE_MS = 200,
	REMOVE_MS = 1000,
	STEP_MS = 2,
};

static int write_number(int dirfd, const char *name, uint64_t n)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, n); /* fits */
	return file_write_text(dirfd, name, text);
}

/* --- limits --- */

/* A partition's limits are its disk's. */
static int read_disk(const char *path, struct cgroup_io *io)
{
	_cleanup_free_ char *text = NULL;
	int r = file_read(AT_FDCWD, path, FILE_MAX, &text, NULL);

	if (r < 0)
		return r;
	return sscanf(text, "%u:%u", &io->major, &io->minor) == 2 ? 0 : -EBADMSG;
}

int cgroup_io_find_disk(int dirfd, struct cgroup_io *io, struct error *e)
{
	char part[96], disk[96];
	struct stat st;
	int r = fstat(dirfd, &st) < 0 ? -errno : 0;

	if (r == 0) {
		(void)snprintf(part, sizeof(part), "/sys/dev/block/%u:%u/partition",
			major(st.st_dev), minor(st.st_dev)); /* fits, as the next ones */
		(void)snprintf(disk, sizeof(disk), "/sys/dev/block/%u:%u/%sdev", major(st.st_dev),
			minor(st.st_dev), access(part, F_OK) == 0 ? "../" : "");
		r = read_disk(disk, io);
	}
	return r < 0 ? error_set(e, ERROR_HOST, -r,
			       "the sandboxes' files are on no disk of which the kernel can limit "
			       "the use: leave out --disk-rate and --disk-ops, or set MAYFLY_RUN "
			       "to a directory on a local disk")
		     : 0;
}

uint64_t cgroup_worker_bytes(uint64_t guest_bytes)
{
	uint64_t n = guest_bytes / 4;

	return n < CGROUP_WORKER_MIN   ? CGROUP_WORKER_MIN
	       : n > CGROUP_WORKER_MAX ? CGROUP_WORKER_MAX
				       : n;
}

/* A worker that is killed ends flows, and not the sandbox. So the kernel does not kill the group as
 * a whole. */
static int set_memory(int fd, uint64_t bytes)
{
	int r = bytes ? write_number(fd, "memory.max",
				bytes + bytes / TABLES_SHARE + CGROUP_MEMORY_BESIDE +
					cgroup_worker_bytes(bytes))
		      : file_write_text(fd, "memory.max", "max");

	/* A kernel without swap has no such file. */
	(void)file_write_text(fd, "memory.swap.max", "0");
	return r == 0 ? file_write_text(fd, "memory.oom.group", "0") : r;
}

/* The kernel refuses a weight for an idle group, and forgets the one that it had. */
int cgroup_set_idle(int cgroup_fd, bool idle, unsigned cpus)
{
	unsigned weight = cpus * WEIGHT > WEIGHT_MAX ? WEIGHT_MAX : cpus * WEIGHT;
	int r = file_write_text(cgroup_fd, "cpu.idle", idle ? "1" : "0");

	if (idle)
		return r;
	return r == 0 || r == -ENOENT ? write_number(cgroup_fd, "cpu.weight", weight) : r;
}

static int set_cpus(int fd, unsigned cpus)
{
	char text[48];
	int r;

	(void)snprintf(
		text, sizeof(text), "%u %d", cpus * PERIOD_US + SLACK_US, PERIOD_US); /* fits */
	r = file_write_text(fd, "cpu.max", text);
	return r == 0 ? cgroup_set_idle(fd, false, cpus) : r;
}

static int set_io(int fd, const struct cgroup_io *io)
{
	char text[160], *p = text, *end = text + sizeof(text);

	if (!io->bytes_per_s && !io->ops_per_s)
		return 0;
	p += snprintf(p, (size_t)(end - p), "%u:%u", io->major, io->minor); /* all fit */
	if (io->bytes_per_s)
		p += snprintf(p, (size_t)(end - p), " rbps=%" PRIu64 " wbps=%" PRIu64,
			io->bytes_per_s, io->bytes_per_s);
	if (io->ops_per_s)
		(void)snprintf(p, (size_t)(end - p), " riops=%" PRIu64 " wiops=%" PRIu64,
			io->ops_per_s, io->ops_per_s);
	return file_write_text(fd, "io.max", text);
}

int cgroup_set_limits(int cgroup_fd, const struct cgroup_limits *l, struct error *e)
{
	int r = set_memory(cgroup_fd, l->memory_bytes);

	if (r == 0)
		r = set_cpus(cgroup_fd, l->cpus);
	if (r == 0)
		r = write_number(
			cgroup_fd, "pids.max", l->cpus + CGROUP_THREADS + CGROUP_WORKER_THREADS);
	if (r == 0)
		r = set_io(cgroup_fd, &l->io);
	return r < 0 ? error_set_errno(
			       e, ERROR_HOST, -r, "cannot set the limits of the sandbox's cgroup")
		     : 0;
}

/* --- making and removing --- */

static int make_directory(const struct cgroup_tree *t, const char *id, struct error *e)
{
	int r = mkdirat(t->fd, id, 0755) < 0 ? -errno : 0, fd;

	if (r == -EAGAIN) /* cgroup.max.descendants */
		return error_set(e, ERROR_TOO_MANY, EAGAIN,
			"%s has as many groups as it may: end sandboxes, or raise "
			"cgroup.max.descendants",
			t->path);
	if (r < 0)
		return error_set_errno(
			e, ERROR_HOST, -r, "cannot make the sandbox's cgroup in %s", t->path);
	fd = openat(t->fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? error_set_errno(e, ERROR_HOST, errno, "the cgroup %s/%s", t->path, id) : fd;
}

int cgroup_make(const struct cgroup_tree *t, const char *id, int dirfd,
	const struct cgroup_limits *l, struct error *e)
{
	_cleanup_free_ char *path = str_printf("%s/%s", t->path, id);
	_cleanup_close_ int fd = -1;
	int r;

	if (!path)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	if (symlinkat(path, dirfd, LINK) < 0)
		return error_set_errno(e, errno == ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL, errno,
			"cannot write into the sandbox's directory");
	fd = make_directory(t, id, e);
	r = fd < 0 ? fd : cgroup_set_limits(fd, l, e);
	return r < 0 ? r : TAKE_FD(fd);
}

/* Opens the directory above the group and checks that the link names a group of this sandbox. */
static int open_parent(int dirfd, const char *id)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX], *slash;
	struct statfs s;
	ssize_t n = readlinkat(dirfd, LINK, path, sizeof(path) - 1);

	if (n < 0)
		return errno == EINVAL ? -EBADMSG : -errno; /* EINVAL: it is no link */
	path[n] = '\0';
	slash = strrchr(path, '/');
	if (!slash || slash == path || strcmp(slash + 1, id) != 0)
		return -EBADMSG;
	*slash = '\0';
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstatfs(fd, &s) < 0 || s.f_type != CGROUP2_SUPER_MAGIC)
		return -EBADMSG;
	return TAKE_FD(fd);
}

static int open_group(int parent_fd, const char *id)
{
	int fd = openat(parent_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int cgroup_open(int dirfd, const char *id)
{
	_cleanup_close_ int parent_fd = open_parent(dirfd, id);

	return parent_fd < 0 ? parent_fd : open_group(parent_fd, id);
}

char *cgroup_path(int dirfd, const char *id)
{
	_cleanup_close_ int fd = cgroup_open(dirfd, id);
	char path[PATH_MAX];
	ssize_t n = fd < 0 ? -1 : readlinkat(dirfd, LINK, path, sizeof(path));

	return n < 0 ? NULL : strndup(path, (size_t)n);
}

/* Before Linux 5.14. */
static void kill_listed(int fd)
{
	_cleanup_free_ char *list = NULL;
	char *next, *line;

	if (file_read(fd, "cgroup.procs", FILE_MAX, &list, NULL) < 0)
		return;
	for (line = strtok_r(list, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
		int pid = atoi(line);

		if (pid > 1)			  /* 0: of another pid namespace */
			(void)kill(pid, SIGKILL); /* it is in the group, or has just ended */
	}
}

static void kill_all(int parent_fd, const char *id)
{
	_cleanup_close_ int fd = open_group(parent_fd, id);

	if (fd >= 0 && file_write_text(fd, "cgroup.kill", "1") < 0)
		kill_listed(fd);
}

int cgroup_remove_at(int parent_fd, const char *id, unsigned wait_ms)
{
	static const struct timespec step = {.tv_nsec = STEP_MS * (long)NS_PER_MS};
	uint64_t end = clock_monotonic_ns() + wait_ms * NS_PER_MS;

	for (bool killed = false;; killed = true) {
		if (unlinkat(parent_fd, id, AT_REMOVEDIR) == 0)
			return 0;
		if (errno != EBUSY)
			return -errno;
		if (!killed)
			kill_all(parent_fd, id);
		if (clock_monotonic_ns() >= end)
			return -EBUSY;
		(void)nanosleep(&step, NULL); /* a shorter sleep is fine */
	}
}

static void await_ends(int parent_fd, const char *id)
{
	static const struct timespec step = {.tv_nsec = STEP_MS * (long)NS_PER_MS};
	uint64_t end = clock_monotonic_ns() + GRACE_MS * NS_PER_MS;

	while (unlinkat(parent_fd, id, AT_REMOVEDIR) < 0 && errno == EBUSY &&
		clock_monotonic_ns() < end)
		(void)nanosleep(&step, NULL); /* a shorter sleep is fine */
}

int cgroup_remove(int dirfd, const char *id)
{
	_cleanup_close_ int parent_fd = open_parent(dirfd, id);
	int r;

	if (parent_fd < 0)
		return parent_fd;
	if (faccessat(parent_fd, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	await_ends(parent_fd, id);
	r = cgroup_remove_at(parent_fd, id, REMOVE_MS);
	return r == -ENOENT ? 0 : r; /* it was removed meanwhile */
}

/* --- what it says --- */

/* The number behind `key` in lines "key number"; 0 when there is none. */
static uint64_t number_of(const char *text, const char *key)
{
	size_t n = strlen(key);

	for (const char *p = text; *p;) {
		if (strncmp(p, key, n) == 0 && p[n] == ' ')
			return strtoull(p + n + 1, NULL, 10);
		p += strcspn(p, "\n");
		p += *p == '\n';
	}
	return 0;
}

static uint64_t read_key(int fd, const char *name, const char *key)
{
	_cleanup_free_ char *text = NULL;

	return file_read(fd, name, FILE_MAX, &text, NULL) < 0 ? 0 : number_of(text, key);
}

static uint64_t read_number(int fd, const char *name)
{
	_cleanup_free_ char *text = NULL;

	return file_read(fd, name, FILE_MAX, &text, NULL) < 0 ? 0 : strtoull(text, NULL, 10);
}

void cgroup_read_usage(int cgroup_fd, struct cgroup_usage *ret)
{
	*ret = (struct cgroup_usage){
		.memory_bytes = read_number(cgroup_fd, "memory.current"),
		.oom_kills = read_key(cgroup_fd, "memory.events", "oom_kill"),
		.throttled = read_key(cgroup_fd, "cpu.stat", "nr_throttled"),
		.throttled_us = read_key(cgroup_fd, "cpu.stat", "throttled_usec"),
	};
}

void cgroup_tree_read(const struct cgroup_tree *t, struct cgroup_totals *ret)
{
	*ret = (struct cgroup_totals){0};
	if (!t)
		return;
	ret->groups = read_key(t->fd, "cgroup.stat", "nr_descendants");
	ret->memory_bytes = read_number(t->fd, "memory.current");
	ret->oom_kills = read_key(t->fd, "memory.events", "oom_kill");
}

bool cgroup_explain_end(int dirfd, const char *id, struct error *e)
{
	_cleanup_close_ int fd = cgroup_open(dirfd, id);

	if (fd < 0 || read_key(fd, "memory.events", "oom_kill") == 0)
		return false;
	if (read_key(fd, "memory.events", "oom") == 0)
		(void)error_set(e, ERROR_SANDBOX, ENOMEM,
			"the sandbox's process was killed because the host ran out of memory: run "
			"fewer or smaller sandboxes (mayfly serve --memory-limit)");
	else
		(void)error_set(e, ERROR_SANDBOX, ENOMEM,
			"the sandbox's process was killed because its memory limit of %" PRIu64
			" MiB was reached (the guest's memory and what is beside it): make it with "
			"more memory",
			read_number(fd, "memory.max") / MIB); /* only to fill e */
	return true;
}
