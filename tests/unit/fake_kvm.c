#include "fake_kvm.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RUN_BYTES = 12288, MSR_DEADLINE = 0x6e0, LAPIC_IRR_BYTE = 0x270 };

struct fake_kvm fake;

int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);
int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);

void fake_kvm_reset(enum real_cpu cpu)
{
	memset(&fake, 0, sizeof(fake));
	fake.cpu = cpu;
	fake.api_version = KVM_API_VERSION;
	for (unsigned i = 0; i < FAKE_CAPS_MAX; i++)
		fake.caps[i] = 1;
	fake.caps[KVM_CAP_XSAVE2] = 4096;
	fake.caps[KVM_CAP_X86_BUS_LOCK_EXIT] = KVM_BUS_LOCK_DETECTION_EXIT;
}

void fake_kvm_add_msr(uint32_t index, uint64_t data)
{
	assert(fake.msr_count < FAKE_MSRS_MAX);
	fake.msrs[fake.msr_count++] = (struct kvm_msr_entry){.index = index, .data = data};
}

int fake_kvm_first(unsigned long request, uint64_t argument)
{
	for (unsigned i = 0; i < fake.call_count; i++)
		if (fake.calls[i].request == request &&
			(argument == UINT64_MAX || fake.calls[i].argument == argument))
			return (int)i;
	return -1;
}

int fake_kvm_last(unsigned long request, uint64_t argument)
{
	int last = -1;

	for (unsigned i = 0; i < fake.call_count; i++)
		if (fake.calls[i].request == request &&
			(argument == UINT64_MAX || fake.calls[i].argument == argument))
			last = (int)i;
	return last;
}

static void note(unsigned long request, uint64_t argument, uint64_t value)
{
	assert(fake.call_count < FAKE_CALLS_MAX);
	fake.calls[fake.call_count++] = (struct fake_call){request, argument, value};
}

static int new_file(void)
{
	int fd = memfd_create("fake", MFD_CLOEXEC);

	assert(fd >= 0 && ftruncate(fd, RUN_BYTES) == 0);
	return fd;
}

static struct kvm_msr_entry *find_msr(uint32_t index)
{
	for (unsigned i = 0; i < fake.msr_count; i++)
		if (fake.msrs[i].index == index)
			return &fake.msrs[i];
	return NULL;
}

/* Somebody has looked at the timer: it expires right after. */
static void look_at_timer(void)
{
	struct kvm_msr_entry *deadline = find_msr(MSR_DEADLINE);

	if (!fake.timer_expires || fake.timer_seen || !deadline)
		return;
	fake.timer_seen = true;
	deadline->data = 0;
	fake.lapic.regs[LAPIC_IRR_BYTE] = 1;
}

static int get_msrs(struct kvm_msrs *m)
{
	for (uint32_t i = 0; i < m->nmsrs; i++) {
		struct kvm_msr_entry *known = find_msr(m->entries[i].index);

		note(KVM_GET_MSRS, m->entries[i].index, 0);
		if (m->entries[i].index == 0x10a && !known) {
			m->entries[i].data = real_cpu_capabilities(fake.cpu);
			continue;
		}
		if (!known)
			return (int)i;
		m->entries[i].data = known->data;
		if (known->index == MSR_DEADLINE)
			look_at_timer();
	}
	return (int)m->nmsrs;
}

static int set_msrs(const struct kvm_msrs *m)
{
	for (uint32_t i = 0; i < m->nmsrs; i++) {
		struct kvm_msr_entry *known = find_msr(m->entries[i].index);

		note(KVM_SET_MSRS, m->entries[i].index, m->entries[i].data);
		if (!known)
			return (int)i;
		known->data = m->entries[i].data;
	}
	return (int)m->nmsrs;
}

static int list_msrs(struct kvm_msr_list *l)
{
	note(KVM_GET_MSR_INDEX_LIST, 0, 0);
	l->nmsrs = fake.msr_count;
	for (unsigned i = 0; i < fake.msr_count; i++)
		l->indices[i] = fake.msrs[i].index;
	return 0;
}

static int enable(const struct kvm_enable_cap *c)
{
	note(KVM_ENABLE_CAP, c->cap, c->args[0]);
	if (c->cap < FAKE_CAPS_MAX && fake.caps[c->cap] > 0)
		return 0;
	errno = EINVAL;
	return -1;
}

static int answer(unsigned long request, void *arg)
{
	switch (request) {
	case KVM_GET_API_VERSION:
		return fake.api_version;
	case KVM_CHECK_EXTENSION:
		return (uintptr_t)arg < FAKE_CAPS_MAX ? fake.caps[(uintptr_t)arg] : 0;
	case KVM_GET_VCPU_MMAP_SIZE:
		return RUN_BYTES;
	case KVM_CREATE_VM:
	case KVM_CREATE_VCPU:
		return new_file();
	case KVM_GET_TSC_KHZ:
		return 2000000;
	case KVM_GET_SUPPORTED_CPUID:
		real_cpu_table(fake.cpu, arg);
		return 0;
	case KVM_SET_CPUID2:
		memcpy(&fake.cpuid, arg, sizeof(fake.cpuid));
		return 0;
	case KVM_GET_LAPIC:
		memcpy(arg, &fake.lapic, sizeof(fake.lapic));
		look_at_timer();
		return 0;
	default:
		return 0;
	}
}

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (_IOC_TYPE(request) != KVMIO)
		return __real_ioctl(fd, request, arg);
	if (request == fake.refused_request) {
		errno = fake.refused_errno;
		return -1;
	}
	switch (request) {
	case KVM_GET_MSRS:
		return get_msrs(arg);
	case KVM_SET_MSRS:
		return set_msrs(arg);
	case KVM_GET_MSR_INDEX_LIST:
		return list_msrs(arg);
	case KVM_ENABLE_CAP:
		return enable(arg);
	default:
		note(request, (uintptr_t)arg, 0);
		return answer(request, arg);
	}
}

int __wrap_open64(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = va_arg(ap, mode_t);
	va_end(ap);
	return strcmp(path, "/dev/kvm") == 0 ? new_file() : __real_open64(path, flags, mode);
}
