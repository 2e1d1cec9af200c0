#include "build/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "image/image.h"
#include "sandbox/agent_call.h"
#include "sandbox/boot.h"
#include "sandbox/prepare.h"
#include "vmm/disk.h"

enum {
	PATH_BYTES = 64,
	ENTROPY_BYTES = 64,
	CALL_S = 120,
	END_S = 30,
	END_POLL_MS = 20,
};

static const char delta[] = "disk0";

struct machine {
	struct machine_options o;
	int fd; /* its directory */
	struct vmm *vmm;
	struct agent_conn *agent;
};

static uint64_t after(unsigned seconds)
{
	return clock_monotonic_ns() + seconds * NS_PER_S;
}

static int launch(struct machine *m, struct error *e)
{
	char dir[PATH_BYTES], base[PATH_BYTES], cmdline[PREPARE_CMDLINE_MAX];
	struct vmm_launch l = {.dir = dir,
		.kernel = m->o.kernel->vmlinux,
		.initrd = m->o.kernel->initrd,
		.cmdline = cmdline,
		.cpus = m->o.cpus,
		.memory_bytes = (uint64_t)m->o.memory_mb << 20,
		.disks = {{.base = base, .delta = delta}},
		.disk_count = 1};

	prepare_cmdline(cmdline);
	(void)snprintf(dir, sizeof(dir), "/proc/self/fd/%d", m->fd); /* these fit */
	(void)snprintf(base, sizeof(base), "/proc/self/fd/%d/%s", m->o.image_fd,
		image_file_name(IMAGE_EXT4));
	return vmm_launch(&l, &m->vmm, e);
}

/* The right time and random numbers, before anything runs. */
static int identify(struct machine *m, struct error *e)
{
	uint8_t entropy[ENTROPY_BYTES];
	const struct agent_identity id = {
		.fields = AGENT_ID_CLOCK | AGENT_ID_ENTROPY | AGENT_ID_HOSTNAME,
		.realtime_ns = clock_realtime_ns(),
		.entropy = entropy,
		.entropy_bytes = sizeof(entropy),
		.hostname = "build",
		.machine_id = "",
		.user = "",
		.workdir = "",
	};

	if (getrandom(entropy, sizeof(entropy), 0) != sizeof(entropy))
		return error_set_errno(e, ERROR_INTERNAL, errno, "no random numbers");
	return agent_identity(m->agent, after(CALL_S), &id, NULL, e);
}

static int make_dir(struct machine *m, struct error *e)
{
	if (mkdirat(m->o.work_fd, m->o.name, 0700) < 0)
		return error_set_errno(
			e, ERROR_NO_SPACE, errno, "cannot make the build's directory");
	m->fd = openat(m->o.work_fd, m->o.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return m->fd < 0 ? error_set_errno(
				   e, ERROR_INTERNAL, errno, "cannot open the build's directory")
			 : 0;
}

int machine_start(const struct machine_options *o, struct machine **ret, struct error *e)
{
	struct machine *m = calloc(1, sizeof(*m));
	struct boot boot;
	int r;

	if (!m)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	m->o = *o;
	m->fd = -1;
	r = make_dir(m, e);
	if (r == 0)
		r = launch(m, e);
	boot = (struct boot){.name = o->what, .vmm = m->vmm, .fd = m->fd};
	if (r == 0)
		r = boot_await(&boot, after(BOOT_S), o->progress, &m->agent, e);
	if (r == 0)
		r = identify(m, e);
	if (r < 0) {
		machine_stop(m);
		return r;
	}
	*ret = m;
	return 0;
}

struct machine *machine_of_agent(struct agent_conn *agent)
{
	struct machine *m = calloc(1, sizeof(*m));

	if (!m) {
		agent_close(agent);
		return NULL;
	}
	m->fd = -1;
	m->agent = agent;
	return m;
}

void machine_stop(struct machine *m)
{
	if (!m)
		return;
	agent_close(m->agent);
	vmm_stop(m->vmm);
	if (m->fd >= 0) {
		(void)close(m->fd);				 /* a directory */
		(void)file_remove_tree(m->o.work_fd, m->o.name); /* or with the work directory */
	}
	free(m);
}

/* --- the end --- */

/* The guest writes back and ends by itself, so its file system is clean. */
static int shut_down(struct machine *m, struct error *e)
{
	const struct agent_shutdown s = {.flags = AGENT_SHUTDOWN_POWER_OFF};
	uint64_t deadline = after(END_S);
	struct agent_event ev;
	struct error why = {0};
	int r = agent_sync(m->agent, after(CALL_S), 0, e);

	if (r == 0)
		r = agent_call(m->agent, after(CALL_S), AGENT_SHUTDOWN, &s, AGENT_OK, &ev, e);
	while (r == 0 && !vmm_is_over(m->vmm, &why)) {
		if (clock_monotonic_ns() > deadline)
			return error_set(
				e, ERROR_TIMEOUT, ETIMEDOUT, "the build's guest does not end");
		(void)usleep(END_POLL_MS * 1000); /* early is fine */
	}
	return r;
}

static int open_disk(struct machine *m, struct disk **ret, struct error *e)
{
	int base = openat(m->o.image_fd, image_file_name(IMAGE_EXT4), O_RDONLY | O_CLOEXEC), top;
	struct stat st;

	if (base < 0 || fstat(base, &st) < 0) {
		if (base >= 0)
			(void)close(base); /* read only */
		return error_set_errno(e, ERROR_INTERNAL, errno, "cannot open the base's image");
	}
	top = file_open_foreign(m->fd, delta, O_RDWR, VMM_FILE_MAX);
	if (top < 0) {
		(void)close(base); /* read only */
		return error_set_errno(e, ERROR_INTERNAL, -top, "cannot open the build's disk");
	}
	return disk_open(base, NULL, 0, top, (uint64_t)st.st_size, ret, e);
}

int machine_finish(struct machine *m, int out_fd, struct error *e)
{
	struct disk *d = NULL;
	int r = shut_down(m, e);

	agent_close(TAKE_PTR(m->agent));
	vmm_stop(TAKE_PTR(m->vmm));
	if (r == 0)
		r = open_disk(m, &d, e);
	if (r == 0)
		r = disk_write_raw(d, out_fd, e);
	disk_close(d);
	return r;
}

/* --- commands --- */

static int take_event(struct machine *m, const struct agent_event *ev, machine_output_fn out,
	void *opaque, int *ret_status, struct error *e)
{
	int r;

	switch (ev->type) {
	case AGENT_STARTED:
		return 0;
	case AGENT_STDOUT:
	case AGENT_STDERR:
		r = out(opaque, ev->data, ev->length);
		return r < 0 ? error_set_errno(e, ERROR_INTERNAL, -r, "the build was ended") : 0;
	case AGENT_EXIT:
		*ret_status = (int)(ev->exit.status & 0xff) +
			      (ev->exit.flags & AGENT_EXIT_SIGNALED ? 128 : 0);
		if (ev->exit.flags & AGENT_EXIT_TIMED_OUT)
			*ret_status = -1;
		return 1;
	default:
		return agent_event_error(ev, e);
	}
}

int machine_run(struct machine *m, const struct agent_exec *x, uint32_t timeout_s,
	machine_output_fn out, void *opaque, int *ret_status, struct error *e)
{
	uint64_t deadline = after(timeout_s + CALL_S);
	struct agent_exec copy = *x;
	int r;

	copy.timeout_ms = timeout_s * 1000;
	copy.flags |= AGENT_EXEC_KILL_ON_CLOSE;
	r = agent_exec_start(m->agent, &copy, e);
	while (r == 0) {
		struct agent_event ev;

		r = agent_wait_event(m->agent, deadline, &ev, e);
		if (r == 1)
			r = take_event(m, &ev, out, opaque, ret_status, e);
	}
	return r < 0 ? r : 0;
}

/* --- files --- */

int machine_call(struct machine *m, enum agent_type type, const void *message,
	enum agent_type reply, struct agent_event *ev, struct error *e)
{
	return agent_call(m->agent, after(CALL_S), type, message, reply, ev, e);
}

int machine_write(struct machine *m, const char *path, uint32_t mode, bool append, const void *data,
	size_t n, struct error *e)
{
	const struct agent_write w = {
		.flags = AGENT_WRITE_PARENTS | (append ? AGENT_WRITE_APPEND : 0),
		.mode = mode,
		.user = "root",
		.path = path};

	return agent_write_file(m->agent, after(CALL_S), &w, data, n, e);
}

int machine_read(struct machine *m, const char *path, uint64_t offset, void *out, size_t n,
	size_t *ret, struct error *e)
{
	const struct agent_read q = {.offset = offset, .length = n, .user = "root", .path = path};
	struct agent_event ev;
	uint64_t deadline = after(CALL_S);
	int r = agent_call(m->agent, deadline, AGENT_READ, &q, AGENT_ENTRY, &ev, e);

	*ret = 0;
	while (r == 0) {
		r = agent_wait_event(m->agent, deadline, &ev, e);
		if (r < 0 || ev.type == AGENT_END)
			break;
		if (ev.type != AGENT_DATA)
			return agent_event_error(&ev, e);
		if (ev.length > n - *ret)
			return error_set(e, ERROR_SANDBOX, EBADMSG,
				"the guest sent more of a file than was asked for");
		memcpy((uint8_t *)out + *ret, ev.data, ev.length);
		*ret += ev.length;
		r = 0;
	}
	return r < 0 ? r : 0;
}

int machine_tree(
	struct machine *m, const char *path, machine_node_fn each, void *opaque, struct error *e)
{
	const struct agent_tree q = {.user = "root", .path = path};
	uint64_t deadline = after(CALL_S);
	int r = agent_request(m->agent, AGENT_TREE, &q, e);

	while (r == 0) {
		struct agent_event ev;

		r = agent_wait_event(m->agent, deadline, &ev, e);
		if (r < 0 || ev.type == AGENT_END)
			break;
		r = ev.type == AGENT_NODE ? each(opaque, &ev.node, e) : agent_event_error(&ev, e);
	}
	return r < 0 ? r : 0;
}
