#include "build/machine_internal.h"

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
#include "build/layers.h"
#include "image/image.h"
#include "sandbox/agent_call.h"
#include "sandbox/boot.h"
#include "sandbox/prepare.h"
#include "sandbox/vmm_request.h"
#include "sandbox/vmm_snapshot.h"

enum { PATH_BYTES = 64, ENTROPY_BYTES = 64, END_S = 30, END_POLL_MS = 20 };

static void boot_from(const struct machine *m, const char *cmdline, struct vmm_launch *l)
{
	l->kernel = m->o.kernel->vmlinux;
	l->initrd = m->o.kernel->initrd;
	l->cmdline = cmdline;
	l->cpus = m->o.cpus;
	l->memory_bytes = (uint64_t)m->o.memory_mb << 20;
}

static int launch(struct machine *m, struct error *e)
{
	char dir[PATH_BYTES], image[PATH_BYTES], base[PATH_BYTES], cmdline[PREPARE_CMDLINE_MAX],
		delta[IMAGE_DELTA_NAME_BYTES], lower[LAYERS_DELTAS_MAX][PATH_BYTES];
	struct vmm_launch l = {
		.dir = dir, .disks = {{.base = base, .delta = delta}}, .disk_count = 1};

	prepare_cmdline(cmdline);
	(void)snprintf(dir, sizeof(dir), "/proc/self/fd/%d", m->fd); /* these fit */
	(void)snprintf(image, sizeof(image), "/proc/self/fd/%d", m->o.image_fd);
	if (m->o.saved)
		l.snapshot = image;
	else
		boot_from(m, cmdline, &l);
	(void)snprintf(base, sizeof(base), "/proc/self/fd/%d/%s", m->o.image_fd,
		image_file_name(IMAGE_EXT4));
	image_delta_name(0, delta);
	l.disks[0].layer_count = layers_count(m->o.image_fd);
	for (unsigned i = 0; i < l.disks[0].layer_count; i++) {
		char name[IMAGE_DELTA_NAME_BYTES];

		image_delta_name(i, name);
		(void)snprintf(lower[i], PATH_BYTES, "/proc/self/fd/%d/%s", m->o.image_fd,
			name); /* fits */
		l.disks[0].layers[i] = lower[i];
	}
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
	return agent_identity(m->agent, machine_after(MACHINE_CALL_S), &id, NULL, e);
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
	boot = (struct boot){
		.name = o->what, .step = o->saved ? "resume" : "boot", .vmm = m->vmm, .fd = m->fd};
	if (r == 0)
		r = boot_await(&boot, machine_after(BOOT_S), o->progress, &m->agent, e);
	if (r == 0)
		r = identify(m, e);
	if (r < 0) {
		machine_stop(m);
		return r;
	}
	*ret = m;
	return 0;
}

static void end_network(struct machine *m)
{
	if (m->network)
		m->network->end(TAKE_PTR(m->served));
	m->network = NULL;
}

static int begin_network(struct machine *m, const struct machine_network *n, struct error *e)
{
	_cleanup_close_ int vmm_fd = -1;
	int r = n->begin(n->opaque, m->fd, &m->served, &vmm_fd, e);

	if (r < 0)
		return r;
	m->network = n;
	return vmm_set_egress(m->fd, vmm_fd, e);
}

int machine_set_network(struct machine *m, const struct machine_network *n, struct error *e)
{
	if (m->network == n)
		return 0;
	end_network(m);
	return n ? begin_network(m, n, e) : vmm_set_egress(m->fd, -1, e);
}

void machine_stop(struct machine *m)
{
	if (!m)
		return;
	end_network(m);
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
	struct agent_event ev;
	struct error why = {0};
	uint64_t deadline;
	int r = agent_sync(m->agent, machine_after(MACHINE_CALL_S), AGENT_SYNC_TRIM, e);

	if (r == 0)
		r = agent_call(m->agent, machine_after(MACHINE_CALL_S), AGENT_SHUTDOWN, &s,
			AGENT_OK, &ev, e);
	deadline = machine_after(END_S);
	while (r == 0 && !vmm_is_over(m->vmm, &why)) {
		if (clock_monotonic_ns() > deadline)
			return error_set(
				e, ERROR_TIMEOUT, ETIMEDOUT, "the build's guest does not end");
		(void)usleep(END_POLL_MS * 1000); /* early is fine */
	}
	return r;
}

static int make_delta(const struct machine *m, const char *name, struct error *e)
{
	int fd = openat(m->fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd < 0 ? error_set_errno(e, ERROR_NO_SPACE, errno, "cannot make a disk's delta")
		      : fd;
}

unsigned machine_freezes(const struct machine *m)
{
	return m->freezes;
}

int machine_freeze(struct machine *m, int to_fd, struct error *e)
{
	_cleanup_close_ int fd = -1;
	char old[IMAGE_DELTA_NAME_BYTES], fresh[IMAGE_DELTA_NAME_BYTES];
	int r = agent_sync(m->agent, machine_after(MACHINE_CALL_S), AGENT_SYNC_TRIM, e);

	image_delta_name(m->freezes, old);
	image_delta_name(m->freezes + 1, fresh);
	if (r == 0)
		r = fd = make_delta(m, fresh, e);
	if (r < 0)
		return r;
	r = vmm_freeze_disk(m->fd, fd, e);
	if (r < 0)
		return r;
	m->freezes++;
	return layers_add(m->fd, old, to_fd, e);
}

int machine_save(struct machine *m, int to_fd, struct error *e)
{
	char old[IMAGE_DELTA_NAME_BYTES], fresh[IMAGE_DELTA_NAME_BYTES];
	const struct vmm_snapshot_options o = {
		.dirfd = to_fd, .disks = {{.delta = old, .next = fresh}}};
	struct vmm_snapshot_result result;
	int r = agent_sync(m->agent, machine_after(MACHINE_CALL_S),
		AGENT_SYNC_TRIM | AGENT_SYNC_DROP_CACHES, e);

	image_delta_name(m->freezes, old);
	image_delta_name(m->freezes + 1, fresh);
	if (r == 0)
		r = vmm_snapshot(m->fd, &o, &result, NULL, e);
	if (r < 0)
		return r;
	if (!result.memory_full)
		return error_set(e, ERROR_INTERNAL, EINVAL, "a saved machine is not saved again");
	m->freezes++;
	(void)unlinkat(to_fd, "disk0", 0);	  /* the same file as `old` */
	(void)unlinkat(to_fd, "disk0.merged", 0); /* only there if the disk has many deltas */
	return layers_add(m->fd, old, to_fd, e);
}

int machine_finish(struct machine *m, int to_fd, struct error *e)
{
	char top[IMAGE_DELTA_NAME_BYTES];
	int r = shut_down(m, e);

	agent_close(TAKE_PTR(m->agent));
	vmm_stop(TAKE_PTR(m->vmm));
	image_delta_name(m->freezes, top);
	return r < 0 ? r : layers_add(m->fd, top, to_fd, e);
}
