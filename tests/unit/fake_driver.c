#include "fake_driver.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"

void fake_raise_irq(void *driver)
{
	((struct fake_driver *)driver)->irqs++;
}

void fake_init(struct fake_driver *f)
{
	int r;

	memset(f, 0, sizeof(*f));
	r = guest_memory_create(&f->memory, FAKE_MEMORY_BYTES, NULL);
	assert(r == 0);
}

void fake_done(struct fake_driver *f)
{
	virtio_destroy(f->dev);
	guest_memory_done(&f->memory);
}

uint32_t fake_read(struct fake_driver *f, uint64_t reg)
{
	uint8_t b[4];

	virtio_mmio_read(f->dev, reg, b, sizeof(b));
	return get_le32(b);
}

void fake_write(struct fake_driver *f, uint64_t reg, uint32_t value)
{
	uint8_t b[4];

	put_le32(b, value);
	if (virtio_mmio_write(f->dev, reg, b, sizeof(b)))
		while (virtio_work(f->dev))
			;
}

uint32_t fake_status(struct fake_driver *f)
{
	return fake_read(f, VIRTIO_MMIO_STATUS);
}

void fake_set_status(struct fake_driver *f, uint32_t bits)
{
	fake_write(f, VIRTIO_MMIO_STATUS, fake_status(f) | bits);
}

void fake_negotiate(struct fake_driver *f, uint64_t features)
{
	fake_write(f, VIRTIO_MMIO_STATUS, 0);
	fake_set_status(f, VIRTIO_STATUS_ACKNOWLEDGE);
	fake_set_status(f, VIRTIO_STATUS_DRIVER);
	for (uint32_t i = 0; i < 2; i++) {
		fake_write(f, VIRTIO_MMIO_DRIVER_FEATURES_SEL, i);
		fake_write(f, VIRTIO_MMIO_DRIVER_FEATURES, (uint32_t)(features >> (32 * i)));
	}
	fake_set_status(f, VIRTIO_STATUS_FEATURES_OK);
}

void fake_layout_queue(struct fake_driver *f, unsigned queue, uint16_t size)
{
	struct fake_queue *q = &f->queues[queue];
	gpa_t base = 0x10000 * (queue + 1);

	*q = (struct fake_queue){
		.desc = base, .avail = base + 0x4000, .used = base + 0x8000, .size = size};
	memset(fake_at(f, base), 0, 0x10000);
	fake_write(f, VIRTIO_MMIO_QUEUE_SEL, queue);
	fake_write(f, VIRTIO_MMIO_QUEUE_NUM, size);
	fake_write(f, VIRTIO_MMIO_QUEUE_DESC_LOW, (uint32_t)q->desc);
	fake_write(f, VIRTIO_MMIO_QUEUE_DESC_HIGH, 0);
	fake_write(f, VIRTIO_MMIO_QUEUE_DRIVER_LOW, (uint32_t)q->avail);
	fake_write(f, VIRTIO_MMIO_QUEUE_DRIVER_HIGH, 0);
	fake_write(f, VIRTIO_MMIO_QUEUE_DEVICE_LOW, (uint32_t)q->used);
	fake_write(f, VIRTIO_MMIO_QUEUE_DEVICE_HIGH, 0);
}

void fake_ready(struct fake_driver *f, unsigned queue)
{
	fake_write(f, VIRTIO_MMIO_QUEUE_SEL, queue);
	fake_write(f, VIRTIO_MMIO_QUEUE_READY, 1);
}

void fake_start(struct fake_driver *f, uint64_t features, uint16_t size)
{
	fake_negotiate(f, features);
	for (unsigned i = 0; i < f->dev->ops->queue_count; i++) {
		uint16_t max = f->dev->ops->queue_size_max[i];

		fake_layout_queue(f, i, size && size < max ? size : max);
		fake_ready(f, i);
	}
	fake_set_status(f, VIRTIO_STATUS_DRIVER_OK);
}

void fake_desc(struct fake_driver *f, unsigned queue, uint16_t i, gpa_t addr, uint32_t len,
	uint16_t flags, uint16_t next)
{
	struct virtq_desc d = {.addr = addr, .len = len, .flags = flags, .next = next};

	memcpy(fake_at(f, f->queues[queue].desc + i * sizeof(d)), &d, sizeof(d));
}

void fake_offer(struct fake_driver *f, unsigned queue, uint16_t head)
{
	struct fake_queue *q = &f->queues[queue];

	fake_store16(f, q->avail + VIRTQ_AVAIL_RING + 2 * (q->avail_idx % q->size), head);
	fake_store16(f, q->avail + VIRTQ_AVAIL_IDX, ++q->avail_idx);
}

void fake_kick(struct fake_driver *f, unsigned queue)
{
	fake_write(f, VIRTIO_MMIO_QUEUE_NOTIFY, queue);
}

bool fake_used(struct fake_driver *f, unsigned queue, uint32_t *ret_id, uint32_t *ret_len)
{
	struct fake_queue *q = &f->queues[queue];
	const uint8_t *element;

	if (fake_load16(f, q->used + VIRTQ_USED_IDX) == q->used_seen)
		return false;
	element = fake_at(
		f, q->used + VIRTQ_USED_RING + VIRTQ_USED_ELEMENT * (q->used_seen % q->size));
	*ret_id = get_le32(element);
	*ret_len = get_le32(element + 4);
	q->used_seen++;
	return true;
}

uint16_t fake_load16(struct fake_driver *f, gpa_t addr)
{
	return get_le16(fake_at(f, addr));
}

void fake_store16(struct fake_driver *f, gpa_t addr, uint16_t value)
{
	put_le16(fake_at(f, addr), value);
}

void *fake_at(struct fake_driver *f, gpa_t addr)
{
	void *p = guest_memory_ptr(&f->memory, addr, 1);

	assert(p);
	return p;
}
