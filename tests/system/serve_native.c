/* `mayfly serve` with native agents instead of microVMs: everything but the VM at full speed, for
 * machines whose KVM does not boot guests. Never part of the product.
 *
 *	serve-native [OPTION]... AGENT [ADDRESS:PORT [DOMAIN]]
 *
 * The options are those of `mayfly serve`, as far as tests need them.
 *
 * A sandbox is the agent in a process-id namespace of its own (so that nothing of it outlives its
 * end) where it may be made, with this machine's file system. Needs root. One of the template
 * code-interpreter-v1 has a network of its own too, and in it the interpreter that
 * MAYFLY_INTERPRETER names, with the kernels of MAYFLY_KERNELS, if they are set. One of the pool is
 * the process that becomes that, waiting at a pipe; it stays when the daemon is killed.
 *
 * With MAYFLY_NATIVE_CHANNELS each has an egress channel, whose near end its process holds as
 * descriptor CHANNEL_FD: whoever takes that plays the guest's side of its network.
 *
 * Certificates are installed below the directory MAYFLY_GUEST_ROOT, not in this machine's files;
 * without it, nowhere.
 *
 * With --states SIZE there are pauses and snapshots: each is a directory with a file of that size,
 * and what comes back from it is a fresh agent. That is enough for what the daemon does with
 * them. With --states-ms each takes that long.
 *
 * Its wall clock is ahead of this machine's by what the file MAYFLY_NATIVE_CLOCK holds (see
 * serve_native_clock.c).
 *
 * While there is a file `make-fails` in the state directory, no sandbox can be made, by the error
 * whose name it holds. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/options.h"
#include "daemon/daemon.h"
#include "http/server.h"
#include "image/template.h"
#include "image/workdir.h"
#include "io/jailed.h"
#include "policy/network_floor.h"
#include "sandbox/backend.h"
#include "sandbox/egress_spawn.h"

#define MIB (UINT64_C(1) << 20)

enum { START_MS = 20000, STEP_MS = 2, LIFE_S = 3600, CHANNEL_FD = 8, LOCK_FD = 9 };

static const char interpreter_template[] = "code-interpreter-v1";

static const char *agent;
static uint64_t state_bytes, state_ms;
static bool boots;

#define GO "go" /* a pipe; a line in it lets one of the pool run */

static void sleep_ms(long ms)
{
	struct timespec t = {.tv_nsec = ms * (long)NS_PER_MS};

	(void)nanosleep(&t, NULL); /* a shorter sleep is fine */
}

static int take_lock(int dirfd)
{
	int fd = openat(dirfd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		return -errno;
	return fd;
}

/* Guests see no login profile of who runs the tests: what stands in it may take seconds, or a
 * minute where it waits for a lock that a killed shell left. */
#define NO_PROFILES                                                                                \
	"for f in .profile .bashrc .bash_profile .bash_login; do [ ! -e \"$HOME/$f\" ] ||"         \
	" mount --bind /dev/null \"$HOME/$f\"; done; "

/* In the child: only what is safe after a fork of a program with threads. */
static void become_agent(int dirfd, int lock_fd, int channel_fd, bool interpreter, bool paused)
{
	static const char plain[] = NO_PROFILES "\"$0\" --test-listen vsock.sock & wait";
	static const char with_interpreter[] =
		NO_PROFILES "ip link set lo up; while :; do TMPDIR=$PWD HOME=/tmp "
			    "\"$MAYFLY_INTERPRETER\" -a 127.0.0.1 -C /tmp"
			    " -k \"$MAYFLY_KERNELS\" -e /does/not/exist >ports; sleep 1; done &"
			    " until grep -q port ports; do sleep 0.02; done;"
			    " \"$0\" --test-listen vsock.sock & wait";
	static const char wait[] = "read _ <>" GO "; exec \"$0\" \"$@\"";
	const char *const words[] = {"sh", "-c", wait, "unshare", "--pid", "--fork", "--mount-proc",
		"--kill-child", interpreter ? "--net" : "--pid", "sh", "-c",
		interpreter ? with_interpreter : plain, agent, NULL};
	const char *const *argv = paused ? words : words + 3;
	int log_fd = openat(dirfd, "console.log", O_WRONLY | O_CREAT | O_APPEND, 0600);
	int pid_fd = openat(dirfd, "pid", O_WRONLY | O_CREAT, 0600);
	pid_t pid = getpid();
	sigset_t none;

	if (write(pid_fd, &pid, sizeof(pid)) != sizeof(pid))
		_exit(126);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	setsid();
	lock_fd = fcntl(lock_fd, F_DUPFD, LOCK_FD + 1); /* out of the way of the other */
	if (fchdir(dirfd) < 0 || dup2(open("/dev/null", O_RDWR), 0) < 0 || dup2(log_fd, 1) < 0 ||
		dup2(log_fd, 2) < 0 || (channel_fd >= 0 && dup2(channel_fd, CHANNEL_FD) < 0) ||
		dup2(lock_fd, LOCK_FD) < 0)
		_exit(126);
	close(lock_fd);
	if (channel_fd == CHANNEL_FD)
		fcntl(CHANNEL_FD, F_SETFD, 0);
	execvp(argv[0], (char *const *)argv);
	_exit(127);
}

static int wait_for_socket(int dirfd, pid_t pid, struct error *e)
{
	for (int ms = 0; ms < START_MS; ms += STEP_MS) {
		int fd = fd_unix_connect(dirfd, "vsock.sock", SOCK_STREAM);

		if (fd >= 0) {
			close(fd);
			return 0;
		}
		if (waitpid(pid, NULL, WNOHANG) == pid)
			break;
		sleep_ms(STEP_MS);
	}
	return error_set(e, ERROR_SANDBOX, ETIMEDOUT, "the native agent does not start");
}

static bool has_interpreter(const char *template)
{
	return strcmp(template, interpreter_template) == 0 && getenv("MAYFLY_INTERPRETER");
}

/* Fails while nobody waits there. */
static int open_pipe(int dirfd)
{
	return openat(dirfd, GO, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
}

static int wait_for_pipe(int dirfd, struct error *e)
{
	for (int ms = 0; ms < START_MS; ms += STEP_MS) {
		_cleanup_close_ int fd = open_pipe(dirfd);

		if (fd >= 0)
			return 0;
		sleep_ms(STEP_MS);
	}
	return error_set(e, ERROR_SANDBOX, ETIMEDOUT, "the process does not come to wait");
}

static int launch(struct backend_sandbox *s, bool paused, struct error *e)
{
	bool interpreter = has_interpreter(s->template);
	_cleanup_close_ int lock_fd = take_lock(s->dirfd);
	_cleanup_close_ int channel_fd = -1;

	if (lock_fd < 0)
		return error_set_errno(e, ERROR_INTERNAL, -lock_fd, "lock");
	if (paused && mkfifoat(s->dirfd, GO, 0600) < 0)
		return error_set_errno(e, ERROR_INTERNAL, errno, "mkfifo");
	if (getenv("MAYFLY_NATIVE_CHANNELS") && egress_channel(&channel_fd, &s->egress_fd, e) < 0)
		return -e->err;
	s->pid = fork();
	if (s->pid == 0)
		become_agent(s->dirfd, lock_fd, channel_fd, interpreter, paused);
	if (s->pid < 0)
		return error_set_errno(e, ERROR_INTERNAL, errno, "fork");
	return paused ? wait_for_pipe(s->dirfd, e) : wait_for_socket(s->dirfd, s->pid, e);
}

/* A zombie is none: whoever inherited it may never wait for it. */
static bool is_running(pid_t pid)
{
	char path[32], text[256] = "";
	const char *p;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	p = strrchr(text, ')');
	return p && p[1] && p[2] != 'Z';
}

static void end_process(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	/* a child of an earlier daemon is not ours to wait for */
	if (waitpid(pid, NULL, 0) < 0)
		for (int ms = 0; ms < START_MS && is_running(pid); ms += STEP_MS)
			sleep_ms(STEP_MS);
}

static int write_record(const struct backend_sandbox *s, json_t *metadata, struct error *e)
{
	struct sandbox_record r = {
		.template = s->template, .vmm_pid = s->pid, .metadata = metadata};

	memcpy(r.id, s->id, sizeof(r.id));
	return sandbox_record_write(s->dirfd, &r, e);
}

static bool is_there(const struct home *home, const char *name)
{
	_cleanup_close_ int fd = template_open(home, name, NULL);

	return fd >= 0;
}

static int measure(const struct home *home, const struct sandbox_options *o,
	struct sandbox_sizes *ret, uint64_t *ret_made_s, struct error *e)
{
	struct template t = {0};

	if (strcmp(o->template, "base") != 0 && strcmp(o->template, interpreter_template) != 0 &&
		!is_there(home, o->template))
		return error_set(
			e, ERROR_NOT_FOUND, ENOENT, "template '%s' not found", o->template);
	ret->cpus = o->cpus ? o->cpus : 2;
	ret->memory_bytes = o->memory_bytes ? o->memory_bytes : 512 * MIB;
	ret->disk_bytes = o->disk_bytes ? o->disk_bytes : 1024 * MIB;
	*ret_made_s = 1;
	if (template_load(home, o->template, &t, NULL) == 0)
		*ret_made_s = t.created_s; /* of a test's */
	template_done(&t);
	return 0;
}

/* --- with --boots: sizes boot once, until there is a file BOOTS_GO --- */

#define BOOTS_GO "boots-go"

/* what: "booting" or "booted" */
static void boots_name(const char *what, const struct sandbox_options *o, char out[64])
{
	snprintf(out, 64, "%s-%u-%llu", what, o->cpus, (unsigned long long)o->memory_bytes / MIB);
}

static bool must_boot(const struct home *home, const struct sandbox_options *o)
{
	char name[64];

	boots_name("booted", o, name);
	return boots && (o->cpus != 2 || o->memory_bytes != 512 * MIB) &&
	       faccessat(home->fd, name, F_OK, 0) < 0;
}

static int boot(const struct home *home, const struct sandbox_options *o, struct error *e)
{
	char booting[64], booted[64];
	int fd, r = 0;

	boots_name("booting", o, booting);
	boots_name("booted", o, booted);
	fd = openat(home->fd, booting, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
	while (r == 0 && faccessat(home->fd, BOOTS_GO, F_OK, 0) < 0) {
		if (progress_report(o->progress, "boot", 0, NULL) < 0)
			r = error_set(e, ERROR_INTERNAL, ECANCELED, "cancelled");
		sleep_ms(10);
	}
	if (r == 0)
		renameat(home->fd, booting, home->fd, booted);
	else
		unlinkat(home->fd, booting, 0);
	return r;
}

static int make_fails(const struct home *home, struct error *e)
{
	_cleanup_close_ int fd = openat(home->fd, "make-fails", O_RDONLY | O_CLOEXEC);
	char name[32] = "";

	if (fd < 0 || read(fd, name, sizeof(name) - 1) < 0)
		return 0;
	for (unsigned code = ERROR_NONE + 1; code < ERROR_CODES_; code++)
		if (strcmp(error_code_name(code), name) == 0)
			return error_set(e, code, EIO, "it fails as the test wants");
	return 0;
}

/* Of a test's template. */
static char *network_of(const struct home *home, const char *name)
{
	struct template t = {0};
	char *network = template_load(home, name, &t, NULL) == 0 ? strdup(t.config.network) : NULL;

	template_done(&t);
	return network;
}

static int make(const struct home *home, const struct sandbox_dirs *dirs,
	const struct sandbox_options *o, struct backend_sandbox *ret, struct error *e)
{
	int r = make_fails(home, e);

	*ret = (struct backend_sandbox){.dirfd = -1};
	if (r < 0)
		return r;
	if (must_boot(home, o) && boot(home, o, e) < 0)
		return -ECANCELED;
	if (o->id)
		snprintf(ret->id, sizeof(ret->id), "%s", o->id);
	r = sandbox_dirs_make(dirs, ret->id, &ret->dirfd, e);
	if (r < 0)
		return r;
	ret->template = strdup(o->template);
	ret->user = strdup("root");
	ret->workdir = strdup("");
	ret->network = network_of(home, o->template);
	ret->cpus = o->cpus;
	ret->memory_bytes = o->memory_bytes;
	ret->disk_bytes = o->disk_bytes;
	r = ret->template && ret->user && ret->workdir
		    ? backend_mark(ret->dirfd, e)
		    : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	if (r == 0)
		r = launch(ret, o->paused, e);
	if (r == 0 && !o->paused)
		r = write_record(ret, o->metadata, e);
	if (r < 0) {
		end_process(ret->pid);
		sandbox_dirs_remove(dirs, ret->id);
		backend_sandbox_done(ret);
	}
	return r;
}

static int resume(struct backend_sandbox *s, json_t *metadata, struct error *e)
{
	_cleanup_close_ int fd = open_pipe(s->dirfd);

	if (fd < 0 || write(fd, "\n", 1) != 1)
		return error_set_errno(e, ERROR_SANDBOX, errno, "nobody waits there");
	if (write_record(s, metadata, e) < 0)
		return -EIO;
	return wait_for_socket(s->dirfd, s->pid, e);
}

static int end(const struct sandbox_dirs *dirs, const char *id, struct vmm *vmm, pid_t pid,
	struct error *e)
{
	_cleanup_close_ int dirfd = sandbox_open_dir(dirs, id, NULL);
	_cleanup_close_ int fd = openat(dirfd, "pid", O_RDONLY | O_CLOEXEC);

	/* killed before it could write the record, the daemon knows it from here */
	if (pid == 0 && read(fd, &pid, sizeof(pid)) != sizeof(pid))
		pid = 0;
	end_process(pid);
	sandbox_dirs_remove(dirs, id);
	return 0;
}

/* --- with --states --- */

static int keep_state(int area_fd, const char *name, struct error *e)
{
	_cleanup_(workdir_abort) struct workdir w = WORKDIR_INIT;
	int r = workdir_begin(area_fd, name, "state", &w, e), fd;

	if (r < 0)
		return r;
	for (uint64_t ms = 0; ms < state_ms; ms += STEP_MS)
		sleep_ms(STEP_MS);
	fd = openat(w.fd, "state", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : -posix_fallocate(fd, 0, (off_t)state_bytes);
	if (fd >= 0)
		close(fd);
	return r < 0 ? error_set_errno(e, ERROR_NO_SPACE, -r, "state") : workdir_commit(&w, e);
}

/* As a microVM: what stands still has no state to keep. */
static int check_goes_on(int dirfd, struct error *e)
{
	if (faccessat(dirfd, "frozen", F_OK, 0) == 0)
		return error_set(e, ERROR_HOST, ETIMEDOUT, "the sandbox stands still");
	return 0;
}

static int pause_one(int dirfd, bool memory, int area_fd, const char *name, struct error *e)
{
	if (check_goes_on(dirfd, e) < 0)
		return -ETIMEDOUT;
	if (faccessat(dirfd, "unpausable", F_OK, 0) == 0)
		return error_set(e, ERROR_HOST, EIO, "the test says so");
	return keep_state(area_fd, name, e);
}

static int snapshot_one(int dirfd, bool memory, int area_fd, const char *name,
	struct backend_snapshot *ret, struct error *e)
{
	*ret = (struct backend_snapshot){.own_bytes = state_bytes};
	if (check_goes_on(dirfd, e) < 0)
		return -ETIMEDOUT;
	return keep_state(area_fd, name, e);
}

static int settle(int dirfd, struct error *e)
{
	return 0;
}

static int check(const struct sandbox_options *o, struct error *e)
{
	return 0;
}

static struct backend native = {
	.measure = measure, .must_boot = must_boot, .make = make, .resume = resume, .end = end};

/* Nothing stands still: a file says what would. */
static int freeze(int dirfd, bool on, struct error *e)
{
	int fd, log_fd;

	if (!on && faccessat(dirfd, "stuck", F_OK, 0) == 0) {
		(void)renameat(dirfd, "stuck", dirfd, "was-stuck"); /* only once */
		return error_set(e, ERROR_LIMIT, EBUSY, "the test says so");
	}
	fd = on ? openat(dirfd, "frozen", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)
		: unlinkat(dirfd, "frozen", 0);
	log_fd = openat(dirfd, "freezes", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	if (on && fd >= 0)
		(void)close(fd);
	if (log_fd < 0 || write(log_fd, on ? "f" : "g", 1) != 1)
		return error_set(e, ERROR_HOST, EIO, "freezes");
	close(log_fd);
	return 0;
}

static struct backend native_with_states = {.measure = measure,
	.must_boot = must_boot,
	.make = make,
	.resume = resume,
	.end = end,
	.pause = pause_one,
	.snapshot = snapshot_one,
	.settle = settle,
	.freeze = freeze,
	.check = check};

struct native_options {
	struct daemon_options daemon;
	uint64_t connections, states, states_ms, kept_all;
	bool boots;
	struct option_list pool, runtimes, mirrors;
	const char *jail;
	struct network_words network;
};

static const struct option_spec specs[] = {
	{"max-connections", 0, OPTION_NUMBER, "N", "", offsetof(struct native_options, connections),
		1, 1000000, false},
	{"all-kept", 0, OPTION_NUMBER, "N", "", offsetof(struct native_options, kept_all), 0,
		1000000, false},
	{"all-kept-size", 0, OPTION_BYTES, "SIZE", "",
		offsetof(struct native_options, daemon.fleet.kept.all_bytes), 1, INT64_MAX, false},
	{"disk-reserve", 0, OPTION_BYTES, "SIZE", "",
		offsetof(struct native_options, daemon.fleet.kept.reserve_bytes), 1, INT64_MAX,
		false},
	{"aside-size", 0, OPTION_BYTES, "SIZE", "",
		offsetof(struct native_options, daemon.fleet.aside.bytes), 1, INT64_MAX, false},
	{"boots", 0, OPTION_FLAG, NULL, "", offsetof(struct native_options, boots), 0, 0, false},
	{"states", 0, OPTION_BYTES, "SIZE", "", offsetof(struct native_options, states), 1,
		INT64_MAX, false},
	{"states-ms", 0, OPTION_NUMBER, "N", "", offsetof(struct native_options, states_ms), 0,
		60000, false},
	{"pool", 0, OPTION_LIST, "N|TEMPLATE=N", "", offsetof(struct native_options, pool), 0, 0,
		false},
	{"pool-memory", 0, OPTION_BYTES, "SIZE", "",
		offsetof(struct native_options, daemon.fleet.pool.memory_bytes), 0, 0, false},
	{"memory-limit", 0, OPTION_BYTES, "SIZE", "",
		offsetof(struct native_options, daemon.fleet.quota.memory_bytes), 0, 0, false},
	{"cpu-overcommit", 0, OPTION_NUMBER, "N", "",
		offsetof(struct native_options, daemon.fleet.quota.cpu_overcommit), 0, 0, false},
	{"disk-overcommit", 0, OPTION_NUMBER, "N", "",
		offsetof(struct native_options, daemon.fleet.quota.disk_overcommit), 0, 0, false},
	{"max-disk", 0, OPTION_BYTES, "SIZE", "",
		offsetof(struct native_options, daemon.fleet.sizes_max.disk_bytes), 0, 0, false},
	{"tls-cert", 0, OPTION_STRING, "FILE", "", offsetof(struct native_options, daemon.tls_cert),
		0, 0, false},
	{"tls-key", 0, OPTION_STRING, "FILE", "", offsetof(struct native_options, daemon.tls_key),
		0, 0, false},
	{"tls-self-signed", 0, OPTION_OPTIONAL, "[=DOMAIN]", "",
		offsetof(struct native_options, daemon.tls_self_signed), 0, 0, false},
	{"metrics-listen", 0, OPTION_STRING, "ADDRESS:PORT", "",
		offsetof(struct native_options, daemon.metrics_listen), 0, 0, false},
	{"webhook-allow-private", 0, OPTION_FLAG, NULL, "",
		offsetof(struct native_options, daemon.webhook_allow_private), 0, 0, false},
	{"webhook-ca", 0, OPTION_STRING, "FILE", "",
		offsetof(struct native_options, daemon.webhook_ca), 0, 0, false},
	{"network", 0, OPTION_STRING, "WORD", "", offsetof(struct native_options, network.mode), 0,
		0, false},
	{"max-flows", 0, OPTION_NUMBER, "N", "", offsetof(struct native_options, network.flows), 1,
		NETWORK_FLOWS_MAX, false},
	{"max-key-flows", 0, OPTION_NUMBER, "N", "",
		offsetof(struct native_options, network.key_flows), 1, NETWORK_ALL_FLOWS_MAX,
		false},
	{"max-host-flows", 0, OPTION_NUMBER, "N", "",
		offsetof(struct native_options, network.host_flows), 1, NETWORK_ALL_FLOWS_MAX,
		false},
	{"egress-allow", 0, OPTION_LIST, "HOST|CIDR[:PORT]", "",
		offsetof(struct native_options, network.allow), 0, 0, false},
	{"egress-allow-private", 0, OPTION_LIST, "CIDR", "",
		offsetof(struct native_options, network.private), 0, 0, false},
	{"egress-hosts", 0, OPTION_STRING, "FILE", "",
		offsetof(struct native_options, network.hosts), 0, 0, false},
	{"secrets-key", 0, OPTION_STRING, "FILE", "",
		offsetof(struct native_options, daemon.secrets_key), 0, 0, false},
	{"guest-ca", 0, OPTION_STRING, "FILE", "", offsetof(struct native_options, daemon.guest_ca),
		0, 0, false},
	{"issuer", 0, OPTION_STRING, "URL", "", offsetof(struct native_options, daemon.issuer), 0,
		0, false},
	{"token-life-s", 0, OPTION_NUMBER, "N", "",
		offsetof(struct native_options, daemon.fleet.token_life_s), 1, 86400, false},
	{"egress-roots", 0, OPTION_STRING, "FILE", "",
		offsetof(struct native_options, network.roots), 0, 0, false},
	{"egress-proxy", 0, OPTION_STRING, "HOST:PORT", "",
		offsetof(struct native_options, network.proxy), 0, 0, false},
	{"policy", 0, OPTION_STRING, "FILE", "", offsetof(struct native_options, network.policy), 0,
		0, false},
	{"egress-proxy-login", 0, OPTION_STRING, "FILE", "",
		offsetof(struct native_options, network.proxy_login), 0, 0, false},
	{"no-programs", 0, OPTION_FLAG, NULL, "",
		offsetof(struct native_options, daemon.fleet.no_programs), 0, 0, false},
	{"jail", 0, OPTION_STRING, "on|off", "", offsetof(struct native_options, jail), 0, 0,
		false},
	{"builder", 0, OPTION_STRING, "FILE", "",
		offsetof(struct native_options, daemon.fleet.builder), 0, 0, false},
	{"build-registry", 0, OPTION_STRING, "HOST[/PATH]", "",
		offsetof(struct native_options, daemon.fleet.build_registry), 0, 0, false},
	{"runtime", 0, OPTION_LIST, "NAME=TEMPLATE", "", offsetof(struct native_options, runtimes),
		0, 0, false},
	{"build-runtimes", 0, OPTION_FLAG, NULL, "",
		offsetof(struct native_options, daemon.fleet.build_runtimes), 0, 0, false},
	{"drop-rights", 0, OPTION_FLAG, NULL, "",
		offsetof(struct native_options, daemon.drop_rights), 0, 0, false},
	{"registry-mirror", 0, OPTION_LIST, "MIRROR", "", offsetof(struct native_options, mirrors),
		0, 0, false},
	{"log-level", 0, OPTION_STRING, "LEVEL", "",
		offsetof(struct native_options, daemon.log_level), 0, 0, false},
	{"log-format", 0, OPTION_STRING, "FORMAT", "",
		offsetof(struct native_options, daemon.log_format), 0, 0, false},
	{.name = NULL},
};

static struct network_floor *floor_of_all; /* what the options say of networks */
static struct option_list runtimes_of_all, mirrors_of_all;

static int parse(struct daemon_options *o, int argc, char **argv, struct error *e)
{
	struct native_options all = {.daemon = *o};
	int rest = 0, r = options_parse(specs, argc, argv, &all, &rest, e);

	for (unsigned n = 0; r == 0 && n < all.pool.count; n++)
		r = stock_parse_option(&all.daemon.fleet.pool, all.pool.items[n], e);
	if (r == 0)
		r = network_floor_make(&all.network, &floor_of_all, e);
	if (r == 0 && all.jail)
		r = jailed_configure(all.jail, e);
	if (r < 0)
		return r;
	all.daemon.fleet.network = floor_of_all;
	runtimes_of_all = all.runtimes;
	all.daemon.fleet.runtimes = &runtimes_of_all;
	mirrors_of_all = all.mirrors;
	all.daemon.fleet.mirrors = &mirrors_of_all;
	if (rest >= argc)
		return error_set(e, ERROR_USAGE, EINVAL,
			"usage: serve-native [OPTION]... AGENT [ADDRESS:PORT [DOMAIN]]");
	*o = all.daemon;
	o->connections_max = (uint32_t)all.connections;
	o->fleet.kept.all_count = (uint32_t)all.kept_all;
	if (all.states)
		o->fleet.backend = &native_with_states;
	native.guest_root = native_with_states.guest_root = getenv("MAYFLY_GUEST_ROOT");
	native.network = native_with_states.network = getenv("MAYFLY_NATIVE_CHANNELS") != NULL;
	state_bytes = all.states;
	state_ms = all.states_ms;
	boots = all.boots;
	agent = argv[rest];
	if (rest + 1 < argc)
		o->listen = argv[rest + 1];
	if (rest + 2 < argc)
		o->domain = argv[rest + 2];
	return 0;
}

int main(int argc, char **argv)
{
	struct daemon_options o = {
		.listen = "127.0.0.1:3000",
		.fleet =
			{
				.sandboxes_max = 20,
				.creates_per_minute = 600,
				.timeout_max_ns = LIFE_S * NS_PER_S,
				/* native agents take next to nothing of what they are promised */
				.quota = {UINT64_C(1) << 50, 1000000, 1000000},
				.backend = &native,
			},
	};
	struct daemon *d = NULL;
	struct error e = {0};
	int r = parse(&o, argc, argv, &e);

	log_open("serve-native");
	if (r == 0)
		r = daemon_start(&o, &d, &e);
	if (r == 0) {
		printf("port %u\n", d->server->port);
		fflush(stdout);
		r = daemon_run(d, &e);
	}
	daemon_free(d);
	network_floor_free(floor_of_all);
	if (r < 0)
		fprintf(stderr, "serve-native: %s\n", e.message);
	return r < 0;
}
