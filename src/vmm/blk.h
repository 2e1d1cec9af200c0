/* virtio-blk (virtio 1.2 section 5.2) in front of a copy-on-write disk.
 *
 * The device has one queue, which the notifying thread serves. It reads and writes guest memory in
 * place and copies only to merge a block. It offers flush: the disk has a write cache, and a crash
 * of the host may lose data that was not flushed. A writable disk also offers discard and
 * write-zeroes, so space freed in the guest returns to the host.
 *
 * A request that the disk refuses fails with an I/O error in the guest. A request without header or
 * status byte makes the device need a reset.
 *
 * No request keeps the device for long. Discard and write-zeroes run in pieces, which count as
 * bytes of the batch. When a batch (virtio.h) ends in the middle of a request, the request goes
 * back to its queue and the next batch continues it. A snapshot taken in between sees it as not yet
 * begun. After a restore it runs again from its start, with the same result. A flush ends its
 * batch. */
#ifndef VMM_BLK_H
#define VMM_BLK_H

#include "vmm/disk.h"
#include "vmm/virtio.h"

/* Takes the disk over, also on failure. serial: what the guest reads in /sys/block/vdX/serial; only
 * the first 20 characters count. virtio_destroy releases the device and does not flush. */
int blk_create(const struct guest_memory *memory, struct disk *disk, const char *serial,
	void (*raise_irq)(void *), void *irq_opaque, struct virtio_device **ret, struct error *e);

/* The disk's operations under the device's lock; disk.h has their results. */
int blk_flush(struct virtio_device *dev);
int blk_check(struct virtio_device *dev, struct error *e);
int blk_freeze(struct virtio_device *dev, int delta_fd, struct error *e);
int blk_flatten(struct virtio_device *dev, unsigned below, int out_fd, struct error *e);
void blk_thaw(struct virtio_device *dev);
unsigned blk_frozen_count(struct virtio_device *dev);
void blk_replace_frozen(struct virtio_device *dev, struct disk_merged *m);

/* These run without the lock while the host's disk works, so the guest goes on. Only one thread at
 * a time may freeze, sync or replace frozen deltas. blk_write_back makes the kernel start writing
 * what was written so far and does not wait, so later flushes have less to do. */
void blk_write_back(struct virtio_device *dev);
int blk_sync_frozen(struct virtio_device *dev);
int blk_merge_frozen(
	struct virtio_device *dev, int out_fd, struct disk_merged **ret, struct error *e);

#endif
