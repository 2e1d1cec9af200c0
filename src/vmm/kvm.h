/* The kernel's KVM interface: opening it, what it offers, and errors in words.
 * Specification: Documentation/virt/kvm/api.rst of Linux. */
#ifndef VMM_KVM_H
#define VMM_KVM_H

#include <linux/kvm.h>
#include <stdint.h>

#include "base/error.h"

enum { KVM_CPUS_MAX = 4, KVM_CPUID_ENTRIES_MAX = 256 };

/* A table of CPUID leaves as KVM takes and gives it; large enough for every host seen. */
struct kvm_cpuid_table {
	struct kvm_cpuid2 head;
	struct kvm_cpuid_entry2 entries[KVM_CPUID_ENTRIES_MAX];
};

/* Opens /dev/kvm and checks the API version and the capabilities that Mayfly needs. Returns the
 * descriptor or -errno with a remedy in e. */
int kvm_open(struct error *e);

/* ioctl that retries EINTR; returns its value or -errno. */
int kvm_ioctl(int fd, unsigned long request, void *arg);
int kvm_ioctl_n(int fd, unsigned long request, unsigned long arg);

/* What KVM can offer a guest on this host. */
int kvm_supported_cpuid(int kvm_fd, struct kvm_cpuid_table *t, struct error *e);

#endif
