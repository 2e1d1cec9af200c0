#include "sandbox/sandbox_plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "image/verify.h"
#include "image/workdir.h"
#include "sandbox/host.h"
#include "sandbox/stack.h"
#include "sandbox/probe.h"
#include "sandbox/sizes.h"
#include "vmm/kvm.h"

#define MIB (UINT64_C(1) << 20)

static const char scratch_file[] = "scratch.ext4";
static const char description_file[] = "template.json";

void sandbox_plan_done(struct sandbox_plan *p)
{
	template_done(&p->t);
	kernel_done(&p->kernel);
	cleanup_close_p(&p->template_fd);
	cleanup_close_p(&p->snapshot_fd);
	p->template_fd = p->snapshot_fd = -1;
}

/* Makes a file's path through its directory's descriptor and keeps it in the plan. */
static const char *add_path(struct sandbox_plan *p, int dirfd, const char *name)
{
	char *path = p->paths[p->path_count++]; /* PLAN_FILES_MAX covers all that are added below */

	(void)snprintf(path, PLAN_PATH_MAX, "/proc/self/fd/%d%s%s", dirfd, *name ? "/" : "",
		name); /* names of ours fit */
	return path;
}

static int check_sizes(const struct sandbox_options *o, struct sandbox_plan *p, struct error *e)
{
	uint64_t template_disk = p->t.config.disk_mb * MIB;
	char want[16], have[16];

	p->cpus = o->cpus ? o->cpus : p->t.config.cpus;
	p->memory_bytes = o->memory_bytes ? o->memory_bytes : p->t.config.memory_mb * MIB;
	p->disk_bytes = o->disk_bytes ? o->disk_bytes : template_disk;
	if (p->cpus > SANDBOX_CPUS_MAX)
		return error_set(e, ERROR_LIMIT, ERANGE,
			"%u CPUs are more than the maximum of %d: give --cpus", p->cpus,
			SANDBOX_CPUS_MAX);
	if (p->memory_bytes < SANDBOX_MEMORY_MB_MIN * MIB ||
		p->memory_bytes > SANDBOX_MEMORY_MB_MAX * MIB)
		return error_set(e, ERROR_LIMIT, ERANGE,
			"%s of memory: must be between %d MB and %d MB, give --memory",
			str_format_bytes(p->memory_bytes, want), SANDBOX_MEMORY_MB_MIN,
			SANDBOX_MEMORY_MB_MAX);
	if (p->disk_bytes < template_disk)
		return error_set(e, ERROR_LIMIT, ERANGE,
			"a disk of %s is smaller than the %s of template '%s': give more, or none",
			str_format_bytes(p->disk_bytes, want),
			str_format_bytes(template_disk, have), p->t.name);
	p->grow = p->disk_bytes > template_disk;
	return 0;
}

static int verify(int dirfd, const char *name, const struct sandbox_plan *p,
	const struct sandbox_options *o, struct error *e)
{
	_cleanup_free_ char *what =
		str_printf("%s '%s'", o->origin ? "snapshot of template" : "template", o->template);
	_cleanup_free_ char *remedy =
		o->origin ? strdup("the host's disk is failing, or something else wrote to it")
			  : str_printf("`mayfly template build --force %s` makes it anew",
				    o->template);

	if (!what || !remedy)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	return verify_check(dirfd, name, what, remedy, o->progress, e);
}

/* Adds the deltas of the template's image. */
static int add_image_deltas(struct sandbox_plan *p, const struct sandbox_options *o,
	struct vmm_disk *d, struct error *e)
{
	char name[IMAGE_DELTA_NAME_BYTES];
	int r = 0;

	for (unsigned i = 0; i < p->t.deltas && r == 0; i++) {
		image_delta_name(i, name);
		r = verify(p->template_fd, name, p, o, e);
		if (r == 0)
			d->layers[d->layer_count++] = add_path(p, p->template_fd, name);
	}
	return r;
}

/* Adds a disk: files of the template as base, and what the snapshot wrote on top. */
static int add_disk(struct sandbox_plan *p, const struct sandbox_options *o, const char *base,
	bool writable, struct error *e)
{
	static const char *const deltas[SNAPSHOT_DISKS_MAX] = {"disk0", "disk1"};
	unsigned i = p->launch.disk_count++;
	struct vmm_disk *d = &p->launch.disks[i];
	int r = verify(p->template_fd, base, p, o, e);

	if (r < 0)
		return r;
	d->base = add_path(p, p->template_fd, base);
	if (!writable)
		return 0;
	r = i == 0 ? add_image_deltas(p, o, d, e) : 0;
	if (r < 0)
		return r;
	d->delta = deltas[i];
	if (p->grow)
		d->bytes = p->disk_bytes;
	if (p->snapshot_fd < 0 || faccessat(p->snapshot_fd, deltas[i], F_OK, 0) < 0)
		return 0;
	r = verify(p->snapshot_fd, deltas[i], p, o, e);
	if (r == 0)
		d->layers[d->layer_count++] = add_path(p, p->snapshot_fd, deltas[i]);
	return r;
}

static int add_disks(struct sandbox_plan *p, const struct sandbox_options *o, struct error *e)
{
	int r = add_disk(p, o, image_file_name(p->t.kind), p->t.kind == IMAGE_EXT4, e);

	if (r == 0 && p->t.kind == IMAGE_EROFS)
		r = add_disk(p, o, scratch_file, true, e);
	return r;
}

/* --- from a snapshot of a sandbox --- */

struct addition {
	struct sandbox_plan *p;
	const struct sandbox_options *o;
	struct error *e;
};

static int add_delta(struct sandbox_plan *p, unsigned disk, const char *path, struct error *e)
{
	struct vmm_disk *d = &p->launch.disks[disk];

	if (d->layer_count == SNAPSHOT_LAYERS_MAX)
		return error_set(e, ERROR_BAD_SNAPSHOT, EMFILE, "too many deltas of a disk");
	d->layers[d->layer_count++] = path;
	d->delta = stack_delta_name(disk);
	return 0;
}

static int add_memory(struct sandbox_plan *p, const char *path, struct error *e)
{
	if (!p->launch.memory) {
		p->launch.memory = path;
		return 0;
	}
	if (p->launch.layer_count == SNAPSHOT_LAYERS_MAX)
		return error_set(e, ERROR_BAD_SNAPSHOT, EMFILE, "too many layers of memory");
	p->launch.layers[p->launch.layer_count++] = path;
	return 0;
}

static int add_layer(void *arg, enum stack_role role, unsigned disk, const char *name)
{
	struct addition *a = arg;
	struct sandbox_plan *p = a->p;
	int r = verify(p->snapshot_fd, name, p, a->o, a->e);
	const char *path;

	if (r < 0)
		return r;
	path = add_path(p, p->snapshot_fd, name);
	if (role == STACK_MEMORY)
		return add_memory(p, path, a->e);
	if (role == STACK_DELTA)
		return add_delta(p, disk, path, a->e);
	p->launch.disks[disk].base = path;
	p->launch.disk_count = disk + 1;
	return 0;
}

/* Adds the delta that a writable disk lacks if it was never written. The writable disk is the root
 * image if that is ext4; an EROFS image has a scratch disk instead. */
static void add_missing_delta(struct sandbox_plan *p)
{
	unsigned writable = p->t.kind == IMAGE_EXT4 ? 0 : 1;

	if (writable < p->launch.disk_count)
		p->launch.disks[writable].delta = stack_delta_name(writable);
}

static int plan_origin(struct sandbox_plan *p, const struct sandbox_options *o, struct error *e)
{
	struct addition a = {.p = p, .o = o, .e = e};
	int r;

	p->snapshot_fd = openat(o->origin->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (p->snapshot_fd < 0)
		return error_set_errno(e, ERROR_BAD_SNAPSHOT, errno, "cannot open a snapshot");
	r = workdir_hold(p->snapshot_fd, "snapshot", e);
	if (r < 0)
		return r;
	/* older states have no record of this file and are believed */
	r = verify_is_recorded(p->snapshot_fd, description_file)
		    ? verify(p->snapshot_fd, description_file, p, o, e)
		    : 0;
	if (r == 0)
		r = template_load_at(p->snapshot_fd, o->template, &p->t, e);
	if (r == 0)
		r = stack_each(p->snapshot_fd, o->origin->memory, add_layer, &a);
	if (r < 0)
		return r;
	add_missing_delta(p);
	p->cpus = o->cpus;
	p->memory_bytes = o->memory_bytes;
	p->disk_bytes = o->disk_bytes;
	if (o->origin->memory)
		p->launch.snapshot = add_path(p, p->snapshot_fd, "");
	return 0;
}

/* Makes the kernel that the template was built with ready for booting. */
static int own_kernel(const struct home *home, const struct sandbox_plan *p,
	const struct progress *progress, struct kernel *ret, struct error *e)
{
	_cleanup_free_ char *vmlinux =
		home_path(home, HOME_KERNELS, p->t.kernel_release, "vmlinux");
	_cleanup_free_ char *modules =
		home_path(home, HOME_KERNELS, p->t.kernel_release, "modules");
	int r = prepare_kernel(home, NULL, NULL, progress, ret, e);

	/* mostly the newest kernel is the template's */
	if (r < 0 || strcmp(ret->release, p->t.kernel_release) == 0 || !vmlinux || !modules)
		return r;
	kernel_done(ret);
	return prepare_kernel(home, vmlinux, modules, progress, ret, e);
}

static int make_snapshot(const struct home *home, struct sandbox_plan *p,
	const struct sandbox_options *o, struct error *e)
{
	struct kernel k = {0};
	struct prepare_options po = {
		.template_fd = p->template_fd,
		.name = p->t.name,
		.kind = p->t.kind,
		.deltas = p->t.deltas,
		.config = &p->t.config,
		.kernel = &k,
		.cpus = p->cpus,
		.memory_mb = (uint32_t)(p->memory_bytes / MIB),
	};
	int r = own_kernel(home, p, o->progress, &k, e);

	if (r == 0)
		r = prepare_snapshot(&po, o->progress, e);
	kernel_done(&k);
	return r;
}

/* Holds the snapshot, so nobody evicts it before it is linked. */
static int open_snapshot(const struct sandbox_plan *p)
{
	int fd = template_snapshot_dir(
		p->template_fd, p->cpus, (uint32_t)(p->memory_bytes / MIB), false);
	int r = fd < 0 ? fd : workdir_hold(fd, "snapshot", NULL);

	if (r < 0)
		cleanup_close_p(&fd);
	return r < 0 ? r : fd;
}

static int find_snapshot(const struct home *home, struct sandbox_plan *p,
	const struct sandbox_options *o, struct error *e)
{
	int fd = open_snapshot(p), r;

	if (fd == -ENOENT) {
		r = make_snapshot(home, p, o, e);
		if (r < 0)
			return r;
		fd = open_snapshot(p);
		sizes_evict(home, 0);
	}
	if (fd >= 0)
		sizes_used(fd);
	else
		return error_set_errno(
			e, ERROR_BAD_SNAPSHOT, -fd, "snapshot of template '%s'", p->t.name);
	p->snapshot_fd = fd;
	return 0;
}

static int plan_restore(const struct home *home, struct sandbox_plan *p,
	const struct sandbox_options *o, struct error *e)
{
	int r = find_snapshot(home, p, o, e);

	if (r == 0)
		r = verify(p->snapshot_fd, "memory", p, o, e);
	if (r < 0)
		return r;
	p->launch.snapshot = add_path(p, p->snapshot_fd, "");
	return 0;
}

/* Plans everything of a boot but the disks. */
static int plan_kernel(const struct home *home, struct sandbox_plan *p,
	const struct sandbox_options *o, struct error *e)
{
	int r = probe_host(e);

	if (r == 0)
		r = o->kernel ? prepare_kernel(
					home, o->kernel, o->modules, o->progress, &p->kernel, e)
			      : own_kernel(home, p, o->progress, &p->kernel, e);
	if (r < 0)
		return r;
	prepare_cmdline(p->cmdline);
	p->launch.kernel = p->kernel.vmlinux;
	p->launch.initrd = p->kernel.initrd;
	p->launch.cmdline = p->cmdline;
	p->launch.cpus = p->cpus;
	p->launch.memory_bytes = p->memory_bytes;
	return 0;
}

static int plan_template(const struct home *home, struct sandbox_plan *p,
	const struct sandbox_options *o, struct error *e)
{
	int r = p->template_fd = template_hold(home, o->template, e);

	if (r >= 0) /* what was loaded is what is held, also if another one takes its place now */
		r = template_load_at(p->template_fd, o->template, &p->t, e);
	if (r == 0)
		r = check_sizes(o, p, e);
	if (r == 0 && !o->boot)
		r = plan_restore(home, p, o, e);
	if (r == 0 && o->boot)
		r = plan_kernel(home, p, o, e);
	if (r == 0)
		r = add_disks(p, o, e);
	return r;
}

int sandbox_plan_measure(const struct home *home, const struct sandbox_options *o,
	struct sandbox_sizes *ret, uint64_t *ret_made_s, struct error *e)
{
	struct sandbox_plan p = SANDBOX_PLAN_INIT;
	int r = template_load(home, o->template, &p.t, e);

	if (r == 0)
		r = check_sizes(o, &p, e);
	if (r == 0) {
		*ret = (struct sandbox_sizes){p.cpus, p.memory_bytes, p.disk_bytes};
		*ret_made_s = p.t.created_s;
	}
	sandbox_plan_done(&p);
	return r;
}

bool sandbox_plan_must_boot(const struct home *home, const struct sandbox_options *o)
{
	_cleanup_close_ int template_fd = template_open(home, o->template, NULL);
	_cleanup_close_ int fd = -1;

	if (template_fd < 0)
		return false; /* the reason shows later */
	fd = template_snapshot_dir(template_fd, o->cpus, (uint32_t)(o->memory_bytes / MIB), false);
	return fd == -ENOENT;
}

int sandbox_plan_check(const struct sandbox_options *o, struct error *e)
{
	struct sandbox_plan p = SANDBOX_PLAN_INIT;
	int r = plan_origin(&p, o, e);

	sandbox_plan_done(&p);
	return r;
}

int sandbox_plan_make(const struct home *home, const struct sandbox_options *o,
	struct sandbox_plan *ret, struct error *e)
{
	struct sandbox_plan *p = ret;
	int r;

	*p = (struct sandbox_plan)SANDBOX_PLAN_INIT;
	r = o->origin ? plan_origin(p, o, e) : plan_template(home, p, o, e);
	if (r == 0 && o->origin && !o->origin->memory)
		r = plan_kernel(home, p, o, e);
	if (r == 0)
		r = host_check_memory(p->memory_bytes, e);
	if (r < 0)
		sandbox_plan_done(p);
	return r;
}

/* --- files that it stands on --- */

struct link {
	int from_fd;
	const char *from, *to;
	bool must;
};

static int link_all(const struct link *links, size_t count, int to_fd, struct error *e)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		const struct link *l = &links[i];

		if (l->must || file_exists(l->from_fd, l->from))
			r = stack_take(l->from_fd, l->from, to_fd, l->to, e);
	}
	return r;
}

static int link_template(const struct sandbox_plan *p, int to_fd, struct error *e)
{
	const char *image = image_file_name(p->t.kind);
	const struct link of_template[] = {
		{p->template_fd, image, image, true},
		{p->template_fd, scratch_file, scratch_file, false},
		{p->template_fd, description_file, description_file, true},
		{p->template_fd, "checksums", "checksums" VERIFY_IMAGE_SUFFIX, false},
		{p->template_fd, "verified", "verified" VERIFY_IMAGE_SUFFIX, false},
	};
	const struct link of_snapshot[] = {
		{p->snapshot_fd, "memory", "memory", true},
		{p->snapshot_fd, "disk0", "disk0", false},
		{p->snapshot_fd, "disk1", "disk1", false},
		{p->snapshot_fd, "hot", "hot", false},
		{p->snapshot_fd, "checksums", "checksums", false},
		{p->snapshot_fd, "verified", "verified", false},
	};
	int r = link_all(of_template, ARRAY_SIZE(of_template), to_fd, e);
	char delta[IMAGE_DELTA_NAME_BYTES];

	for (unsigned i = 0; i < p->t.deltas && r == 0; i++) {
		image_delta_name(i, delta);
		r = stack_take(p->template_fd, delta, to_fd, delta, e);
	}

	if (r == 0 && p->snapshot_fd >= 0)
		r = link_all(of_snapshot, ARRAY_SIZE(of_snapshot), to_fd, e);
	return r;
}

int sandbox_plan_link(const struct sandbox_plan *p, int sandbox_fd, struct error *e)
{
	int from = p->template_fd >= 0 ? p->template_fd : p->snapshot_fd;
	_cleanup_close_ int fd = -1;
	struct stat here, there;

	if (fstat(sandbox_fd, &here) == 0 && fstat(from, &there) == 0 &&
		here.st_dev != there.st_dev)
		return 0;
	fd = stack_open(sandbox_fd, STACK_DIR, true, e);
	if (fd < 0)
		return fd;
	return p->template_fd >= 0 ? link_template(p, fd, e) : stack_clone(p->snapshot_fd, fd, e);
}
