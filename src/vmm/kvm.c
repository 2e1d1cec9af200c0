#include "vmm/kvm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"

static const struct {
	unsigned long cap;
	const char *name;
} needed_caps[] = {
	{KVM_CAP_USER_MEMORY, "KVM_CAP_USER_MEMORY"},
	{KVM_CAP_SPLIT_IRQCHIP, "KVM_CAP_SPLIT_IRQCHIP"},
	{KVM_CAP_SIGNAL_MSI, "KVM_CAP_SIGNAL_MSI"},
	{KVM_CAP_IMMEDIATE_EXIT, "KVM_CAP_IMMEDIATE_EXIT"},
	{KVM_CAP_ADJUST_CLOCK, "KVM_CAP_ADJUST_CLOCK"},
	{KVM_CAP_XSAVE, "KVM_CAP_XSAVE"},
	{KVM_CAP_XCRS, "KVM_CAP_XCRS"},
	{KVM_CAP_TSC_DEADLINE_TIMER, "KVM_CAP_TSC_DEADLINE_TIMER"},
};

int kvm_ioctl(int fd, unsigned long request, void *arg)
{
	int r;

	do
		r = ioctl(fd, request, arg);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

int kvm_ioctl_n(int fd, unsigned long request, unsigned long arg)
{
	return kvm_ioctl(fd, request, (void *)arg);
}

static int open_error(struct error *e, int err)
{
	switch (err) {
	case ENOENT:
		return error_set(e, ERROR_HOST, err,
			"no /dev/kvm on this host: load the module (modprobe kvm-amd or "
			"kvm-intel), enable "
			"virtualisation in the firmware, or use a host with nested virtualisation");
	case EACCES:
	case EPERM:
		return error_set(e, ERROR_HOST, err,
			"no permission to open /dev/kvm: add your user to the group kvm "
			"(usermod -aG kvm USER) and log in again");
	default:
		return error_set_errno(e, ERROR_HOST, err, "cannot open /dev/kvm");
	}
}

int kvm_open(struct error *e)
{
	_cleanup_close_ int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	int version;

	if (fd < 0)
		return open_error(e, errno);
	version = kvm_ioctl_n(fd, KVM_GET_API_VERSION, 0);
	if (version != KVM_API_VERSION)
		return error_set(e, ERROR_HOST, ENOTSUP,
			"/dev/kvm speaks API version %d, need %d: is it really KVM?", version,
			KVM_API_VERSION);
	for (size_t i = 0; i < ARRAY_SIZE(needed_caps); i++)
		if (kvm_ioctl_n(fd, KVM_CHECK_EXTENSION, needed_caps[i].cap) <= 0)
			return error_set(e, ERROR_HOST, ENOTSUP,
				"this kernel's KVM lacks %s: Linux 5.10 or newer is needed",
				needed_caps[i].name);
	return TAKE_FD(fd);
}

int kvm_create_vm(int kvm_fd, struct error *e)
{
	int r = kvm_ioctl_n(kvm_fd, KVM_CREATE_VM, 0);

	if (r == -EBUSY)
		return error_set(e, ERROR_HOST, EBUSY,
			"another hypervisor (VirtualBox, VMware) uses the CPU's virtualisation: "
			"end its virtual machines, or unload its modules");
	return r < 0 ? error_set_errno(e, ERROR_HOST, -r, "cannot create a VM") : r;
}

/* --- CPUID --- */

#ifdef FAULT_POINTS
bool kvm_cpuid_is_overridden(void)
{
	return getenv("MAYFLY_FAULT_CPUID") != NULL;
}

/* The vendor stays. A Linux guest chooses its hypercall instruction by the vendor. KVM writes the
 * right one over a wrong one, into read-only memory of the guest's kernel, which then panics. */
static void replace_leaf(struct kvm_cpuid_entry2 *to, const struct kvm_cpuid_entry2 *c)
{
	to->eax = c->eax;
	if (c->function == 0 || c->function == 0x80000000)
		return;
	to->ebx = c->ebx;
	to->ecx = c->ecx;
	to->edx = c->edx;
}

static void override_leaf(struct kvm_cpuid_table *t, const struct kvm_cpuid_entry2 *c)
{
	for (uint32_t i = 0; i < t->head.nent; i++)
		if (t->entries[i].function == c->function && t->entries[i].index == c->index) {
			replace_leaf(&t->entries[i], c);
			return;
		}
	if (t->head.nent < KVM_CPUID_ENTRIES_MAX)
		t->entries[t->head.nent++] = *c;
}

static void override_cpuid(struct kvm_cpuid_table *t)
{
	const char *p = getenv("MAYFLY_FAULT_CPUID");
	struct kvm_cpuid_entry2 c = {0};
	int n = 0;

	for (; p && sscanf(p, "%x %x %x %x %x %x;%n", &c.function, &c.index, &c.eax, &c.ebx, &c.ecx,
			    &c.edx, &n) == 6;
		p += n, n = 0) {
		c.flags = c.index || c.function == 0x7 || c.function == 0xd
				  ? KVM_CPUID_FLAG_SIGNIFCANT_INDEX
				  : 0;
		override_leaf(t, &c);
	}
}
#else
bool kvm_cpuid_is_overridden(void)
{
	return false;
}

static void override_cpuid(struct kvm_cpuid_table *t)
{
	(void)t; /* tests only */
}
#endif

int kvm_supported_cpuid(int kvm_fd, struct kvm_cpuid_table *t, struct error *e)
{
	int r;

	t->head.nent = KVM_CPUID_ENTRIES_MAX;
	t->head.padding = 0;
	r = kvm_ioctl(kvm_fd, KVM_GET_SUPPORTED_CPUID, t);
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "KVM_GET_SUPPORTED_CPUID");
	override_cpuid(t);
	return 0;
}

uint64_t kvm_arch_capabilities(int kvm_fd)
{
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry entry;
	} one = {.head.nmsrs = 1, .entry.index = 0x10a};

	return kvm_ioctl(kvm_fd, KVM_GET_MSRS, &one) == 1 ? one.entry.data : 0;
}

/* --- the end of a guest --- */

/* Linux 6.8 and later; our build headers may be older. */
enum { EXIT_MEMORY_FAULT = 39, VECTOR_ALIGNMENT = 17 };

struct memory_fault {
	uint64_t flags, address, bytes;
};

/* Appends to a text of n bytes at *at. What does not fit is cut. */
static void append(char *out, size_t n, size_t *at, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static void append(char *out, size_t n, size_t *at, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = vsnprintf(out + *at, n - *at, fmt, ap);
	va_end(ap);
	*at = r < 0 || (size_t)r >= n - *at ? n - 1 : *at + (size_t)r;
}

static void describe_internal_error(const struct kvm_run *run, char *out, size_t n)
{
	bool instruction =
		run->internal.suberror == KVM_INTERNAL_ERROR_EMULATION &&
		run->emulation_failure.ndata >= 3 &&
		run->emulation_failure.flags & KVM_INTERNAL_ERROR_EMULATION_FLAG_INSTRUCTION_BYTES;
	size_t at = 0;

	append(out, n, &at, "KVM could not go on (internal error %u", run->internal.suberror);
	if (instruction)
		append(out, n, &at, ", instruction");
	for (unsigned i = 0; instruction && i < run->emulation_failure.insn_size &&
			     i < sizeof(run->emulation_failure.insn_bytes);
		i++)
		append(out, n, &at, " %02x", run->emulation_failure.insn_bytes[i]);
	for (unsigned i = 0; !instruction && i < run->internal.ndata && i < 4; i++)
		append(out, n, &at, ", 0x%llx", (unsigned long long)run->internal.data[i]);
	append(out, n, &at, ")");
}

static void describe_error(const struct kvm_run *run, int err, char *out, size_t n)
{
	const struct memory_fault *f = (const void *)&run->hw; /* the union of exits begins there */
	size_t at = 0;

	if (err != EFAULT) {
		append(out, n, &at, "KVM_RUN: %s", strerror(err));
		return;
	}
	append(out, n, &at, "the host cannot provide the guest's memory");
	if (run->exit_reason == EXIT_MEMORY_FAULT)
		append(out, n, &at, " at 0x%llx", (unsigned long long)f->address);
	append(out, n, &at,
		": is the host out of memory, or a disk with snapshots failing or full?");
}

void kvm_describe_end(const struct kvm_run *run, int err, char *out, size_t n)
{
	size_t at = 0;

	if (err)
		describe_error(run, err, out, n);
	else if (run->exit_reason == KVM_EXIT_INTERNAL_ERROR)
		describe_internal_error(run, out, n);
	else if (run->exit_reason == KVM_EXIT_FAIL_ENTRY)
		append(out, n, &at, "the CPU refused to enter the guest (0x%llx)",
			(unsigned long long)run->fail_entry.hardware_entry_failure_reason);
	else if (run->exit_reason == KVM_EXIT_EXCEPTION)
		append(out, n, &at, "the host stopped the guest with exception %u%s",
			run->ex.exception,
			run->ex.exception == VECTOR_ALIGNMENT
				? ", a split lock: it runs with split_lock_detect=fatal"
				: "");
	else
		append(out, n, &at, "unexpected KVM exit %u", run->exit_reason);
}
