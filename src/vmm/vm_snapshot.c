/* Saves a VM: as a whole, or what was written since the snapshot that it stands on.
 *
 * A live snapshot has three parts.
 *
 * Before the stop: layers and deltas that became too many are merged. They no longer change, so the
 * guest runs. Pages that the guest writes meanwhile are torn in the merged layer. But such a page
 * is the VM's own, so the new layer on top has it, too.
 *
 * Stopped: written pages go to the layer's file and the state into a buffer. The deltas are frozen.
 * The pages are mapped from where they were written to, so that later writes stand out again.
 *
 * After the stop: checksum, waiting for the host's disk, and the state's file, which completes the
 * snapshot. */
#include "vmm/vm_internal.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "proto/snapshot.h"
#include "vmm/blk.h"
#include "vmm/hot.h"

static struct virtio_device *disk_of(const struct vm *vm, unsigned i)
{
	return vm->slots[VM_SLOT_DISK + i].device;
}

/* A point where tests make a snapshot fail. */
static int passed(const char *point, struct error *e)
{
	int r = fault_point(point);

	return r < 0 ? error_set_errno(e, ERROR_NO_SPACE, -r, "cannot write the snapshot") : 0;
}

/* --- state --- */

static void save_machine(struct vm *vm, struct snapshot_writer *w)
{
	struct buf *b = snapshot_section(w, SNAPSHOT_MACHINE, 0);
	static const uint8_t unused[SNAPSHOT_MACHINE_UNUSED_BYTES];

	w->err |= buf_add_le32(b, vm->cpu_count);
	w->err |= buf_add_le64(b, vm->memory.bytes);
	w->err |= buf_add_le32(b, vm->tsc_khz);
	w->err |= buf_add(b, unused, sizeof(unused));
	for (unsigned i = 0; i < VM_SLOTS; i++)
		w->err |= buf_add_le32(b, vm->slots[i].device ? vm->slots[i].device->ops->id : 0);
	b = snapshot_section(w, SNAPSHOT_CPU, 0);
	w->err |= buf_add_le64(b, vm->host_cpu);
	w->err |= buf_add_le64(b, vm->capabilities);
}

/* #calls snapshot: ioctl(KVM_GET_CLOCK) */
static int save_sections(
	struct vm *vm, const struct layer_id *top, struct snapshot_writer *w, struct error *e)
{
	struct kvm_clock_data clock;
	struct buf *b;
	int r = kvm_ioctl(vm->fd, KVM_GET_CLOCK, &clock);

	if (r < 0)
		return error_set_errno(e, ERROR_INTERNAL, -r, "KVM_GET_CLOCK");
	if (vm->frozen_ns)
		clock.clock = vm->frozen_ns;
	save_machine(vm, w);
	b = snapshot_section(w, SNAPSHOT_CPUID, 0);
	w->err |= buf_add_le32(b, vm->cpuid->head.nent);
	w->err |= buf_add(
		b, vm->cpuid->entries, vm->cpuid->head.nent * sizeof(vm->cpuid->entries[0]));
	w->err |= buf_add_le64(snapshot_section(w, SNAPSHOT_CLOCK, 0), clock.clock);
	for (unsigned i = 0; i < vm->cpu_count; i++) {
		r = vcpu_save(&vm->cpus[i].vcpu, snapshot_section(w, SNAPSHOT_VCPU, i), e);
		if (r < 0)
			return r;
	}
	w->err |= ioapic_save(&vm->ioapic, snapshot_section(w, SNAPSHOT_IOAPIC, 0));
	w->err |= serial_save(&vm->serial, snapshot_section(w, SNAPSHOT_SERIAL, 0));
	for (unsigned i = 0; i < vm->disk_count; i++)
		w->err |= buf_add_le64(snapshot_section(w, SNAPSHOT_DISK, i), vm->disk_bytes[i]);
	for (unsigned i = 0; i < VM_SLOTS; i++)
		if (vm->slots[i].device)
			w->err |= virtio_save(
				vm->slots[i].device, snapshot_section(w, SNAPSHOT_DEVICE, i));
	w->err |= buf_add(snapshot_section(w, SNAPSHOT_MEMORY, 0), top->bytes, sizeof(top->bytes));
	return 0;
}

/* top: the topmost memory layer that belongs to the state. */
static int save_state(
	struct vm *vm, const struct layer_id *top, struct snapshot_writer *w, struct error *e)
{
	int r;

	snapshot_writer_init(w);
	r = save_sections(vm, top, w, e);
	if (r == 0 && snapshot_writer_finish(w) < 0)
		r = error_set(
			e, ERROR_INTERNAL, EMSGSIZE, "the VM's state does not fit a snapshot");
	return r;
}

/* A partly written state is refused because of its checksum.
 *
 * #calls snapshot: pwritev fsync */
static int write_state(int fd, const struct snapshot_writer *w, struct error *e)
{
	int r = fd_pwrite_full(fd, buf_head(&w->bytes), buf_len(&w->bytes), 0);

	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	return r < 0 ? error_set_errno(e, ERROR_NO_SPACE, -r, "cannot write the snapshot's state")
		     : 0;
}

/* --- as a whole --- */

static int save_memory(struct vm *vm, int fd, struct error *e)
{
	struct page_range all = {0, (uint32_t)(vm->memory.bytes / PAGE_BYTES)};
	int r = base_write_pages(
		fd, &vm->memory, &(struct page_set){.ranges = &all, .count = 1}, e);

	if (r >= 0 && fsync(fd) < 0)
		r = error_set_errno(e, ERROR_NO_SPACE, errno, "cannot write the snapshot's memory");
	return r < 0 ? r : 0;
}

/* Writes each disk's changes as one delta. */
static int save_disks(struct vm *vm, const struct snapshot_files *files, struct error *e)
{
	int r = 0;

	for (unsigned i = 0; i < vm->disk_count && r == 0; i++)
		if (!vm->disk_read_only[i])
			r = blk_flatten(disk_of(vm, i), vm->image_deltas[i], files->disk_fd[i], e);
	return r;
}

static int check_save(const struct vm *vm, const struct snapshot_files *files, struct error *e)
{
	static const struct snapshot_needs full = {
		.part = {[SNAPSHOT_PART_STATE] = true, [SNAPSHOT_PART_MEMORY] = true}};

	for (unsigned i = 0; i < SNAPSHOT_DISKS_MAX; i++)
		if ((i < vm->disk_count && !vm->disk_read_only[i]) != (files->disk_fd[i] >= 0))
			return error_set(
				e, ERROR_USAGE, EINVAL, "disk %u and its file do not match", i);
	return snapshot_files_check(files, &full, e);
}

int vm_save(struct vm *vm, const struct snapshot_files *files, struct error *e)
{
	static const struct layer_id none;
	struct snapshot_writer w;
	int r = check_save(vm, files, e);

	if (r == 0)
		r = save_disks(vm, files, e);
	if (r == 0)
		r = save_memory(vm, files->fd[SNAPSHOT_PART_MEMORY], e);
	if (r < 0)
		return r;
	r = save_state(vm, &none, &w, e);
	if (r == 0)
		r = write_state(files->fd[SNAPSHOT_PART_STATE], &w, e);
	snapshot_writer_done(&w);
	return r;
}

int vm_save_hot(struct vm *vm, int memory_fd, int fd, struct error *e)
{
	return hot_save(&vm->memory, vm->pagemap_fd, memory_fd, fd, e);
}

int vm_flush_disks(struct vm *vm, struct error *e)
{
	for (unsigned i = 0; i < vm->disk_count; i++) {
		int r = blk_flush(disk_of(vm, i));

		if (r < 0 && blk_check(disk_of(vm, i), e) < 0)
			return r;
		if (r < 0)
			return error_set_errno(e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL,
				-r, "cannot write disk %u", i);
	}
	return 0;
}

/* #calls main: fstat
 * #calls glibc main: newfstatat */
int vm_freeze_disk(struct vm *vm, int delta_fd, struct error *e)
{
	struct stat st;
	int r = fstat(delta_fd, &st) < 0 ? -errno : 0;

	if (r < 0 || vm->disk_count == 0 || vm->disk_read_only[0]) {
		(void)close(delta_fd); /* nothing was written */
		return error_set(
			e, ERROR_USAGE, EINVAL, "freeze-disk: there is no disk to write to");
	}
	r = blk_freeze(disk_of(vm, 0), delta_fd, e);
	if (r < 0)
		return r;
	atomic_store(&vm->disk_tops[0], st.st_ino);
	r = blk_sync_frozen(disk_of(vm, 0));
	return r < 0 ? error_set_errno(e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, -r,
			       "cannot write a disk's delta")
		     : 0;
}

/* --- what was written since --- */

struct work {
	struct vm *vm;
	const struct vm_snapshot_options *o;
	struct snapshot_files files; /* owned */
	ino_t delta_inodes[SNAPSHOT_DISKS_MAX];
	struct page_set merged_pages;			      /* owned */
	struct disk_merged *merged_disks[SNAPSHOT_DISKS_MAX]; /* owned, NULL: none */
	struct layer_id id, parent;
	unsigned layers;       /* layers below the new one once it is in place */
	unsigned mappings;     /* mappings of these */
	struct page_set pages; /* owned: pages of the new one */
	struct page_set above; /* owned: pages of it and all below */
	struct snapshot_writer state;
	unsigned frozen; /* disks below this number are frozen */
	bool adopted, was_running;
	struct vm_snapshot_result result;
};

static bool needs_delta(const struct work *w, unsigned disk)
{
	return !w->o->final && disk < w->vm->disk_count && !w->vm->disk_read_only[disk];
}

/* #calls snapshot: fstat
 * #calls glibc snapshot: newfstatat */
static int check_request(struct work *w, const struct snapshot_needs *needs, struct error *e)
{
	const int *fds = w->files.disk_fd;
	struct stat st;

	for (unsigned i = 0; i < SNAPSHOT_DISKS_MAX; i++) {
		if (needs_delta(w, i) != (fds[i] >= 0))
			return error_set(e, ERROR_USAGE, EINVAL,
				fds[i] < 0 ? "disk %u needs a new delta"
					   : "disk %u takes no new delta",
				i);
		if (fds[i] >= 0 && fstat(fds[i], &st) < 0)
			return error_set_errno(
				e, ERROR_INTERNAL, errno, "cannot examine a disk delta");
		w->delta_inodes[i] = fds[i] >= 0 ? st.st_ino : 0;
	}
	return snapshot_files_check(&w->files, needs, e);
}

/* #calls snapshot: getrandom */
static int new_id(struct layer_id *id, struct error *e)
{
	if (getrandom(id, sizeof(*id), 0) != sizeof(*id))
		return error_set_errno(e, ERROR_INTERNAL, errno, "cannot draw a random number");
	return 0;
}

/* Merges the layers below into one. Reads them through the memory. */
static int merge_memory(struct work *w, struct error *e)
{
	static const struct page_set nothing;
	static const struct layer_id base;
	struct page_set *pages = &w->merged_pages;
	int fd = w->files.fd[SNAPSHOT_PART_MEMORY_MERGED], r;

	if (page_set_union(&w->vm->stack.above, &nothing, pages) < 0)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	page_set_close_gaps(pages, LAYER_GAP_PAGES, LAYER_RANGES_MAX);
	r = new_id(&w->parent, e);
	if (r >= 0)
		r = layer_write_pages(fd, &w->vm->memory, pages, e);
	if (r >= 0)
		r = layer_complete(fd, &w->vm->memory, pages, &w->parent, &base, e);
	w->layers = 1;
	w->mappings = pages->count;
	w->result.memory_merged = true;
	return r;
}

static int merge_disk(struct work *w, unsigned i, struct error *e)
{
	w->result.disk_merged[i] = true;
	return blk_merge_frozen(disk_of(w->vm, i),
		TAKE_FD(w->files.fd[SNAPSHOT_PART_DISK0_MERGED + i]), &w->merged_disks[i], e);
}

/* True if one more layer, or its mappings, could be too many. */
static bool is_high(const struct memory_stack *s)
{
	return s->layer_count == SNAPSHOT_LAYERS_MAX ||
	       (s->layer_count > 1 && s->mappings + LAYER_RANGES_MAX > LAYER_MAPPINGS_MAX);
}

static struct snapshot_needs find_needs(struct vm *vm)
{
	struct snapshot_needs n = {.memory_full = !vm->stack.has_base,
		.part = {[SNAPSHOT_PART_STATE] = true,
			[SNAPSHOT_PART_MEMORY] = true,
			[SNAPSHOT_PART_MEMORY_MERGED] = is_high(&vm->stack)}};

	for (unsigned i = 0; i < vm->disk_count; i++)
		n.part[SNAPSHOT_PART_DISK0_MERGED + i] =
			!vm->disk_read_only[i] &&
			blk_frozen_count(disk_of(vm, i)) >= SNAPSHOT_LAYERS_MAX;
	return n;
}

void vm_update_needs(struct vm *vm)
{
	struct snapshot_needs n = find_needs(vm);

	pthread_mutex_lock(&vm->lock);
	vm->needs = n;
	pthread_mutex_unlock(&vm->lock);
}

struct snapshot_needs vm_snapshot_needs(struct vm *vm)
{
	struct snapshot_needs n;

	pthread_mutex_lock(&vm->lock);
	n = vm->needs;
	pthread_mutex_unlock(&vm->lock);
	return n;
}

/* While the guest runs: does everything that can be done before the stop. */
static int prepare(struct work *w, struct error *e)
{
	const struct memory_stack *stack = &w->vm->stack;
	struct snapshot_needs needs = vm_snapshot_needs(w->vm);
	int r = check_request(w, &needs, e);

	if (r < 0)
		return r;
	w->parent = stack->top;
	w->layers = stack->layer_count;
	w->mappings = stack->mappings;
	if (needs.part[SNAPSHOT_PART_MEMORY_MERGED])
		r = merge_memory(w, e);
	for (unsigned i = 0; i < w->vm->disk_count && r >= 0; i++)
		if (needs.part[SNAPSHOT_PART_DISK0_MERGED + i])
			r = merge_disk(w, i, e);
	for (unsigned i = 0; i < w->vm->disk_count && r >= 0; i++) {
		r = blk_check(disk_of(w->vm, i), e);
		blk_write_back(disk_of(w->vm, i)); /* leaves less to write later */
	}
	if (r >= 0 && stack->has_base)
		r = new_id(&w->id, e);
	w->result.memory_full = !stack->has_base;
	return r < 0 ? r : passed("snapshot-prepared", e);
}

static int memory_fd(const struct work *w)
{
	return w->files.fd[SNAPSHOT_PART_MEMORY];
}

static int capture_memory(struct work *w, struct error *e)
{
	const struct guest_memory *m = &w->vm->memory;
	int r = pages_written(m, w->vm->pagemap_fd, &w->pages);

	if (r < 0)
		return error_set_errno(
			e, ERROR_INTERNAL, -r, "cannot find the pages that were written");
	if (w->vm->stack.has_base)
		page_set_close_gaps(&w->pages, LAYER_GAP_PAGES, LAYER_RANGES_MAX);
	w->result.pages = page_set_pages(&w->pages);
	r = w->vm->stack.has_base ? layer_write_pages(memory_fd(w), m, &w->pages, e)
				  : base_write_pages(memory_fd(w), m, &w->pages, e);
	return r < 0 ? r : passed("snapshot-pages-written", e);
}

static int freeze_disks(struct work *w, struct error *e)
{
	int r = w->o->final ? vm_flush_disks(w->vm, e) : 0;

	for (; !w->o->final && w->frozen < w->vm->disk_count && r == 0; w->frozen++)
		if (!w->vm->disk_read_only[w->frozen])
			r = blk_freeze(
				disk_of(w->vm, w->frozen), TAKE_FD(w->files.disk_fd[w->frozen]), e);
	if (r < 0 && w->frozen)
		w->frozen--; /* that disk is unchanged */
	return r < 0 ? r : passed("snapshot-disks-frozen", e);
}

static void thaw_disks(struct work *w)
{
	while (w->frozen > 0)
		if (!w->vm->disk_read_only[--w->frozen])
			blk_thaw(disk_of(w->vm, w->frozen));
}

/* Maps pages from the files that they were just written to. If that fails halfway, a page has the
 * same content either way. */
static int adopt_pages(struct work *w, struct error *e)
{
	const struct guest_memory *m = &w->vm->memory;
	int merged_fd = w->files.fd[SNAPSHOT_PART_MEMORY_MERGED], r;

	if (w->o->final)
		return 0;
	w->adopted = true; /* the first page may be mapped at any time from here */
	if (w->result.memory_full)
		return base_adopt(memory_fd(w), m, e);
	r = layer_adopt(memory_fd(w), m, &w->pages, e);
	if (r == 0 && merged_fd >= 0) /* makes the mappings fewer, and shared */
		r = layer_adopt_rest(merged_fd, m, &w->merged_pages, &w->pages, e);
	if (r == 0 && page_set_union(&w->vm->stack.above, &w->pages, &w->above) < 0)
		r = error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	return r;
}

/* vCPUs are at rest. */
static int capture(struct work *w, struct error *e)
{
	int r;

	if (vm_ended(w->vm, NULL, 0) != VM_RUNNING)
		return error_set(e, ERROR_SANDBOX, ECHILD, "the guest has ended");
	r = capture_memory(w, e);
	if (r == 0)
		r = save_state(w->vm, &w->id, &w->state, e);
	if (r == 0)
		r = passed("snapshot-state-saved", e);
	if (r == 0)
		r = freeze_disks(w, e);
	if (r == 0)
		r = adopt_pages(w, e);
	if (r == 0)
		r = passed("snapshot-pages-adopted", e);
	if (r < 0) {
		thaw_disks(w);
		return r;
	}
	for (unsigned i = 0; i < SNAPSHOT_DISKS_MAX; i++)
		if (needs_delta(w, i))
			atomic_store(&w->vm->disk_tops[i], w->delta_inodes[i]);
	return 0;
}

static void call(void (*f)(void *arg), const struct work *w)
{
	if (f)
		f(w->o->arg);
}

static int stop_and_capture(struct work *w, struct error *e)
{
	struct vm *vm = w->vm;
	bool runs;
	uint64_t begin;
	int r;

	call(w->o->before_stop, w);
	pthread_mutex_lock(&vm->life);
	begin = clock_monotonic_ns();
	r = vm_stop_cpus(vm, &w->was_running, e);
	if (r == 0)
		r = capture(w, e);
	runs = w->was_running && (r < 0 || !w->o->final);
	if (runs)
		vm_start_cpus(vm);
	w->result.stop_ns = clock_monotonic_ns() - begin;
	pthread_mutex_unlock(&vm->life);
	if (runs)
		call(w->o->after_stop, w);
	return r < 0 ? r : passed("snapshot-captured", e);
}

static int sync_disks(struct work *w, struct error *e)
{
	for (unsigned i = 0; i < w->vm->disk_count; i++) {
		int r = blk_sync_frozen(disk_of(w->vm, i));

		if (r < 0 && blk_check(disk_of(w->vm, i), e) < 0)
			return r;
		if (r < 0)
			return error_set_errno(e, ERROR_NO_SPACE, -r, "cannot write disk %u", i);
	}
	return 0;
}

/* Makes the files a snapshot. If that fails, nobody may take them for one.
 *
 * #calls snapshot (when it fails at the end): ftruncate */
static int publish(struct work *w, struct error *e)
{
	int fd = w->files.fd[SNAPSHOT_PART_STATE], r = write_state(fd, &w->state, e);

	if (r == 0)
		r = passed("snapshot-complete", e);
	if (r < 0)
		(void)!ftruncate(fd, 0); /* else most likely the state is damaged */
	return r;
}

/* While the guest runs again: makes everything durable, the state last. */
static int complete(struct work *w, struct error *e)
{
	int r = 0;

	if (!w->result.memory_full)
		r = layer_complete(memory_fd(w), &w->vm->memory, &w->pages, &w->id, &w->parent, e);
	else if (fsync(memory_fd(w)) < 0)
		r = error_set_errno(e, ERROR_NO_SPACE, errno, "cannot write the snapshot's memory");
	if (r == 0)
		r = passed("snapshot-memory-complete", e);
	if (r == 0)
		r = sync_disks(w, e);
	if (r == 0)
		r = passed("snapshot-disks-synced", e);
	return r == 0 ? publish(w, e) : r;
}

/* The memory is mapped from the files just written, and no longer from those that were merged.
 * Cannot fail within the limits of a stack; it would only cost a reason later. */
static void keep_files(struct work *w)
{
	struct backing *b = &w->vm->backing;
	int *merged_fd = &w->files.fd[SNAPSHOT_PART_MEMORY_MERGED];

	pthread_mutex_lock(&w->vm->lock);
	if (*merged_fd >= 0) {
		backing_drop(b, w->vm->stack.layer_count);
		(void)backing_take(b, TAKE_FD(*merged_fd));
	}
	(void)backing_take(b, TAKE_FD(w->files.fd[SNAPSHOT_PART_MEMORY]));
	pthread_mutex_unlock(&w->vm->lock);
}

/* The VM stands on its new snapshot from now on. */
static void settle(struct work *w)
{
	struct memory_stack *stack = &w->vm->stack;

	if (w->o->final)
		return;
	for (unsigned i = 0; i < w->vm->disk_count; i++)
		if (w->merged_disks[i]) {
			blk_replace_frozen(disk_of(w->vm, i), TAKE_PTR(w->merged_disks[i]));
			w->vm->image_deltas[i] = 0; /* they are in it */
		}
	keep_files(w);
	memory_stack_done(stack);
	*stack = (struct memory_stack){.has_base = true,
		.layer_count = w->result.memory_full ? 0 : w->layers + 1,
		.mappings = w->result.memory_full ? 0 : w->mappings + w->pages.count,
		.top = w->id,
		.above = w->above};
	w->above = (struct page_set){0};
}

/* Restores the VM: its pages become its own again, and it runs if it did before. */
static void take_back(struct work *w)
{
	if (w->adopted)
		layer_disown(&w->vm->memory, &w->pages);
	if (w->was_running)
		vm_resume(w->vm);
}

static void work_done(struct work *w)
{
	for (unsigned i = 0; i < SNAPSHOT_DISKS_MAX; i++)
		disk_merged_free(w->merged_disks[i]);
	snapshot_files_close(&w->files);
	page_set_done(&w->merged_pages);
	page_set_done(&w->pages);
	page_set_done(&w->above);
	snapshot_writer_done(&w->state);
}

int vm_snapshot(struct vm *vm, const struct vm_snapshot_options *o, struct vm_snapshot_result *ret,
	struct error *e)
{
	struct work w = {.vm = vm, .o = o, .files = o->files};
	int r = prepare(&w, e);

	if (r == 0)
		r = stop_and_capture(&w, e);
	if (r == 0)
		r = complete(&w, e);
	if (r == 0) {
		settle(&w);
		*ret = w.result;
	} else {
		take_back(&w);
	}
	work_done(&w);
	vm_update_needs(vm);
	return r;
}
