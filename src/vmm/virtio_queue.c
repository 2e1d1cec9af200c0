/* The device side of split virtqueues (virtio 1.2 section 2.7).
 *
 * The driver may rewrite rings and descriptors while we read them. So every field is loaded exactly
 * once, and the loaded value is checked and used. Each access derives host addresses anew, through
 * guest_memory_ptr. */
#include "vmm/virtio.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "proto/virtio.h"

/* The three areas of one queue. */
struct rings {
	uint8_t *desc, *avail, *used;
};

static uint16_t load16(const uint8_t *p)
{
	return le16toh(__atomic_load_n((const uint16_t *)(const void *)p, __ATOMIC_RELAXED));
}

static uint16_t load16_acquire(const uint8_t *p)
{
	return le16toh(__atomic_load_n((const uint16_t *)(const void *)p, __ATOMIC_ACQUIRE));
}

static void store16(uint8_t *p, uint16_t v)
{
	__atomic_store_n((uint16_t *)(void *)p, htole16(v), __ATOMIC_RELAXED);
}

static void store16_release(uint8_t *p, uint16_t v)
{
	__atomic_store_n((uint16_t *)(void *)p, htole16(v), __ATOMIC_RELEASE);
}

static void store32(uint8_t *p, uint32_t v)
{
	__atomic_store_n((uint32_t *)(void *)p, htole32(v), __ATOMIC_RELAXED);
}

static struct virtq_desc load_desc(const uint8_t *p)
{
	const struct virtq_desc *d = (const struct virtq_desc *)(const void *)p;

	return (struct virtq_desc){
		.addr = le64toh(__atomic_load_n(&d->addr, __ATOMIC_RELAXED)),
		.len = le32toh(__atomic_load_n(&d->len, __ATOMIC_RELAXED)),
		.flags = le16toh(__atomic_load_n(&d->flags, __ATOMIC_RELAXED)),
		.next = le16toh(__atomic_load_n(&d->next, __ATOMIC_RELAXED)),
	};
}

static bool queue_rings(
	const struct virtio_device *d, const struct virtio_queue *q, struct rings *r)
{
	r->desc = guest_memory_ptr(d->memory, q->desc, virtq_desc_bytes(q->size));
	r->avail = guest_memory_ptr(d->memory, q->avail, virtq_avail_bytes(q->size));
	r->used = guest_memory_ptr(d->memory, q->used, virtq_used_bytes(q->size));
	return r->desc && r->avail && r->used;
}

bool virtio_queue_is_valid(const struct virtio_device *d, unsigned queue)
{
	const struct virtio_queue *q = &d->queues[queue];
	struct rings r;

	if (q->size == 0 || q->size > d->ops->queue_size_max[queue] || (q->size & (q->size - 1)))
		return false;
	if (q->desc % VIRTQ_DESC_ALIGN || q->avail % VIRTQ_AVAIL_ALIGN ||
		q->used % VIRTQ_USED_ALIGN)
		return false;
	return queue_rings(d, q, &r);
}

static int broken(struct virtio_device *d, const char *why)
{
	virtio_needs_reset(d, why);
	return -EINVAL;
}

static const char *chain_add(
	const struct guest_memory *m, struct virtio_chain *c, const struct virtq_desc *desc)
{
	struct virtio_segment s = {.bytes = desc->len};

	if (desc->len == 0)
		return "empty descriptor";
	s.host = guest_memory_ptr(m, desc->addr, desc->len);
	if (!s.host)
		return "descriptor outside of memory";
	if (desc->flags & VIRTQ_DESC_F_WRITE) {
		c->in[c->in_count++] = s;
		c->in_bytes += s.bytes;
	} else {
		if (c->in_count)
			return "readable descriptor behind a writable one";
		c->out[c->out_count++] = s;
		c->out_bytes += s.bytes;
	}
	if (c->in_bytes + c->out_bytes > UINT32_MAX) /* 2.7.5.2, and the used length has 32 bits */
		return "chain of 4 GiB or more";
	return NULL;
}

/* Finds the table that an indirect descriptor refers to. */
static const char *open_indirect(const struct virtio_device *d, const struct virtq_desc *desc,
	const uint8_t **table, unsigned *count)
{
	if (!virtio_has_feature(d, VIRTIO_F_RING_INDIRECT_DESC))
		return "indirect descriptor without the feature";
	if (desc->flags & VIRTQ_DESC_F_NEXT)
		return "indirect descriptor with a next one";
	if (desc->len == 0 || desc->len % sizeof(struct virtq_desc))
		return "indirect table of an odd size";
	if (desc->len / sizeof(struct virtq_desc) > VIRTIO_CHAIN_MAX)
		return "indirect table too large";
	if (desc->addr % sizeof(uint64_t)) /* the fields are loaded whole */
		return "indirect table misaligned";
	*table = guest_memory_ptr(d->memory, desc->addr, desc->len);
	*count = desc->len / sizeof(struct virtq_desc);
	return *table ? NULL : "indirect table outside of memory";
}

/* Follows the chain from its head. Returns NULL, or what is wrong with it. The walk ends after
 * VIRTIO_CHAIN_MAX descriptors or as many as a table has, whichever is less, so loops end. */
static const char *chain_walk(const struct virtio_device *d, const struct virtio_queue *q,
	const uint8_t *table, struct virtio_chain *c)
{
	unsigned count = q->size, i = c->head, steps = 0;
	bool indirect = false;
	const char *why;

	for (;;) {
		struct virtq_desc desc;

		if (i >= count)
			return "descriptor index out of range";
		if (steps++ >= count || c->out_count + c->in_count >= VIRTIO_CHAIN_MAX)
			return "descriptor chain too long";
		desc = load_desc(table + i * sizeof(desc));
		if (desc.flags & VIRTQ_DESC_F_INDIRECT) {
			if (indirect)
				return "indirect descriptor inside of an indirect table";
			why = open_indirect(d, &desc, &table, &count);
			if (why)
				return why;
			indirect = true;
			i = steps = 0;
			continue;
		}
		why = chain_add(d->memory, c, &desc);
		if (why)
			return why;
		if (!(desc.flags & VIRTQ_DESC_F_NEXT))
			return NULL;
		i = desc.next;
	}
}

/* Returns the number of available chains. If the queue is empty, asks the driver for a notification
 * and looks again: a chain may have been added before the driver could see the request. */
static unsigned queue_pending(
	struct virtio_device *d, struct virtio_queue *q, const struct rings *r)
{
	uint16_t n = (uint16_t)(load16_acquire(r->avail + VIRTQ_AVAIL_IDX) - q->last_avail);

	if (n || !virtio_has_feature(d, VIRTIO_F_RING_EVENT_IDX))
		return n;
	store16(r->used + VIRTQ_USED_RING + VIRTQ_USED_ELEMENT * q->size, q->last_avail);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return (uint16_t)(load16_acquire(r->avail + VIRTQ_AVAIL_IDX) - q->last_avail);
}

void virtio_batch_charge(struct virtio_device *d, uint64_t bytes)
{
	d->batch_bytes_left -= bytes < d->batch_bytes_left ? bytes : d->batch_bytes_left;
}

bool virtio_batch_is_spent(const struct virtio_device *d)
{
	return d->in_batch && d->batch_bytes_left == 0;
}

static void count_chain(struct virtio_device *d, const struct virtio_chain *c)
{
	d->batch_left--;
	virtio_batch_charge(d, c->out_bytes + c->in_bytes);
}

int virtio_queue_pop(struct virtio_device *d, unsigned queue, struct virtio_chain *c)
{
	struct virtio_queue *q = &d->queues[queue];
	struct rings r;
	unsigned pending;
	const char *why;

	if (!virtio_is_live(d) || !q->ready)
		return 0;
	if (!queue_rings(d, q, &r))
		return broken(d, "rings outside of memory");
	pending = queue_pending(d, q, &r);
	if (!pending)
		return 0;
	if (pending > q->size)
		return broken(d, "more chains available than the queue holds");
	if (virtio_batch_is_spent(d) || (d->in_batch && d->batch_left == 0)) {
		d->batch_again |= UINT32_C(1) << queue;
		return 0;
	}
	c->head = load16(r.avail + VIRTQ_AVAIL_RING + 2 * (q->last_avail & (q->size - 1)));
	c->out_count = c->in_count = 0;
	c->out_bytes = c->in_bytes = 0;
	why = chain_walk(d, q, r.desc, c);
	if (why)
		return broken(d, why);
	q->last_avail++;
	if (d->in_batch)
		count_chain(d, c);
	return 1;
}

void virtio_queue_unpop(struct virtio_device *d, unsigned queue)
{
	d->queues[queue].last_avail--;
	if (d->in_batch)
		d->batch_left++;
}

void virtio_queue_push(struct virtio_device *d, unsigned queue, uint16_t head, uint32_t written)
{
	struct virtio_queue *q = &d->queues[queue];
	struct rings r;
	uint8_t *element;

	if (!virtio_is_live(d) || !q->ready || !queue_rings(d, q, &r))
		return;
	element = r.used + VIRTQ_USED_RING + VIRTQ_USED_ELEMENT * (q->last_used & (q->size - 1));
	store32(element, head);
	store32(element + 4, written);
	store16_release(r.used + VIRTQ_USED_IDX, ++q->last_used);
	q->want_interrupt = true;
}

/* True if the driver wants an interrupt for entries (old, new] of the used ring. */
static bool driver_wants_interrupt(const struct virtio_device *d, const struct virtio_queue *q,
	const struct rings *r, uint16_t old)
{
	uint16_t event;

	if (!virtio_has_feature(d, VIRTIO_F_RING_EVENT_IDX))
		return !(load16(r->avail + VIRTQ_AVAIL_FLAGS) & VIRTQ_AVAIL_F_NO_INTERRUPT);
	event = load16(r->avail + VIRTQ_AVAIL_RING + 2 * q->size);
	return (uint16_t)(q->last_used - event - 1) < (uint16_t)(q->last_used - old);
}

void virtio_queue_interrupt(struct virtio_device *d, unsigned queue)
{
	struct virtio_queue *q = &d->queues[queue];
	uint16_t old = q->signalled_used;
	struct rings r;

	if (!q->want_interrupt || !virtio_is_live(d) || !q->ready || !queue_rings(d, q, &r))
		return;
	q->want_interrupt = false;
	q->signalled_used = q->last_used;
	/* The used index must be visible before we read whether the driver wants an interrupt. The
	 * driver first writes its wish, then looks at the index. Without the fence both could miss
	 * the other. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (driver_wants_interrupt(d, q, &r, old))
		virtio_raise(d, VIRTIO_MMIO_INT_VRING);
}

/* Copies between a chain's segments and a flat buffer, starting `offset` bytes into the chain. */
static size_t copy_segments(const struct virtio_segment *s, unsigned count, uint64_t offset,
	uint8_t *out, const uint8_t *in, size_t n)
{
	size_t done = 0;

	for (unsigned i = 0; i < count && done < n; i++) {
		size_t part;

		if (offset >= s[i].bytes) {
			offset -= s[i].bytes;
			continue;
		}
		part = s[i].bytes - offset;
		if (part > n - done)
			part = n - done;
		if (out)
			memcpy(out + done, s[i].host + offset, part);
		else
			memcpy(s[i].host + offset, in + done, part);
		done += part;
		offset = 0;
	}
	return done;
}

size_t virtio_chain_read(const struct virtio_chain *c, uint64_t offset, void *out, size_t n)
{
	return copy_segments(c->out, c->out_count, offset, out, NULL, n);
}

size_t virtio_chain_write(const struct virtio_chain *c, uint64_t offset, const void *data, size_t n)
{
	return copy_segments(c->in, c->in_count, offset, NULL, data, n);
}
