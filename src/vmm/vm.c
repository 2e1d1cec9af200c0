/* Sets a VM up, by boot or from a snapshot. */
#include "vmm/vm_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "proto/snapshot.h"
#include "vmm/blk.h"
#include "vmm/boot.h"
#include "vmm/cpu_model.h"
#include "vmm/cpuid.h"
#include "vmm/hot.h"
#include "vmm/priority.h"
#include "vmm/rng.h"
#include "vmm/vsock.h"

enum { TSC_TOLERANCE_PPM = 250 };

/* A guest that switches TSX off needs an MSR that not every host has. Guests have no TSX anyway. */
#define ARCH_CAPABILITY_TSX_CONTROL (UINT64_C(1) << 7)

/* --- interrupts --- */

static void raise_slot(void *opaque)
{
	struct vm_slot *s = opaque;

	ioapic_raise(&s->vm->ioapic, s->pin);
}

static void raise_serial(void *opaque)
{
	struct vm *vm = opaque;

	ioapic_raise(&vm->ioapic, VM_SERIAL_GSI);
}

/* --- parts --- */

static struct vm *vm_new(struct vm_options *o)
{
	struct vm *vm = calloc(1, sizeof(*vm));
	pthread_condattr_t monotonic;

	if (!vm)
		return NULL;
	vm->fd = vm->event_fd = -1;
	vm->kvm_fd = TAKE_FD(o->kvm_fd);
	vm->pagemap_fd = TAKE_FD(o->pagemap_fd);
	atomic_store(&vm->halt, true);
	pthread_mutex_init(&vm->life, NULL);
	pthread_mutex_init(&vm->lock, NULL);
	pthread_cond_init(&vm->wake, NULL);
	pthread_condattr_init(&monotonic);
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC); /* there on every Linux */
	pthread_cond_init(&vm->parked, &monotonic);
	pthread_cond_init(&vm->never, &monotonic);
	pthread_condattr_destroy(&monotonic);
	for (unsigned i = 0; i < KVM_CPUS_MAX; i++) {
		vm->cpus[i].vm = vm;
		vm->cpus[i].vcpu.fd = -1;
	}
	for (unsigned i = 0; i < VM_SLOTS; i++)
		vm->slots[i] = (struct vm_slot){.vm = vm, .pin = VM_SLOT_GSI + i};
	ioapic_init(&vm->ioapic, -1);
	serial_init(&vm->serial, TAKE_FD(o->console_fd), raise_serial, vm);
	return vm;
}

void vm_free(struct vm *vm)
{
	if (!vm)
		return;
	vm_stop_threads(vm);
	for (unsigned i = 0; i < VM_SLOTS; i++)
		virtio_destroy(vm->slots[i].device);
	serial_done(&vm->serial);
	ioapic_done(&vm->ioapic);
	for (unsigned i = 0; i < KVM_CPUS_MAX; i++)
		vcpu_done(&vm->cpus[i].vcpu);
	if (vm->fd >= 0)
		(void)close(vm->fd); /* no data behind it */
	if (vm->kvm_fd >= 0)
		(void)close(vm->kvm_fd); /* no data behind it */
	cleanup_close_p(&vm->pagemap_fd);
	if (vm->event_fd >= 0)
		(void)close(vm->event_fd); /* no data behind it */
	guest_memory_done(&vm->memory);
	memory_stack_done(&vm->stack);
	backing_drop(&vm->backing, BACKING_FILES_MAX);
	free(vm->cpuid);
	pthread_mutex_destroy(&vm->life);
	pthread_mutex_destroy(&vm->lock);
	pthread_cond_destroy(&vm->wake);
	pthread_cond_destroy(&vm->parked);
	pthread_cond_destroy(&vm->never);
	free(vm);
}

/* #calls start: ioctl(KVM_SET_USER_MEMORY_REGION) */
static int register_memory(struct vm *vm, struct error *e)
{
	for (unsigned i = 0; i < vm->memory.region_count; i++) {
		const struct guest_region *g = &vm->memory.regions[i];
		struct kvm_userspace_memory_region r = {
			.slot = i,
			.guest_phys_addr = g->start,
			.memory_size = g->bytes,
			.userspace_addr = (uintptr_t)g->host,
		};
		int err = kvm_ioctl(vm->fd, KVM_SET_USER_MEMORY_REGION, &r);

		if (err < 0)
			return error_set_errno(
				e, ERROR_HOST, -err, "cannot give KVM the guest's memory");
	}
	return 0;
}

static int enable(struct vm *vm, uint32_t cap, uint64_t argument)
{
	struct kvm_enable_cap c = {.cap = cap, .args = {argument}};

	return kvm_ioctl(vm->fd, KVM_ENABLE_CAP, &c);
}

/* Enables a capability with this flag, if KVM has both. */
static int enable_where_there(struct vm *vm, uint32_t cap, int flag)
{
	int has = kvm_ioctl_n(vm->fd, KVM_CHECK_EXTENSION, cap);

	return has > 0 && has & flag ? enable(vm, cap, (uint64_t)flag) : 0;
}

/* Sets rules that KVM takes only before the first vCPU. No performance counters: CPUID hides them,
 * but AMD guests find four all the same. A bus lock ends KVM_RUN, so its guest can be slowed down.
 * Old Intel CPUs run real mode in a task of KVM's own, which needs room in the guest's address
 * space.
 *
 * #calls start: ioctl(KVM_ENABLE_CAP|KVM_CHECK_EXTENSION|KVM_SET_TSS_ADDR) */
static int set_rules(struct vm *vm, struct error *e)
{
	int r = enable(vm, KVM_CAP_SPLIT_IRQCHIP, IOAPIC_PINS);

	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "KVM_CAP_SPLIT_IRQCHIP");
	r = enable_where_there(vm, KVM_CAP_PMU_CAPABILITY, KVM_PMU_CAP_DISABLE);
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "KVM_CAP_PMU_CAPABILITY");
	r = enable_where_there(vm, KVM_CAP_X86_BUS_LOCK_EXIT, KVM_BUS_LOCK_DETECTION_EXIT);
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "KVM_CAP_X86_BUS_LOCK_EXIT");
	r = kvm_ioctl_n(vm->fd, KVM_SET_TSS_ADDR, VM_TSS_BASE);
	return r < 0 ? error_set_errno(e, ERROR_HOST, -r, "KVM_SET_TSS_ADDR") : 0;
}

/* Creates the VM, its memory, its interrupt controller and its vCPUs, without their state.
 *
 * #calls start: ioctl(KVM_CREATE_VM) eventfd2 */
static int create_machine(struct vm *vm, struct error *e)
{
	int r;

	vm->fd = kvm_create_vm(vm->kvm_fd, e);
	if (vm->fd < 0)
		return vm->fd;
	vm->ioapic.vm_fd = vm->fd;
	r = register_memory(vm, e);
	if (r == 0)
		r = set_rules(vm, e);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < vm->cpu_count && r == 0; i++)
		r = vcpu_create(&vm->cpus[i].vcpu, vm->kvm_fd, vm->fd, i, e);
	vm->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r == 0 && vm->event_fd < 0)
		return error_set_errno(e, ERROR_NO_SPACE, errno, "eventfd");
	return r;
}

static int set_cpuid(struct vm *vm, struct error *e)
{
	int r = 0;

	for (unsigned i = 0; i < vm->cpu_count && r == 0; i++)
		r = vcpu_set_cpuid(&vm->cpus[i].vcpu, vm->cpuid, e);
	return r;
}

static int create_disk(struct vm *vm, unsigned i, struct vm_disk *d, struct error *e)
{
	struct vm_slot *s = &vm->slots[VM_SLOT_DISK + i];
	unsigned layers = d->lower_count;
	struct disk *disk;
	char serial[16];
	struct stat st;
	int r;

	if (d->bytes == 0 && fstat(d->base_fd, &st) == 0)
		d->bytes = (uint64_t)st.st_size;
	d->lower_count = 0;
	vm->image_deltas[i] = d->image_deltas;
	vm->disk_read_only[i] = d->delta_fd < 0;
	if (d->delta_fd >= 0 && fstat(d->delta_fd, &st) == 0)
		atomic_store(&vm->disk_tops[i], st.st_ino);
	r = disk_open(TAKE_FD(d->base_fd), d->lower_fds, layers, TAKE_FD(d->delta_fd), d->bytes,
		&disk, e);
	if (r < 0)
		return r;
	vm->disk_bytes[i] = disk_bytes(disk);
	(void)snprintf(serial, sizeof(serial), "disk%u", i); /* fits */
	return blk_create(&vm->memory, disk, serial, raise_slot, s, &s->device, e);
}

/* Opens the disks and puts devices into their slots. Uses up the descriptors of o. */
static int create_devices(struct vm *vm, struct vm_options *o, bool rng, struct error *e)
{
	struct vm_slot *s = &vm->slots[VM_SLOT_RNG];
	int r = 0;

	if (rng)
		r = rng_create(&vm->memory, raise_slot, s, &s->device, e);
	s = &vm->slots[VM_SLOT_VSOCK];
	if (r == 0 && o->vsock_listen_fd >= 0)
		r = vsock_create(&vm->memory, TAKE_FD(o->vsock_listen_fd), VSOCK_GUEST_CID,
			raise_slot, s, &s->device, e);
	for (unsigned i = 0; i < o->disk_count && r == 0; i++)
		r = create_disk(vm, i, &o->disks[i], e);
	vm->disk_count = o->disk_count;
	return r;
}

/* --- boot --- */

static int boot(struct vm *vm, const struct vm_options *o, struct error *e)
{
	struct acpi_device devices[VM_SLOTS];
	struct boot_source source = {
		.kernel_fd = o->kernel_fd, .initrd_fd = o->initrd_fd, .cmdline = o->cmdline};
	struct boot_entry entry;
	unsigned n = 0;
	int r;

	for (unsigned i = 0; i < VM_SLOTS; i++)
		if (vm->slots[i].device)
			devices[n++] = (struct acpi_device){
				.mmio_base = VM_MMIO_BASE + i * VIRTIO_MMIO_SIZE,
				.mmio_bytes = VIRTIO_MMIO_SIZE,
				.gsi = vm->slots[i].pin,
			};
	r = acpi_write(&vm->memory, vm->cpu_count, devices, n, &source.rsdp, e);
	if (r == 0)
		r = boot_load(&vm->memory, &source, &entry, e);
	if (r == 0)
		r = vcpu_set_boot_registers(&vm->cpus[0].vcpu, entry.rip, entry.boot_params,
			entry.page_table, entry.gdt, e);
	return r;
}

/* Limits the CPU to what the listed hosts of a fleet share, if there is a list. */
static int limit_cpu(struct vm *vm, const char *baseline, struct error *e)
{
	struct cpu_facts f;

	if (!baseline)
		return 0;
	if (cpu_facts_parse(baseline, &f) < 0)
		return error_set(e, ERROR_USAGE, EINVAL,
			"the CPU baseline is not one, or of another version of Mayfly");
	cpu_facts_limit(&f, vm->cpuid, &vm->capabilities);
	return 0;
}

/* Makes the guest's CPU from what the host's KVM supports.
 *
 * #calls start: ioctl(KVM_GET_SUPPORTED_CPUID|KVM_GET_MSRS) */
static int make_cpu(struct vm *vm, const char *baseline, struct error *e)
{
	struct cpu_facts here;
	int r;

	vm->cpuid = calloc(1, sizeof(*vm->cpuid));
	if (!vm->cpuid)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	r = kvm_supported_cpuid(vm->kvm_fd, vm->cpuid, e);
	if (r < 0)
		return r;
	vm->capabilities = kvm_arch_capabilities(vm->kvm_fd);
	cpu_facts_of(vm->cpuid, vm->capabilities, &here);
	vm->host_cpu = cpu_facts_hash(&here);
	cpuid_shape(vm->cpuid, vm->cpu_count);
	vm->capabilities &= ~ARCH_CAPABILITY_TSX_CONTROL;
	return limit_cpu(vm, baseline, e);
}

static int set_boot_msrs(struct vm *vm, struct error *e)
{
	int r = 0;

	for (unsigned i = 0; i < vm->cpu_count && r == 0; i++)
		r = vcpu_set_boot_msrs(
			&vm->cpus[i].vcpu, cpuid_is_intel(vm->cpuid), vm->capabilities, e);
	return r;
}

static int create_booted(struct vm *vm, struct vm_options *o, struct error *e)
{
	int r, khz;

	if (o->cpus < 1 || o->cpus > KVM_CPUS_MAX)
		return error_set(e, ERROR_LIMIT, EINVAL, "%u CPUs: must be between 1 and %d",
			o->cpus, KVM_CPUS_MAX);
	vm->cpu_count = o->cpus;
	r = guest_memory_create(&vm->memory, o->memory_bytes, e);
	if (r == 0)
		r = create_machine(vm, e);
	if (r < 0)
		return r;
	khz = kvm_ioctl_n(vm->cpus[0].vcpu.fd, KVM_GET_TSC_KHZ, 0);
	vm->tsc_khz = khz > 0 ? (uint32_t)khz : 0;
	r = make_cpu(vm, o->baseline, e);
	if (r == 0)
		r = set_cpuid(vm, e);
	if (r == 0)
		r = set_boot_msrs(vm, e);
	if (r == 0)
		r = create_devices(vm, o, o->rng, e);
	return r == 0 ? boot(vm, o, e) : r;
}

/* --- restore --- */

static int damaged(struct error *e, const char *what)
{
	return error_set(e, ERROR_BAD_SNAPSHOT, EINVAL,
		"the snapshot is damaged (%s); rebuild the template", what);
}

struct saved_machine {
	uint32_t cpus, tsc_khz;
	uint64_t memory_bytes;
	uint64_t host_cpu, capabilities; /* 0: made before SNAPSHOT_CPU existed */
	uint32_t devices[VM_SLOTS];
};

static int read_machine(const struct snapshot_reader *s, struct saved_machine *m, struct error *e)
{
	struct reader in = snapshot_find(s, SNAPSHOT_MACHINE, 0);

	m->cpus = reader_le32(&in);
	m->memory_bytes = reader_le64(&in);
	m->tsc_khz = reader_le32(&in);
	(void)reader_bytes(&in, SNAPSHOT_MACHINE_UNUSED_BYTES); /* missing bytes show below */
	for (unsigned i = 0; i < VM_SLOTS; i++)
		m->devices[i] = reader_le32(&in);
	if (!reader_finished(&in) || m->cpus < 1 || m->cpus > KVM_CPUS_MAX)
		return damaged(e, "machine");
	in = snapshot_find(s, SNAPSHOT_CPU, 0);
	m->host_cpu = m->capabilities = 0;
	if (in.bad)
		return 0;
	m->host_cpu = reader_le64(&in);
	m->capabilities = reader_le64(&in);
	return reader_finished(&in) ? 0 : damaged(e, "CPU");
}

static int read_cpuid(
	const struct snapshot_reader *s, struct kvm_cpuid_table **ret, struct error *e)
{
	struct reader in = snapshot_find(s, SNAPSHOT_CPUID, 0);
	struct kvm_cpuid_table *t = calloc(1, sizeof(*t));

	if (!t)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	t->head.nent = reader_le32(&in);
	if (t->head.nent <= KVM_CPUID_ENTRIES_MAX)
		reader_copy(&in, t->entries, t->head.nent * sizeof(t->entries[0]));
	if (t->head.nent > KVM_CPUID_ENTRIES_MAX || !reader_finished(&in)) {
		free(t);
		return damaged(e, "CPUID");
	}
	*ret = t;
	return 0;
}

/* known: this host's hash if the caller knows it (vm_options.host_cpu). */
static int check_cpu(struct vm *vm, const struct saved_machine *m, uint64_t known, struct error *e)
{
	struct cpu_facts guest, here;
	int r;

	vm->capabilities = m->capabilities;
	vm->host_cpu = kvm_cpuid_is_overridden() ? 0 : known;
	if (vm->host_cpu && vm->host_cpu == m->host_cpu)
		return 0;
	r = cpu_facts_here(vm->kvm_fd, &here, e);
	if (r < 0)
		return r;
	vm->host_cpu = cpu_facts_hash(&here);
	if (vm->host_cpu == m->host_cpu)
		return 0;
	cpu_facts_of(vm->cpuid, m->capabilities, &guest);
	return cpu_facts_check(&guest, &here, e);
}

/* A guest computes timer deadlines with the TSC frequency it booted with. If KVM cannot scale the
 * TSC, deadlines are off by the ratio of the two frequencies. Guests bear a small one: they tell
 * the time by kvm-clock, which is right in any case. KVM_SET_TSC_KHZ does not help there. It
 * succeeds on a slower host, but makes the guest's TSC leap at every exit.
 *
 * #calls start: ioctl(KVM_GET_TSC_KHZ)
 * #calls start (where the snapshot's CPU had another frequency): ioctl(KVM_SET_TSC_KHZ) */
static int match_tsc(struct vm *vm, uint32_t khz, struct error *e)
{
	int here = kvm_ioctl_n(vm->cpus[0].vcpu.fd, KVM_GET_TSC_KHZ, 0);
	uint64_t off = (uint64_t)llabs((long long)here - khz);
	bool scales = kvm_ioctl_n(vm->kvm_fd, KVM_CHECK_EXTENSION, KVM_CAP_TSC_CONTROL) > 0;

	vm->tsc_khz = khz;
	if (here <= 0 || khz == 0 || off <= (uint64_t)khz * TSC_TOLERANCE_PPM / 1000000)
		return 0;
	for (unsigned i = 0; i < vm->cpu_count && scales; i++)
		scales = kvm_ioctl_n(vm->cpus[i].vcpu.fd, KVM_SET_TSC_KHZ, khz) >= 0;
	if (scales || off * 100 <= khz)
		return 0;
	return error_set(e, ERROR_INCOMPATIBLE, ENOTSUP,
		"the snapshot's CPU ran at %u kHz, this one at %d, and it cannot scale; rebuild "
		"the template here",
		khz, here);
}

/* The state names the topmost layer that belongs to it. Before version 2 there were no layers. */
static int check_stack(
	const struct snapshot_reader *s, const struct memory_stack *stack, struct error *e)
{
	struct reader in = snapshot_find(s, SNAPSHOT_MEMORY, 0);
	struct layer_id top = {0};

	if (!in.bad) {
		reader_copy(&in, top.bytes, sizeof(top.bytes));
		if (!reader_finished(&in))
			return damaged(e, "memory");
	}
	return layer_id_equal(&top, &stack->top)
		       ? 0
		       : damaged(e, "its memory layers are those of another snapshot");
}

static int keep_files(struct vm *vm, const struct vm_options *o, struct error *e)
{
	int r = backing_add(&vm->backing, o->memory_fd);

	if (r == 0 && o->hot_fd >= 0)
		r = backing_add(&vm->backing, o->hot_fd);
	for (unsigned i = 0; i < o->layer_count && r == 0; i++)
		r = backing_add(&vm->backing, o->layer_fds[i]);
	return r < 0 ? error_set_errno(e, ERROR_NO_SPACE, -r, "cannot keep the memory's files open")
		     : 0;
}

/* #calls start: fstat close
 * #calls glibc start: newfstatat */
static int map_memory(struct vm *vm, const struct vm_options *o, const struct snapshot_reader *s,
	uint64_t bytes, struct error *e)
{
	struct stat st;
	int r;

	if (fstat(o->memory_fd, &st) < 0 || (uint64_t)st.st_size != bytes)
		return damaged(e, "its memory file is truncated or of another snapshot");
	r = guest_memory_map(&vm->memory, o->memory_fd, bytes, e);
	if (r == 0)
		r = layers_map(&vm->memory, o->layer_fds, o->layer_count, o->check_layers,
			LAYER_MAPPINGS_MAX, &vm->stack, e);
	if (r == 0)
		r = keep_files(vm, o, e);
	if (r == 0)
		r = check_stack(s, &vm->stack, e);
	if (r == 0 && o->rehearse)
		hot_rehearse(&vm->memory, o->memory_fd);
	if (r == 0 && o->hot_fd >= 0)
		hot_load(&vm->memory, &vm->stack.above, o->hot_fd, HOT_USE_AUTO);
	return r;
}

static int check_devices(struct vm *vm, const struct saved_machine *m, struct error *e)
{
	for (unsigned i = 0; i < VM_SLOTS; i++) {
		uint32_t id = vm->slots[i].device ? vm->slots[i].device->ops->id : 0;

		if (id != m->devices[i])
			return error_set(e, ERROR_INCOMPATIBLE, EINVAL,
				"the snapshot has device %u in slot %u, the VM has %u; rebuild the "
				"template",
				m->devices[i], i, id);
	}
	return 0;
}

static int load_devices(struct vm *vm, const struct snapshot_reader *s, struct error *e)
{
	struct reader in = snapshot_find(s, SNAPSHOT_IOAPIC, 0);

	if (ioapic_load(&vm->ioapic, &in) < 0)
		return damaged(e, "interrupt controller");
	in = snapshot_find(s, SNAPSHOT_SERIAL, 0);
	if (serial_load(&vm->serial, &in) < 0)
		return damaged(e, "serial port");
	for (unsigned i = 0; i < VM_SLOTS; i++) {
		if (!vm->slots[i].device)
			continue;
		in = snapshot_find(s, SNAPSHOT_DEVICE, i);
		if (virtio_load(vm->slots[i].device, &in) < 0)
			return damaged(e, vm->slots[i].device->ops->name);
	}
	return 0;
}

/* Makes a disk at least as large as the guest knows it. blk_load announces a larger one. */
static int size_disks(const struct snapshot_reader *s, struct vm_options *o, struct error *e)
{
	for (unsigned i = 0; i < o->disk_count; i++) {
		struct reader in = snapshot_find(s, SNAPSHOT_DISK, i);
		uint64_t bytes = reader_le64(&in);

		if (!reader_finished(&in))
			return damaged(e, "disk");
		if (o->disks[i].bytes < bytes)
			o->disks[i].bytes = bytes;
	}
	return 0;
}

static int load_state(struct vm *vm, const struct snapshot_reader *s, struct error *e)
{
	struct kvm_clock_data clock = {0};
	struct reader in;
	int r;

	for (unsigned i = 0; i < vm->cpu_count; i++) {
		in = snapshot_find(s, SNAPSHOT_VCPU, i);
		r = vcpu_load(&vm->cpus[i].vcpu, &in, e);
		if (r < 0)
			return r;
	}
	in = snapshot_find(s, SNAPSHOT_CLOCK, 0);
	clock.clock = reader_le64(&in);
	if (!reader_finished(&in))
		return damaged(e, "clock");
	r = kvm_ioctl(vm->fd, KVM_SET_CLOCK, &clock);
	if (r < 0)
		return error_set_errno(e, ERROR_INCOMPATIBLE, -r, "KVM_SET_CLOCK");
	vm->clock_ns = clock.clock;
	return load_devices(vm, s, e);
}

static int create_restored(struct vm *vm, struct vm_options *o, struct error *e)
{
	_cleanup_free_ char *data = NULL;
	struct snapshot_reader s;
	struct saved_machine m = {0};
	size_t n;
	int r = file_read_fd(o->state_fd, SNAPSHOT_STATE_MAX, &data, &n);

	if (r < 0)
		return error_set_errno(
			e, ERROR_BAD_SNAPSHOT, -r, "cannot read the snapshot's state");
	r = snapshot_reader_open(&s, data, n, e);
	if (r == 0)
		r = read_machine(&s, &m, e);
	if (r == 0)
		r = read_cpuid(&s, &vm->cpuid, e);
	if (r == 0)
		r = check_cpu(vm, &m, o->host_cpu, e);
	if (r == 0)
		r = map_memory(vm, o, &s, m.memory_bytes, e);
	if (r < 0)
		return r;
	vm->cpu_count = m.cpus;
	r = create_machine(vm, e);
	if (r == 0)
		r = set_cpuid(vm, e);
	if (r == 0)
		r = match_tsc(vm, m.tsc_khz, e);
	if (r == 0)
		r = size_disks(&s, o, e);
	if (r == 0)
		r = create_devices(vm, o, m.devices[VM_SLOT_RNG] != 0, e);
	if (r == 0)
		r = check_devices(vm, &m, e);
	return r == 0 ? load_state(vm, &s, e) : r;
}

/* --- life --- */

static void close_taken(struct vm_options *o)
{
	cleanup_close_p(&o->vsock_listen_fd);
	cleanup_close_p(&o->console_fd);
	cleanup_close_p(&o->kvm_fd);
	cleanup_close_p(&o->pagemap_fd);
	for (unsigned i = 0; i < o->disk_count; i++) {
		cleanup_close_p(&o->disks[i].base_fd);
		cleanup_close_p(&o->disks[i].delta_fd);
		for (unsigned k = 0; k < o->disks[i].lower_count; k++)
			cleanup_close_p(&o->disks[i].lower_fds[k]);
	}
}

int vm_create(const struct vm_options *options, struct vm **ret, struct error *e)
{
	struct vm_options o = *options; /* notes which descriptors are taken */
	struct vm *vm = vm_new(&o);
	bool lowered;
	int r;

	if (!vm) {
		close_taken(&o);
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	}
	lowered = o.idle && priority_lower();
	r = o.state_fd >= 0 ? create_restored(vm, &o, e) : create_booted(vm, &o, e);
	if (lowered)
		priority_restore(); /* before there are threads */
	if (r == 0)
		r = vm_start_threads(vm, e);
	if (r == 0)
		vm_update_needs(vm);
	close_taken(&o);
	if (r < 0) {
		vm_free(vm);
		return r;
	}
	*ret = vm;
	return 0;
}

int vm_event_fd(const struct vm *vm)
{
	return vm->event_fd;
}

enum vm_end vm_ended(const struct vm *vm, char *why, size_t why_bytes)
{
	struct vm *v = (struct vm *)vm;
	enum vm_end end;

	pthread_mutex_lock(&v->lock);
	end = v->end;
	if (why)
		(void)snprintf(why, why_bytes, "%s", v->end_why); /* may be cut */
	pthread_mutex_unlock(&v->lock);
	serial_flush(&v->serial);
	return end;
}

int vm_vsock_fd(const struct vm *vm)
{
	struct virtio_device *d = vm->slots[VM_SLOT_VSOCK].device;

	return d ? vsock_poll_fd(d) : -1;
}

void vm_vsock_poll(struct vm *vm)
{
	pthread_mutex_lock(&vm->life); /* polling writes into the guest's memory */
	vsock_poll(vm->slots[VM_SLOT_VSOCK].device);
	pthread_mutex_unlock(&vm->life);
}

bool vm_vsock_idle(struct vm *vm)
{
	struct virtio_device *d = vm->slots[VM_SLOT_VSOCK].device;

	return !d || vsock_idle(d);
}

void vm_set_egress(struct vm *vm, int fd)
{
	struct virtio_device *d = vm->slots[VM_SLOT_VSOCK].device;

	if (d)
		vsock_set_egress(d, fd);
	else
		cleanup_close_p(&fd);
}

void vm_get_stats(const struct vm *vm, struct vm_stats *s)
{
	*s = (struct vm_stats){
		.first_exit_ns = atomic_load(&vm->first_exit_ns),
		.memory_bytes = vm->memory.bytes,
		.cpus = vm->cpu_count,
		.memory_layers = vm->stack.layer_count,
	};
	for (unsigned i = 0; i < vm->cpu_count; i++)
		s->exits += atomic_load(&vm->cpus[i].exits);
	for (unsigned i = 0; i < vm->disk_count; i++)
		s->disk_tops[i] = atomic_load(&vm->disk_tops[i]);
}

uint8_t vm_power_off_value(const struct vm *vm)
{
	return vm->power_off_value;
}
