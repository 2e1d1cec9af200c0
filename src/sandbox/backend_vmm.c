/* Sandboxes as microVMs. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "proto/snapshot.h"
#include "sandbox/backend.h"
#include "sandbox/egress_spawn.h"
#include "sandbox/host.h"
#include "sandbox/sandbox_plan.h"
#include "sandbox/vmm_request.h"

#define MIB (UINT64_C(1) << 20)

enum { MADE_MS = 60 * 1000 }; /* for a VM of the pool to be made */

void backend_sandbox_done(struct backend_sandbox *s)
{
	for (char **p = s->env; p && *p; p++)
		free(*p);
	free(s->env);
	free(s->template);
	free(s->user);
	free(s->workdir);
	free(s->network);
	cleanup_close_p(&s->dirfd);
	if (s->egress_fd > 0)
		(void)close(s->egress_fd); /* what waits in it is refused */
	*s = (struct backend_sandbox){.dirfd = -1};
}

int backend_mark(int dirfd, struct error *e)
{
	return backend_mark_as(dirfd, BACKEND_MARK, e);
}

int backend_mark_as(int dirfd, const char *mark, struct error *e)
{
	_cleanup_close_ int fd = openat(dirfd, mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	return fd < 0 ? error_set_errno(e, errno == ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL, errno,
				"cannot write into the sandbox's directory")
		      : 0;
}

static int copy_config(const struct sandbox_plan *p, struct backend_sandbox *s)
{
	const struct image_config *c = &p->t.config;

	s->template = strdup(p->t.name);
	s->user = strdup(c->user);
	s->workdir = strdup(c->workdir);
	s->network = strdup(c->network);
	s->env = calloc(c->env_count + 1, sizeof(*s->env));
	if (!s->template || !s->user || !s->workdir || !s->network || !s->env)
		return -ENOMEM;
	for (size_t i = 0; i < c->env_count; i++)
		if (!(s->env[i] = strdup(c->env[i])))
			return -ENOMEM;
	s->cpus = p->cpus;
	s->memory_bytes = p->memory_bytes;
	s->disk_bytes = p->disk_bytes;
	s->grow = p->grow;
	return 0;
}

/* Starts the microVM. A paused one ends with us. */
static int launch(const struct sandbox_dirs *dirs, struct sandbox_plan *p, bool paused,
	struct backend_sandbox *s, struct error *e)
{
	_cleanup_free_ char *dir = str_printf("%s/%s", dirs->path, s->id);
	_cleanup_close_ int cgroup_fd = -1;
	_cleanup_close_ int egress_fd = -1;
	int r;

	if (!dir)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	r = sandbox_dirs_make_cgroup(
		dirs, s->id, s->dirfd, p->cpus, p->memory_bytes, &cgroup_fd, e);
	if (r == 0)
		r = egress_channel(&egress_fd, &s->egress_fd, e);
	if (r < 0)
		return r;
	p->launch.dir = dir;
	p->launch.cgroup_fd = cgroup_fd;
	p->launch.egress_fd = egress_fd;
	p->launch.keep = !paused;
	p->launch.paused = paused;
	r = vmm_launch(&p->launch, &s->vmm, e);
	p->launch.dir = NULL;
	p->launch.cgroup_fd = p->launch.egress_fd = -1;
	if (r == 0) {
		s->pid = vmm_pid(s->vmm);
		s->jail = vmm_jail(s->vmm);
	}
	return r == 0 && paused ? vmm_await_started(s->vmm, MADE_MS, e) : r;
}

/* Writes the record, for `mayfly ps` and for ending the sandbox without us. */
static int write_record(
	const struct backend_sandbox *s, json_t *metadata, bool hidden, struct error *e)
{
	struct sandbox_record r = {
		.template = s->template,
		.created_ns = clock_realtime_ns(),
		.cpus = s->cpus,
		.memory_bytes = s->memory_bytes,
		.disk_bytes = s->disk_bytes,
		.vmm_pid = s->pid,
		.jail = s->jail,
		.metadata = metadata,
		.hidden = hidden,
	};

	memcpy(r.id, s->id, sizeof(r.id));
	return sandbox_record_write(s->dirfd, &r, e);
}

static int make_vm(const struct sandbox_dirs *dirs, struct sandbox_plan *p,
	const struct sandbox_options *o, struct backend_sandbox *s, struct error *e)
{
	int r = sandbox_dirs_make(dirs, s->id, &s->dirfd, e);

	if (r < 0)
		return r;
	r = copy_config(p, s) < 0 ? error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory") : 0;
	if (r == 0)
		r = backend_mark(s->dirfd, e);
	if (r == 0)
		r = sandbox_plan_link(p, s->dirfd, e);
	if (r == 0)
		r = launch(dirs, p, o->paused, s, e);
	if (r == 0 && !o->paused)
		r = write_record(s, o->metadata, o->hidden, e);
	if (r < 0) {
		vmm_stop(s->vmm);
		s->vmm = NULL;
		sandbox_dirs_remove(dirs, s->id);
		backend_sandbox_done(s);
	}
	return r;
}

/* Checks the state early. mayfly-vmm would also find damage, but only on loading. */
static int check_state(int fd, struct error *e)
{
	_cleanup_free_ char *data = NULL;
	struct snapshot_reader reader;
	size_t n;
	int r = file_read_foreign(fd, "state", SNAPSHOT_STATE_MAX, &data, &n);

	return r < 0 ? error_set_errno(e, ERROR_BAD_SNAPSHOT, -r, "the state of the snapshot")
		     : snapshot_reader_open(&reader, data, n, e);
}

static int check(const struct sandbox_options *o, struct error *e)
{
	int r = o->origin->memory ? check_state(o->origin->fd, e) : 0;

	return r == 0 ? sandbox_plan_check(o, e) : r;
}

static int make(const struct home *home, const struct sandbox_dirs *dirs,
	const struct sandbox_options *o, struct backend_sandbox *ret, struct error *e)
{
	struct sandbox_plan p = SANDBOX_PLAN_INIT;
	int r = host_check_disk(dirs->fd, dirs->path, SANDBOX_ROOM_MB * MIB, e);

	*ret = (struct backend_sandbox){.dirfd = -1};
	if (o->id)
		(void)snprintf(ret->id, sizeof(ret->id), "%s", o->id); /* one of ours: fits */
	if (r == 0)
		r = sandbox_plan_make(home, o, &p, e);
	if (r < 0)
		return r;
	r = make_vm(dirs, &p, o, ret, e);
	sandbox_plan_done(&p);
	return r;
}

/* A paused VM ends with us, a sandbox must not. So `keep` comes before it runs. */
static int resume(struct backend_sandbox *s, json_t *metadata, struct error *e)
{
	int r = write_record(s, metadata, false, e);

	if (r == 0)
		r = vmm_keep(s->vmm, e);
	return r == 0 ? vmm_resume(s->vmm, e) : r;
}

static int end(const struct sandbox_dirs *dirs, const char *id, struct vmm *vmm, pid_t pid,
	struct error *e)
{
	int r = 0;

	if (vmm) {
		vmm_stop(vmm);
		sandbox_dirs_remove(dirs, id);
		return 0;
	}
	r = sandbox_kill(dirs, id, e);
	return r == -ENOENT ? 0 : r;
}

static int freeze(int dirfd, bool on, struct error *e)
{
	return vmm_request(dirfd, on ? "freeze" : "resume", NULL, 0, e);
}

const struct backend backend_vmm = {
	.measure = sandbox_plan_measure,
	.must_boot = sandbox_plan_must_boot,
	.make = make,
	.resume = resume,
	.end = end,
	.pause = backend_vmm_pause,
	.snapshot = backend_vmm_snapshot,
	.settle = backend_vmm_settle,
	.freeze = freeze,
	.network = true,
	.guest_root = "",
	.check = check,
};
