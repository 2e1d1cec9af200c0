/* mayfly-vmm: the process of one microVM.
 *
 * vmm_launch (launch.h) starts it, opens every file, socket and device, and passes the descriptors.
 * This process opens, creates and removes nothing by path. Files for snapshots come with the
 * requests. The main thread runs one epoll loop for the guest's host sockets, control requests and
 * the owner's channel. vCPU threads do the rest. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "base/str.h"
#include "jail/landlock.h"
#include "vmm/control.h"
#include "vmm/cpu_model.h"
#include "vmm/pages.h"
#include "vmm/snapshot_task.h"
#include "vmm/thread_filter.h"
#include "vmm/vm.h"

struct settings {
	uint64_t kvm_fd, proc_fd, console_fd, vsock_fd, egress_fd, control_fd, owner_fd;
	uint64_t kernel_fd, initrd_fd, state_fd, memory_fd, hot_fd, baseline_fd, host_cpu;
	uint64_t cpus, memory;
	const char *cmdline, *filter;
	struct option_list disks, layers;
	bool paused, keep, check_layers, rehearse, help;
};

enum { LOG_MAX_BYTES = 256 * 1024 }; /* a guest can make us write a line per second */

#define NO_FD UINT64_C(0xffffffff)
#define FD_OPTION(n, field, what)                                                                  \
	{                                                                                          \
		n, 0, OPTION_NUMBER, "FD", what, offsetof(struct settings, field), 0, 65535, false \
	}

static const struct option_spec options[] = {
	FD_OPTION("kvm-fd", kvm_fd, "/dev/kvm"),
	FD_OPTION("proc-fd", proc_fd, "/proc, closed once our own pagemap was opened through it"),
	FD_OPTION("console-fd", console_fd, "the boot log"),
	FD_OPTION("vsock-fd", vsock_fd, "listening Unix socket: the host side of virtio-vsock"),
	FD_OPTION("egress-fd", egress_fd, "egress channel; none: the guest has no network"),
	FD_OPTION("control-fd", control_fd, "listening seqpacket socket for control requests"),
	FD_OPTION("owner-fd", owner_fd, "the owner's channel; its end ends the microVM"),
	FD_OPTION("state-fd", state_fd, "restore from a snapshot with this state"),
	FD_OPTION("memory-fd", memory_fd, "its memory, or what that stands on"),
	{"layer-fd", 0, OPTION_LIST, "FD", "a layer of its memory (repeatable), lowest first",
		offsetof(struct settings, layers), 0, 0, false},
	{"check-layers", 0, OPTION_FLAG, NULL, "compare the layers' checksums",
		offsetof(struct settings, check_layers), 0, 0, false},
	FD_OPTION("hot-fd", hot_fd, "its hot pages"),
	{"host-cpu", 0, OPTION_NUMBER, "N",
		"hash of this host's CPU (cpu_model.h), when it is known",
		offsetof(struct settings, host_cpu), 0, UINT64_MAX, false},
	FD_OPTION("baseline-fd", baseline_fd, "facts to which a boot's CPU is limited"),
	{"rehearse", 0, OPTION_FLAG, NULL, "find the snapshot's hot pages",
		offsetof(struct settings, rehearse), 0, 0, false},
	FD_OPTION("kernel-fd", kernel_fd, "boot this uncompressed kernel"),
	FD_OPTION("initrd-fd", initrd_fd, "initramfs of a boot"),
	{"cmdline", 0, OPTION_STRING, "TEXT", "kernel command line of a boot",
		offsetof(struct settings, cmdline), 0, 0, false},
	{"cpus", 0, OPTION_NUMBER, "N", "vCPUs of a boot", offsetof(struct settings, cpus), 1, 4,
		false},
	{"memory-bytes", 0, OPTION_NUMBER, "N", "memory of a boot",
		offsetof(struct settings, memory), 4096, UINT64_C(4) << 30, false},
	{"disk", 0, OPTION_LIST, "base=FD[,image=FD]...[,layer=FD]...[,delta=FD][,bytes=N]",
		"a disk (repeatable)", offsetof(struct settings, disks), 0, 0, false},
	{"paused", 0, OPTION_FLAG, NULL, "wait for a resume request before running",
		offsetof(struct settings, paused), 0, 0, false},
	{"keep", 0, OPTION_FLAG, NULL, "outlive the owner", offsetof(struct settings, keep), 0, 0,
		false},
	{"filter", 0, OPTION_STRING, "kill|log|off",
		"what becomes of system calls that are not on the lists",
		offsetof(struct settings, filter), 0, 0, false},
	{"help", 'h', OPTION_HELP, NULL, "show this help", offsetof(struct settings, help), 0, 0,
		false},
	{0},
};

/* The subject of an epoll event. Connections count up from SOURCE_CONNECTION. */
enum source {
	SOURCE_SIGNAL,
	SOURCE_END,
	SOURCE_VSOCK,
	SOURCE_LISTEN,
	SOURCE_OWNER,
	SOURCE_SNAPSHOT,
	SOURCE_CONNECTION
};

struct vmm_process {
	struct settings s;
	struct vm *vm;
	int epoll_fd;
	int owner_fd; /* -1: none, or gone */
	int signal_fd;
	bool running, over;
	struct snapshot_task *snapshot;		  /* in progress, or NULL */
	int connections[CONTROL_CONNECTIONS_MAX]; /* -1: free */
};

static int fd_of(uint64_t option)
{
	return option == NO_FD ? -1 : (int)option;
}

/* --- start --- */

/* Deltas of the image come before all others. */
static bool add_lower(struct vm_disk *d, bool of_image, int fd)
{
	if (d->lower_count == SNAPSHOT_LAYERS_MAX ||
		(of_image && d->image_deltas != d->lower_count))
		return false;
	d->lower_fds[d->lower_count++] = fd;
	d->image_deltas += of_image;
	return true;
}

static int parse_disk(const char *spec, struct vm_disk *d, struct error *e)
{
	char copy[512], *rest = copy, *part;

	*d = (struct vm_disk){.base_fd = -1, .delta_fd = -1};
	if (strlen(spec) >= sizeof(copy))
		return error_set(e, ERROR_USAGE, EINVAL, "--disk is too long");
	memcpy(copy, spec, strlen(spec) + 1);
	while ((part = strsep(&rest, ","))) {
		char *value = strchr(part, '=');
		uint64_t v;

		if (!value || str_parse_u64(value + 1, &v) < 0)
			return error_set(
				e, ERROR_USAGE, EINVAL, "--disk %s: expected NAME=NUMBER", spec);
		*value = '\0';
		if (strcmp(part, "bytes") == 0)
			d->bytes = v;
		else if (v > 65535)
			return error_set(e, ERROR_USAGE, EINVAL, "--disk %s: bad descriptor", spec);
		else if (strcmp(part, "base") == 0)
			d->base_fd = (int)v;
		else if (strcmp(part, "delta") == 0)
			d->delta_fd = (int)v;
		else if ((strcmp(part, "image") && strcmp(part, "layer")) ||
			 !add_lower(d, *part == 'i', (int)v))
			return error_set(
				e, ERROR_USAGE, EINVAL, "--disk %s: unexpected %s", spec, part);
	}
	return d->base_fd < 0 ? error_set(e, ERROR_USAGE, EINVAL, "--disk %s: no base", spec) : 0;
}

static int parse_layers(const struct option_list *list, struct vm_options *o, struct error *e)
{
	if (list->count > SNAPSHOT_LAYERS_MAX)
		return error_set(
			e, ERROR_LIMIT, E2BIG, "more than %d memory layers", SNAPSHOT_LAYERS_MAX);
	for (unsigned i = 0; i < list->count; i++) {
		uint64_t v;

		if (str_parse_u64(list->items[i], &v) < 0 || v > 65535)
			return error_set(e, ERROR_USAGE, EINVAL, "--layer-fd %s: bad descriptor",
				list->items[i]);
		o->layer_fds[o->layer_count++] = (int)v;
	}
	return 0;
}

static int read_baseline(int fd, char **ret, struct error *e)
{
	int r = file_read_fd(fd, CPU_FACTS_TEXT_MAX, ret, NULL);

	return r < 0 ? error_set_errno(e, ERROR_USAGE, -r, "cannot read the CPU baseline") : 0;
}

/* Gives up all paths. /proc is a way out of the jail while it is open, so it is closed before this
 * process reads anything that others wrote. */
static int give_up_paths(const struct settings *s, int *ret, struct error *e)
{
	int proc_fd = fd_of(s->proc_fd), r = *ret = pages_open(proc_fd);

	if (proc_fd >= 0)
		(void)close(proc_fd); /* only a directory */
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "cannot open /proc/self/pagemap");
	r = landlock_forbid_all(LANDLOCK_NO_PORT);
	return r < 0 ? error_set_errno(e, ERROR_HOST, -r, "Landlock") : 0;
}

/* Takes pagemap_fd over. */
static int make_vm(struct vmm_process *p, int pagemap_fd, struct error *e)
{
	const struct settings *s = &p->s;
	struct vm_options o = {
		.cpus = (unsigned)s->cpus,
		.memory_bytes = s->memory,
		.kernel_fd = fd_of(s->kernel_fd),
		.initrd_fd = fd_of(s->initrd_fd),
		.cmdline = s->cmdline,
		.host_cpu = s->host_cpu,
		.state_fd = fd_of(s->state_fd),
		.memory_fd = fd_of(s->memory_fd),
		.hot_fd = fd_of(s->hot_fd),
		.check_layers = s->check_layers,
		.rehearse = s->rehearse,
		.idle = s->paused, /* made in advance: nobody waits for it */
		.console_fd = fd_of(s->console_fd),
		.kvm_fd = fd_of(s->kvm_fd),
		.rng = true,
		.vsock_listen_fd = fd_of(s->vsock_fd),
		.pagemap_fd = pagemap_fd,
	};
	_cleanup_free_ char *baseline = NULL;
	int r = parse_layers(&s->layers, &o, e);

	if (r == 0 && s->baseline_fd != NO_FD)
		r = read_baseline(fd_of(s->baseline_fd), &baseline, e);
	if (r < 0)
		return r;
	o.baseline = baseline;
	if (o.state_fd < 0 && o.kernel_fd < 0)
		return error_set(
			e, ERROR_USAGE, EINVAL, "neither --state-fd nor --kernel-fd is given");
	if (o.kvm_fd < 0)
		return error_set(e, ERROR_USAGE, EINVAL, "--kvm-fd is not given");
	if (s->disks.count > SNAPSHOT_DISKS_MAX)
		return error_set(e, ERROR_LIMIT, E2BIG, "more than %d disks", SNAPSHOT_DISKS_MAX);
	for (unsigned i = 0; i < s->disks.count; i++) {
		r = parse_disk(s->disks.items[i], &o.disks[i], e);
		if (r < 0)
			return r;
		o.disk_count++;
	}
	return vm_create(&o, &p->vm, e);
}

/* A paused VM's vsock is not served, as that would write into its memory. */
static void watch_vsock(struct vmm_process *p, bool on)
{
	struct epoll_event ev = {.events = on ? EPOLLIN : 0, .data.u32 = SOURCE_VSOCK};

	if (vm_vsock_fd(p->vm) >= 0)
		(void)epoll_ctl(p->epoll_fd, EPOLL_CTL_MOD, vm_vsock_fd(p->vm), &ev); /* it is in */
}

static int watch(struct vmm_process *p, int fd, unsigned source)
{
	struct epoll_event ev = {
		.events = source == SOURCE_VSOCK ? 0 : EPOLLIN, .data.u32 = source};

	if (fd < 0)
		return 0;
	return epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static int watch_signals(struct vmm_process *p)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	p->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return p->signal_fd < 0 ? -errno : 0;
}

/* #calls start: epoll_create1 epoll_ctl signalfd4 */
static int watch_all(struct vmm_process *p, struct error *e)
{
	int r;

	p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (p->epoll_fd < 0)
		return error_set_errno(e, ERROR_NO_SPACE, errno, "epoll_create1");
	r = watch_signals(p);
	r = r ? r : watch(p, p->signal_fd, SOURCE_SIGNAL);
	r = r ? r : watch(p, vm_event_fd(p->vm), SOURCE_END);
	r = r ? r : watch(p, vm_vsock_fd(p->vm), SOURCE_VSOCK);
	r = r ? r : watch(p, fd_of(p->s.control_fd), SOURCE_LISTEN);
	r = r ? r : watch(p, p->owner_fd, SOURCE_OWNER);
	return r < 0 ? error_set_errno(e, ERROR_NO_SPACE, -r, "cannot watch a descriptor") : 0;
}

static void tell_owner(struct vmm_process *p, const char *text)
{
	if (p->owner_fd >= 0)
		(void)control_send(
			p->owner_fd, text, NULL); /* a lost owner shows as the channel's end */
}

/* --- requests --- */

static void answer_status(struct vmm_process *p, char *out)
{
	struct snapshot_needs needs = vm_snapshot_needs(p->vm);
	char writes[SNAPSHOT_NEEDS_BYTES];
	struct vm_stats s;
	const char *state = vm_ended(p->vm, NULL, 0) != VM_RUNNING ? "ended"
			    : p->running			   ? "running"
								   : "paused";

	vm_get_stats(p->vm, &s);
	snapshot_needs_format(&needs, writes);
	(void)snprintf(out, CONTROL_MESSAGE_MAX,
		"ok %s cpus=%u memory_bytes=%llu exits=%llu layers=%u tops=%llu,%llu steps "
		"writes=%s",
		state, s.cpus, (unsigned long long)s.memory_bytes, (unsigned long long)s.exits,
		s.memory_layers, (unsigned long long)s.disk_tops[0],
		(unsigned long long)s.disk_tops[1], writes); /* fits */
}

static int refuse_running(const struct vmm_process *p, struct error *e)
{
	return p->running ? error_set(e, ERROR_USAGE, EBUSY, "pause the VM first") : 0;
}

static int do_save(
	struct vmm_process *p, const char *words, struct control_fds *fds, struct error *e)
{
	struct snapshot_files files;
	int r = refuse_running(p, e);

	if (r == 0)
		r = snapshot_files_take(words, fds, &files, e);
	if (r < 0)
		return r;
	r = vm_save(p->vm, &files, e);
	snapshot_files_close(&files);
	return r;
}

static int do_save_hot(struct vmm_process *p, const struct control_fds *fds, struct error *e)
{
	int r = refuse_running(p, e);

	if (r == 0 && fds->count != 2)
		r = error_set(e, ERROR_USAGE, EINVAL, "hot: two files must come with the request");
	return r < 0 ? r : vm_save_hot(p->vm, fds->fd[0], fds->fd[1], e);
}

static void set_running(struct vmm_process *p, bool running)
{
	watch_vsock(p, running);
	p->running = running;
}

static void resume(struct vmm_process *p)
{
	vm_resume(p->vm);
	set_running(p, true);
}

static int pause_vm(struct vmm_process *p, struct error *e)
{
	int r = vm_pause(p->vm, e);

	if (r == 0)
		set_running(p, false);
	return r;
}

static int freeze(struct vmm_process *p, struct error *e)
{
	int r = p->running ? vm_freeze(p->vm, e) : 0;

	if (r == 0)
		set_running(p, false);
	return r;
}

/* Ends a snapshot that succeeded or failed. */
static void end_snapshot(struct vmm_process *p)
{
	struct snapshot_task *t = TAKE_PTR(p->snapshot);

	if (!snapshot_task_finish(t))
		return;
	set_running(p, false);
}

static int set_network(struct vmm_process *p, struct control_fds *fds, struct error *e)
{
	if (fds->count > 1)
		return error_set(
			e, ERROR_USAGE, EINVAL, "network: expected one descriptor, or none");
	vm_set_egress(p->vm, fds->count ? TAKE_FD(fds->fd[0]) : -1);
	return 0;
}

static int freeze_disk(struct vmm_process *p, struct control_fds *fds, struct error *e)
{
	if (fds->count != 1)
		return error_set(e, ERROR_USAGE, EINVAL, "freeze-disk: expected one descriptor");
	return vm_freeze_disk(p->vm, TAKE_FD(fds->fd[0]), e);
}

static bool changes_vm(const char *request)
{
	static const char *const others[] = {"status", "idle", "network", "quit", "keep"};

	for (unsigned i = 0; i < ARRAY_SIZE(others); i++)
		if (strcmp(request, others[i]) == 0)
			return false;
	return true;
}

static void handle_request(
	struct vmm_process *p, const char *request, struct control_fds *fds, char *out)
{
	struct error e = {0};

	(void)snprintf(out, CONTROL_MESSAGE_MAX, "ok"); /* fits */
	if (p->snapshot && changes_vm(request))
		(void)error_set(&e, ERROR_LIMIT, EBUSY,
			"a snapshot is under way; try again when it is done"); /* only to fill e */
	else if (strcmp(request, "status") == 0)
		answer_status(p, out);
	else if (strcmp(request, "idle") == 0)
		(void)snprintf(out, CONTROL_MESSAGE_MAX, "ok %s",
			vm_vsock_idle(p->vm) ? "yes" : "no"); /* fits */
	else if (strcmp(request, "pause") == 0)
		(void)pause_vm(p, &e); /* e has the result */
	else if (strcmp(request, "freeze") == 0)
		(void)freeze(p, &e); /* e has the result */
	else if (str_starts_with(request, "save "))
		(void)do_save(p, request + 5, fds, &e); /* e has the result */
	else if (strcmp(request, "hot") == 0)
		(void)do_save_hot(p, fds, &e); /* e has the result */
	else if (strcmp(request, "flush") == 0)
		(void)vm_flush_disks(p->vm, &e); /* e has the result */
	else if (strcmp(request, "freeze-disk") == 0)
		(void)freeze_disk(p, fds, &e); /* e has the result */
	else if (strcmp(request, "network") == 0)
		(void)set_network(p, fds, &e); /* e has the result */
	else if (strcmp(request, "keep") == 0)
		p->s.keep = true;
	else if (strcmp(request, "quit") == 0)
		p->over = true;
	else
		(void)error_set(&e, ERROR_USAGE, EINVAL, "unknown request"); /* only to fill e */
	if (e.code != ERROR_NONE)
		control_format_error(&e, "error", out);
}

static int begin_snapshot(struct vmm_process *p, const char *arguments, struct control_fds *fds,
	int sock, struct error *e)
{
	int r = snapshot_task_start(p->vm, arguments, fds, sock, &p->snapshot, e);

	if (r < 0)
		return r;
	r = watch(p, snapshot_task_fd(p->snapshot), SOURCE_SNAPSHOT);
	if (r < 0) /* waits for the snapshot here, then answers as usual */
		end_snapshot(p);
	return 0;
}

/* Answers first: a vCPU that runs may take this thread's CPU for a tick of the host. */
static bool resume_and_answer(struct vmm_process *p, int sock)
{
	int r = control_send(sock, "ok", NULL);

	resume(p);
	return r == 0;
}

/* Serves one request of a channel. Returns false when the peer is gone. */
static bool serve(struct vmm_process *p, int sock)
{
	static const char snapshot[] = "snapshot ";
	char request[CONTROL_MESSAGE_MAX], reply[CONTROL_MESSAGE_MAX];
	_cleanup_(control_fds_close) struct control_fds fds = {0};
	struct error e = {0};
	int r = control_receive(sock, request, &fds);

	if (r == -EAGAIN)
		return true;
	if (r <= 0)
		return false;
	if (strcmp(request, "go") == 0) {
		if (p->snapshot)
			snapshot_task_go(p->snapshot);
		return true; /* "go" may come too late, and has no answer */
	}
	if (!p->snapshot && strcmp(request, "resume") == 0)
		return resume_and_answer(p, sock);
	if (p->snapshot || !str_starts_with(request, snapshot))
		handle_request(p, request, &fds, reply);
	else if (begin_snapshot(p, request + strlen(snapshot), &fds, sock, &e) < 0)
		control_format_error(&e, "error", reply);
	else
		return true; /* answered when the snapshot is done */
	return control_send(sock, reply, NULL) == 0;
}

/* #calls main: accept4 close */
static void accept_connection(struct vmm_process *p)
{
	int fd = accept4(fd_of(p->s.control_fd), NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	for (unsigned i = 0; i < CONTROL_CONNECTIONS_MAX; i++)
		if (p->connections[i] < 0 && watch(p, fd, SOURCE_CONNECTION + i) == 0) {
			p->connections[i] = fd;
			return;
		}
	(void)control_send(
		fd, "error 1 24 too many control connections", NULL); /* it is refused anyway */
	(void)close(fd);					      /* refused */
}

/* --- end --- */

/* Handles SIGBUS, on any thread: the host cannot supply a page of a file under the guest's memory
 * or a disk's map. The VM cannot go on, but the reason is reported.
 *
 * #calls start main vcpu snapshot (when that happens): write sendmsg exit_group */
static int bus_error_fd = -1; /* the owner's channel */

static void on_bus_error(int signo)
{
	static const char event[] = "event ended error " VM_NO_PAGE, line[] = VM_NO_PAGE "\n";

	(void)signo;					     /* the only one */
	(void)!write(STDERR_FILENO, line, sizeof(line) - 1); /* all that can still be done */
	if (bus_error_fd >= 0)
		(void)fd_send(bus_error_fd, event, sizeof(event) - 1);
	_exit(1);
}

static void explain_bus_errors(const struct vmm_process *p)
{
	struct sigaction sa = {.sa_handler = on_bus_error};

	bus_error_fd = p->owner_fd;
	sigemptyset(&sa.sa_mask);
	(void)sigaction(SIGBUS, &sa, NULL); /* without a handler, SIGBUS kills us all the same */
}

static void handle_end(struct vmm_process *p)
{
	static const char *const words[] = {"running", "power-off", "reset", "crash", "error"};
	char why[160], text[CONTROL_MESSAGE_MAX];
	enum vm_end end = vm_ended(p->vm, why, sizeof(why));

	(void)snprintf(text, sizeof(text), "event ended %s %s", words[end], why); /* fits */
	tell_owner(p, text);
	p->over = true;
}

static void handle_owner(struct vmm_process *p)
{
	if (serve(p, p->owner_fd))
		return;
	(void)epoll_ctl(p->epoll_fd, EPOLL_CTL_DEL, p->owner_fd, NULL); /* closed next */
	(void)close(p->owner_fd);					/* the peer is gone */
	p->owner_fd = bus_error_fd = -1;
	p->over = !p->s.keep;
}

static void handle_event(struct vmm_process *p, uint32_t source)
{
	switch (source) {
	case SOURCE_SIGNAL:
		p->over = true;
		break;
	case SOURCE_END:
		handle_end(p);
		break;
	case SOURCE_VSOCK:
		vm_vsock_poll(p->vm);
		break;
	case SOURCE_LISTEN:
		accept_connection(p);
		break;
	case SOURCE_OWNER:
		handle_owner(p);
		break;
	case SOURCE_SNAPSHOT:
		end_snapshot(p);
		break;
	default:
		if (!serve(p, p->connections[source - SOURCE_CONNECTION])) {
			(void)close(
				p->connections[source - SOURCE_CONNECTION]); /* the peer is gone */
			p->connections[source - SOURCE_CONNECTION] = -1;
		}
		break;
	}
}

/* #calls musl main: epoll_pwait
 * #calls glibc main: epoll_wait */
static void loop(struct vmm_process *p)
{
	while (!p->over) {
		struct epoll_event events[16];
		int n = epoll_wait(p->epoll_fd, events, ARRAY_SIZE(events), -1);

		for (int i = 0; i < n && !p->over; i++)
			handle_event(p, events[i].data.u32);
	}
}

#ifndef PR_SCHED_CORE
enum { PR_SCHED_CORE = 62, PR_SCHED_CORE_GET = 0, PR_SCHED_CORE_CREATE = 1 };
#endif
enum { SCOPE_THREAD, SCOPE_THREAD_GROUP };

/* #calls start: prctl(PR_SCHED_CORE) */
static void *take_cookie(void *arg)
{
	(void)arg; /* none */
	/* best effort: where it fails, doctor warns of SMT */
	(void)prctl(PR_SCHED_CORE, PR_SCHED_CORE_CREATE, 0, SCOPE_THREAD_GROUP, 0);
	return NULL;
}

/* Core scheduling: with SMT, no thread of this process shares a core with another process's. So a
 * guest cannot watch another one through the core's caches. If no process on the host has a cookie
 * yet, taking one waits for a grace period in the kernel. So a thread of its own takes it while the
 * VM starts. No test: our emulated hosts have no SMT. */
static void keep_cores_apart(void)
{
	unsigned long long cookie;
	sigset_t all, old;
	pthread_t thread;

	if (prctl(PR_SCHED_CORE, PR_SCHED_CORE_GET, 0, SCOPE_THREAD, &cookie) < 0)
		return; /* no SMT, or a kernel without core scheduling */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the main thread's */
	if (pthread_create(&thread, NULL, take_cookie, NULL) == 0)
		(void)pthread_detach(thread); /* just made */
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

#ifndef __has_feature
#define __has_feature(x) 0
#endif
/* Test builds have none unless they are asked to: sanitizers and fault points make other calls. */
#if defined(FAULT_POINTS) || defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
static const char filter_default[] = "off";
#else
static const char filter_default[] = "kill";
#endif

static int set_filter_mode(const struct settings *s, struct error *e)
{
	enum filter_mode mode;

	if (filter_parse_mode(s->filter, &mode) < 0)
		return error_set(e, ERROR_USAGE, EINVAL, "--filter %s: expected kill, log or off",
			s->filter);
	filter_set_mode(mode);
	return 0;
}

/* Everything that follows reads untrusted data, so it is filtered and has no paths. Threads inherit
 * that. */
static int start(struct vmm_process *p, struct error *e)
{
	int pagemap_fd = -1, r = set_filter_mode(&p->s, e);

	if (r == 0)
		r = give_up_paths(&p->s, &pagemap_fd, e);
	if (r == 0)
		r = filter_install(thread_filter(THREAD_START), e);
	if (r < 0)
		return r;
	keep_cores_apart();
	r = make_vm(p, pagemap_fd, e);
	if (r < 0)
		return r;
	vm_set_egress(p->vm, fd_of(p->s.egress_fd));
	return watch_all(p, e);
}

/* The guest does not wait for this filter: it runs already. */
static void filter_loop(struct vmm_process *p)
{
	struct error e = {0};
	char text[CONTROL_MESSAGE_MAX];

	if (filter_install(thread_filter(THREAD_MAIN), &e) == 0)
		return;
	(void)snprintf(text, sizeof(text), "event ended error %s", e.message); /* fits */
	tell_owner(p, text);
	p->over = true;
}

/* #calls musl start (when the VM cannot be made): writev
 * #calls glibc start (when the VM cannot be made): write */
static int run(struct vmm_process *p, struct error *e)
{
	int r = start(p, e);

	if (r < 0)
		return r;
	tell_owner(p, "event started");
	if (!p->s.paused)
		resume(p);
	filter_loop(p);
	loop(p);
	(void)vm_ended(p->vm, NULL, 0); /* flushes the console log */
	return 0;
}

int main(int argc, char **argv)
{
	static struct vmm_process p = {
		.s = {.kvm_fd = NO_FD,
			.proc_fd = NO_FD,
			.console_fd = NO_FD,
			.vsock_fd = NO_FD,
			.egress_fd = NO_FD,
			.control_fd = NO_FD,
			.owner_fd = NO_FD,
			.state_fd = NO_FD,
			.memory_fd = NO_FD,
			.hot_fd = NO_FD,
			.baseline_fd = NO_FD,
			.kernel_fd = NO_FD,
			.initrd_fd = NO_FD,
			.cpus = 1,
			.memory = 256 << 20,
			.cmdline = "",
			.filter = filter_default},
	};
	struct error e = {0};
	int rest;

	log_open("mayfly-vmm");
	log_set_max_bytes(LOG_MAX_BYTES);
	if (options_parse(options, argc, argv, &p.s, &rest, &e) < 0 || rest != argc) {
		fprintf(stderr, "mayfly-vmm: %s\n", e.code ? e.message : "unexpected argument");
		return 2;
	}
	if (p.s.help) {
		printf("Usage: mayfly-vmm OPTIONS\n\nRuns one microVM; started by mayfly, not by "
		       "hand.\n\n");
		options_print(options, stdout);
		return 0;
	}
	(void)prctl(PR_SET_NAME, "mayfly-vmm", 0, 0, 0); /* before Linux 6.14 it is a number */
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);	 /* hardening; a failure is not fatal */
	(void)setrlimit(
		RLIMIT_CORE, &(struct rlimit){0, 0}); /* guest memory never lands in a core file */
	(void)signal(SIGXFSZ, SIG_IGN); /* a file size limit is then like a full disk */
	p.owner_fd = fd_of(p.s.owner_fd);
	explain_bus_errors(&p);
	memset(p.connections, 0xff, sizeof(p.connections));
	if (run(&p, &e) < 0) {
		char text[CONTROL_MESSAGE_MAX];

		control_format_error(&e, "event failed", text);
		tell_owner(&p, text);
		fprintf(stderr, "mayfly-vmm: %s\n", e.message);
		_exit(1);
	}
	_exit(0); /* the kernel tears the VM down faster than we would */
}
