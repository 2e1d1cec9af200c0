/* A virtio device as the rest of the VMM sees it: a transport (virtio-mmio, version 2) in front of
 * a device model behind an ops table. Implements virtio 1.2, sections 2 (facilities) and 4.2
 * (MMIO).
 *
 * Threads: every entry point below takes the device's own lock, so vCPU threads and the event loop
 * may call them freely. The ops are called with the lock held.
 *
 * A driver may fill a queue as fast as the device empties it. Writes by the device itself may fill
 * it, too: the answer to a read may be the next request. So a device works in batches
 * (virtio_batch_begin), and whoever runs the VM decides whether to start another one (virtio_work).
 *
 * Hostile drivers: a driver's error moves the device to DEVICE_NEEDS_RESET. Such errors are
 * descriptor loops, addresses outside of memory, odd register accesses and queues of a bad size.
 * The device raises a configuration interrupt and ignores its queues until the driver resets it. No
 * error ends the VMM. */
#ifndef VMM_VIRTIO_H
#define VMM_VIRTIO_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/log.h"
#include "base/reader.h"
#include "vmm/memory.h"

enum {
	VIRTIO_MMIO_SIZE = 0x1000, /* bytes of MMIO space of one device */
	VIRTIO_QUEUES_MAX = 3,
	VIRTIO_QUEUE_SIZE_MAX = 256,
	VIRTIO_CHAIN_MAX = 130,	      /* descriptors of one chain, indirect ones included */
	VIRTIO_BATCH_CHAINS = 256,    /* a full queue, so that a polite driver needs one batch */
	VIRTIO_BATCH_BYTES = 4 << 20, /* chains beyond them are for the next batch */
	VIRTIO_CONFIG_MAX = 64,	      /* bytes of configuration space of any of our devices */
};

enum { VIRTIO_ID_NET = 1, VIRTIO_ID_BLOCK = 2, VIRTIO_ID_RNG = 4, VIRTIO_ID_VSOCK = 19 };

struct virtio_device;

/* One buffer of a chain, already checked. It is guest memory, so its content may change. */
struct virtio_segment {
	uint8_t *host;
	uint32_t bytes;
};

/* A descriptor chain, copied and checked once, when it is popped. */
struct virtio_chain {
	uint16_t head;
	unsigned out_count, in_count; /* device-readable segments come first, then writable ones */
	struct virtio_segment out[VIRTIO_CHAIN_MAX];
	struct virtio_segment in[VIRTIO_CHAIN_MAX];
	uint64_t out_bytes, in_bytes;
};

struct virtio_queue {
	/* The driver sets these while the queue is not ready. */
	uint16_t size;
	bool ready;
	gpa_t desc, avail, used;
	/* The device's own state. */
	uint16_t last_avail, last_used;
	uint16_t signalled_used; /* last_used at the last virtio_queue_interrupt */
	bool want_interrupt;	 /* something was pushed since the last virtio_queue_interrupt */
};

struct virtio_ops {
	uint32_t id;
	const char *name; /* for logs: "blk", "vsock", "rng" */
	unsigned queue_count;
	uint16_t queue_size_max[VIRTIO_QUEUES_MAX];
	/* Device features. The transport adds VIRTIO_F_VERSION_1 and the ring features. */
	uint64_t (*features)(struct virtio_device *d);
	/* The driver wrote the index of `queue` into QueueNotify. Also called for each queue when
	 * the driver sets DRIVER_OK and after a snapshot was loaded, so nothing is lost. Take
	 * chains until virtio_queue_pop returns 0. At the end of a batch it also returns 0, and the
	 * next batch calls notify again. */
	void (*notify)(struct virtio_device *d, unsigned queue);
	/* virtio_resume is about to notify the queues. May be NULL. */
	void (*resume)(struct virtio_device *d);
	/* Drop all state of requests in progress. */
	void (*reset)(struct virtio_device *d);
	/* Size and content of the device's configuration space. The driver cannot write it. */
	size_t (*config)(struct virtio_device *d, uint8_t *out, size_t max);
	/* The model's state beyond the transport's. May be NULL. load treats its input as hostile
	 * and returns 0 or -EINVAL. */
	int (*save)(struct virtio_device *d, struct buf *out);
	int (*load)(struct virtio_device *d, struct reader *in);
	/* Frees the whole device and calls virtio_done. Nothing uses the device any more. */
	void (*destroy)(struct virtio_device *d);
};

struct virtio_device {
	const struct virtio_ops *ops;
	pthread_mutex_t lock;
	const struct guest_memory *memory;
	/* Raises the device's interrupt line (an edge). Called with the lock held; must not
	 * block. */
	void (*raise_irq)(void *opaque);
	void *irq_opaque;
	/* Transport state. */
	uint32_t status;
	uint32_t interrupt_status;
	uint32_t features_select, driver_features_select, queue_select;
	uint64_t driver_features;
	uint32_t config_generation;
	struct virtio_queue queues[VIRTIO_QUEUES_MAX];
	uint32_t waiting; /* queues with work for virtio_work, as bits */
	/* One pass over the queues, see virtio_batch_begin. */
	bool in_batch, irq_pending;
	unsigned batch_left;	   /* chains that may still be popped */
	uint64_t batch_bytes_left; /* of chains; the last one may exceed it */
	uint32_t batch_again;	   /* queues whose pop the batch refused, as bits */
	atomic_uint wanted;	   /* threads in virtio_lock */
	struct log_limit log_limit;
};

/* Prepares the embedded transport of a device model. memory outlives the device. */
void virtio_init(struct virtio_device *d, const struct virtio_ops *ops,
	const struct guest_memory *memory, void (*raise_irq)(void *), void *irq_opaque);
void virtio_done(struct virtio_device *d);

/* Frees any device; NULL is fine. */
static inline void virtio_destroy(struct virtio_device *d)
{
	if (d)
		d->ops->destroy(d);
}

/* One guest access at `offset` of the device's page, of any size and alignment. A write that
 * returns true has left something for virtio_work. */
void virtio_mmio_read(struct virtio_device *d, uint64_t offset, uint8_t *data, unsigned len);
bool virtio_mmio_write(struct virtio_device *d, uint64_t offset, const uint8_t *data, unsigned len);

/* Runs one batch over the queues that the previous batch did not finish. Returns true if another
 * batch is needed; a driver can make that so forever. Work that is left when the VM stops stays in
 * the queues and must be done when it goes on. */
bool virtio_work(struct virtio_device *d);

/* The device's lock. Waiters get it before the next batch. */
void virtio_lock(struct virtio_device *d);
void virtio_unlock(struct virtio_device *d);

/* Transport and model state for a snapshot. The vCPUs are stopped. load restores into a freshly
 * initialised device and returns 0 or -EINVAL. It does not call notify: virtio_resume does so in
 * one batch when the VM is about to run. More may be left for virtio_work. */
int virtio_save(struct virtio_device *d, struct buf *out);
int virtio_load(struct virtio_device *d, struct reader *in);
void virtio_resume(struct virtio_device *d);

/* --- for device models, lock held --- */

static inline bool virtio_has_feature(const struct virtio_device *d, unsigned bit)
{
	return d->driver_features >> bit & 1;
}

/* True once the driver has finished configuration and the device is usable. */
bool virtio_is_live(const struct virtio_device *d);

/* A batch is one pass over the queues. It pops a bounded number of chains and bytes, and raises at
 * most one interrupt, at its end. notify always runs in a batch. A model that works on its queues
 * on another occasion (a host socket became readable) may open one. virtio_batch_end returns as
 * bits the queues that still have chains because of the bound. The caller comes back to them after
 * others had a turn. */
void virtio_batch_begin(struct virtio_device *d);
uint32_t virtio_batch_end(struct virtio_device *d);

/* Charges the batch for work that a chain's bytes do not show. A model does long work in pieces.
 * When the batch's bytes are spent, it puts the rest off with virtio_queue_unpop. */
void virtio_batch_charge(struct virtio_device *d, uint64_t bytes);
bool virtio_batch_is_spent(const struct virtio_device *d);

/* Pops the next available chain. Returns 1 with *c filled, 0 when there is none (queue empty, not
 * live, or batch over), -EINVAL when the driver broke the rules. In that case the device already
 * needs a reset. */
int virtio_queue_pop(struct virtio_device *d, unsigned queue, struct virtio_chain *c);

/* Makes the last popped chain of the queue available again, for "no room now, later". */
void virtio_queue_unpop(struct virtio_device *d, unsigned queue);

/* Returns a chain to the driver with the number of bytes written to it. */
void virtio_queue_push(struct virtio_device *d, unsigned queue, uint16_t head, uint32_t written);

/* Raises one interrupt (at the end of the batch) if anything was pushed and the driver wants one
 * (VIRTIO_F_EVENT_IDX or VIRTQ_AVAIL_F_NO_INTERRUPT, as negotiated). */
void virtio_queue_interrupt(struct virtio_device *d, unsigned queue);

/* The driver broke the rules. `why` goes to the log, which is rate-limited. */
void virtio_needs_reset(struct virtio_device *d, const char *why);

/* Gather from and scatter into a chain, from byte `offset` on. Return the bytes copied. */
size_t virtio_chain_read(const struct virtio_chain *c, uint64_t offset, void *out, size_t n);
size_t virtio_chain_write(
	const struct virtio_chain *c, uint64_t offset, const void *data, size_t n);

/* --- between the two halves of the transport --- */

/* True if the rings lie in guest memory, are aligned, and the size is one that we offered. */
bool virtio_queue_is_valid(const struct virtio_device *d, unsigned queue);

/* Sets bits of InterruptStatus and raises the line, now or at the end of the batch. */
void virtio_raise(struct virtio_device *d, uint32_t bits);

#endif
