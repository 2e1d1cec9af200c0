#include "sandbox/sandbox_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"
#include "sandbox/cgroup.h"
#include "sandbox/host.h"
#include "sandbox/launch.h"
#include "sandbox/vmm_request.h"

#define RECORD	   "sandbox.json"
#define FULL_BYTES (UINT64_C(1) << 20) /* a disk with less free space counts as full */

enum {
	ID_TRIES = 8,
	QUIT_MS = 2000, /* for a microVM to end when asked to */
	KILL_MS = 5000, /* for a killed process to be gone */
	OWNER_MS = 500, /* for the owner to remove the directory */
	STEP_MS = 5,
	STAT_MAX = 1024,
	STAT_START = 22, /* field of /proc/PID/stat */
};

/* --- the directories --- */

static char *run_path(const char *home)
{
	const char *given = getenv("MAYFLY_RUN");
	char cwd[4096];

	if (!given || !*given)
		return str_printf("%s/sandboxes", home);
	if (*given == '/')
		return strdup(given);
	return getcwd(cwd, sizeof(cwd)) ? str_printf("%s/%s", cwd, given) : NULL;
}

int sandbox_dirs_open(const char *home, struct sandbox_dirs *ret, struct error *e)
{
	struct sandbox_dirs d = SANDBOX_DIRS_INIT;
	int r;

	d.path = run_path(home);
	r = d.path ? file_mkdir_p(d.path, 0700) : -ENOMEM;
	if (r == 0) {
		d.fd = open(d.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = d.fd < 0 ? -errno : 0;
	}
	if (r < 0) {
		(void)error_set(e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, -r,
			"cannot use the directory of sandboxes %s (%s): set MAYFLY_RUN to a "
			"directory "
			"you can write",
			d.path ? d.path : "", strerror(-r));
		sandbox_dirs_close(&d);
		return r;
	}
	*ret = d;
	return 0;
}

void sandbox_dirs_close(struct sandbox_dirs *d)
{
	if (d->fd >= 0)
		(void)close(d->fd); /* a directory */
	d->fd = -1;
	free(d->path);
	d->path = NULL;
}

int sandbox_dirs_check_room(const struct sandbox_dirs *d, struct error *e)
{
	return host_check_disk(d->fd, d->path, FULL_BYTES, e);
}

static bool is_id(const char *name)
{
	return name[0] == 'i' && strlen(name) == SANDBOX_ID_BYTES - 1 &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789") == SANDBOX_ID_BYTES - 1;
}

static int make_one(const struct sandbox_dirs *d, const char *id)
{
	return mkdirat(d->fd, id, 0700) < 0 ? -errno : 0;
}

static int make_new(const struct sandbox_dirs *d, char id[SANDBOX_ID_BYTES])
{
	int r = -EEXIST;

	id[0] = 'i';
	for (int i = 0; r == -EEXIST && i < ID_TRIES; i++) {
		r = str_random_id(id + 1, SANDBOX_ID_BYTES - 1);
		if (r == 0)
			r = make_one(d, id);
	}
	return r;
}

static int open_new(const struct sandbox_dirs *d, const char *id, int *ret_fd)
{
	_cleanup_close_ int fd = openat(d->fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = fd < 0 ? -errno : fd_is_scarce(fd) ? -EMFILE : 0;

	if (r < 0)
		(void)unlinkat(d->fd, id, AT_REMOVEDIR); /* else collected as garbage */
	else
		*ret_fd = TAKE_FD(fd);
	return r;
}

int sandbox_dirs_make(
	const struct sandbox_dirs *d, char id[SANDBOX_ID_BYTES], int *ret_fd, struct error *e)
{
	int r = *id ? make_one(d, id) : make_new(d, id);

	if (r == 0)
		r = open_new(d, id, ret_fd);
	if (r < 0)
		return error_set_errno(e,
			r == -ENOSPC || r == -EMFILE ? ERROR_NO_SPACE : ERROR_HOST, -r,
			"cannot make the sandbox's directory in %s", d->path);
	return 0;
}

static int open_sandbox(const struct sandbox_dirs *d, const char *id)
{
	int fd = openat(d->fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* --- control groups --- */

/* What a sandbox writes to a tmpfs counts as its memory, and cannot be taken back. */
static struct cgroup_limits limits_of(
	const struct sandbox_dirs *d, unsigned cpus, uint64_t memory_bytes)
{
	struct cgroup_limits l = {.cpus = cpus, .io = d->cgroups->io_max};
	struct statfs s;

	if (fstatfs(d->fd, &s) < 0 || s.f_type != TMPFS_MAGIC)
		l.memory_bytes = memory_bytes;
	return l;
}

int sandbox_dirs_make_cgroup(const struct sandbox_dirs *d, const char *id, int dirfd, unsigned cpus,
	uint64_t memory_bytes, int *ret_fd, struct error *e)
{
	struct cgroup_limits l;
	int r;

	*ret_fd = -1;
	if (!d->cgroups)
		return 0;
	l = limits_of(d, cpus, memory_bytes);
	r = cgroup_make(d->cgroups, id, dirfd, &l, e);
	if (r >= 0)
		*ret_fd = r;
	return r < 0 ? r : 0;
}

int sandbox_dirs_renew_cgroup(const struct sandbox_dirs *d, const char *id, int dirfd,
	unsigned cpus, uint64_t memory_bytes, struct error *e)
{
	_cleanup_close_ int fd = d->cgroups ? cgroup_open(dirfd, id) : -ENOENT;
	struct cgroup_limits l;

	if (fd < 0)
		return 0;
	l = limits_of(d, cpus, memory_bytes);
	return cgroup_set_limits(fd, &l, e);
}

static bool is_group_gone(const struct sandbox_dirs *d, const char *id)
{
	_cleanup_close_ int fd = open_sandbox(d, id);

	return fd < 0 || cgroup_remove(fd, id) != -EBUSY;
}

void sandbox_dirs_remove(const struct sandbox_dirs *d, const char *id)
{
	if (!is_group_gone(d, id))
		return;
	/* the next sandbox_dirs_collect removes what is left */
	(void)file_remove_tree(d->fd, id);
}

int sandbox_open_dir(const struct sandbox_dirs *d, const char *id, struct error *e)
{
	int fd = open_sandbox(d, id);

	if (fd == -ENOENT)
		return error_set(e, ERROR_NOT_FOUND, ENOENT, "no sandbox %s: see mayfly ps", id);
	if (fd < 0)
		return error_set_errno(e, ERROR_INTERNAL, -fd, "sandbox %s", id);
	return fd;
}

static bool is_garbage(const struct sandbox_dirs *d, const char *id)
{
	_cleanup_close_ int fd = open_sandbox(d, id);
	struct stat st;

	if (fd < 0 || vmm_dir_is_live(fd) != 0 || fstat(fd, &st) < 0)
		return false;
	return st.st_mtime + SANDBOX_GRACE_S < time(NULL);
}

void sandbox_dirs_collect(const struct sandbox_dirs *d)
{
	DIR *dir = file_open_dir(d->fd, ".");
	struct dirent *de;

	while (dir && (de = readdir(dir)))
		if (is_id(de->d_name) && is_garbage(d, de->d_name))
			sandbox_dirs_remove(d, de->d_name);
	if (dir)
		(void)closedir(dir); /* read-only */
}

/* --- processes --- */

uint64_t process_start_ticks(pid_t pid)
{
	_cleanup_free_ char *path = str_printf("/proc/%d/stat", (int)pid);
	_cleanup_free_ char *text = NULL;
	char *p;

	if (pid <= 0 || !path || file_read(AT_FDCWD, path, STAT_MAX, &text, NULL) < 0)
		return 0;
	p = strrchr(text, ')'); /* the end of field 2, a name of any characters */
	for (int field = 2; p && field < STAT_START; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p + 1, NULL, 10) : 0;
}

uint64_t process_cpu_ns(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
		return 0;
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* --- records --- */

void sandbox_record_done(struct sandbox_record *r)
{
	free(r->template);
	free(r->command);
	json_decref(r->metadata);
	*r = (struct sandbox_record){0};
}

/* Makes a JSON string of any bytes. What is not UTF-8 is replaced. */
static json_t *text_json(const char *s)
{
	json_t *text = json_string(s);
	_cleanup_free_ char *ascii = text ? NULL : strdup(s);

	for (char *p = ascii; p && *p; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	return text ? text : ascii ? json_string(ascii) : NULL;
}

static json_t *record_to_json(const struct sandbox_record *r)
{
	return json_pack("{s:s, s:o*, s:o*, s:I, s:i, s:I, s:I, s:i, s:i, s:I, s:s, s:O*, s:b}",
		"id", r->id, "template", r->template ? text_json(r->template) : NULL, "command",
		r->command ? text_json(r->command) : NULL, "created_ns", (json_int_t)r->created_ns,
		"cpus", (int)r->cpus, "memory_bytes", (json_int_t)r->memory_bytes, "disk_bytes",
		(json_int_t)r->disk_bytes, "owner_pid", (int)r->owner_pid, "vmm_pid",
		(int)r->vmm_pid, "vmm_start",
		(json_int_t)(r->vmm_start ? r->vmm_start : process_start_ticks(r->vmm_pid)), "jail",
		jail_kind_name(r->jail), "metadata", r->metadata, "hidden", r->hidden);
}

static int replace_file(int dirfd, const char *name, const char *text)
{
	static const char tmp[] = ".tmp-" RECORD; /* only the owner writes */
	_cleanup_close_ int fd = -1;
	int r;

	(void)unlinkat(dirfd, tmp, 0); /* of an owner that was killed */
	fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = fd_write_full(fd, text, strlen(text));
	if (r == 0 && renameat(dirfd, tmp, dirfd, name) < 0)
		r = -errno;
	return r;
}

int sandbox_record_write(int dirfd, const struct sandbox_record *r, struct error *e)
{
	json_t *root = record_to_json(r);
	_cleanup_free_ char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
	int err;

	json_decref(root);
	if (!text)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	err = replace_file(dirfd, RECORD, text);
	if (err < 0)
		return error_set_errno(e, err == -ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL, -err,
			"cannot write the record of sandbox %s", r->id);
	return 0;
}

static char *take_text(const json_t *root, const char *key)
{
	const char *s = json_string_value(json_object_get(root, key));

	return s ? strdup(s) : NULL;
}

static uint64_t take_number(const json_t *root, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(root, key));

	return v > 0 ? (uint64_t)v : 0;
}

static enum jail_kind take_jail(const json_t *root)
{
	const char *name = json_string_value(json_object_get(root, "jail"));
	int kind = name ? jail_kind_parse(name) : -ENOENT;

	return kind < 0 ? JAIL_OFF : (enum jail_kind)kind;
}

int sandbox_record_read(int dirfd, const char *id, struct sandbox_record *ret, struct error *e)
{
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	json_t *root;
	int r = file_read_foreign(dirfd, RECORD, SANDBOX_RECORD_MAX, &text, &len);

	if (r < 0)
		return error_set_errno(e, r == -ENOENT ? ERROR_NOT_FOUND : ERROR_INTERNAL, -r,
			"record of sandbox %s", id);
	root = json_loadb(text, len, 0, NULL);
	if (!json_is_object(root)) {
		json_decref(root);
		return error_set(
			e, ERROR_INTERNAL, EBADMSG, "the record of sandbox %s is damaged", id);
	}
	*ret = (struct sandbox_record){
		.template = take_text(root, "template"),
		.command = take_text(root, "command"),
		.created_ns = take_number(root, "created_ns"),
		.cpus = (unsigned)take_number(root, "cpus"),
		.memory_bytes = take_number(root, "memory_bytes"),
		.disk_bytes = take_number(root, "disk_bytes"),
		.owner_pid = (pid_t)take_number(root, "owner_pid"),
		.vmm_pid = (pid_t)take_number(root, "vmm_pid"),
		.vmm_start = take_number(root, "vmm_start"),
		.jail = take_jail(root),
		.metadata = json_incref(json_object_get(root, "metadata")),
		.hidden = json_is_true(json_object_get(root, "hidden")),
	};
	(void)snprintf(ret->id, sizeof(ret->id), "%s", id); /* an id, so it fits */
	json_decref(root);
	return 0;
}

/* --- lists --- */

static int add_running(
	const struct sandbox_dirs *d, const char *id, struct sandbox_record **list, size_t *count)
{
	_cleanup_close_ int fd = open_sandbox(d, id);
	struct sandbox_record *p, one = {0};

	if (fd < 0 || vmm_dir_is_live(fd) != 1)
		return 0; /* gone or about to go */
	if (sandbox_record_read(fd, id, &one, NULL) < 0)
		return 0; /* being made: its owner writes the record last */
	if (one.hidden) {
		sandbox_record_done(&one);
		return 0;
	}
	p = realloc(*list, (*count + 1) * sizeof(*p));
	if (!p) {
		sandbox_record_done(&one);
		return -ENOMEM;
	}
	*list = p;
	p[(*count)++] = one;
	return 0;
}

static int older_first(const void *a, const void *b)
{
	const struct sandbox_record *x = a, *y = b;

	if (x->created_ns != y->created_ns)
		return x->created_ns < y->created_ns ? -1 : 1;
	return strcmp(x->id, y->id);
}

int sandbox_list(const struct sandbox_dirs *d, struct sandbox_record **ret, size_t *ret_count,
	struct error *e)
{
	struct sandbox_record *list = NULL;
	size_t count = 0;
	DIR *dir = file_open_dir(d->fd, ".");
	struct dirent *de;
	int r = 0;

	if (!dir)
		return error_set_errno(e, ERROR_INTERNAL, errno, "cannot read %s", d->path);
	while (r == 0 && (de = readdir(dir)))
		if (is_id(de->d_name))
			r = add_running(d, de->d_name, &list, &count);
	(void)closedir(dir); /* read-only */
	if (r < 0) {
		sandbox_list_free(list, count);
		return error_set(e, ERROR_INTERNAL, -r, "out of memory");
	}
	if (count)
		qsort(list, count, sizeof(*list), older_first);
	*ret = list;
	*ret_count = count;
	return 0;
}

void sandbox_list_free(struct sandbox_record *records, size_t count)
{
	for (size_t i = 0; i < count; i++)
		sandbox_record_done(&records[i]);
	free(records);
}

/* --- ending --- */

static void sleep_ms(long ms)
{
	struct timespec t = {.tv_nsec = ms * (long)NS_PER_MS};

	(void)nanosleep(&t, NULL); /* a shorter sleep is fine */
}

/* True if the process of the record lives, and no later one with its number. We wrote both down
 * when we started it. */
static bool is_vmm(const struct sandbox_record *r)
{
	return r->vmm_pid > 0 && r->vmm_start && process_start_ticks(r->vmm_pid) == r->vmm_start;
}

/* Waits until the lock is free. A stopped owner may still hold its share of the lock, so the end of
 * the process counts, too. */
static bool wait_ended(int dirfd, const struct sandbox_record *r, unsigned ms)
{
	uint64_t end = clock_monotonic_ns() + ms * NS_PER_MS;

	while (vmm_dir_is_live(dirfd) == 1 && (r->vmm_pid == 0 || !r->vmm_start || is_vmm(r))) {
		if (clock_monotonic_ns() > end)
			return false;
		sleep_ms(STEP_MS);
	}
	return true;
}

/* Kills the process of the record. The descriptor pins the process, so its number cannot be reused
 * between the check and the signal. */
static void kill_vmm(const struct sandbox_record *r)
{
	_cleanup_close_ int pid_fd =
		r->vmm_pid > 0 ? (int)syscall(SYS_pidfd_open, r->vmm_pid, 0) : -1;

	if (pid_fd >= 0 && is_vmm(r))
		/* it may have ended meanwhile; the caller waits for the lock anyway */
		(void)syscall(SYS_pidfd_send_signal, pid_fd, SIGKILL, NULL, 0);
}

static bool is_gone(const struct sandbox_dirs *d, const char *id, unsigned ms)
{
	uint64_t end = clock_monotonic_ns() + ms * NS_PER_MS;

	while (faccessat(d->fd, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		if (clock_monotonic_ns() > end)
			return false;
		sleep_ms(STEP_MS);
	}
	return true;
}

int sandbox_kill(const struct sandbox_dirs *d, const char *id, struct error *e)
{
	_cleanup_close_ int fd = sandbox_open_dir(d, id, e);
	struct sandbox_record record = {0};

	if (fd < 0)
		return fd;
	(void)sandbox_record_read(fd, id, &record, NULL); /* without it, the sandbox can only be
							   * asked to end */
	/* a microVM that does not answer is killed below */
	(void)vmm_request(fd, "quit", NULL, 0, NULL);
	if (!wait_ended(fd, &record, QUIT_MS)) {
		kill_vmm(&record);
		if (!wait_ended(fd, &record, KILL_MS)) {
			int pid = (int)record.vmm_pid;

			sandbox_record_done(&record);
			return error_set(e, ERROR_SANDBOX, ETIMEDOUT,
				"sandbox %s does not end: its process %d hangs in the kernel", id,
				pid);
		}
	}
	kill_vmm(&record); /* a process that released the lock but goes on */
	sandbox_record_done(&record);
	if (!is_gone(d, id, OWNER_MS))
		sandbox_dirs_remove(d, id);
	return 0;
}
