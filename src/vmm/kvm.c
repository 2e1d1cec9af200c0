#include "vmm/kvm.h"

#include <errno.h>
#include <fcntl.h>
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

int kvm_supported_cpuid(int kvm_fd, struct kvm_cpuid_table *t, struct error *e)
{
	int r;

	t->head.nent = KVM_CPUID_ENTRIES_MAX;
	t->head.padding = 0;
	r = kvm_ioctl(kvm_fd, KVM_GET_SUPPORTED_CPUID, t);
	return r < 0 ? error_set_errno(e, ERROR_HOST, -r, "KVM_GET_SUPPORTED_CPUID") : 0;
}
