/* The kernel's KVM interface: opening it, what it offers, and errors in words.
 * Specification: Documentation/virt/kvm/api.rst of Linux. */
#ifndef VMM_KVM_H
#define VMM_KVM_H

#include <linux/kvm.h>
#include <stdbool.h>
#include <stddef.h>
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

/* A new VM without anything; its descriptor or -errno. */
int kvm_create_vm(int kvm_fd, struct error *e);

/* What KVM can offer a guest on this host. The test build (base/fault.h) takes leaves of another CPU
 * from the file that MAYFLY_FAULT_CPUID names: lines of six hexadecimal numbers (function, index, EAX,
 * EBX, ECX, EDX). */
bool kvm_cpuid_is_overridden(void);
int kvm_supported_cpuid(int kvm_fd, struct kvm_cpuid_table *t, struct error *e);
/* What it offers as MSR IA32_ARCH_CAPABILITIES; 0: nothing. */
uint64_t kvm_arch_capabilities(int kvm_fd);

/* Says why a guest cannot go on: after KVM_RUN's error err, or after an exit that nobody expects
 * (err 0). */
void kvm_describe_end(const struct kvm_run *run, int err, char *out, size_t n);

#endif
