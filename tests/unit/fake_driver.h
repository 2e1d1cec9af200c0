/* A virtio driver for tests: guest memory, register accesses and rings, each of which a test can
 * also get wrong on purpose. */
#ifndef TESTS_FAKE_DRIVER_H
#define TESTS_FAKE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/virtio.h"
#include "vmm/memory.h"
#include "vmm/virtio.h"

enum {
	FAKE_MEMORY_BYTES = 4 << 20,
	FAKE_HEAP = 0x100000, /* free for data; rings lie below */
};

#define FAKE_FEATURES                                                                              \
	(UINT64_C(1) << VIRTIO_F_VERSION_1 | UINT64_C(1) << VIRTIO_F_RING_INDIRECT_DESC |          \
		UINT64_C(1) << VIRTIO_F_RING_EVENT_IDX)

struct fake_queue {
	gpa_t desc, avail, used;
	uint16_t size;
	uint16_t avail_idx; /* next value of the index */
	uint16_t used_seen;
};

struct fake_driver {
	struct guest_memory memory;
	struct virtio_device *dev;
	unsigned irqs;
	struct fake_queue queues[VIRTIO_QUEUES_MAX];
};

/* Pass as raise_irq and irq_opaque of a device. */
void fake_raise_irq(void *driver);

void fake_init(struct fake_driver *f); /* memory only; set dev next */
void fake_done(struct fake_driver *f); /* destroys the device too */

uint32_t fake_read(struct fake_driver *f, uint64_t reg);
void fake_write(struct fake_driver *f, uint64_t reg, uint32_t value);
uint32_t fake_status(struct fake_driver *f);

void fake_set_status(struct fake_driver *f, uint32_t bits); /* adds bits */
/* Resets, negotiates features, sets FEATURES_OK: queues may be set up next. */
void fake_negotiate(struct fake_driver *f, uint64_t features);
/* Lays a queue out in memory and tells the device, except for QueueReady. */
void fake_layout_queue(struct fake_driver *f, unsigned queue, uint16_t size);
void fake_ready(struct fake_driver *f, unsigned queue);
/* All of it: negotiation, every queue with `size` entries (0: the maximum), DRIVER_OK. */
void fake_start(struct fake_driver *f, uint64_t features, uint16_t size);

void fake_desc(struct fake_driver *f, unsigned queue, uint16_t i, gpa_t addr, uint32_t len,
	uint16_t flags, uint16_t next);
/* Puts a chain into the available ring. */
void fake_offer(struct fake_driver *f, unsigned queue, uint16_t head);
void fake_kick(struct fake_driver *f, unsigned queue);
/* The next used chain, if there is one. */
bool fake_used(struct fake_driver *f, unsigned queue, uint32_t *ret_id, uint32_t *ret_len);

uint16_t fake_load16(struct fake_driver *f, gpa_t addr);
void fake_store16(struct fake_driver *f, gpa_t addr, uint16_t value);
void *fake_at(struct fake_driver *f, gpa_t addr); /* host address */

#endif
