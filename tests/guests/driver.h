/* A virtio driver for bare guests: polling, and happy to do what a driver must not do. */
#ifndef GUESTS_DRIVER_H
#define GUESTS_DRIVER_H

#include "guest.h"
#include "proto/virtio.h"

enum {
	SLOTS_AT = 0xd0000000,
	SLOT_BYTES = 0x1000,
	SLOTS = 4,
	SLOT_RNG = 0,
	SLOT_VSOCK = 1,
	SLOT_DISK = 2,
	SLOT_GSI = 5, /* of slot 0 */
	QUEUE_SIZE = 16,
	TABLE_SIZE = 128,
};

struct device {
	uint64_t at;
	unsigned slot;
	uint64_t features; /* negotiated */
};

/* The areas of a queue as one block of memory, for QUEUE_SIZE entries at most. */
struct ring {
	struct virtq_desc desc[QUEUE_SIZE] __attribute__((aligned(16)));
	struct {
		uint16_t flags, idx, ring[QUEUE_SIZE], used_event;
	} avail;
	struct {
		uint16_t flags, idx;
		struct {
			uint32_t id, len;
		} ring[QUEUE_SIZE];
		uint16_t avail_event;
	} used __attribute__((aligned(4)));
} __attribute__((aligned(64)));

struct queue {
	struct device *device;
	unsigned index;
	uint16_t size, next_desc, seen; /* used entries taken */
	volatile struct ring *ring;
};

struct segment {
	const volatile void *at;
	uint32_t bytes;
	bool write; /* by the device */
};

static inline uint32_t reg(const struct device *d, uint32_t offset)
{
	return read32(d->at + offset);
}

static inline void set_reg(const struct device *d, uint32_t offset, uint32_t v)
{
	write32(d->at + offset, v);
}

/* Resets the device of a slot and negotiates those of the wanted features that it offers; up to
 * FEATURES_OK. */
void device_open(struct device *d, unsigned slot, uint64_t wanted);
/* Tells the device where the queue is; returns what QueueReady says afterwards. */
bool queue_place(const struct device *d, unsigned index, uint32_t size, uint64_t desc,
	uint64_t avail, uint64_t used);
/* Sets a queue up over a cleared ring. */
void queue_open(struct queue *q, struct device *d, unsigned index, struct ring *ring);
void device_start(const struct device *d); /* DRIVER_OK */
bool device_is_broken(const struct device *d);

/* Puts a chain into the queue without telling the device; returns its head. */
uint16_t queue_add(struct queue *q, const struct segment *s, unsigned n);
uint16_t queue_add_indirect(struct queue *q, const struct segment *s, unsigned n);
/* Makes a head available as it is. */
void queue_offer(struct queue *q, uint16_t head);
void queue_notify(const struct queue *q);
/* With EVENT_IDX: notifies only if the device wants to hear of the chains behind avail index
 * `from`. */
void queue_kick(const struct queue *q, uint16_t from);
/* With EVENT_IDX: asks for an interrupt at the next used entry. False if there is one already. */
bool queue_ask(const struct queue *q);
/* Waits for the next used entry; true with its length, false after about a second. */
bool queue_take(struct queue *q, uint16_t *head, uint32_t *len);

/* --- block device --- */

struct block {
	struct device device;
	struct queue queue;
	bool indirect;
};

struct block_header {
	uint32_t type, zero;
	uint64_t sector;
};

void block_open(struct block *b, unsigned slot, uint64_t features, struct ring *ring);
uint64_t block_capacity(const struct block *b);
/* One request; the status byte, 0xff when the device did not answer. */
uint8_t block_request(struct block *b, uint32_t type, uint64_t sector, void *data, uint32_t bytes);

#endif
