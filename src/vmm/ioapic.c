#include "vmm/ioapic.h"

#include <errno.h>

#include "vmm/kvm.h"

enum {
	REG_SELECT = 0x00,
	REG_WINDOW = 0x10,
	INDEX_ID = 0x00,
	INDEX_VERSION = 0x01,
	INDEX_ARBITRATION = 0x02,
	INDEX_REDIRECTION = 0x10,
};

#define ENTRY_VECTOR(e)	   ((uint32_t)((e)&0xff))
#define ENTRY_DELIVERY(e)  ((uint32_t)((e) >> 8 & 7))
#define ENTRY_LOGICAL(e)   ((uint32_t)((e) >> 11 & 1))
#define ENTRY_DEST(e)	   ((uint32_t)((e) >> 56 & 0xff))
#define ENTRY_MASKED	   (UINT64_C(1) << 16)
#define ENTRY_WRITABLE	   (UINT64_C(0xff0000000001afff))
#define MSI_ADDRESS_BASE   UINT32_C(0xfee00000)
#define MSI_LOGICAL_SHIFT  2
#define MSI_DEST_SHIFT	   12
#define MSI_DELIVERY_SHIFT 8

void ioapic_init(struct ioapic *a, int vm_fd)
{
	*a = (struct ioapic){.vm_fd = vm_fd, .id = IOAPIC_ID};
	pthread_mutex_init(&a->lock, NULL);
	for (unsigned i = 0; i < IOAPIC_PINS; i++)
		a->redirection[i] = ENTRY_MASKED;
}

void ioapic_done(struct ioapic *a)
{
	pthread_mutex_destroy(&a->lock);
}

/* #calls vcpu main: ioctl(KVM_SIGNAL_MSI) */
static void deliver(struct ioapic *a, unsigned pin)
{
	uint64_t entry = a->redirection[pin];
	struct kvm_msi msi = {
		.address_lo = MSI_ADDRESS_BASE | ENTRY_DEST(entry) << MSI_DEST_SHIFT |
			      ENTRY_LOGICAL(entry) << MSI_LOGICAL_SHIFT,
		.data = ENTRY_VECTOR(entry) | ENTRY_DELIVERY(entry) << MSI_DELIVERY_SHIFT,
	};

	if (entry & ENTRY_MASKED) {
		a->pending |= UINT32_C(1) << pin;
		return;
	}
	a->pending &= ~(UINT32_C(1) << pin);
	(void)kvm_ioctl(a->vm_fd, KVM_SIGNAL_MSI, &msi); /* a bad vector harms only the guest */
}

void ioapic_raise(struct ioapic *a, unsigned pin)
{
	pthread_mutex_lock(&a->lock);
	if (pin < IOAPIC_PINS)
		deliver(a, pin);
	pthread_mutex_unlock(&a->lock);
}

static uint32_t read_window(struct ioapic *a)
{
	unsigned pin = (a->select - INDEX_REDIRECTION) / 2;

	switch (a->select) {
	case INDEX_ID:
	case INDEX_ARBITRATION:
		return a->id << 24;
	case INDEX_VERSION:
		return (IOAPIC_PINS - 1) << 16 | 0x11;
	default:
		if (a->select < INDEX_REDIRECTION || pin >= IOAPIC_PINS)
			return 0;
		return (uint32_t)(a->redirection[pin] >> (a->select & 1 ? 32 : 0));
	}
}

static void write_window(struct ioapic *a, uint32_t value)
{
	unsigned pin = (a->select - INDEX_REDIRECTION) / 2;
	uint64_t entry;

	if (a->select == INDEX_ID)
		a->id = value >> 24 & 0xf;
	if (a->select < INDEX_REDIRECTION || pin >= IOAPIC_PINS)
		return;
	entry = a->redirection[pin];
	if (a->select & 1)
		entry = (entry & UINT32_MAX) | (uint64_t)value << 32;
	else
		entry = (entry & ~(uint64_t)UINT32_MAX) | value;
	a->redirection[pin] = entry & ENTRY_WRITABLE;
	if (a->pending & UINT32_C(1) << pin)
		deliver(a, pin);
}

uint32_t ioapic_mmio_read(struct ioapic *a, uint64_t offset)
{
	uint32_t v = 0;

	pthread_mutex_lock(&a->lock);
	if (offset == REG_SELECT)
		v = a->select;
	else if (offset == REG_WINDOW)
		v = read_window(a);
	pthread_mutex_unlock(&a->lock);
	return v;
}

void ioapic_mmio_write(struct ioapic *a, uint64_t offset, uint32_t value)
{
	pthread_mutex_lock(&a->lock);
	if (offset == REG_SELECT)
		a->select = value & 0xff;
	else if (offset == REG_WINDOW)
		write_window(a, value);
	pthread_mutex_unlock(&a->lock);
}

int ioapic_save(struct ioapic *a, struct buf *out)
{
	int r = 0;

	pthread_mutex_lock(&a->lock);
	r |= buf_add_le32(out, a->select);
	r |= buf_add_le32(out, a->id);
	r |= buf_add_le32(out, a->pending);
	for (unsigned i = 0; i < IOAPIC_PINS; i++)
		r |= buf_add_le64(out, a->redirection[i]);
	pthread_mutex_unlock(&a->lock);
	return r ? -ENOMEM : 0;
}

int ioapic_load(struct ioapic *a, struct reader *in)
{
	a->select = reader_le32(in) & 0xff;
	a->id = reader_le32(in) & 0xf;
	a->pending = reader_le32(in) & ((UINT32_C(1) << IOAPIC_PINS) - 1);
	for (unsigned i = 0; i < IOAPIC_PINS; i++)
		a->redirection[i] = reader_le64(in) & ENTRY_WRITABLE;
	return reader_finished(in) ? 0 : -EINVAL;
}
