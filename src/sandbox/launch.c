#include "sandbox/launch.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"
#include "io/program.h"
#include "sandbox/host_cpu.h"
#include "vmm/control.h"
#include "vmm/kvm.h"
#include "vmm/snapshot_files.h"

enum {
	ARGS_MAX = 64,
	FDS_MAX = 80,
	VSOCK_BACKLOG = 4096, /* as in the agent */
	CONTROL_BACKLOG = 16,
	STOP_MS = 1000,
	DEATH_MS = 200, /* from the end of its channel until waitpid succeeds */
	ENVIRONMENT_MAX = 4,
	REQUEST_MS = 600 * 1000
};

struct vmm {
	pid_t pid; /* 0 after waitpid */
	int owner_fd;
	int lock_fd; /* our share of the directory's lock */
	bool ended;
	bool writable[VMM_DISKS_MAX];	   /* disks that have a delta */
	char pending[CONTROL_MESSAGE_MAX]; /* an event that came while waiting for a reply */
};

/* mayfly-vmm's command line and the descriptors that it inherits. */
struct command {
	char *argv[ARGS_MAX + 1];
	unsigned argc;
	int fds[FDS_MAX]; /* owned */
	unsigned fd_count;
	int err; /* sticky */
};

static void command_done(struct command *c)
{
	for (unsigned i = 0; i < c->argc; i++)
		free(c->argv[i]);
	for (unsigned i = 0; i < c->fd_count; i++)
		(void)close(c->fds[i]); /* the child has its own */
}

static void add_arg(struct command *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add_arg(struct command *c, const char *fmt, ...)
{
	va_list ap;
	char *s = NULL;
	int r;

	va_start(ap, fmt);
	r = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (r < 0 || c->argc == ARGS_MAX) {
		free(r < 0 ? NULL : s);
		c->err = -ENOMEM;
		return;
	}
	c->argv[c->argc++] = s;
}

/* Takes fd over for the child. If fd cannot be kept, it is closed and the command marked bad. */
static int pass_fd(struct command *c, int fd)
{
	if (c->fd_count == FDS_MAX) {
		(void)close(fd); /* never used */
		c->err = -E2BIG;
		return -1;
	}
	c->fds[c->fd_count++] = fd;
	return fd;
}

/* Opens a file that a microVM wrote and that others stand on: see file_open_foreign. */
static int open_file(int dirfd, const char *path, int flags)
{
	_cleanup_close_ int made = -1;

	if (flags & O_CREAT) { /* O_EXCL does not follow links either */
		made = openat(dirfd, path, flags | O_EXCL | O_CLOEXEC, 0600);
		if (made >= 0 || errno != EEXIST)
			return made < 0 ? -errno : TAKE_FD(made);
	}
	return file_open_foreign(dirfd, path, flags & ~O_CREAT, VMM_FILE_MAX);
}

static int pass_file(struct command *c, int dirfd, const char *path, int flags, struct error *e)
{
	int fd = open_file(dirfd, path, flags);

	if (fd < 0)
		return error_set_errno(e,
			fd == -ENOSPC || fd == -EDQUOT ? ERROR_NO_SPACE
			: fd == -ENOENT		       ? ERROR_NOT_FOUND
						       : ERROR_BAD_SNAPSHOT,
			-fd, "cannot open %s", path);
	return pass_fd(c, fd);
}

static int add_disk(struct command *c, int dirfd, const struct vmm_disk *d, struct error *e)
{
	char spec[512];
	int n, fd = pass_file(c, AT_FDCWD, d->base, O_RDONLY, e);

	if (fd < 0)
		return fd;
	n = snprintf(spec, sizeof(spec), "base=%d", fd);
	for (unsigned i = 0; i < d->layer_count; i++) {
		fd = pass_file(c, AT_FDCWD, d->layers[i], O_RDONLY, e);
		if (fd < 0)
			return fd;
		n += snprintf(spec + n, sizeof(spec) - (size_t)n, ",layer=%d", fd);
	}
	if (d->delta) {
		fd = pass_file(c, dirfd, d->delta, O_RDWR | O_CREAT, e);
		if (fd < 0)
			return fd;
		n += snprintf(spec + n, sizeof(spec) - (size_t)n, ",delta=%d", fd);
	}
	if (d->bytes)
		(void)snprintf(spec + n, sizeof(spec) - (size_t)n, ",bytes=%llu",
			(unsigned long long)d->bytes); /* 16 layers of 12 characters fit */
	add_arg(c, "--disk=%s", spec);
	return 0;
}

/* Opens one file of a snapshot and passes it as the option's descriptor. name is relative to
 * dirfd. */
static int add_file(
	struct command *c, const char *option, int dirfd, const char *name, struct error *e)
{
	int fd = pass_file(c, dirfd, name, O_RDONLY, e);

	if (fd >= 0)
		add_arg(c, "--%s=%d", option, fd);
	return fd < 0 ? fd : 0;
}

static int add_snapshot(struct command *c, const struct vmm_launch *l, struct error *e)
{
	_cleanup_close_ int dirfd = open(l->snapshot, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const char *memory = l->memory ? l->memory : "memory", *hot = l->hot ? l->hot : "hot";
	int r;

	if (dirfd < 0)
		return error_set_errno(
			e, ERROR_NOT_FOUND, errno, "cannot open the snapshot %s", l->snapshot);
	if (l->layer_count > VMM_LAYERS_MAX)
		return error_set(
			e, ERROR_LIMIT, EINVAL, "more than %d memory layers", VMM_LAYERS_MAX);
	r = add_file(c, "state-fd", dirfd, "state", e);
	if (r == 0)
		r = add_file(c, "memory-fd", dirfd, memory, e);
	for (unsigned i = 0; i < l->layer_count && r == 0; i++)
		r = add_file(c, "layer-fd", dirfd, l->layers[i], e);
	if (r == 0 && faccessat(dirfd, hot, R_OK, 0) == 0) /* only a hint */
		r = add_file(c, "hot-fd", dirfd, hot, e);
	if (l->check_layers)
		add_arg(c, "--check-layers");
	add_arg(c, "--host-cpu=%" PRIu64, host_cpu_hash());
	if (l->rehearse)
		add_arg(c, "--rehearse");
	return r;
}

static int add_source(struct command *c, const struct vmm_launch *l, struct error *e)
{
	int r;

	if (l->snapshot)
		return add_snapshot(c, l, e);
	r = add_file(c, "kernel-fd", AT_FDCWD, l->kernel, e);
	if (r == 0 && l->initrd)
		r = add_file(c, "initrd-fd", AT_FDCWD, l->initrd, e);
	if (r == 0 && l->cpu_baseline)
		r = add_file(c, "baseline-fd", AT_FDCWD, l->cpu_baseline, e);
	add_arg(c, "--cmdline=%s", l->cmdline);
	add_arg(c, "--cpus=%u", l->cpus);
	add_arg(c, "--memory-bytes=%llu", (unsigned long long)l->memory_bytes);
	return r;
}

static int add_sockets(struct command *c, int dirfd, struct error *e)
{
	int vsock = fd_unix_listen(dirfd, "vsock.sock", SOCK_STREAM, VSOCK_BACKLOG);
	int control;

	if (vsock < 0)
		return error_set_errno(e, ERROR_INTERNAL, -vsock, "cannot create vsock.sock");
	add_arg(c, "--vsock-fd=%d", pass_fd(c, vsock));
	control = fd_unix_listen(dirfd, "control.sock", SOCK_SEQPACKET, CONTROL_BACKLOG);
	if (control < 0)
		return error_set_errno(e, ERROR_INTERNAL, -control, "cannot create control.sock");
	add_arg(c, "--control-fd=%d", pass_fd(c, control));
	return 0;
}

/* Descriptors 0-2 are the child's standard streams, so ours must lie above. */
static int above_standard(int fd)
{
	int r;

	if (fd < 0 || fd > 2)
		return fd;
	r = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	(void)close(fd); /* duplicated */
	return r;
}

/* Passes what the process would otherwise open by path. */
static int add_host(struct command *c, int dirfd, struct error *e)
{
	int kvm = above_standard(kvm_open(e)), proc, console;

	if (kvm < 0)
		return kvm;
	add_arg(c, "--kvm-fd=%d", pass_fd(c, kvm));
	proc = above_standard(open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC));
	if (proc < 0)
		return error_set_errno(e, ERROR_HOST, errno, "cannot open /proc");
	add_arg(c, "--proc-fd=%d", pass_fd(c, proc));
	console = pass_file(c, dirfd, "console.log", O_RDWR | O_CREAT, e);
	if (console >= 0)
		add_arg(c, "--console-fd=%d", console);
	return console < 0 ? console : 0;
}

static int build_command(
	struct command *c, const struct vmm_launch *l, int dirfd, int owner_fd, struct error *e)
{
	int r;

	add_arg(c, "mayfly-vmm");
	add_arg(c, "--owner-fd=%d", owner_fd);
	r = add_host(c, dirfd, e);
	if (r == 0)
		r = add_sockets(c, dirfd, e);
	if (r == 0)
		r = add_source(c, l, e);
	for (unsigned i = 0; i < l->disk_count && r == 0; i++)
		r = add_disk(c, dirfd, &l->disks[i], e);
	if (l->paused)
		add_arg(c, "--paused");
	if (l->keep)
		add_arg(c, "--keep");
	if (r == 0 && c->err)
		r = error_set_errno(
			e, ERROR_INTERNAL, -c->err, "cannot build the VMM's command line");
	return r;
}

static int take_lock(int dirfd, struct error *e)
{
	_cleanup_close_ int fd = open_file(dirfd, "lock", O_RDWR | O_CREAT);

	if (fd < 0)
		return error_set_errno(e, fd == -ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL, -fd,
			"cannot create the sandbox's lock");
	/* Blocks: someone who only checks the lock holds it for a moment. */
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return error_set_errno(e, ERROR_INTERNAL, errno, "cannot lock the sandbox");
	return TAKE_FD(fd);
}

/* The microVM gets from our environment only its log level and, in test builds, its fault
 * points. */
static void pick_environment(char *env[], unsigned max)
{
	static const char *const names[] = {"MAYFLY_LOG=", "MAYFLY_FAULT="};
	unsigned n = 0;

	for (char **p = environ; p && *p; p++)
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			if (str_starts_with(*p, names[i]) && n + 1 < max)
				env[n++] = *p;
	env[n] = NULL;
}

/* Makes the child inherit the command's descriptors and no others, whatever we inherited. */
static void keep_descriptors(void)
{
	/* Before Linux 5.11 the child also gets those that we inherited. */
	(void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
}

static int spawn(const char *path, struct command *c, int log_fd, pid_t *ret)
{
	char *env[ENVIRONMENT_MAX];
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	/* Its own process group: Ctrl-C at the terminal is for the owner to handle. */
	r = posix_spawnattr_setflags(
		&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	r = r ? r : posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, 0, 1);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, log_fd, 2);
	for (unsigned i = 0; i < c->fd_count; i++) /* onto itself: clears close-on-exec */
		r = r ? r : posix_spawn_file_actions_adddup2(&actions, c->fds[i], c->fds[i]);
	c->argv[c->argc] = NULL;
	pick_environment(env, ARRAY_SIZE(env));
	keep_descriptors();
	if (r == 0)
		r = posix_spawn(ret, path, &actions, &attr, c->argv, env);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	return -r;
}

static int start(const struct vmm_launch *l, struct vmm *v, struct command *c, struct error *e)
{
	_cleanup_close_ int log_fd = -1;
	_cleanup_close_ int dirfd = -1;
	char path[PATH_MAX];
	int pair[2], r;

	dirfd = above_standard(open(l->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	if (dirfd < 0)
		return error_set_errno(e, ERROR_NOT_FOUND, errno, "cannot open %s", l->dir);
	v->lock_fd = take_lock(dirfd, e);
	if (v->lock_fd < 0)
		return v->lock_fd;
	pass_fd(c, fcntl(v->lock_fd, F_DUPFD_CLOEXEC, 3));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set_errno(e, ERROR_NO_SPACE, errno, "socketpair");
	v->owner_fd = pair[0];
	pair[1] = above_standard(pair[1]);
	pass_fd(c, pair[1]);
	log_fd = open_file(dirfd, "vmm.log", O_WRONLY | O_CREAT | O_APPEND);
	if (log_fd < 0)
		return error_set_errno(e, log_fd == -ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL,
			-log_fd, "cannot create vmm.log");
	r = program_path("mayfly-vmm", path, sizeof(path), e);
	if (r == 0)
		r = build_command(c, l, dirfd, pair[1], e);
	if (r < 0)
		return r;
	r = spawn(path, c, log_fd, &v->pid);
	return r < 0 ? error_set_errno(e, ERROR_HOST, -r, "cannot start %s", path) : 0;
}

int vmm_launch(const struct vmm_launch *l, struct vmm **ret, struct error *e)
{
	struct vmm *v = calloc(1, sizeof(*v));
	struct command c = {0};
	int r;

	if (!v)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	v->owner_fd = v->lock_fd = -1;
	for (unsigned i = 0; i < l->disk_count; i++)
		v->writable[i] = l->disks[i].delta != NULL;
	r = start(l, v, &c, e);
	command_done(&c);
	if (r < 0) {
		vmm_stop(v);
		return r;
	}
	*ret = v;
	return 0;
}

int vmm_fd(const struct vmm *v)
{
	return v->owner_fd;
}

pid_t vmm_pid(const struct vmm *v)
{
	return v->pid;
}

/* --- events --- */

/* Waits for a process that closed its channel; most often it is about to exit. If it goes on, it is
 * killed, so that nobody waits for it. Returns false if it was killed. */
static bool reap(pid_t pid, int *ret_status)
{
	uint64_t end = clock_monotonic_ns() + DEATH_MS * NS_PER_MS;
	pid_t r;

	for (;;) {
		r = waitpid(pid, ret_status, WNOHANG);
		if (r != 0 && !(r < 0 && errno == EINTR))
			return true;
		if (clock_monotonic_ns() > end)
			break;
		(void)poll(NULL, 0, 1); /* sleeps */
	}
	(void)kill(pid, SIGKILL); /* not reaped yet, so the pid is still its own */
	while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
		;
	return false;
}

/* The channel ended without a message. */
static void died(struct vmm *v, struct error *e)
{
	int status = 0;
	bool alone = reap(v->pid, &status);

	v->pid = 0;
	if (!alone)
		(void)error_set(e, ERROR_SANDBOX, ECHILD,
			"the VMM process closed its channel and went on: it was killed");
	else if (WIFSIGNALED(status))
		(void)error_set(e, ERROR_SANDBOX, ECHILD,
			"the VMM process was killed by signal %d (%s)", WTERMSIG(status),
			strsignal(WTERMSIG(status))); /* only to fill e */
	else
		(void)error_set(e, ERROR_SANDBOX, ECHILD,
			"the VMM process ended unexpectedly (status %d)",
			WIFEXITED(status) ? WEXITSTATUS(status) : -1); /* only to fill e */
}

static enum vmm_event parse_event(struct vmm *v, const char *text, struct error *e)
{
	const char *word;

	if (strcmp(text, "event started") == 0)
		return VMM_STARTED;
	v->ended = true;
	if (str_starts_with(text, "event failed ")) {
		control_parse_error(text + strlen("event failed "), e);
		return VMM_ENDED;
	}
	word = str_starts_with(text, "event ended ") ? strchr(text + strlen("event ended "), ' ')
						     : NULL;
	(void)error_set(e, ERROR_SANDBOX, ECHILD, "%s",
		word ? word + 1 : "the VMM process said something unexpected"); /* only to fill e */
	return VMM_ENDED;
}

enum vmm_event vmm_next_event(struct vmm *v, struct error *e)
{
	char text[CONTROL_MESSAGE_MAX];
	struct pollfd pfd = {.fd = v->owner_fd, .events = POLLIN};

	if (v->ended)
		return VMM_NOTHING;
	if (v->pending[0]) {
		memcpy(text, v->pending, sizeof(text));
		v->pending[0] = '\0';
		return parse_event(v, text, e);
	}
	if (poll(&pfd, 1, 0) <= 0)
		return VMM_NOTHING;
	if (control_receive(v->owner_fd, text, NULL) > 0)
		return parse_event(v, text, e);
	v->ended = true;
	died(v, e);
	return VMM_ENDED;
}

bool vmm_is_over(struct vmm *v, struct error *e)
{
	enum vmm_event ev;

	do
		ev = vmm_next_event(v, e);
	while (ev == VMM_STARTED);
	return ev == VMM_ENDED;
}

/* --- requests --- */

static int await_readable(int fd, uint64_t deadline_ns)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	for (;;) {
		int ms = clock_ms_until(deadline_ns, INT_MAX), r;

		if (ms == 0)
			return -ETIMEDOUT;
		r = poll(&p, 1, ms);
		if (r > 0)
			return 0;
		if (r < 0 && errno != EINTR)
			return -errno;
	}
}

/* Interprets a reply. Returns 0 with the text behind "ok ", or the error in it. */
static int take_reply(const char *text, char *reply, size_t reply_bytes, struct error *e)
{
	if (str_starts_with(text, "error ")) {
		control_parse_error(text + strlen("error "), e);
		return e && e->err ? -e->err : -EIO;
	}
	if (reply)
		(void)snprintf(reply, reply_bytes, "%s",
			str_starts_with(text, "ok ") ? text + 3
						     : ""); /* the caller limits the size */
	return 0;
}

static int owner_request(
	struct vmm *v, const char *request, const struct control_fds *fds, struct error *e)
{
	uint64_t deadline = clock_monotonic_ns() + REQUEST_MS * NS_PER_MS;
	char text[CONTROL_MESSAGE_MAX];
	int r;

	if (v->ended)
		return error_set(e, ERROR_SANDBOX, ECHILD, "the microVM has ended");
	r = control_send(v->owner_fd, request, fds);
	while (r == 0) {
		r = await_readable(v->owner_fd, deadline);
		if (r < 0)
			break;
		r = control_receive(v->owner_fd, text, NULL);
		if (r <= 0)
			break;
		if (!str_starts_with(text, "event "))
			return take_reply(text, NULL, 0, e);
		if (strcmp(text, "event started") != 0 || !v->pending[0])
			memcpy(v->pending, text, sizeof(text));
		r = 0;
	}
	if (r == -ETIMEDOUT)
		return error_set(
			e, ERROR_TIMEOUT, ETIMEDOUT, "the VMM did not answer \"%s\"", request);
	if (v->pending[0] && strcmp(v->pending, "event started") != 0)
		return error_set(e, ERROR_SANDBOX, ECHILD, "the microVM has ended");
	v->ended = true;
	died(v, e);
	return -ECHILD;
}

int vmm_pause(struct vmm *v, struct error *e)
{
	return owner_request(v, "pause", NULL, e);
}

int vmm_resume(struct vmm *v, struct error *e)
{
	return owner_request(v, "resume", NULL, e);
}

int vmm_keep(struct vmm *v, struct error *e)
{
	return owner_request(v, "keep", NULL, e);
}

int vmm_await_started(struct vmm *v, unsigned ms, struct error *e)
{
	uint64_t deadline = clock_monotonic_ns() + ms * NS_PER_MS;

	for (;;) {
		enum vmm_event event = vmm_next_event(v, e);

		if (event == VMM_STARTED)
			return 0;
		if (event == VMM_ENDED)
			return e && e->err ? -e->err : -ECHILD;
		if (await_readable(v->owner_fd, deadline) < 0)
			return error_set(e, ERROR_TIMEOUT, ETIMEDOUT,
				"the microVM was not made in %u s", ms / 1000);
	}
}

/* Creates files in the snapshot's directory for the disks that have a delta. */
static int create_disk_files(
	const struct vmm *v, int dirfd, struct snapshot_files *f, struct error *e)
{
	for (unsigned i = 0; i < VMM_DISKS_MAX; i++) {
		char name[16];

		if (!v->writable[i])
			continue;
		(void)snprintf(name, sizeof(name), "disk%u", i); /* fits */
		f->disk_fd[i] = openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (f->disk_fd[i] < 0)
			return error_set_errno(
				e, ERROR_NO_SPACE, errno, "cannot create the snapshot's %s", name);
	}
	return 0;
}

int vmm_save(struct vmm *v, int snapshot_dirfd, struct error *e)
{
	static const struct snapshot_needs full = {.memory_full = true,
		.part = {[SNAPSHOT_PART_STATE] = true, [SNAPSHOT_PART_MEMORY] = true}};
	struct snapshot_files files = SNAPSHOT_FILES_INIT;
	char text[CONTROL_MESSAGE_MAX] = "save";
	struct control_fds fds = {0};
	int r = snapshot_files_create(snapshot_dirfd, &full, &files, e);

	if (r == 0)
		r = create_disk_files(v, snapshot_dirfd, &files, e);
	if (r == 0) {
		snapshot_files_describe(&files, text, sizeof(text), &fds);
		r = owner_request(v, text, &fds, e);
	}
	snapshot_files_close(&files);
	return r;
}

int vmm_save_hot(struct vmm *v, int snapshot_dirfd, struct error *e)
{
	static const char name[] = "hot", unfinished[] = ".tmp-hot";
	_cleanup_close_ int memory_fd = open_file(snapshot_dirfd, "memory", O_RDONLY);
	_cleanup_close_ int fd =
		openat(snapshot_dirfd, unfinished, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct control_fds fds = {.fd = {memory_fd, fd}, .count = 2};
	int r;

	if (fd < 0 || memory_fd < 0)
		return error_set_errno(
			e, ERROR_NO_SPACE, errno, "cannot create the snapshot's hot pages");
	r = owner_request(v, "hot", &fds, e);
	if (r == 0 && renameat(snapshot_dirfd, unfinished, snapshot_dirfd, name) < 0)
		r = error_set_errno(e, ERROR_HOST, errno, "cannot keep the snapshot's hot pages");
	if (r < 0)
		(void)unlinkat(snapshot_dirfd, unfinished, 0); /* only a hint */
	return r;
}

/* Waits at most ms milliseconds for the process to end: its channel ends with it. */
static void await_exit(struct vmm *v, unsigned ms)
{
	uint64_t deadline = clock_monotonic_ns() + ms * NS_PER_MS;
	char text[CONTROL_MESSAGE_MAX];

	while (await_readable(v->owner_fd, deadline) == 0)
		if (control_receive(v->owner_fd, text, NULL) <= 0)
			return;
}

void vmm_stop(struct vmm *v)
{
	if (!v)
		return;
	if (v->pid > 0) {
		if (v->owner_fd >= 0 && control_send(v->owner_fd, "quit", NULL) == 0)
			await_exit(v, STOP_MS);
		(void)kill(v->pid, SIGKILL); /* not reaped yet, so the pid is still its own */
		while (waitpid(v->pid, NULL, 0) < 0 && errno == EINTR)
			;
		v->pid = 0;
	}
	vmm_release(v);
}

void vmm_release(struct vmm *v)
{
	if (!v)
		return;
	cleanup_close_p(&v->owner_fd);
	cleanup_close_p(&v->lock_fd);
	free(v);
}

/* Sends a request on a new connection, which the caller closes. */
static int ask(
	int dirfd, const char *text, const struct control_fds *fds, int *ret_sock, struct error *e)
{
	int r = *ret_sock = fd_unix_connect(dirfd, "control.sock", SOCK_SEQPACKET);

	if (r < 0)
		return error_set(e, ERROR_NOT_FOUND, -r, "no microVM is running there");
	r = control_send(*ret_sock, text, fds);
	return r < 0 ? error_set(e, ERROR_SANDBOX, -r, "the microVM has ended") : 0;
}

static int await_answer(int sock, const char *request, uint64_t limit_ns,
	char answer[CONTROL_MESSAGE_MAX], struct error *e)
{
	int r = await_readable(sock, clock_monotonic_ns() + limit_ns);

	if (r == 0)
		r = control_receive(sock, answer, NULL);
	if (r == -ETIMEDOUT)
		return error_set(
			e, ERROR_TIMEOUT, ETIMEDOUT, "the VMM did not answer \"%s\"", request);
	return r > 0 ? 0
		     : error_set(e, ERROR_SANDBOX, r ? -r : ECONNRESET, "the microVM has ended");
}

int vmm_request(int dirfd, const char *text, char *reply, size_t reply_bytes, struct error *e)
{
	_cleanup_close_ int sock = -1;
	char answer[CONTROL_MESSAGE_MAX];
	int r = ask(dirfd, text, NULL, &sock, e);

	if (r == 0)
		r = await_answer(sock, text, 10 * NS_PER_S, answer, e);
	return r < 0 ? r : take_reply(answer, reply, reply_bytes, e);
}

/* --- snapshots --- */

static int link_delta(int dirfd, const char *delta, int to_fd, unsigned disk, struct error *e)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "disk%u", disk); /* fits */
	if (linkat(dirfd, delta, to_fd, name, 0) < 0)
		return error_set_errno(e, ERROR_INTERNAL, errno,
			"cannot link the disk delta %s into the snapshot: both must lie on one "
			"file "
			"system",
			delta);
	return 0;
}

static int create_delta(int dirfd, const char *name, struct error *e)
{
	int fd = openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd < 0 ? error_set_errno(
				e, ERROR_NO_SPACE, errno, "cannot create the disk delta %s", name)
		      : fd;
}

/* Removes the first `created` of the new deltas, which nothing uses. */
static void remove_deltas(int dirfd, const struct vmm_snapshot_options *o, unsigned created)
{
	for (unsigned i = 0; i < VMM_DISKS_MAX && created; i++)
		if (o->disks[i].delta) {
			(void)unlinkat(dirfd, o->disks[i].next, 0); /* an empty one does no harm */
			created--;
		}
}

/* Links the deltas and creates the new ones. */
static int prepare_disks(int dirfd, const struct vmm_snapshot_options *o,
	struct snapshot_files *files, unsigned *created, struct error *e)
{
	for (unsigned i = 0; i < VMM_DISKS_MAX; i++) {
		int r;

		if (!o->disks[i].delta)
			continue;
		r = link_delta(dirfd, o->disks[i].delta, o->dirfd, i, e);
		if (r == 0 && !o->final) {
			r = files->disk_fd[i] = create_delta(dirfd, o->disks[i].next, e);
			*created += r >= 0;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

struct snapshot_state {
	unsigned long long tops[VMM_DISKS_MAX]; /* inodes of the disks' top deltas */
	bool stepwise; /* it runs, and announces when it is about to stop */
	struct snapshot_needs needs;
};

static int get_status(int dirfd, struct snapshot_state *ret, struct error *e)
{
	static_assert(VMM_DISKS_MAX == 2, "as many are parsed");
	char status[CONTROL_MESSAGE_MAX];
	static const char writes[] = "writes=";
	const char *p, *needs;
	int r = vmm_request(dirfd, "status", status, sizeof(status), e);

	if (r < 0)
		return r;
	p = strstr(status, "tops=");
	needs = strstr(status, writes);
	if (!p || sscanf(p, "tops=%llu,%llu", &ret->tops[0], &ret->tops[1]) != 2 || !needs ||
		snapshot_needs_parse(needs + strlen(writes), &ret->needs) < 0)
		return error_set(e, ERROR_INCOMPATIBLE, EPROTO,
			"the microVM was started by an older Mayfly: make a new sandbox");
	ret->stepwise = str_starts_with(status, "running ") && strstr(p, " steps");
	return 0;
}

int vmm_writes_to(int dirfd, unsigned disk, const char *delta, struct error *e)
{
	struct snapshot_state s;
	struct stat st;
	int r;

	if (fstatat(dirfd, delta, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
				       : error_set_errno(e, ERROR_HOST, errno,
						 "cannot examine the disk delta %s", delta);
	r = get_status(dirfd, &s, e);
	return r < 0 ? r : s.tops[disk] == st.st_ino;
}

static bool is_switched(int dirfd, const struct vmm_snapshot_options *o)
{
	for (unsigned i = 0; i < VMM_DISKS_MAX; i++)
		if (o->disks[i].delta && !o->final &&
			vmm_writes_to(dirfd, i, o->disks[i].next, NULL) > 0)
			return true;
	return false;
}

static int parse_result(const char *text, struct vmm_snapshot_result *r, struct error *e)
{
	char memory[16], disks[16];
	unsigned long long stop_ns, pages;

	if (sscanf(text, "memory=%15s disks=%15[0-9,]", memory, disks) < 2)
		disks[0] = '\0'; /* none was merged */
	text = strstr(text, "stop_ns=");
	if (!text || sscanf(text, "stop_ns=%llu pages=%llu", &stop_ns, &pages) != 2)
		return error_set(e, ERROR_INTERNAL, EPROTO, "unexpected answer to a snapshot");
	*r = (struct vmm_snapshot_result){.memory_full = strcmp(memory, "full") == 0,
		.memory_merged = strcmp(memory, "merged") == 0,
		.disk_merged = {strchr(disks, '0') != NULL, strchr(disks, '1') != NULL},
		.stop_ns = stop_ns,
		.pages = pages};
	return 0;
}

/* Waits for the answer and handles the steps before it. */
static int follow(int sock, const struct vmm_snapshot_options *o, char answer[CONTROL_MESSAGE_MAX],
	struct error *e)
{
	bool stopped = false;
	int r;

	for (;;) {
		r = await_answer(sock, "snapshot", REQUEST_MS * NS_PER_MS, answer, e);
		if (r < 0 || !str_starts_with(answer, "step "))
			break;
		if (strcmp(answer, "step stop") == 0) {
			stopped = true;
			o->before_stop(o->arg);
			(void)control_send(sock, "go", NULL); /* the next answer says more */
		} else {
			stopped = false;
			o->after_stop(o->arg);
		}
	}
	if (stopped && (r < 0 || !str_starts_with(answer, "ok"))) /* it runs, or has ended */
		o->after_stop(o->arg);
	return r;
}

static int request_snapshot(int dirfd, const struct vmm_snapshot_options *o,
	const struct snapshot_state *before, struct vmm_snapshot_result *ret, unsigned *created,
	struct error *e)
{
	_cleanup_close_ int sock = -1;
	_cleanup_(snapshot_files_close) struct snapshot_files files = SNAPSHOT_FILES_INIT;
	struct control_fds fds = {0};
	char text[CONTROL_MESSAGE_MAX], answer[CONTROL_MESSAGE_MAX];
	int r = snapshot_files_create(o->dirfd, &before->needs, &files, e);

	if (r == 0)
		r = prepare_disks(dirfd, o, &files, created, e);
	if (r == 0)
		r = fault_disk("snapshot-deltas-made", e);
	(void)snprintf(text, sizeof(text), "snapshot %s%s",
		before->stepwise && o->before_stop ? "stepwise " : "",
		o->final ? "final" : "live"); /* fits */
	snapshot_files_describe(&files, text, sizeof(text), &fds);
	if (r == 0)
		r = ask(dirfd, text, &fds, &sock, e);
	if (r == 0)
		r = follow(sock, o, answer, e);
	if (r == 0)
		r = take_reply(answer, text, sizeof(text), e);
	if (r == 0)
		r = parse_result(text, ret, e);
	return r;
}

int vmm_snapshot(int dirfd, const struct vmm_snapshot_options *o, struct vmm_snapshot_result *ret,
	bool *ret_switched, struct error *e)
{
	struct snapshot_state before;
	int r = get_status(dirfd, &before, e);
	unsigned created = 0;
	bool switched;

	if (r < 0)
		return r;
	r = request_snapshot(dirfd, o, &before, ret, &created, e);
	switched = r == 0 ? !o->final : is_switched(dirfd, o);
	if (r < 0 && r != -ETIMEDOUT && !switched)
		remove_deltas(dirfd, o, created);
	if (ret_switched)
		*ret_switched = switched;
	return r;
}

int vmm_dir_is_live(int dirfd)
{
	_cleanup_close_ int fd = file_open_foreign(dirfd, "lock", O_RDONLY, VMM_FILE_MAX);

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	if (flock(fd, LOCK_SH | LOCK_NB) == 0)
		return 0; /* closing releases it */
	return errno == EWOULDBLOCK ? 1 : -errno;
}
