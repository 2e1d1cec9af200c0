/* The kernel's KVM interface: opening it, its capabilities, and its errors in words.
 * Specification: Documentation/virt/kvm/api.rst of Linux. */
#ifndef VMM_KVM_H
#define VMM_KVM_H

#include <linux/kvm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { KVM_CPUS_MAX = 4, KVM_CPUID_ENTRIES_MAX = 256 };

/* A table of CPUID leaves in KVM's format, large enough for every host seen so far. */
struct kvm_cpuid_table {
	struct kvm_cpuid2 head;
	struct kvm_cpuid_entry2 entries[KVM_CPUID_ENTRIES_MAX];
};

/* Opens /dev/kvm and checks the API version and the capabilities that Mayfly needs. Returns the
 * descriptor, or -errno with a remedy in e. */
int kvm_open(struct error *e);

/* An ioctl that retries on EINTR. Returns its value or -errno. */
int kvm_ioctl(int fd, unsigned long request, void *arg);
int kvm_ioctl_n(int fd, unsigned long request, unsigned long arg);

/* Creates an empty VM. Returns its descriptor or -errno. */
int kvm_create_vm(int kvm_fd, struct error *e);

/* kvm_supported_cpuid returns what KVM can offer a guest on this host. The test build
 * (base/fault.h) can override leaves with another CPU's of the same vendor: MAYFLY_FAULT_CPUID
 * holds for each leaf six hexadecimal numbers (function, index, EAX, EBX, ECX, EDX) and a
 * semicolon. */
bool kvm_cpuid_is_overridden(void);
int kvm_supported_cpuid(int kvm_fd, struct kvm_cpuid_table *t, struct error *e);
/* What KVM offers as MSR IA32_ARCH_CAPABILITIES; 0: nothing. */
uint64_t kvm_arch_capabilities(int kvm_fd);

/* Describes why a guest cannot go on: after KVM_RUN failed with err, or after an unexpected exit
 * (err 0). */
void kvm_describe_end(const struct kvm_run *run, int err, char *out, size_t n);

#endif
