#include "driver.h"

static void set_features(struct device *d, uint64_t wanted)
{
	uint64_t offered;

	set_reg(d, VIRTIO_MMIO_DEVICE_FEATURES_SEL, 1);
	offered = (uint64_t)reg(d, VIRTIO_MMIO_DEVICE_FEATURES) << 32;
	set_reg(d, VIRTIO_MMIO_DEVICE_FEATURES_SEL, 0);
	offered |= reg(d, VIRTIO_MMIO_DEVICE_FEATURES);
	d->features = offered & (wanted | UINT64_C(1) << VIRTIO_F_VERSION_1);
	for (unsigned i = 0; i < 2; i++) {
		set_reg(d, VIRTIO_MMIO_DRIVER_FEATURES_SEL, i);
		set_reg(d, VIRTIO_MMIO_DRIVER_FEATURES, (uint32_t)(d->features >> (32 * i)));
	}
}

void device_open(struct device *d, unsigned slot, uint64_t wanted)
{
	uint32_t status = VIRTIO_STATUS_ACKNOWLEDGE;

	*d = (struct device){.at = SLOTS_AT + slot * SLOT_BYTES, .slot = slot};
	EQUAL(reg(d, VIRTIO_MMIO_MAGIC_VALUE), VIRTIO_MMIO_MAGIC);
	EQUAL(reg(d, VIRTIO_MMIO_VERSION), VIRTIO_MMIO_VERSION_2);
	set_reg(d, VIRTIO_MMIO_STATUS, 0);
	EQUAL(reg(d, VIRTIO_MMIO_STATUS), 0);
	set_reg(d, VIRTIO_MMIO_STATUS, status);
	status |= VIRTIO_STATUS_DRIVER;
	set_reg(d, VIRTIO_MMIO_STATUS, status);
	set_features(d, wanted);
	status |= VIRTIO_STATUS_FEATURES_OK;
	set_reg(d, VIRTIO_MMIO_STATUS, status);
	EQUAL(reg(d, VIRTIO_MMIO_STATUS), status);
}

static void set_address(const struct device *d, uint32_t offset, uint64_t v)
{
	set_reg(d, offset, (uint32_t)v);
	set_reg(d, offset + 4, (uint32_t)(v >> 32));
}

bool queue_place(const struct device *d, unsigned index, uint32_t size, uint64_t desc,
	uint64_t avail, uint64_t used)
{
	set_reg(d, VIRTIO_MMIO_QUEUE_SEL, index);
	set_reg(d, VIRTIO_MMIO_QUEUE_NUM, size);
	set_address(d, VIRTIO_MMIO_QUEUE_DESC_LOW, desc);
	set_address(d, VIRTIO_MMIO_QUEUE_DRIVER_LOW, avail);
	set_address(d, VIRTIO_MMIO_QUEUE_DEVICE_LOW, used);
	set_reg(d, VIRTIO_MMIO_QUEUE_READY, 1);
	return reg(d, VIRTIO_MMIO_QUEUE_READY) == 1;
}

void queue_open(struct queue *q, struct device *d, unsigned index, struct ring *ring)
{
	memset(ring, 0, sizeof(*ring));
	*q = (struct queue){.device = d, .index = index, .size = QUEUE_SIZE, .ring = ring};
	CHECK(queue_place(d, index, QUEUE_SIZE, (uint64_t)ring->desc, (uint64_t)&ring->avail,
		(uint64_t)&ring->used));
}

void device_start(const struct device *d)
{
	set_reg(d, VIRTIO_MMIO_STATUS, reg(d, VIRTIO_MMIO_STATUS) | VIRTIO_STATUS_DRIVER_OK);
}

bool device_is_broken(const struct device *d)
{
	return reg(d, VIRTIO_MMIO_STATUS) & VIRTIO_STATUS_NEEDS_RESET;
}

void queue_offer(struct queue *q, uint16_t head)
{
	volatile struct ring *r = q->ring;

	r->avail.ring[r->avail.idx % q->size] = head;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	r->avail.idx++;
}

/* Descriptors are used in turn: no test has more than a ring full of them in flight. */
uint16_t queue_add(struct queue *q, const struct segment *s, unsigned n)
{
	uint16_t head = q->next_desc;

	for (unsigned i = 0; i < n; i++) {
		volatile struct virtq_desc *d = &q->ring->desc[q->next_desc];

		q->next_desc = (uint16_t)((q->next_desc + 1) % q->size);
		d->addr = (uint64_t)s[i].at;
		d->len = s[i].bytes;
		d->flags = (uint16_t)((i + 1 < n ? VIRTQ_DESC_F_NEXT : 0) |
				      (s[i].write ? VIRTQ_DESC_F_WRITE : 0));
		d->next = q->next_desc;
	}
	queue_offer(q, head);
	return head;
}

uint16_t queue_add_indirect(struct queue *q, const struct segment *s, unsigned n)
{
	static struct virtq_desc tables[QUEUE_SIZE][TABLE_SIZE];
	struct virtq_desc *table = tables[q->next_desc];
	uint16_t head = q->next_desc;

	for (unsigned i = 0; i < n; i++)
		table[i] = (struct virtq_desc){
			.addr = (uint64_t)s[i].at,
			.len = s[i].bytes,
			.flags = (uint16_t)((i + 1 < n ? VIRTQ_DESC_F_NEXT : 0) |
					    (s[i].write ? VIRTQ_DESC_F_WRITE : 0)),
			.next = (uint16_t)(i + 1),
		};
	q->ring->desc[head].addr = (uint64_t)table;
	q->ring->desc[head].len = (uint32_t)(n * sizeof(table[0]));
	q->ring->desc[head].flags = VIRTQ_DESC_F_INDIRECT;
	q->next_desc = (uint16_t)((q->next_desc + 1) % q->size);
	queue_offer(q, head);
	return head;
}

void queue_notify(const struct queue *q)
{
	set_reg(q->device, VIRTIO_MMIO_QUEUE_NOTIFY, q->index);
}

void queue_kick(const struct queue *q, uint16_t from)
{
	uint16_t now = q->ring->avail.idx, event;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	event = q->ring->used.avail_event;
	if ((uint16_t)(now - event - 1) < (uint16_t)(now - from))
		queue_notify(q);
}

bool queue_ask(const struct queue *q)
{
	q->ring->avail.used_event = q->seen;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return q->ring->used.idx == q->seen;
}

bool queue_take(struct queue *q, uint16_t *head, uint32_t *len)
{
	uint64_t end = cycles() + 2000000000;

	while (q->ring->used.idx == q->seen)
		if (cycles() > end)
			return false;
	*head = (uint16_t)q->ring->used.ring[q->seen % q->size].id;
	*len = q->ring->used.ring[q->seen % q->size].len;
	q->seen++;
	return true;
}

/* --- block device --- */

void block_open(struct block *b, unsigned slot, uint64_t features, struct ring *ring)
{
	device_open(&b->device, slot, features);
	EQUAL(reg(&b->device, VIRTIO_MMIO_DEVICE_ID), 2);
	queue_open(&b->queue, &b->device, 0, ring);
	b->indirect = b->device.features >> VIRTIO_F_RING_INDIRECT_DESC & 1;
	device_start(&b->device);
}

uint64_t block_capacity(const struct block *b)
{
	return reg(&b->device, VIRTIO_MMIO_CONFIG) |
	       (uint64_t)reg(&b->device, VIRTIO_MMIO_CONFIG + 4) << 32;
}

uint8_t block_request(struct block *b, uint32_t type, uint64_t sector, void *data, uint32_t bytes)
{
	struct block_header header = {.type = type, .sector = sector};
	volatile uint8_t status = 0xff;
	bool in = type == VIRTIO_BLK_T_IN || type == VIRTIO_BLK_T_GET_ID;
	struct segment s[3] = {{&header, sizeof(header), false}};
	unsigned n = 1;
	uint16_t head, done;
	uint32_t len;

	if (bytes)
		s[n++] = (struct segment){data, bytes, in};
	s[n++] = (struct segment){&status, 1, true};
	head = b->indirect ? queue_add_indirect(&b->queue, s, n) : queue_add(&b->queue, s, n);
	queue_notify(&b->queue);
	if (!queue_take(&b->queue, &done, &len) || done != head)
		return 0xff;
	EQUAL(len, (in ? bytes : 0) + 1);
	return status;
}
