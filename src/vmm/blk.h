/* virtio-blk (virtio 1.2 section 5.2) in front of a copy-on-write disk.
 *
 * One queue, served in the thread that notifies: guest memory is read and written in place, no
 * copies in between, unless a block has to be merged. Offers flush (a write cache: data that was
 * not flushed may be lost in a crash of the host), and on a writable disk discard and write-zeroes,
 * so that files deleted in the guest give their space back to the host. A request that the disk
 * refuses fails with an I/O error in the guest; a request that is no request at all (no header, no
 * status byte) makes the device need a reset.
 *
 * No request keeps the device for long. Discard and write-zeroes are done in pieces, which count as
 * bytes of the batch: where a batch ends in the middle of a request, the request goes back to its
 * queue and the next batch goes on from there. A snapshot in between has it in the queue as if it
 * had not begun, and it is done again from its start, which changes nothing. A flush ends its
 * batch. */
#ifndef VMM_BLK_H
#define VMM_BLK_H

#include "vmm/disk.h"
#include "vmm/virtio.h"

/* Takes the disk over, also on failure. serial: what the guest finds in /sys/block/vdX/serial, at
 * most 20 characters count. Released with virtio_destroy, which does not flush. */
int blk_create(const struct guest_memory *memory, struct disk *disk, const char *serial,
	void (*raise_irq)(void *), void *irq_opaque, struct virtio_device **ret, struct error *e);

/* The operations of the disk, under the device's lock; see disk.h for their results. blk_grow also
 * tells the driver. */
int blk_grow(struct virtio_device *dev, uint64_t bytes);
int blk_flush(struct virtio_device *dev);
int blk_check(struct virtio_device *dev, struct error *e);
int blk_freeze(struct virtio_device *dev, int delta_fd, struct error *e);
int blk_flatten(struct virtio_device *dev, int out_fd, struct error *e);
void blk_thaw(struct virtio_device *dev);
unsigned blk_frozen_count(struct virtio_device *dev);
void blk_replace_frozen(struct virtio_device *dev, struct disk_merged *m);

/* Without the lock while the host's disk works, so that the guest goes on. Only one thread at a
 * time may freeze, sync or replace frozen deltas. blk_write_back makes the kernel begin to write
 * what was written so far, and waits for nothing: later flushes have less to do. */
void blk_write_back(struct virtio_device *dev);
int blk_sync_frozen(struct virtio_device *dev);
int blk_merge_frozen(
	struct virtio_device *dev, int out_fd, struct disk_merged **ret, struct error *e);

uint64_t blk_bytes(struct virtio_device *dev);
uint64_t blk_delta_bytes(struct virtio_device *dev);
struct disk_stats blk_stats(struct virtio_device *dev);

#endif
