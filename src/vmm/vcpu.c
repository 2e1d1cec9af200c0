#include "vmm/vcpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "vmm/cpuid.h"
#include "vmm/msr.h"

enum { XSAVE_BYTES_MIN = 4096, XSAVE_BYTES_MAX = 16384, FAST_STRINGS = 1 };

/* #calls start: ioctl(KVM_GET_VCPU_MMAP_SIZE|KVM_CREATE_VCPU) */
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

/* --- boot --- */

/* #calls start: ioctl(KVM_SET_CPUID2) */
int vcpu_set_cpuid(struct vcpu *v, struct kvm_cpuid_table *t, struct error *e)
{
	const struct kvm_cpuid_entry2 *c = cpuid_find(t, 0x7, 0);
	int r;

	v->has_capabilities = c && c->edx & 1U << 29;
	cpuid_set_apic_id(t, v->id);
	r = kvm_ioctl(v->fd, KVM_SET_CPUID2, t);
	return r < 0 ? error_set_errno(e, ERROR_INCOMPATIBLE, -r, "KVM refuses the guest's CPUID")
		     : 0;
}

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

/* #calls start: ioctl(KVM_GET_SREGS|KVM_SET_SREGS|KVM_SET_REGS) */
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

/* Turns fast strings on. KVM's reset value has them off, and Linux then copies word by word. */
static int set_intel_msrs(struct vcpu *v, uint64_t capabilities, struct error *e)
{
	uint64_t misc = 0;
	int r = msr_get(v->fd, MSR_IA32_MISC_ENABLE, &misc);

	if (r == 0)
		r = msr_set(v->fd, MSR_IA32_MISC_ENABLE, misc | FAST_STRINGS);
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "cannot set MISC_ENABLE of a guest");
	if (v->has_capabilities)
		r = msr_set(v->fd, MSR_IA32_ARCH_CAPABILITIES, capabilities);
	return r < 0 ? error_set_errno(e, ERROR_HOST, -r, "cannot set the CPU's capabilities") : 0;
}

int vcpu_set_boot_msrs(struct vcpu *v, bool intel, uint64_t capabilities, struct error *e)
{
	return intel ? set_intel_msrs(v, capabilities, e) : 0;
}

/* --- save --- */

static int save_msrs(const struct msr_table *t, struct buf *out)
{
	int r = buf_add_le32(out, t->head.nmsrs);

	for (uint32_t i = 0; i < t->head.nmsrs; i++) {
		r |= buf_add_le32(out, t->entries[i].index);
		r |= buf_add_le64(out, t->entries[i].data);
	}
	return r ? -ENOMEM : 0;
}

/* If the guest's CPUID shows no capabilities, there are none to save, whatever KVM reports. */
static void forget_capabilities(struct msr_table *t)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->head.nmsrs; i++)
		if (t->entries[i].index != MSR_IA32_ARCH_CAPABILITIES)
			t->entries[n++] = t->entries[i];
	t->head.nmsrs = n;
}

/* #calls start snapshot: ioctl(KVM_CHECK_EXTENSION) */
static int xsave_bytes(int kvm_fd)
{
	int n = kvm_ioctl_n(kvm_fd, KVM_CHECK_EXTENSION, KVM_CAP_XSAVE2);

	return n < XSAVE_BYTES_MIN ? XSAVE_BYTES_MIN : n;
}

/* #calls snapshot: ioctl(KVM_GET_XSAVE)
 * #calls snapshot (on hosts with larger registers): ioctl(KVM_GET_XSAVE2) */
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

/* The fixed-size pieces, in the order in which they are read back. */
struct vcpu_fixed {
	struct kvm_mp_state mp_state;
	struct kvm_vcpu_events events;
	struct kvm_regs regs;
	struct kvm_sregs sregs;
	struct kvm_xcrs xcrs;
	struct kvm_debugregs debugregs;
	struct kvm_lapic_state lapic;
};

/* The order matters. MP_STATE comes first, as reading it settles pending events. The MSRs come
 * before the local APIC. If a timer expires in between, both then have it, and the guest sees one
 * interrupt too many. In the other order neither would have it, and the guest would wait
 * forever.
 *
 * #calls snapshot: ioctl(KVM_GET_MP_STATE|KVM_GET_VCPU_EVENTS|KVM_GET_REGS|KVM_GET_SREGS
 *	|KVM_GET_XCRS|KVM_GET_DEBUGREGS|KVM_GET_LAPIC) */
static int get_fixed(struct vcpu *v, struct vcpu_fixed *f, struct msr_table *msrs, struct error *e)
{
	const struct {
		unsigned long request;
		void *arg;
		const char *name;
	} gets[] = {
		{KVM_GET_MP_STATE, &f->mp_state, "KVM_GET_MP_STATE"},
		{KVM_GET_VCPU_EVENTS, &f->events, "KVM_GET_VCPU_EVENTS"},
		{KVM_GET_REGS, &f->regs, "KVM_GET_REGS"},
		{KVM_GET_SREGS, &f->sregs, "KVM_GET_SREGS"},
		{KVM_GET_XCRS, &f->xcrs, "KVM_GET_XCRS"},
		{KVM_GET_DEBUGREGS, &f->debugregs, "KVM_GET_DEBUGREGS"},
	};
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(gets); i++) {
		r = kvm_ioctl(v->fd, gets[i].request, gets[i].arg);
		if (r < 0)
			return error_set_errno(e, ERROR_INTERNAL, -r, "%s", gets[i].name);
	}
	r = msr_get_all(v->kvm_fd, v->fd, msrs);
	if (r < 0)
		return error_set_errno(e, ERROR_INTERNAL, -r, "KVM_GET_MSRS");
	if (!v->has_capabilities)
		forget_capabilities(msrs);
	r = kvm_ioctl(v->fd, KVM_GET_LAPIC, &f->lapic);
	return r < 0 ? error_set_errno(e, ERROR_INTERNAL, -r, "KVM_GET_LAPIC") : 0;
}

int vcpu_save(struct vcpu *v, struct buf *out, struct error *e)
{
	_cleanup_free_ struct vcpu_fixed *f = calloc(1, sizeof(*f));
	_cleanup_free_ struct msr_table *msrs = calloc(1, sizeof(*msrs));
	int r;

	if (!f || !msrs)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	r = get_fixed(v, f, msrs, e);
	if (r < 0)
		return r;
	r = buf_add(out, f, sizeof(*f));
	if (r == 0)
		r = save_xsave(v, out);
	if (r == 0)
		r = save_msrs(msrs, out);
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
		v->fd, KVM_SET_XSAVE, (void *)data); /* the caller checked that it has KVM's size */
}

/* A timer that loading the local APIC disarms, and the guest's TSC when it was saved. */
struct timer {
	bool shown; /* the guest has the register */
	uint64_t deadline, now;
};

static int read_msrs(struct reader *in, struct msr_table *t, struct timer *timer)
{
	uint32_t n = reader_le32(in);

	*timer = (struct timer){.now = 1};
	if (n > MSRS_MAX)
		return -EINVAL;
	t->head = (struct kvm_msrs){.nmsrs = n};
	for (uint32_t i = 0; i < n; i++) {
		struct kvm_msr_entry *m = &t->entries[i];

		*m = (struct kvm_msr_entry){.index = reader_le32(in)};
		m->data = reader_le64(in);
		if (m->index == MSR_IA32_TSC_DEADLINE) {
			timer->shown = true;
			timer->deadline = m->data;
		} else if (m->index == MSR_IA32_TSC && m->data) {
			timer->now = m->data;
		}
	}
	return reader_finished(in) ? 0 : -EINVAL;
}

/* Arms the timer again. A zero deadline has passed, or was never set. On hosts with posted
 * interrupts, an older snapshot may have lost a timer that expired while it was made, and the guest
 * would wait forever. So a zero deadline expires at once. A guest that waits for none takes the
 * interrupt for an early one. A timer that is masked or in another mode stays silent. */
static int arm_timer(struct vcpu *v, const struct timer *t)
{
	return t->shown ? msr_set(v->fd, MSR_IA32_TSC_DEADLINE, t->deadline ? t->deadline : t->now)
			: 0;
}

/* Keeps KVM from adjusting the first vCPU's TSC. KVM treats a TSC write within a second of the
 * previous one as the same value, so that all vCPUs of a VM agree. That is right for all but the
 * first, whose previous value is the VM's creation at 0. A guest saved in its first second would go
 * back by that time, and its timers would be late by as much. So a value far from both is written
 * in between. */
static int forget_counter(struct vcpu *v)
{
	return v->id == 0 ? msr_set(v->fd, MSR_IA32_TSC, UINT64_C(1) << 62) : 0;
}

/* #calls start: ioctl(KVM_SET_SREGS|KVM_SET_REGS|KVM_SET_XCRS|KVM_SET_XSAVE|KVM_SET_LAPIC
 *	|KVM_SET_DEBUGREGS|KVM_SET_VCPU_EVENTS|KVM_SET_MP_STATE) */
static int set_all(struct vcpu *v, struct vcpu_fixed *f, const uint8_t *xsave, uint32_t xsave_n,
	struct msr_table *msrs, const struct timer *timer, struct error *e)
{
	uint32_t msr = 0;
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
	r = msr_set_all(v->fd, msrs, &msr);
	if (r < 0)
		return error_set_errno(e, ERROR_INCOMPATIBLE, -r,
			"this host's KVM refuses the snapshot's MSR 0x%x; rebuild the template "
			"here",
			msr);
	r = kvm_ioctl(v->fd, KVM_SET_LAPIC, &f->lapic);
	if (r < 0)
		return refused(v, r, "local APIC", e);
	r = arm_timer(v, timer);
	if (r < 0)
		return refused(v, r, "timer", e);
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
	struct timer timer;

	reader_copy(in, &fixed, sizeof(fixed));
	xsave_n = reader_le32(in);
	xsave = reader_bytes(in, xsave_n <= XSAVE_BYTES_MAX ? xsave_n : SIZE_MAX);
	if (!xsave || read_msrs(in, &msrs, &timer) < 0)
		return error_set(
			e, ERROR_BAD_SNAPSHOT, EINVAL, "the state of vCPU %u is damaged", v->id);
	/* KVM reads as many bytes as this host's XSAVE area has. Never let it read beyond ours. */
	if (xsave_n != XSAVE_BYTES_MIN && (uint32_t)xsave_bytes(v->kvm_fd) != xsave_n)
		return error_set(e, ERROR_INCOMPATIBLE, EINVAL,
			"the snapshot's CPU has another XSAVE size; rebuild the template here");
	return set_all(v, &fixed, xsave, xsave_n, &msrs, &timer, e);
}
