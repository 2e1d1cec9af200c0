/* virtio-mmio, version 2 (virtio 1.2 section 4.2.2): registers, device status, notifications and
 * interrupts, and the transport's part of a snapshot. */
#include "vmm/virtio.h"

#include <endian.h>
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "proto/virtio.h"

enum {
	VENDOR_ID = 0x594c464d, /* "MFLY" */
	SAVE_VERSION = 1,
	LOG_BURST = 3,
};

static const uint32_t status_known = VIRTIO_STATUS_ACKNOWLEDGE | VIRTIO_STATUS_DRIVER |
				     VIRTIO_STATUS_FEATURES_OK | VIRTIO_STATUS_DRIVER_OK |
				     VIRTIO_STATUS_NEEDS_RESET | VIRTIO_STATUS_FAILED;

void virtio_init(struct virtio_device *d, const struct virtio_ops *ops,
	const struct guest_memory *memory, void (*raise_irq)(void *), void *irq_opaque)
{
	*d = (struct virtio_device){
		.ops = ops,
		.memory = memory,
		.raise_irq = raise_irq,
		.irq_opaque = irq_opaque,
		.log_limit = LOG_LIMIT_INIT(LOG_BURST),
	};
	(void)pthread_mutex_init(&d->lock, NULL); /* cannot fail without attributes */
}

void virtio_done(struct virtio_device *d)
{
	(void)pthread_mutex_destroy(&d->lock); /* nobody holds it any more */
}

void virtio_lock(struct virtio_device *d)
{
	(void)atomic_fetch_add(&d->wanted, 1); /* only counted */
	pthread_mutex_lock(&d->lock);
	(void)atomic_fetch_sub(&d->wanted, 1); /* as above */
}

void virtio_unlock(struct virtio_device *d)
{
	pthread_mutex_unlock(&d->lock);
}

bool virtio_is_live(const struct virtio_device *d)
{
	return (d->status & (VIRTIO_STATUS_DRIVER_OK | VIRTIO_STATUS_NEEDS_RESET |
				    VIRTIO_STATUS_FAILED)) == VIRTIO_STATUS_DRIVER_OK;
}

static uint64_t offered_features(struct virtio_device *d)
{
	return d->ops->features(d) | UINT64_C(1) << VIRTIO_F_VERSION_1 |
	       UINT64_C(1) << VIRTIO_F_RING_INDIRECT_DESC | UINT64_C(1) << VIRTIO_F_RING_EVENT_IDX;
}

/* --- interrupts and batches --- */

void virtio_raise(struct virtio_device *d, uint32_t bits)
{
	d->interrupt_status |= bits;
	if (d->in_batch)
		d->irq_pending = true;
	else
		d->raise_irq(d->irq_opaque);
}

void virtio_batch_begin(struct virtio_device *d)
{
	d->in_batch = true;
	d->irq_pending = false;
	d->batch_left = VIRTIO_BATCH_CHAINS;
	d->batch_bytes_left = VIRTIO_BATCH_BYTES;
	d->batch_again = 0;
}

uint32_t virtio_batch_end(struct virtio_device *d)
{
	d->in_batch = false;
	if (d->irq_pending)
		d->raise_irq(d->irq_opaque);
	d->irq_pending = false;
	return virtio_is_live(d) ? d->batch_again : 0;
}

/* Runs one batch over the queues in mask and those that wait. */
static void notify_queues(struct virtio_device *d, uint32_t mask, bool raise)
{
	mask |= d->waiting;
	virtio_batch_begin(d);
	d->irq_pending = raise;
	for (unsigned i = 0; i < d->ops->queue_count; i++)
		if (mask >> i & 1 && d->queues[i].ready && virtio_is_live(d))
			d->ops->notify(d, i);
	d->waiting = virtio_batch_end(d);
}

/* #calls vcpu (when another thread waits for the device): sched_yield */
bool virtio_work(struct virtio_device *d)
{
	bool more;

	/* Let waiters in first. The lock is unfair: we would take it again before they wake up. */
	while (atomic_load(&d->wanted))
		(void)sched_yield(); /* always succeeds on Linux */
	virtio_lock(d);
	if (d->waiting)
		notify_queues(d, 0, false);
	more = d->waiting;
	virtio_unlock(d);
	return more;
}

static uint32_t all_queues(const struct virtio_device *d)
{
	return (UINT32_C(1) << d->ops->queue_count) - 1;
}

void virtio_needs_reset(struct virtio_device *d, const char *why)
{
	if (d->status & VIRTIO_STATUS_NEEDS_RESET)
		return;
	if (log_limited(&d->log_limit))
		log_warn("virtio-%s: the driver broke the protocol, the device needs a reset: %s",
			d->ops->name, why);
	d->status |= VIRTIO_STATUS_NEEDS_RESET;
	if (d->status & VIRTIO_STATUS_DRIVER_OK)
		virtio_raise(d, VIRTIO_MMIO_INT_CONFIG);
}

/* --- registers --- */

static void reset_device(struct virtio_device *d)
{
	d->status = 0;
	d->interrupt_status = 0;
	d->features_select = d->driver_features_select = d->queue_select = 0;
	d->driver_features = 0;
	d->waiting = 0;
	memset(d->queues, 0, sizeof(d->queues));
	d->ops->reset(d);
}

/* Each status bit needs the ones before it. The driver only ever adds bits (3.1.1). */
static bool status_in_order(uint32_t s)
{
	static const uint32_t order[] = {VIRTIO_STATUS_ACKNOWLEDGE, VIRTIO_STATUS_DRIVER,
		VIRTIO_STATUS_FEATURES_OK, VIRTIO_STATUS_DRIVER_OK};
	bool gap = false;

	for (unsigned i = 0; i < ARRAY_SIZE(order); i++) {
		if (s & order[i] && gap)
			return false;
		gap |= !(s & order[i]);
	}
	return true;
}

static bool features_are_acceptable(struct virtio_device *d)
{
	return !(d->driver_features & ~offered_features(d)) &&
	       virtio_has_feature(d, VIRTIO_F_VERSION_1);
}

static void write_status(struct virtio_device *d, uint32_t value)
{
	uint32_t kept = d->status & VIRTIO_STATUS_NEEDS_RESET; /* ours, not the driver's */
	uint32_t added;

	if (value == 0) {
		reset_device(d);
		return;
	}
	value = (value & status_known & ~(uint32_t)VIRTIO_STATUS_NEEDS_RESET) | kept;
	if (d->status & ~value || !status_in_order(value))
		return;
	added = value & ~d->status;
	if (added & VIRTIO_STATUS_FEATURES_OK && !features_are_acceptable(d))
		value &= ~(uint32_t)(VIRTIO_STATUS_FEATURES_OK | VIRTIO_STATUS_DRIVER_OK);
	d->status = value;
	if (value & added & VIRTIO_STATUS_DRIVER_OK)
		notify_queues(d, all_queues(d), false);
}

static void write_driver_features(struct virtio_device *d, uint32_t value)
{
	unsigned shift = d->driver_features_select * 32;

	if (!(d->status & VIRTIO_STATUS_DRIVER) || d->status & VIRTIO_STATUS_FEATURES_OK)
		return;
	if (d->driver_features_select > 1)
		return;
	d->driver_features &= ~(UINT64_C(0xffffffff) << shift);
	d->driver_features |= (uint64_t)value << shift;
}

/* Returns the selected queue, or NULL when the index is out of range. */
static struct virtio_queue *selected_queue(struct virtio_device *d)
{
	return d->queue_select < d->ops->queue_count ? &d->queues[d->queue_select] : NULL;
}

/* Returns the selected queue if its layout may be written now: after feature negotiation, before
 * the driver starts the device, and while the queue is not in use. */
static struct virtio_queue *writable_queue(struct virtio_device *d)
{
	struct virtio_queue *q = selected_queue(d);
	uint32_t phase = VIRTIO_STATUS_FEATURES_OK | VIRTIO_STATUS_DRIVER_OK |
			 VIRTIO_STATUS_NEEDS_RESET | VIRTIO_STATUS_FAILED;

	if (!q || q->ready || (d->status & phase) != VIRTIO_STATUS_FEATURES_OK)
		return NULL;
	return q;
}

static void write_queue_ready(struct virtio_device *d, uint32_t value)
{
	struct virtio_queue *q = selected_queue(d);

	if (q && !(value & 1)) {
		q->ready = false;
		return;
	}
	q = writable_queue(d);
	if (!q)
		return;
	if (!virtio_queue_is_valid(d, d->queue_select)) {
		virtio_needs_reset(d, "queue of a bad size or address");
		return;
	}
	q->last_avail = q->last_used = q->signalled_used = 0;
	q->want_interrupt = false;
	q->ready = true;
}

static void write_queue_num(struct virtio_device *d, uint32_t value)
{
	struct virtio_queue *q = writable_queue(d);

	if (q)
		q->size = value <= UINT16_MAX ? (uint16_t)value : 0; /* 0 is refused at ready */
}

static void write_queue_address(struct virtio_device *d, uint64_t offset, uint32_t value)
{
	struct virtio_queue *q = writable_queue(d);
	gpa_t *p;

	if (!q)
		return;
	if (offset <= VIRTIO_MMIO_QUEUE_DESC_HIGH)
		p = &q->desc;
	else if (offset <= VIRTIO_MMIO_QUEUE_DRIVER_HIGH)
		p = &q->avail;
	else
		p = &q->used;
	if (offset & 4)
		*p = (*p & UINT32_MAX) | (uint64_t)value << 32;
	else
		*p = (*p & ~(uint64_t)UINT32_MAX) | value;
}

static void write_notify(struct virtio_device *d, uint32_t value)
{
	if (value < d->ops->queue_count)
		notify_queues(d, UINT32_C(1) << value, false);
}

static uint32_t read_register(struct virtio_device *d, uint64_t offset)
{
	const struct virtio_queue *q = selected_queue(d);

	switch (offset) {
	case VIRTIO_MMIO_MAGIC_VALUE:
		return VIRTIO_MMIO_MAGIC;
	case VIRTIO_MMIO_VERSION:
		return VIRTIO_MMIO_VERSION_2;
	case VIRTIO_MMIO_DEVICE_ID:
		return d->ops->id;
	case VIRTIO_MMIO_VENDOR_ID:
		return VENDOR_ID;
	case VIRTIO_MMIO_DEVICE_FEATURES:
		if (d->features_select > 1)
			return 0;
		return (uint32_t)(offered_features(d) >> (d->features_select * 32));
	case VIRTIO_MMIO_QUEUE_NUM_MAX:
		return q ? d->ops->queue_size_max[d->queue_select] : 0;
	case VIRTIO_MMIO_QUEUE_READY:
		return q && q->ready;
	case VIRTIO_MMIO_INTERRUPT_STATUS:
		return d->interrupt_status;
	case VIRTIO_MMIO_STATUS:
		return d->status;
	case VIRTIO_MMIO_SHM_LEN_LOW ... VIRTIO_MMIO_SHM_BASE_HIGH:
		return UINT32_MAX; /* no shared memory regions */
	case VIRTIO_MMIO_CONFIG_GENERATION:
		return d->config_generation;
	default:
		return 0; /* write-only or reserved */
	}
}

static void write_register(struct virtio_device *d, uint64_t offset, uint32_t value)
{
	switch (offset) {
	case VIRTIO_MMIO_DEVICE_FEATURES_SEL:
		d->features_select = value;
		break;
	case VIRTIO_MMIO_DRIVER_FEATURES_SEL:
		d->driver_features_select = value;
		break;
	case VIRTIO_MMIO_DRIVER_FEATURES:
		write_driver_features(d, value);
		break;
	case VIRTIO_MMIO_QUEUE_SEL:
		d->queue_select = value;
		break;
	case VIRTIO_MMIO_QUEUE_NUM:
		write_queue_num(d, value);
		break;
	case VIRTIO_MMIO_QUEUE_READY:
		write_queue_ready(d, value);
		break;
	case VIRTIO_MMIO_QUEUE_NOTIFY:
		write_notify(d, value);
		break;
	case VIRTIO_MMIO_INTERRUPT_ACK:
		d->interrupt_status &= ~value;
		break;
	case VIRTIO_MMIO_STATUS:
		write_status(d, value);
		break;
	case VIRTIO_MMIO_QUEUE_DESC_LOW:
	case VIRTIO_MMIO_QUEUE_DESC_HIGH:
	case VIRTIO_MMIO_QUEUE_DRIVER_LOW:
	case VIRTIO_MMIO_QUEUE_DRIVER_HIGH:
	case VIRTIO_MMIO_QUEUE_DEVICE_LOW:
	case VIRTIO_MMIO_QUEUE_DEVICE_HIGH:
		write_queue_address(d, offset, value);
		break;
	default:
		break; /* read-only or reserved */
	}
}

static void read_config(struct virtio_device *d, uint64_t offset, uint8_t *data, unsigned len)
{
	uint8_t config[VIRTIO_CONFIG_MAX];
	size_t n;

	if (len != 1 && len != 2 && len != 4 && len != 8)
		return;
	n = d->ops->config(d, config, sizeof(config));
	if (offset < n && len <= n - offset)
		memcpy(data, config + offset, len);
}

void virtio_mmio_read(struct virtio_device *d, uint64_t offset, uint8_t *data, unsigned len)
{
	memset(data, 0, len);
	virtio_lock(d);
	if (offset >= VIRTIO_MMIO_CONFIG)
		read_config(d, offset - VIRTIO_MMIO_CONFIG, data, len);
	else if (len == 4 && offset % 4 == 0)
		put_le32(data, read_register(d, offset));
	virtio_unlock(d);
}

bool virtio_mmio_write(struct virtio_device *d, uint64_t offset, const uint8_t *data, unsigned len)
{
	bool more;

	if (offset >= VIRTIO_MMIO_CONFIG || len != 4 || offset % 4)
		return false;
	virtio_lock(d);
	write_register(d, offset, get_le32(data));
	more = d->waiting;
	virtio_unlock(d);
	return more;
}

/* --- snapshots --- */

static int save_queue(const struct virtio_queue *q, struct buf *out)
{
	int r = buf_add_le16(out, q->size);

	r = r ? r : buf_add_u8(out, q->ready);
	r = r ? r : buf_add_u8(out, q->want_interrupt);
	r = r ? r : buf_add_le64(out, q->desc);
	r = r ? r : buf_add_le64(out, q->avail);
	r = r ? r : buf_add_le64(out, q->used);
	r = r ? r : buf_add_le16(out, q->last_avail);
	r = r ? r : buf_add_le16(out, q->last_used);
	return r ? r : buf_add_le16(out, q->signalled_used);
}

static int save_transport(const struct virtio_device *d, struct buf *out)
{
	int r = buf_add_le32(out, SAVE_VERSION);

	r = r ? r : buf_add_le32(out, d->ops->id);
	r = r ? r : buf_add_le32(out, d->status);
	r = r ? r : buf_add_le32(out, d->interrupt_status);
	r = r ? r : buf_add_le32(out, d->features_select);
	r = r ? r : buf_add_le32(out, d->driver_features_select);
	r = r ? r : buf_add_le32(out, d->queue_select);
	r = r ? r : buf_add_le32(out, d->config_generation);
	r = r ? r : buf_add_le64(out, d->driver_features);
	r = r ? r : buf_add_le32(out, d->ops->queue_count);
	for (unsigned i = 0; i < d->ops->queue_count; i++)
		r = r ? r : save_queue(&d->queues[i], out);
	return r;
}

int virtio_save(struct virtio_device *d, struct buf *out)
{
	int r;

	virtio_lock(d);
	r = save_transport(d, out);
	if (r == 0 && d->ops->save)
		r = d->ops->save(d, out);
	virtio_unlock(d);
	return r;
}

static void load_queue(struct virtio_queue *q, struct reader *in)
{
	q->size = reader_le16(in);
	q->ready = reader_u8(in) != 0;
	q->want_interrupt = reader_u8(in) != 0;
	q->desc = reader_le64(in);
	q->avail = reader_le64(in);
	q->used = reader_le64(in);
	q->last_avail = reader_le16(in);
	q->last_used = reader_le16(in);
	q->signalled_used = reader_le16(in);
}

static bool transport_is_plausible(struct virtio_device *d)
{
	if (d->status & ~status_known || !status_in_order(d->status))
		return false;
	if (d->status & VIRTIO_STATUS_FEATURES_OK && !features_are_acceptable(d))
		return false;
	for (unsigned i = 0; i < d->ops->queue_count; i++)
		if (d->queues[i].ready &&
			(!(d->status & VIRTIO_STATUS_FEATURES_OK) || !virtio_queue_is_valid(d, i)))
			return false;
	return true;
}

static int load_transport(struct virtio_device *d, struct reader *in)
{
	if (reader_le32(in) != SAVE_VERSION || reader_le32(in) != d->ops->id)
		return -EINVAL;
	d->status = reader_le32(in);
	d->interrupt_status = reader_le32(in) & (VIRTIO_MMIO_INT_VRING | VIRTIO_MMIO_INT_CONFIG);
	d->features_select = reader_le32(in);
	d->driver_features_select = reader_le32(in);
	d->queue_select = reader_le32(in);
	d->config_generation = reader_le32(in);
	d->driver_features = reader_le64(in);
	if (reader_le32(in) != d->ops->queue_count)
		return -EINVAL;
	for (unsigned i = 0; i < d->ops->queue_count; i++)
		load_queue(&d->queues[i], in);
	return in->bad || !transport_is_plausible(d) ? -EINVAL : 0;
}

int virtio_load(struct virtio_device *d, struct reader *in)
{
	int r;

	virtio_lock(d);
	r = load_transport(d, in);
	if (r == 0 && d->ops->load)
		r = d->ops->load(d, in);
	if (r == 0 && in->bad)
		r = -EINVAL;
	if (r < 0)
		reset_device(d);
	virtio_unlock(d);
	return r;
}

void virtio_resume(struct virtio_device *d)
{
	virtio_lock(d);
	if (d->ops->resume)
		d->ops->resume(d);
	/* Raises interrupts that were pending at the save again. One edge too many does no harm. */
	notify_queues(d, all_queues(d), d->interrupt_status != 0);
	virtio_unlock(d);
}
