/* Writes the ACPI tables of a microVM. A guest without PCI and BIOS finds its CPUs, I/O APIC,
 * virtio-mmio devices and serial port in them. Hardware-reduced ACPI 6.3: RSDP, XSDT, FADT, MADT
 * and DSDT. */
#ifndef VMM_ACPI_H
#define VMM_ACPI_H

#include <stdint.h>

#include "base/error.h"
#include "vmm/memory.h"

/* The tables lie in the BIOS area, which the memory map reports as reserved. */
#define ACPI_BASE UINT64_C(0xe0000)
enum { ACPI_BYTES_MAX = 0x8000 };

/* Ports of the sleep and reset registers that the FADT names. */
enum {
	ACPI_PORT_SLEEP_CONTROL = 0x600, /* writing SLP_EN (bit 5) powers off */
	ACPI_PORT_SLEEP_STATUS = 0x601,
	ACPI_PORT_RESET = 0x602, /* writing ACPI_RESET_VALUE resets */
	ACPI_RESET_VALUE = 0x01,
	ACPI_SLEEP_ENABLE = 0x20,
};

struct acpi_device {
	uint64_t mmio_base;
	uint32_t mmio_bytes;
	uint32_t gsi;
};

/* Writes the tables into guest memory at ACPI_BASE; *ret_rsdp is the address for boot_params. */
int acpi_write(const struct guest_memory *m, unsigned cpu_count, const struct acpi_device *devices,
	unsigned device_count, gpa_t *ret_rsdp, struct error *e);

#endif
