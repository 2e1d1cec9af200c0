#include "sandbox/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "image/verify.h"
#include "image/workdir.h"
#include "io/program.h"
#include "proto/agent_wire.h"
#include "sandbox/agent_call.h"
#include "sandbox/boot.h"
#include "sandbox/entry.h"
#include "sandbox/guest_command.h"
#include "sandbox/probe.h"
#include "sandbox/start_follow.h"
#include "sandbox/trust_bundle.h"
#include "sandbox/vmm_request.h"
#include "vmm/kvm.h"

enum {
	PAUSE_MS = 20,
	REHEARSAL_S = 60,	  /* its guest reads memory page by page */
	REHEARSAL_SERVICE_S = 60, /* a longer one is tried without noting pages */
	REHEARSAL_COMMAND_MS = 15 * 1000,
	ENTROPY_BYTES = 64
};

static const char boot_dir[] = "boot";
static const char scratch_file[] = "scratch.ext4";

void prepare_cmdline(char out[PREPARE_CMDLINE_MAX])
{
	/* Quiet, because every character on the console is an exit. No mitigations: the guest's
	 * kernel does not protect against its own users here, the VM does (docs/threat-model.md).
	 * The timer needs no check and the delay loop no calibration, as kvm-clock tells their
	 * frequencies. Off is what only costs a restored guest pages and wake-ups: watchdogs (a
	 * pause would also set them off), security modules without a policy, and wiping memory that
	 * nobody else has seen. */
	(void)snprintf(out, PREPARE_CMDLINE_MAX,
		"console=ttyS0 quiet loglevel=4 rdinit=/init panic=-1 reboot=k pci=off "
		"8250.nr_uarts=1 no_timer_check mitigations=off "
		"random.trust_cpu=on audit=0 net.ifnames=0 nowatchdog tsc=nowatchdog lsm=landlock "
		"init_on_alloc=0"); /* fits */
}

/* --- the microVM that is booted --- */

struct booting {
	const struct prepare_options *o;
	struct workdir w; /* becomes snapshots/<name> */
	int boot_fd;	  /* the microVM's directory inside it */
	struct vmm *vmm;
	struct agent_conn *agent;
	struct start_follow *start; /* or NULL */
	uint64_t deadline_ns;
	uint64_t disk_bytes; /* that the root disk grows to; 0: it has them */
};

static void pause_ms(unsigned ms)
{
	const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	(void)nanosleep(&t, NULL); /* early is fine */
}

enum { PATHS_MAX = 4 + IMAGE_DELTAS_MAX, PATH_BYTES = 64 };

struct paths {
	char text[PATHS_MAX][PATH_BYTES];
	unsigned count;
};

static const char *add_path(struct paths *p, int dirfd, const char *name)
{
	char *path =
		p->text[p->count++]; /* fits: base and layer of each disk, and the image's deltas */

	(void)snprintf(path, PATH_BYTES, "/proc/self/fd/%d/%s", dirfd, name); /* fits */
	return path;
}

/* Adds a writable disk, with the snapshot's layer if that exists already. */
static void add_writable(struct booting *b, struct vmm_disk *d, const char *delta, struct paths *p)
{
	d->delta = delta;
	if (faccessat(b->w.fd, delta, F_OK, 0) == 0)
		d->layers[d->layer_count++] = add_path(p, b->w.fd, delta);
}

static void add_image_deltas(struct booting *b, struct vmm_disk *d, struct paths *p)
{
	char name[IMAGE_DELTA_NAME_BYTES];

	for (unsigned i = 0; i < b->o->deltas; i++) {
		image_delta_name(i, name);
		d->layers[d->layer_count++] = add_path(p, b->o->template_fd, name);
	}
	d->image_deltas = d->layer_count; /* the snapshot stands on them, too */
}

static void add_disks(struct booting *b, struct vmm_launch *l, struct paths *p)
{
	struct vmm_disk *d = &l->disks[l->disk_count++];

	d->base = add_path(p, b->o->template_fd, image_file_name(b->o->kind));
	if (b->o->kind == IMAGE_EXT4) {
		d->bytes = b->disk_bytes;
		add_image_deltas(b, d, p);
		add_writable(b, d, "disk0", p);
		return;
	}
	d = &l->disks[l->disk_count++];
	d->base = add_path(p, b->o->template_fd, scratch_file);
	add_writable(b, d, "disk1", p);
}

/* Starts the microVM in a directory of its own: booted, or restored from the snapshot just made. */
static int launch(struct booting *b, bool restored, bool rehearsal, struct error *e)
{
	struct paths paths = {.count = 0};
	char baseline[PATH_BYTES], dir[PATH_BYTES], snapshot[PATH_BYTES],
		cmdline[PREPARE_CMDLINE_MAX];
	struct vmm_launch l = {.dir = dir};

	prepare_cmdline(cmdline);
	(void)snprintf(snapshot, sizeof(snapshot), "/proc/self/fd/%d", b->w.fd); /* fits */
	if (restored) {
		l.snapshot = snapshot;
		l.rehearse = rehearsal;
	} else {
		l.kernel = b->o->kernel->vmlinux;
		l.initrd = b->o->kernel->initrd;
		l.cmdline = cmdline;
		(void)snprintf(baseline, sizeof(baseline), "/proc/self/fd/%d/%s", b->o->template_fd,
			PREPARE_BASELINE); /* fits */
		if (faccessat(b->o->template_fd, PREPARE_BASELINE, F_OK, 0) == 0)
			l.cpu_baseline = baseline;
		l.cpus = b->o->cpus;
		l.memory_bytes = (uint64_t)b->o->memory_mb << 20;
	}
	(void)snprintf(dir, sizeof(dir), "/proc/self/fd/%d/%s", b->w.fd, boot_dir); /* fits */
	if (mkdirat(b->w.fd, boot_dir, 0700) < 0)
		return error_set_errno(
			e, ERROR_NO_SPACE, errno, "cannot create the boot directory");
	b->boot_fd = openat(b->w.fd, boot_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (b->boot_fd < 0)
		return error_set_errno(e, ERROR_INTERNAL, errno, "cannot open the boot directory");
	add_disks(b, &l, &paths);
	return vmm_launch(&l, &b->vmm, e);
}

static int dial_guest(void *arg, struct agent_conn **ret, struct error *e)
{
	const struct booting *b = arg;

	return agent_connect(b->boot_fd, ret, e);
}

static struct guest_commands commands(struct booting *b)
{
	return (struct guest_commands){
		b->agent, b->o->config, b->deadline_ns, {dial_guest, b}, b->start};
}

static int exec_command(struct booting *b, const char *command, unsigned flags, const char *tag,
	int *ret, struct error *e)
{
	const struct guest_commands g = commands(b);

	return guest_command_run(&g, command, flags, tag, ret, e);
}

static int run_command(struct booting *b, const char *command, int *ret_status, struct error *e)
{
	return exec_command(b, command, 0, "", ret_status, e);
}

static int await_ready_command(struct booting *b, unsigned limit_s, struct error *e)
{
	struct guest_commands g = commands(b);

	b->deadline_ns = g.deadline_ns = clock_monotonic_ns() + limit_s * NS_PER_S;
	return guest_ready_await(&g, b->o->name, e);
}

/* --- what a client does first --- */

/* Runs what E2B's clients start for a command or, with pty, for a terminal. */
static void rehearse_shell(struct booting *b, bool pty)
{
	static const char *const command[] = {"/bin/bash", "-l", "-c", "true"},
				 *const terminal[] = {"/bin/bash", "-i", "-l"},
				 *const env[] = {"TERM=xterm-256color", "HISTFILE="};
	static const char end[] = "exit\n";
	struct agent_exec x = {
		.user = b->o->config->user,
		.timeout_ms = REHEARSAL_COMMAND_MS,
		.cwd = "",
		.tag = "",
		.argv = {.array = command, .count = ARRAY_SIZE(command)},
	};
	int status;

	if (pty) {
		x.flags = AGENT_EXEC_PTY;
		x.cols = 80;
		x.rows = 24;
		x.argv.array = terminal;
		x.argv.count = ARRAY_SIZE(terminal);
		x.env.array = env;
		x.env.count = ARRAY_SIZE(env);
	}
	if (agent_exec_start(b->agent, &x, NULL) < 0)
		return;
	if (pty)
		(void)agent_send_stdin(
			b->agent, end, strlen(end)); /* else it takes until the deadline */
	(void)guest_command_await(b->agent, b->deadline_ns, false, &status, NULL);
}

static void rehearse_file(struct booting *b)
{
	static const char text[] = "rehearsal\n";
	const struct agent_write w = {
		.mode = 0644, .user = b->o->config->user, .path = "/tmp/.mayfly-rehearsal"};
	_cleanup_free_ uint8_t *data = NULL;
	size_t n;

	if (agent_write_file(b->agent, b->deadline_ns, &w, text, strlen(text), NULL) == 0 &&
		agent_read_file(b->agent, b->deadline_ns, w.path, sizeof(text), &data, &n, NULL) ==
			0)
		(void)agent_remove(
			b->agent, b->deadline_ns, w.path, 0, NULL); /* of a tmpfs mostly */
}

static void rehearse_client(struct booting *b)
{
	rehearse_shell(b, false);
	rehearse_file(b);
	rehearse_shell(b, true);
}

/* Plays the beginning of every sandbox's life: its identity and what its client does first. Done
 * before the snapshot, this brings what they need into the guest's memory. Failures do not matter:
 * a defect of the guest shows elsewhere. */
static void live_through_beginning(struct booting *b)
{
	uint8_t entropy[ENTROPY_BYTES];
	const struct image_config *c = b->o->config;
	const struct agent_identity m = {
		.fields = AGENT_ID_CLOCK | AGENT_ID_ENTROPY | AGENT_ID_HOSTNAME |
			  AGENT_ID_MACHINE_ID | AGENT_ID_ENV | AGENT_ID_USER | AGENT_ID_WORKDIR,
		.realtime_ns = clock_realtime_ns(),
		.entropy = entropy,
		.entropy_bytes = sizeof(entropy),
		.hostname = "sandbox",
		.machine_id = "00000000000000000000000000000000",
		.env = {.array = (const char *const *)c->env, .count = (uint32_t)c->env_count},
		.user = c->user,
		.workdir = c->workdir,
	};
	int status;

	if (getrandom(entropy, sizeof(entropy), 0) != sizeof(entropy))
		return;
	if (agent_identity(b->agent, b->deadline_ns, &m, NULL, NULL) < 0)
		return;
	(void)run_command(b, ":", &status, NULL);
	rehearse_client(b);
}

/* The port that its environment tells programs to listen on, or 0. */
static uint16_t entry_port(const struct image_config *c)
{
	uint64_t port;

	for (size_t i = 0; i < c->env_count; i++)
		if (str_starts_with(c->env[i], "PORT=") &&
			str_parse_u64(c->env[i] + strlen("PORT="), &port) == 0 &&
			port <= UINT16_MAX)
			return (uint16_t)port;
	return 0;
}

/* What the entry loads before it waits must be what its sandboxes have. */
static int install_trust(struct booting *b, struct error *e)
{
	_cleanup_free_ char *text = NULL;
	int r = file_read(b->o->template_fd, PREPARE_TRUST, TRUST_BUNDLE_MAX, &text, NULL);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "cannot read the template's authorities");
	return trust_bundle_install(b->agent, b->deadline_ns, text, e);
}

/* Starts the entry process. With a ready command, that says when it waits for its input. One that
 * ends with status 0, or waits for something else, is no failure. */
static int start_entry(struct booting *b, const struct progress *p, struct error *e)
{
	const struct image_config *c = b->o->config;
	const struct entry_port port = {entry_port(c), {dial_guest, b}};
	int pid, r = progress_report(p, "start the program", PROGRESS_NO_PERCENT, NULL);

	if (r == 0)
		r = exec_command(b, c->entry_command,
			AGENT_EXEC_DETACHED | AGENT_EXEC_KEEP | AGENT_EXEC_BRIEF | AGENT_EXEC_STDIN,
			ENTRY_TAG, &pid, e);
	if (r < 0 || *c->ready_command)
		return r;
	r = entry_await(b->agent, (uint32_t)pid, &port, ENTRY_LIMIT_S, e);
	if (r)
		return r < 0 ? r : 0;
	return progress_report(p, PREPARE_NOT_WARM, PROGRESS_NO_PERCENT,
		"the program does not wait for its input");
}

/* The file system grows to the disk. */
static int grow(struct booting *b, struct error *e)
{
	const struct agent_identity m = {.fields = AGENT_ID_DISK,
		.disk_bytes = b->disk_bytes,
		.hostname = "",
		.machine_id = "",
		.user = "",
		.workdir = ""};

	return b->disk_bytes ? agent_identity(b->agent, b->deadline_ns, &m, NULL, e) : 0;
}

/* As E2B's builds say it. */
static void tell(const struct booting *b, const char *what, const char *command)
{
	_cleanup_free_ char *text = b->o->start ? str_printf("%s%s", what, command) : NULL;

	if (text)
		b->o->start->say(b->o->start->opaque, text, strlen(text));
}

/* On a connection of its own, which takes its output and its end. */
static int follow_start(struct booting *b, struct error *e)
{
	const char *shown = b->o->start->shown, *command = b->o->config->start_command;
	struct guest_commands g = commands(b);
	int r = dial_guest(b, &g.agent, e);

	if (r < 0)
		return r;
	tell(b, "Running start command: ", shown ? shown : command);
	r = guest_command_start(&g, command, e);
	b->start = r == 0 ? start_follow_new(g.agent, b->o->start) : NULL;
	if (r == 0 && !b->start)
		r = error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	if (r < 0)
		agent_close(g.agent);
	return r;
}

static int start_and_await(struct booting *b, const struct progress *p, struct error *e)
{
	const struct image_config *c = b->o->config;
	int pid, r = 0;

	if (*c->start_command && b->o->start)
		r = follow_start(b, e);
	else if (*c->start_command)
		r = exec_command(b, c->start_command, AGENT_EXEC_DETACHED, "", &pid, e);
	if (r == 0 && *c->entry_command)
		r = install_trust(b, e);
	if (r == 0 && *c->entry_command)
		r = start_entry(b, p, e);
	if (r < 0 || !*c->ready_command)
		return r;
	tell(b, "Waiting for template to be ready: ", c->ready_command);
	r = await_ready_command(b, PREPARE_READY_S, e);
	if (r == 0)
		tell(b, "Template is ready", "");
	return r;
}

/* Runs the template's commands before its snapshot. */
static int run_commands(struct booting *b, const struct progress *p, struct error *e)
{
	const struct image_config *c = b->o->config;
	int status = 0, r = grow(b, e);

	if (r < 0)
		return r;
	live_through_beginning(b);
	b->deadline_ns = clock_monotonic_ns() + PREPARE_READY_S * NS_PER_S;
	r = start_and_await(b, p, e);
	start_follow_free(TAKE_PTR(b->start)); /* no connection may be open in the snapshot */
	if (r < 0 || !*c->warm_command)
		return r;
	r = progress_report(p, "warm up", PROGRESS_NO_PERCENT, NULL);
	b->deadline_ns = clock_monotonic_ns() + PREPARE_WARM_S * NS_PER_S;
	if (r == 0)
		r = run_command(b, c->warm_command, &status, e);
	b->deadline_ns = clock_monotonic_ns() + PREPARE_BOOT_S * NS_PER_S;
	if (r == 0 && status)
		return error_set(e, ERROR_BAD_IMAGE, EINVAL,
			"the warm command of template '%s' ended with status %d", b->o->name,
			status);
	return r;
}

/* Writes back, and waits until no host connection is open, so the snapshot needs no repair.
 * Processes stand still until a sandbox has its identity. */
static int settle(struct booting *b, struct error *e)
{
	uint64_t deadline = clock_monotonic_ns() + PREPARE_SETTLE_S * NS_PER_S;
	struct error why = {0};
	char reply[16] = "";
	int r = agent_sync(b->agent, b->deadline_ns, 0, e);

	if (r == 0 && agent_hold(b->agent, b->deadline_ns, &why) < 0)
		log_info("the snapshot of template '%s' is made while processes run: %s",
			b->o->name, why.message);
	agent_close(TAKE_PTR(b->agent));
	while (r == 0 && strcmp(reply, "yes") != 0) {
		if (clock_monotonic_ns() > deadline)
			return error_set(e, ERROR_TIMEOUT, ETIMEDOUT,
				"the guest of template '%s' does not settle", b->o->name);
		pause_ms(PAUSE_MS);
		r = vmm_request(b->boot_fd, "idle", reply, sizeof(reply), e);
	}
	return r;
}

static int record_sums(int fd, struct error *e)
{
	static const char *const files[] = {"memory", "disk0", "disk1"};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		int r;

		if (faccessat(fd, files[i], F_OK, 0) < 0)
			continue;
		r = verify_record(fd, files[i], e);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Keeps the boot log where `mayfly logs --template` looks. */
static void keep_console(struct booting *b)
{
	(void)renameat(b->boot_fd, "console.log", b->o->template_fd,
		"console.log"); /* a log: its loss is no failure */
}

/* --- children --- */

/* Starts a microVM from the snapshot that was just made; its agent must answer. */
static int restore(struct booting *b, bool rehearsal, struct error *e)
{
	int r = file_remove_tree(b->w.fd, boot_dir);

	b->deadline_ns = clock_monotonic_ns() + REHEARSAL_S * NS_PER_S;
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "cannot remove a directory");
	r = launch(b, true, rehearsal, e);
	return r < 0 ? r : agent_connect_ready(b->boot_fd, b->deadline_ns, &b->agent, e);
}

static void end_child(struct booting *b)
{
	agent_close(TAKE_PTR(b->agent));
	vmm_stop(TAKE_PTR(b->vmm));
	cleanup_close_p(&b->boot_fd);
	b->boot_fd = -1;
}

/* A service's first answer in a new sandbox: the template's ready command, if it has one. */
static int try_service(struct booting *b, unsigned limit_s, struct error *e)
{
	return *b->o->config->ready_command ? await_ready_command(b, limit_s, e) : 0;
}

/* Restores the snapshot once to note which pages that touches. The result is only a hint. Returns
 * whether the child answered. */
static bool rehearse(struct booting *b)
{
	struct error e = {0};
	int r = restore(b, true, &e);
	bool good = false;

	if (r == 0) {
		live_through_beginning(b);
		good = try_service(b, REHEARSAL_SERVICE_S, &e) ==
		       0; /* pages written before a failure count, too */
		r = vmm_pause(b->vmm, &e);
	}
	if (r == 0)
		r = vmm_save_hot(b->vmm, b->w.fd, &e);
	if (r < 0)
		log_debug("no hot pages for template '%s': %s", b->o->name, e.message);
	end_child(b);
	return good;
}

/* A child as a sandbox is one: without it, the template must not take another one's place. */
static int validate(struct booting *b, struct error *e)
{
	int r = restore(b, false, e);

	if (r == 0) {
		live_through_beginning(b);
		r = try_service(b, PREPARE_READY_S, e);
	}
	end_child(b);
	if (r < 0)
		error_prefix(e,
			"a sandbox of the new template '%s' does not work, so the template is not "
			"made",
			b->o->name);
	return r;
}

static int boot_and_save(struct booting *b, const struct progress *p, struct error *e)
{
	int r = launch(b, false, false, e);
	const struct boot boot = {
		.name = b->o->name, .step = "boot", .vmm = b->vmm, .fd = b->boot_fd};

	if (r == 0)
		r = boot_await(&boot, b->deadline_ns, p, &b->agent, e);
	if (r == 0)
		r = run_commands(b, p, e);
	if (r == 0)
		r = settle(b, e);
	if (r == 0)
		r = progress_report(p, "snapshot", PROGRESS_NO_PERCENT, NULL);
	if (r == 0)
		r = vmm_pause(b->vmm, e);
	if (r == 0)
		r = vmm_save(b->vmm, b->w.fd, e);
	agent_close(TAKE_PTR(b->agent));
	vmm_stop(TAKE_PTR(b->vmm));
	if (b->boot_fd >= 0)
		keep_console(b);
	cleanup_close_p(&b->boot_fd);
	b->boot_fd = -1;
	if (r == 0 && !rehearse(b))
		r = validate(b, e); /* at a sandbox's speed */
	if (r == 0)
		r = file_remove_tree(b->w.fd, boot_dir);
	return r == 0 ? record_sums(b->w.fd, e) : r;
}

static int snapshots_fd(int template_fd, struct error *e)
{
	int fd;

	(void)mkdirat(template_fd, "snapshots", 0700); /* may exist; openat tells */
	fd = openat(template_fd, "snapshots", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? error_set_errno(e, ERROR_NO_SPACE, errno, "cannot open the snapshots") : fd;
}

/* Claims the right to make the snapshot: 1. Returns 0 if another process has made it meanwhile. */
static int begin(struct booting *b, int area_fd, const char *name, struct error *e)
{
	for (;;) {
		struct error busy = {0};
		struct stat st;
		int r;

		if (fstatat(area_fd, name, &st, 0) == 0)
			return 0;
		r = workdir_begin(area_fd, name, "snapshot", &b->w, &busy);
		if (r == 0)
			return 1;
		if (busy.code != ERROR_EXISTS) {
			*e = busy;
			return r;
		}
		if (clock_monotonic_ns() > b->deadline_ns)
			return error_set(e, ERROR_TIMEOUT, ETIMEDOUT,
				"another process has been making snapshot %s for too long", name);
		pause_ms(PAUSE_MS);
	}
}

static uint64_t bytes_to_grow_to(const struct prepare_options *o)
{
	uint64_t wanted = (uint64_t)o->config->disk_mb << 20;
	struct stat st;

	return o->kind == IMAGE_EXT4 &&
			       fstatat(o->template_fd, image_file_name(o->kind), &st, 0) == 0 &&
			       (uint64_t)st.st_size < wanted
		       ? wanted
		       : 0;
}

int prepare_snapshot(const struct prepare_options *o, const struct progress *p, struct error *e)
{
	struct booting b = {.o = o,
		.w = WORKDIR_INIT,
		.boot_fd = -1,
		.deadline_ns = clock_monotonic_ns() + PREPARE_BOOT_S * NS_PER_S,
		.disk_bytes = bytes_to_grow_to(o)};
	char name[TEMPLATE_SNAPSHOT_NAME_MAX];
	_cleanup_close_ int area_fd = -1;
	int r = probe_host(e);

	if (r < 0)
		return r;
	area_fd = snapshots_fd(o->template_fd, e);
	if (area_fd < 0)
		return area_fd;
	template_snapshot_name(o->cpus, o->memory_mb, name);
	r = begin(&b, area_fd, name, e);
	if (r <= 0)
		return r;
	r = boot_and_save(&b, p, e);
	if (r < 0) {
		workdir_abort(&b.w);
		if (e && e->code == ERROR_NONE)
			(void)error_set_errno(e, ERROR_INTERNAL, -r,
				"cannot make the snapshot of '%s'", o->name); /* r is returned */
		return r;
	}
	return workdir_commit(&b.w, e);
}

/* --- templates --- */

int prepare_kernel(const struct home *h, const char *kernel, const char *modules,
	const struct progress *p, struct kernel *ret, struct error *e)
{
	char agent[PATH_MAX];
	struct kernel_options o = {.agent = agent, .kernel = kernel, .modules = modules};
	int r = program_path("mayfly-agent", agent, sizeof(agent), e);

	return r < 0 ? r : kernel_prepare(h, &o, p, ret, e);
}

static int fill_template(const struct image *m, const struct kernel *k, struct template *t)
{
	*t = (struct template){
		.kernel_release = strdup(k->release),
		.agent_version = str_printf("%d", AGENT_PROTOCOL_VERSION),
		.image_digest = strdup(m->digest),
		.kind = m->kind,
		.deltas = m->deltas,
		.created_s = clock_realtime_ns() / NS_PER_S,
	};
	if (!t->kernel_release || !t->agent_version || !t->image_digest)
		return -ENOMEM;
	return config_copy(&m->config, &t->config);
}

static int build(const struct home *h, const struct image *m, const struct kernel *k,
	struct template_build *b, const struct start_watch *start, const struct progress *p,
	struct error *e)
{
	struct prepare_options o = {
		.template_fd = template_build_fd(b),
		.name = m->name,
		.kind = m->kind,
		.deltas = m->deltas,
		.config = &m->config,
		.kernel = k,
		.cpus = m->config.cpus,
		.memory_mb = m->config.memory_mb,
		.start = start,
	};
	int r = template_add_image(h, b, m, e);

	if (r == 0)
		r = template_record_image(o.template_fd, m->kind, m->deltas, e);
	return r == 0 ? prepare_snapshot(&o, p, e) : r;
}

static int write_text(int template_fd, const char *name, const char *text, struct error *e)
{
	int r = text ? file_write_atomic(template_fd, name, text, strlen(text), 0600) : 0;

	return r < 0 ? error_set_errno(
			       e, ERROR_NO_SPACE, -r, "cannot write the template's %s", name)
		     : 0;
}

int prepare_template(const struct home *h, const char *name, const struct kernel *kernel,
	const struct prepare_more *more, const struct progress *p, struct error *e)
{
	struct template_build b = TEMPLATE_BUILD_INIT;
	struct template t = {0};
	struct image m = {0};
	int r = image_load(h, name, &m, e);

	if (r == 0)
		r = template_begin(h, name, &b, e);
	if (r < 0)
		goto out;
	r = write_text(template_build_fd(&b), PREPARE_BASELINE, more->baseline, e);
	if (r == 0)
		r = write_text(template_build_fd(&b), PREPARE_TRUST, more->trust, e);
	if (r == 0 && more->key)
		r = template_note_key(&b, more->key, e);
	if (m.kind == IMAGE_EXT4 && more->disk_mb > m.config.disk_mb)
		m.config.disk_mb = more->disk_mb;
	if (r == 0)
		r = build(h, &m, kernel, &b, more->start, p, e);
	if (r == 0 && fill_template(&m, kernel, &t) < 0)
		r = error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	if (r == 0)
		r = template_commit(&b, &t, e);
	else
		template_abort(&b);
	template_done(&t);
out:
	image_done(&m);
	return r;
}
