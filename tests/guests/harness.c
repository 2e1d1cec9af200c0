#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "vmm/blk.h"
#include "vmm/kvm.h"
#include "vmm/pages.h"
#include "vmm/vm_internal.h"

int guests_dirfd = -1, work_dirfd = -1;
static unsigned machines; /* created so far: their directories' names */

__attribute__((format(printf, 2, 0))) static _Noreturn void end(
	int status, const char *format, va_list args)
{
	(void)vprintf(format, args); /* the message is all there is */
	(void)printf("\n");
	(void)fflush(stdout);
	_exit(status);
}

void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	end(1, format, args);
}

void skip(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	end(77, format, args);
}

/* --- disks --- */

/* The image under both disks: each sector begins with its number. */
static int open_base(void)
{
	static uint8_t image[DISK_SECTORS * SECTOR_BYTES];
	int fd = openat(work_dirfd, "base", O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	for (uint64_t i = 0; i < DISK_SECTORS; i++)
		memcpy(image + i * SECTOR_BYTES, &i, sizeof(i));
	fd = openat(work_dirfd, "base", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && fd_write_full(fd, image, sizeof(image)) == 0);
	return fd;
}

static int open_file(const char *name)
{
	int fd = openat(work_dirfd, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		fail("cannot open %s: %s", name, strerror(errno));
	return fd;
}

static void open_disks(struct vm_options *o, int dirfd, const struct lineage *l, uint64_t bytes)
{
	struct vm_disk *d = o->disks;

	if (bytes == 0)
		bytes = DISK_SECTORS * SECTOR_BYTES;
	o->disk_count = 2;
	d[0] = (struct vm_disk){.base_fd = open_base(), .bytes = bytes};
	for (unsigned i = 0; l && i < l->delta_count; i++)
		d[0].lower_fds[d[0].lower_count++] = open_file(l->deltas[i]);
	d[0].image_deltas = l ? l->image_deltas : 0;
	d[0].delta_fd = openat(dirfd, "delta", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	CHECK(d[0].delta_fd >= 0);
	d[1] = (struct vm_disk){
		.base_fd = open_base(), .delta_fd = -1, .bytes = DISK_SECTORS * SECTOR_BYTES};
}

/* --- life --- */

static int new_dir(struct machine *m)
{
	int fd, r;

	*m = (struct machine){0};
	do /* a process started by the test may have taken the number */
		(void)snprintf(m->dir, sizeof(m->dir), "m%u", machines++); /* fits */
	while ((r = mkdirat(work_dirfd, m->dir, 0700)) < 0 && errno == EEXIST);
	CHECK(r == 0);
	fd = openat(work_dirfd, m->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static int create(struct machine *m, struct vm_options *o, const struct lineage *l,
	uint64_t disk_bytes, struct error *e)
{
	int dirfd = new_dir(m), r;

	o->console_fd = openat(dirfd, "console.log", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	o->kvm_fd = kvm_open(NULL);
	o->pagemap_fd = pages_open(-1);
	CHECK(o->console_fd >= 0 && o->kvm_fd >= 0 && o->pagemap_fd >= 0);
	o->vsock_listen_fd = fd_unix_listen(dirfd, "vsock", SOCK_STREAM, 4);
	CHECK(o->vsock_listen_fd >= 0);
	open_disks(o, dirfd, l, disk_bytes);
	r = vm_create(o, &m->vm, e);
	if (r < 0)
		m->vm = NULL;
	(void)close(dirfd); /* only a directory */
	return r;
}

void machine_boot(struct machine *m, const char *guest, const char *line, unsigned cpus)
{
	struct vm_options o = {.cpus = cpus ? cpus : 1,
		.memory_bytes = (uint64_t)MEMORY_MB << 20,
		.initrd_fd = -1,
		.state_fd = -1,
		.cmdline = line,
		.rng = true};
	struct error e = {0};

	o.kernel_fd = openat(guests_dirfd, guest, O_RDONLY | O_CLOEXEC);
	if (o.kernel_fd < 0)
		fail("no guest %s", guest);
	if (create(m, &o, NULL, 0, &e) < 0)
		fail("vm_create: %s", e.message);
	(void)close(o.kernel_fd);
}

void machine_pause(struct machine *m)
{
	struct error e = {0};

	if (vm_pause(m->vm, &e) < 0)
		fail("vm_pause: %s", e.message);
}

static struct snapshot_files new_files(const char *name, const struct snapshot_needs *needs)
{
	struct snapshot_files files;
	struct error e = {0};
	int fd;

	CHECK(mkdirat(work_dirfd, name, 0700) == 0);
	fd = openat(work_dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	if (snapshot_files_create(fd, needs, &files, &e) < 0)
		fail("snapshot_files_create: %s", e.message);
	(void)close(fd); /* only a directory */
	return files;
}

struct snapshot_files machine_snapshot_files(struct machine *m, const char *name)
{
	struct snapshot_needs needs = vm_snapshot_needs(m->vm);

	return new_files(name, &needs);
}

void machine_save(struct machine *m, const char *name)
{
	static const struct snapshot_needs full = {.memory_full = true,
		.part = {[SNAPSHOT_PART_STATE] = true, [SNAPSHOT_PART_MEMORY] = true}};
	struct snapshot_files files = new_files(name, &full);
	struct error e = {0};
	char disk[32];

	(void)snprintf(disk, sizeof(disk), "%s/disk0", name); /* short names */
	files.disk_fd[0] = openat(work_dirfd, disk, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(files.disk_fd[0] >= 0);
	if (vm_save(m->vm, &files, &e) < 0)
		fail("vm_save: %s", e.message);
	snapshot_files_close(&files);
}

void lineage_start(struct lineage *l, const char *snapshot)
{
	*l = (struct lineage){.delta_count = 1};
	(void)snprintf(l->state, sizeof(l->state), "%s", snapshot); /* short names */
	(void)snprintf(l->memory, sizeof(l->memory), "%s/memory", snapshot);
	(void)snprintf(l->deltas[0], sizeof(l->deltas[0]), "%s/disk0", snapshot);
}

static int restore(struct machine *m, const struct lineage *l, uint64_t disk_bytes, struct error *e)
{
	struct vm_options o = {.kernel_fd = -1,
		.initrd_fd = -1,
		.hot_fd = -1,
		.check_layers = l->check,
		.layer_count = l->layer_count};
	char state[32];
	int r;

	(void)snprintf(state, sizeof(state), "%s/state", l->state); /* short names */
	o.state_fd = openat(work_dirfd, state, O_RDONLY | O_CLOEXEC);
	o.memory_fd = openat(work_dirfd, l->memory, O_RDONLY | O_CLOEXEC);
	for (unsigned i = 0; i < l->layer_count; i++)
		o.layer_fds[i] = open_file(l->layers[i]);
	if (o.state_fd < 0 || o.memory_fd < 0)
		r = error_set(e, ERROR_BAD_SNAPSHOT, ENOENT, "the snapshot has no state or memory");
	else
		r = create(m, &o, l, disk_bytes, e);
	cleanup_close_p(&o.state_fd);
	cleanup_close_p(&o.memory_fd);
	for (unsigned i = 0; i < l->layer_count; i++)
		(void)close(o.layer_fds[i]); /* only read */
	return r;
}

int machine_try_restore(struct machine *m, const char *name, uint64_t disk_bytes, struct error *e)
{
	struct lineage l;

	lineage_start(&l, name);
	return restore(m, &l, disk_bytes, e);
}

int machine_try_restore_lineage(struct machine *m, const struct lineage *l, struct error *e)
{
	return restore(m, l, 0, e);
}

void machine_restore_lineage(struct machine *m, const struct lineage *l)
{
	struct error e = {0};

	if (machine_try_restore_lineage(m, l, &e) < 0)
		fail("vm_create of a snapshot: %s", e.message);
}

static void delta_name(const struct machine *m, unsigned number, char out[32])
{
	if (number)
		(void)snprintf(out, 32, "%s/delta%u", m->dir, number); /* short names */
	else
		(void)snprintf(out, 32, "%s/delta", m->dir);
}

/* What a snapshot in the directory `name` adds. */
static void lineage_extend(struct lineage *l, const char *name, const struct vm_snapshot_result *r)
{
	(void)snprintf(l->state, sizeof(l->state), "%s", name); /* short names */
	if (r->memory_full || r->memory_merged)
		l->layer_count = 0;
	if (r->memory_full)
		(void)snprintf(l->memory, sizeof(l->memory), "%s/memory", name);
	if (r->memory_merged)
		(void)snprintf(l->layers[l->layer_count++], 32, "%s/memory.merged", name);
	if (!r->memory_full)
		(void)snprintf(l->layers[l->layer_count++], 32, "%s/memory.layer", name);
	if (r->disk_merged[0]) {
		l->delta_count = 0;
		(void)snprintf(l->deltas[l->delta_count++], 32, "%s/disk0.merged", name);
	}
	(void)snprintf(l->deltas[l->delta_count++], 32, "%s/disk0", name);
	CHECK(l->layer_count <= SNAPSHOT_LAYERS_MAX && l->delta_count <= SNAPSHOT_LAYERS_MAX + 1);
}

int machine_try_snapshot(struct machine *m, const char *name, bool final, struct lineage *l,
	struct vm_snapshot_result *ret, struct error *e)
{
	struct vm_snapshot_options o = {.final = final};
	char from[32], to[32], next[32];
	struct vm_stats before, after;
	bool switched;
	int r;

	o.files = machine_snapshot_files(m, name);
	delta_name(m, m->freezes, from);
	delta_name(m, m->freezes + 1, next);
	(void)snprintf(to, sizeof(to), "%s/disk0", name); /* short names */
	CHECK(linkat(work_dirfd, from, work_dirfd, to, 0) == 0);
	if (!final) {
		(void)unlinkat(work_dirfd, next, 0); /* of an attempt that failed */
		o.files.disk_fd[0] =
			openat(work_dirfd, next, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		CHECK(o.files.disk_fd[0] >= 0);
	}
	vm_get_stats(m->vm, &before);
	r = vm_snapshot(m->vm, &o, ret, e);
	vm_get_stats(m->vm, &after);
	switched = after.disk_tops[0] != before.disk_tops[0];
	m->freezes += switched;
	if (r == 0)
		lineage_extend(l, name, ret);
	else if (switched)
		(void)snprintf(l->deltas[l->delta_count++], 32, "%s", from);
	return r;
}

void machine_snapshot(struct machine *m, const char *name, bool final, struct lineage *l)
{
	struct vm_snapshot_result result;
	struct error e = {0};

	if (machine_try_snapshot(m, name, final, l, &result, &e) < 0)
		fail("vm_snapshot: %s", e.message);
}

void machine_restore(struct machine *m, const char *name, uint64_t disk_bytes)
{
	struct error e = {0};

	if (machine_try_restore(m, name, disk_bytes, &e) < 0)
		fail("vm_create of a snapshot: %s", e.message);
}

void machine_free(struct machine *m)
{
	vm_free(m->vm);
	m->vm = NULL;
}

/* --- running --- */

static void serve_once(struct machine *m, int ms)
{
	struct pollfd p[2] = {{.fd = vm_event_fd(m->vm), .events = POLLIN},
		{.fd = vm_vsock_fd(m->vm), .events = POLLIN}};

	if (poll(p, 2, ms) > 0 && p[1].revents)
		vm_vsock_poll(m->vm);
}

enum vm_end machine_serve(struct machine *m, unsigned ms)
{
	uint64_t deadline = clock_monotonic_ns() + ms * NS_PER_MS;
	enum vm_end end;

	while ((end = vm_ended(m->vm, NULL, 0)) == VM_RUNNING) {
		uint64_t now = clock_monotonic_ns();

		if (now >= deadline)
			break;
		serve_once(m, (int)((deadline - now) / NS_PER_MS) + 1);
	}
	return end;
}

static void print_console(struct machine *m)
{
	char path[32], text[4096];
	ssize_t n;
	int fd;

	(void)vm_ended(m->vm, NULL, 0);				      /* flushes the console */
	(void)snprintf(path, sizeof(path), "%s/console.log", m->dir); /* fits */
	fd = openat(work_dirfd, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, text, sizeof(text));
	if (n > 0)
		(void)printf("guest: %.*s", (int)n, text);
	if (fd >= 0)
		(void)close(fd);
}

static void print_registers(struct machine *m)
{
	for (unsigned i = 0; i < m->vm->cpu_count; i++) {
		struct kvm_regs r;

		machine_pause(m);
		if (kvm_ioctl(m->vm->cpus[i].vcpu.fd, KVM_GET_REGS, &r) == 0)
			(void)printf("CPU %u: rip 0x%llx rax 0x%llx rsp 0x%llx\n", i, r.rip, r.rax,
				r.rsp);
	}
}

enum vm_end machine_wait(struct machine *m)
{
	enum vm_end end = machine_serve(m, DEADLINE_MS);

	if (end == VM_RUNNING) {
		print_console(m);
		print_registers(m);
		fail("the guest did not end within %d ms", DEADLINE_MS);
	}
	return end;
}

void machine_expect_pass(struct machine *m)
{
	enum vm_end end = machine_wait(m);
	uint8_t value = vm_power_off_value(m->vm);
	char why[160];

	if (end == VM_END_POWER_OFF && value == GUEST_PASSED)
		return;
	print_console(m);
	if (end == VM_END_POWER_OFF && value == GUEST_SKIPPED)
		skip("the guest cannot do this here");
	(void)vm_ended(m->vm, why, sizeof(why));
	fail("the guest ended with %d (%s), value 0x%x", (int)end, why, value);
}

/* --- memory and mailbox --- */

void *machine_memory(struct machine *m, uint64_t at, uint64_t bytes)
{
	void *p = guest_memory_ptr(&m->vm->memory, at, bytes);

	CHECK(p);
	return p;
}

struct mailbox *machine_mailbox(struct machine *m)
{
	return machine_memory(m, GUEST_MAILBOX, sizeof(struct mailbox));
}

void machine_wait_stage(struct machine *m, uint32_t stage)
{
	uint64_t deadline = clock_monotonic_ns() + DEADLINE_MS * NS_PER_MS;

	while (machine_mailbox(m)->stage != stage) {
		serve_once(m, 1);
		if (vm_ended(m->vm, NULL, 0) != VM_RUNNING)
			machine_expect_pass(m);
		if (vm_ended(m->vm, NULL, 0) != VM_RUNNING || clock_monotonic_ns() > deadline) {
			print_console(m);
			fail("the guest did not reach stage %u", stage);
		}
	}
}

void machine_answer(struct machine *m, uint32_t stage)
{
	machine_mailbox(m)->answer = stage;
}

void machine_read_sector(struct machine *m, uint64_t sector, uint8_t *out)
{
	struct error e = {0};
	struct vm_disk d = {0};
	struct disk *disk;
	char path[32];

	CHECK(blk_flush(m->vm->slots[VM_SLOT_DISK].device) == 0);
	(void)snprintf(path, sizeof(path), "%s/delta", m->dir); /* fits */
	d.delta_fd = openat(work_dirfd, path, O_RDWR | O_CLOEXEC);
	if (disk_open(open_base(), NULL, 0, d.delta_fd, DISK_SECTORS * SECTOR_BYTES, &disk, &e) < 0)
		fail("disk_open: %s", e.message);
	CHECK(disk_read(disk, sector * SECTOR_BYTES, out, SECTOR_BYTES) == 0);
	disk_close(disk);
}

void run_guest(const struct test *t)
{
	struct machine m;
	enum vm_end end;

	machine_boot(&m, t->guest, t->line, t->cpus);
	vm_resume(m.vm);
	if (t->end == VM_RUNNING) {
		machine_expect_pass(&m);
	} else {
		end = machine_wait(&m);
		if (end != t->end)
			fail("the guest ended with %d, not with %d", (int)end, (int)t->end);
	}
	machine_free(&m);
}
