/* Loads a kernel by Linux's 64-bit boot protocol (Documentation/arch/x86/boot.rst). The kernel is
 * an uncompressed ELF image: a vmlinux or a bare test guest. Initramfs, command line and memory map
 * are loaded with it; ACPI tables must be there already (acpi.h). The ELF file is hostile input:
 * every offset is checked. */
#ifndef VMM_BOOT_H
#define VMM_BOOT_H

#include "base/error.h"
#include "vmm/memory.h"

enum { BOOT_CMDLINE_MAX = 2048 };

struct boot_source {
	int kernel_fd;	     /* ELF64 x86-64 */
	int initrd_fd;	     /* -1: none */
	const char *cmdline; /* shorter than BOOT_CMDLINE_MAX */
	gpa_t rsdp;	     /* from acpi_write, 0: none */
};

/* The state that the first vCPU starts with. */
struct boot_entry {
	gpa_t rip, boot_params, page_table, gdt;
};

/* Writes everything into guest memory and fills ret. ERROR_BAD_IMAGE when the kernel or the
 * initramfs is unusable, ERROR_LIMIT when the command line is too long or the memory too small.
 * Descriptors are borrowed. */
int boot_load(const struct guest_memory *m, const struct boot_source *s, struct boot_entry *ret,
	struct error *e);

#endif
