#include "vmm/vcpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { MSRS_MAX = 512, XSAVE_BYTES_MIN = 4096, XSAVE_BYTES_MAX = 16384 };
enum { MSR_IA32_TSC = 0x10, MSR_IA32_TSC_DEADLINE = 0x6e0 };

int vcpu_create(struct vcpu *v, int kvm_fd, int vm_fd, unsigned id, struct error *e)
{
	int bytes = kvm_ioctl_n(kvm_fd, KVM_GET_VCPU_MMAP_SIZE, 0);
	void *p;

	*v = (struct vcpu){.id = id, .kvm_fd = kvm_fd, .fd = -1};
	if (bytes < (int)sizeof(struct kvm_run))
		return error_set(e, ERROR_HOST, ENOTSUP, "KVM_GET_VCPU_MMAP_SIZE gave %d", bytes);
	v->fd = kvm_ioctl_n(vm_fd, KVM_CREATE_VCPU, id);
	if (v->fd < 0)
		return error_set_errno(e, ERROR_HOST, -v->fd, "cannot create vCPU %u", id);
	p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, v->fd, 0);
	if (p == MAP_FAILED)
		return error_set_errno(e, ERROR_HOST, errno, "cannot map the state of vCPU %u", id);
	v->run = p;
	v->run_bytes = (size_t)bytes;
	return 0;
}

void vcpu_done(struct vcpu *v)
{
	if (v->run)
		(void)munmap(v->run, v->run_bytes); /* our own mapping: cannot fail */
	if (v->fd >= 0)
		(void)close(v->fd); /* no data behind it */
	v->run = NULL;
	v->fd = -1;
}

/* --- CPUID --- */

static unsigned core_bits(unsigned cpu_count)
{
	unsigned bits = 0;

	while ((1U << bits) < cpu_count)
		bits++;
	return bits;
}

static void shape_leaf(struct kvm_cpuid_entry2 *c, unsigned cpus)
{
	switch (c->function) {
	case 0x1:
		c->ecx |= 1U << 31 /* hypervisor */ | 1U << 24 /* TSC deadline */ |
			  1U << 21 /* x2APIC */;
		c->ebx = (c->ebx & 0xff00ffff) | cpus << 16;
		c->edx = cpus > 1 ? c->edx | 1U << 28 : c->edx & ~(1U << 28); /* HTT */
		break;
	case 0x4: /* Intel caches: L1 and L2 of one core, L3 shared by all */
		c->eax = (c->eax & 0x00003fff) | (cpus - 1) << 26 |
			 ((c->eax >> 5 & 7) >= 3 ? cpus - 1 : 0) << 14;
		break;
	case 0x6:
		c->eax |= 1U << 2; /* the APIC timer always runs */
		break;
	case 0xa: /* performance counters: none */
		c->eax = c->ebx = c->ecx = c->edx = 0;
		break;
	case 0xb:
	case 0x1f: /* topology: one thread a core, all cores in one package */
		c->eax = c->index == 0 ? 0 : c->index == 1 ? core_bits(cpus) : 0;
		c->ebx = c->index == 0 ? 1 : c->index == 1 ? cpus : 0;
		c->ecx = c->index | (c->index == 0 ? 1U << 8 : c->index == 1 ? 2U << 8 : 0);
		break;
	case 0x40000001: /* KVM: no asynchronous page faults, their state does not survive a
			    snapshot */
		c->eax &= ~(1U << 4 | 1U << 10 | 1U << 14);
		break;
	case 0x80000001:
		c->ecx &= ~(1U << 23 | 1U << 24 | 1U << 28); /* AMD performance counters */
		break;
	case 0x80000007:
		c->edx &= ~(
			1U
			<< 8); /* invariant TSC: kvm-clock stays right on another host, TSC not */
		break;
	case 0x80000008:
		c->ecx = (c->ecx & 0xffff0f00) | (cpus - 1) | core_bits(cpus) << 12;
		break;
	case 0x8000001d: /* AMD caches */
		c->eax = (c->eax & 0x00003fff) | ((c->eax >> 5 & 7) >= 3 ? cpus - 1 : 0) << 14;
		break;
	case 0x80000022:
		c->eax = c->ebx = c->ecx = c->edx = 0;
		break;
	default:
		break;
	}
}

void vcpu_shape_cpuid(struct kvm_cpuid_table *t, unsigned cpu_count)
{
	for (uint32_t i = 0; i < t->head.nent; i++)
		shape_leaf(&t->entries[i], cpu_count);
}

static void set_apic_id(struct kvm_cpuid_entry2 *c, unsigned id)
{
	if (c->function == 0x1)
		c->ebx = (c->ebx & 0x00ffffff) | id << 24;
	else if (c->function == 0xb || c->function == 0x1f)
		c->edx = id;
	else if (c->function == 0x8000001e) {
		c->eax = id;
		c->ebx = (c->ebx & 0xffff0000) | id;
		c->ecx = 0;
	}
}

int vcpu_set_cpuid(struct vcpu *v, struct kvm_cpuid_table *t, struct error *e)
{
	int r;

	for (uint32_t i = 0; i < t->head.nent; i++)
		set_apic_id(&t->entries[i], v->id);
	r = kvm_ioctl(v->fd, KVM_SET_CPUID2, t);
	return r < 0 ? error_set_errno(e, ERROR_INCOMPATIBLE, -r, "KVM refuses the guest's CPUID")
		     : 0;
}

/* --- boot --- */

static struct kvm_segment flat_segment(uint16_t selector, uint8_t type, int code)
{
	return (struct kvm_segment){
		.limit = 0xffffffff,
		.selector = selector,
		.type = type,
		.present = 1,
		.s = 1,
		.g = 1,
		.l = code ? 1 : 0,
		.db = code ? 0 : 1,
	};
}

int vcpu_set_boot_registers(struct vcpu *v, gpa_t entry, gpa_t boot_params, gpa_t page_table,
	gpa_t gdt, struct error *e)
{
	struct kvm_regs regs = {.rip = entry, .rsi = boot_params, .rsp = boot_params, .rflags = 2};
	struct kvm_sregs s;
	int r = kvm_ioctl(v->fd, KVM_GET_SREGS, &s);

	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "KVM_GET_SREGS");
	s.cs = flat_segment(0x10, 11, 1);
	s.ds = s.es = s.fs = s.gs = s.ss = flat_segment(0x18, 3, 0);
	s.gdt = (struct kvm_dtable){.base = gdt, .limit = 4 * 8 - 1};
	s.cr0 |= 0x80000001 /* PG, PE */;
	s.cr3 = page_table;
	s.cr4 |= 0x20 /* PAE */;
	s.efer |= 0x500 /* LME, LMA */;
	r = kvm_ioctl(v->fd, KVM_SET_SREGS, &s);
	if (r == 0)
		r = kvm_ioctl(v->fd, KVM_SET_REGS, &regs);
	return r < 0 ? error_set_errno(e, ERROR_HOST, -r, "cannot set the boot registers") : 0;
}

/* --- save --- */

struct msr_table {
	struct kvm_msrs head;
	struct kvm_msr_entry entries[MSRS_MAX];
};

/* Left out: Hyper-V's range, performance counters, and what only the host may hold. */
static int msr_is_saved(uint32_t msr)
{
	static const struct {
		uint32_t first, last;
	} skipped[] = {
		{0x40000000, 0x400001ff}, /* Hyper-V */
		{0xc1, 0xc8},
		{0x186, 0x18d},
		{0x309, 0x30c},
		{0x345, 0x345},
		{0x38d, 0x391},
		{0x3f1, 0x3f1},
		{0x4c1, 0x4c8},
		{0x600, 0x600}, /* Intel performance monitoring */
		{0xc0010000, 0xc0010007},
		{0xc0010200, 0xc001020b}, /* AMD performance monitoring */
		{0xc0000300, 0xc0000303},
		{0x480, 0x492},
		{0x8b, 0x8b},
		{0xcf, 0xcf},
		{0x10a, 0x10a}, /* VMX, microcode, feature words */
		{0x9e, 0x9e},
		{0x34, 0x34},
		{0xce, 0xce},
		{0xc0010117, 0xc0010117},
		{0xc0010015, 0xc0010015},
		{0x40000118, 0x40000118},
	};

	for (size_t i = 0; i < ARRAY_SIZE(skipped); i++)
		if (msr >= skipped[i].first && msr <= skipped[i].last)
			return 0;
	return 1;
}

static int msr_indices(int kvm_fd, struct kvm_msr_list **ret)
{
	_cleanup_free_ struct kvm_msr_list *list =
		calloc(1, sizeof(*list) + MSRS_MAX * sizeof(list->indices[0]));
	int r;

	if (!list)
		return -ENOMEM;
	list->nmsrs = MSRS_MAX;
	r = kvm_ioctl(kvm_fd, KVM_GET_MSR_INDEX_LIST, list);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(list);
	return 0;
}

static int get_msrs(struct vcpu *v, struct msr_table *t)
{
	_cleanup_free_ struct kvm_msr_list *list = NULL;
	int r = msr_indices(v->kvm_fd, &list);

	if (r < 0)
		return r;
	t->head.nmsrs = 0;
	for (uint32_t i = 0; i < list->nmsrs; i++) {
		struct {
			struct kvm_msrs head;
			struct kvm_msr_entry entry;
		} one = {.head.nmsrs = 1, .entry.index = list->indices[i]};

		if (!msr_is_saved(one.entry.index))
			continue;
		/* One at a time: KVM lists some that this CPU model then does not have. */
		if (kvm_ioctl(v->fd, KVM_GET_MSRS, &one) == 1)
			t->entries[t->head.nmsrs++] = one.entry;
	}
	return 0;
}

static int save_msrs(struct vcpu *v, struct buf *out)
{
	_cleanup_free_ struct msr_table *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	r = get_msrs(v, t);
	if (r < 0)
		return r;
	r |= buf_add_le32(out, t->head.nmsrs);
	for (uint32_t i = 0; i < t->head.nmsrs; i++) {
		r |= buf_add_le32(out, t->entries[i].index);
		r |= buf_add_le64(out, t->entries[i].data);
	}
	return r ? -ENOMEM : 0;
}

static int xsave_bytes(int kvm_fd)
{
	int n = kvm_ioctl_n(kvm_fd, KVM_CHECK_EXTENSION, KVM_CAP_XSAVE2);

	return n < XSAVE_BYTES_MIN ? XSAVE_BYTES_MIN : n;
}

static int save_xsave(struct vcpu *v, struct buf *out)
{
	_cleanup_free_ uint8_t *data = NULL;
	int n = xsave_bytes(v->kvm_fd), r;

	if (n > XSAVE_BYTES_MAX)
		return -E2BIG;
	data = calloc(1, (size_t)n);
	if (!data)
		return -ENOMEM;
	r = kvm_ioctl(v->fd, n > XSAVE_BYTES_MIN ? KVM_GET_XSAVE2 : KVM_GET_XSAVE, data);
	if (r < 0)
		return r;
	r = buf_add_le32(out, (uint32_t)n);
	return r < 0 ? r : buf_add(out, data, (size_t)n);
}

/* The fixed-size pieces, in the order they are read back. */
struct vcpu_fixed {
	struct kvm_mp_state mp_state;
	struct kvm_vcpu_events events;
	struct kvm_regs regs;
	struct kvm_sregs sregs;
	struct kvm_xcrs xcrs;
	struct kvm_debugregs debugregs;
	struct kvm_lapic_state lapic;
};

int vcpu_save(struct vcpu *v, struct buf *out, struct error *e)
{
	_cleanup_free_ struct vcpu_fixed *f = calloc(1, sizeof(*f));
	const struct {
		unsigned long request;
		void *arg;
		const char *name;
	} gets[] = {
		{KVM_GET_MP_STATE, &f->mp_state,
			"KVM_GET_MP_STATE"}, /* first: settles pending events */
		{KVM_GET_VCPU_EVENTS, &f->events, "KVM_GET_VCPU_EVENTS"},
		{KVM_GET_REGS, &f->regs, "KVM_GET_REGS"},
		{KVM_GET_SREGS, &f->sregs, "KVM_GET_SREGS"},
		{KVM_GET_XCRS, &f->xcrs, "KVM_GET_XCRS"},
		{KVM_GET_DEBUGREGS, &f->debugregs, "KVM_GET_DEBUGREGS"},
		{KVM_GET_LAPIC, &f->lapic, "KVM_GET_LAPIC"},
	};
	int r;

	if (!f)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	for (size_t i = 0; i < ARRAY_SIZE(gets); i++) {
		r = kvm_ioctl(v->fd, gets[i].request, gets[i].arg);
		if (r < 0)
			return error_set_errno(e, ERROR_INTERNAL, -r, "%s", gets[i].name);
	}
	r = buf_add(out, f, sizeof(*f));
	if (r == 0)
		r = save_xsave(v, out);
	if (r == 0)
		r = save_msrs(v, out);
	return r < 0 ? error_set_errno(e, ERROR_INTERNAL, -r, "cannot save vCPU %u", v->id) : 0;
}

/* --- load --- */

static int refused(struct vcpu *v, int r, const char *what, struct error *e)
{
	return error_set_errno(e, ERROR_INCOMPATIBLE, -r,
		"this host's KVM refuses the snapshot's %s of vCPU %u; rebuild the template here",
		what, v->id);
}

static int set_xsave(struct vcpu *v, const uint8_t *data, uint32_t n)
{
	struct kvm_xsave x;

	if (n == sizeof(x)) {
		memcpy(&x, data, sizeof(x));
		return kvm_ioctl(v->fd, KVM_SET_XSAVE, &x);
	}
	return kvm_ioctl(
		v->fd, KVM_SET_XSAVE, (void *)data); /* as large as KVM's own, see the caller */
}

/* Reads the MSRs; the index of TSC_DEADLINE's value goes to *deadline (-1: none). */
static int read_msrs(struct reader *in, struct msr_table *t, int *deadline)
{
	uint32_t n = reader_le32(in);

	*deadline = -1;
	if (n > MSRS_MAX)
		return -EINVAL;
	t->head = (struct kvm_msrs){.nmsrs = n};
	for (uint32_t i = 0; i < n; i++) {
		t->entries[i] = (struct kvm_msr_entry){.index = reader_le32(in)};
		t->entries[i].data = reader_le64(in);
		if (t->entries[i].index == MSR_IA32_TSC_DEADLINE)
			*deadline = (int)i;
	}
	return reader_finished(in) ? 0 : -EINVAL;
}

static int set_msr(struct vcpu *v, uint32_t index, uint64_t value)
{
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry entry;
	} one = {.head.nmsrs = 1, .entry = {.index = index, .data = value}};

	return kvm_ioctl(v->fd, KVM_SET_MSRS, &one) == 1 ? 0 : -EINVAL;
}

/* KVM takes a counter that is written within a second of the one before for the same, so that all
 * vCPUs of a VM have one: that is right for all but the first of them, whose one before is 0 at the
 * VM's creation. A guest that was saved in its first second would go back by that time, and wait
 * so long for its timers. So the first one gets a value far from both in between. */
static int forget_counter(struct vcpu *v)
{
	return v->id == 0 ? set_msr(v, MSR_IA32_TSC, UINT64_C(1) << 62) : 0;
}

static int set_all(struct vcpu *v, struct vcpu_fixed *f, const uint8_t *xsave, uint32_t xsave_n,
	struct msr_table *msrs, int deadline, struct error *e)
{
	int r = kvm_ioctl(v->fd, KVM_SET_SREGS, &f->sregs);

	if (r < 0)
		return refused(v, r, "system registers", e);
	r = kvm_ioctl(v->fd, KVM_SET_REGS, &f->regs);
	if (r < 0)
		return refused(v, r, "registers", e);
	r = kvm_ioctl(v->fd, KVM_SET_XCRS, &f->xcrs);
	if (r < 0)
		return refused(v, r, "extended control registers", e);
	r = set_xsave(v, xsave, xsave_n);
	if (r < 0)
		return refused(v, r, "floating point state", e);
	r = forget_counter(v);
	if (r < 0)
		return refused(v, r, "counter", e);
	r = kvm_ioctl(v->fd, KVM_SET_MSRS, msrs);
	if (r < 0 || (uint32_t)r != msrs->head.nmsrs)
		return error_set(e, ERROR_INCOMPATIBLE, EINVAL,
			"this host's KVM refuses the snapshot's MSR 0x%x; rebuild the template "
			"here",
			msrs->entries[r < 0 ? 0 : r].index);
	r = kvm_ioctl(v->fd, KVM_SET_LAPIC, &f->lapic);
	if (r < 0)
		return refused(v, r, "local APIC", e);
	/* loading the local APIC has disarmed it */
	if (deadline >= 0 && msrs->entries[deadline].data) {
		r = set_msr(v, MSR_IA32_TSC_DEADLINE, msrs->entries[deadline].data);
		if (r < 0)
			return refused(v, r, "timer", e);
	}
	r = kvm_ioctl(v->fd, KVM_SET_DEBUGREGS, &f->debugregs);
	if (r < 0)
		return refused(v, r, "debug registers", e);
	r = kvm_ioctl(v->fd, KVM_SET_VCPU_EVENTS, &f->events);
	if (r < 0)
		return refused(v, r, "pending events", e);
	r = kvm_ioctl(v->fd, KVM_SET_MP_STATE, &f->mp_state);
	return r < 0 ? refused(v, r, "run state", e) : 0;
}

int vcpu_load(struct vcpu *v, struct reader *in, struct error *e)
{
	struct vcpu_fixed fixed;
	struct msr_table msrs;
	const uint8_t *xsave;
	uint32_t xsave_n;
	int deadline;

	reader_copy(in, &fixed, sizeof(fixed));
	xsave_n = reader_le32(in);
	xsave = reader_bytes(in, xsave_n <= XSAVE_BYTES_MAX ? xsave_n : SIZE_MAX);
	if (!xsave || read_msrs(in, &msrs, &deadline) < 0)
		return error_set(
			e, ERROR_BAD_SNAPSHOT, EINVAL, "the state of vCPU %u is damaged", v->id);
	/* KVM reads as much as this host's XSAVE area has: never let it read past ours. */
	if (xsave_n != XSAVE_BYTES_MIN && (uint32_t)xsave_bytes(v->kvm_fd) != xsave_n)
		return error_set(e, ERROR_INCOMPATIBLE, EINVAL,
			"the snapshot's CPU has another XSAVE size; rebuild the template here");
	return set_all(v, &fixed, xsave, xsave_n, &msrs, deadline, e);
}
