/* The I/O APIC, in user space: KVM's split interrupt controller keeps only the local APICs in the
 * kernel. It has 24 edge-triggered pins. A raised pin becomes an MSI through its redirection entry.
 * An edge on a masked pin is remembered and delivered when the pin is unmasked.
 * Specification: Intel 82093AA. Thread-safe: it has its own lock. */
#ifndef VMM_IOAPIC_H
#define VMM_IOAPIC_H

#include <pthread.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/reader.h"

enum { IOAPIC_PINS = 24, IOAPIC_ID = 0, IOAPIC_MMIO_SIZE = 0x100 };
#define IOAPIC_MMIO_BASE UINT64_C(0xfec00000)

struct ioapic {
	pthread_mutex_t lock;
	int vm_fd; /* borrowed */
	uint32_t select;
	uint32_t id;
	uint32_t pending; /* edges that arrived while masked, one bit per pin */
	uint64_t redirection[IOAPIC_PINS];
};

void ioapic_init(struct ioapic *a, int vm_fd);
void ioapic_done(struct ioapic *a);
/* An edge on a pin below IOAPIC_PINS. */
void ioapic_raise(struct ioapic *a, unsigned pin);
/* One 32-bit access of the guest, `offset` bytes into the MMIO area. Any offset is fine: reads of
 * unknown registers give 0, writes to them are ignored. */
uint32_t ioapic_mmio_read(struct ioapic *a, uint64_t offset);
void ioapic_mmio_write(struct ioapic *a, uint64_t offset, uint32_t value);
int ioapic_save(struct ioapic *a, struct buf *out);   /* 0 or -ENOMEM */
int ioapic_load(struct ioapic *a, struct reader *in); /* 0 or -EINVAL */

#endif
