/* A copy-on-write disk: a read-only base image under a stack of sparse deltas.
 *
 * A read takes each block from the topmost delta that has it, else from the base. Writes go to the
 * top delta in whole blocks. What lies below never changes, so any number of sandboxes share it. A
 * delta is an ordinary sparse file, so any file system of the host will do. docs/disk-format.md has
 * its layout: a header page, a map with one bit per block, then each block at the place of its
 * number. Opening treats the file as hostile input. It reads only the header; the map is paged in
 * on use.
 *
 * A fresh delta is an empty file and costs no I/O until something is written or flushed. disk_flush
 * makes writes part of the delta: the data first, then the map. So a crash of the host loses only
 * what was not flushed. After a flush the file is a valid delta, even if it holds nothing.
 *
 * Files below the top must not change while the disk is open. Truncating one ends the process with
 * SIGBUS. Not thread-safe: the block device's lock covers its disk. Calls block on host I/O. */
#ifndef VMM_DISK_H
#define VMM_DISK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/error.h"
#include "proto/snapshot.h"

enum {
	DISK_BLOCK_BYTES = 4096,
	DISK_SECTOR_BYTES = 512,
	DISK_LOWER_MAX = SNAPSHOT_LAYERS_MAX, /* frozen deltas between base and top that disk_open
					       * accepts */
	DISK_FROZEN_MAX = 32,		      /* frozen deltas that an open disk may gather */
	DISK_IOVECS_MAX = 130,		      /* pieces of one disk_readv or disk_writev */
};

#define DISK_MAX_BYTES (UINT64_C(64) << 30)

struct disk;

struct disk_stats {
	uint64_t reads, read_bytes;
	uint64_t writes, written_bytes;
	uint64_t flushes;
	uint64_t errors;   /* failures that are not the guest's fault */
	uint64_t no_space; /* of these: the host's disk was full */
};

/* Opens a disk.
 * base_fd: the read-only image.
 * lower_fds: frozen deltas, lowest first.
 * delta_fd: the top delta, read-write, existing or empty (a fresh delta); -1: a read-only disk.
 * bytes: the capacity, a multiple of 512, at least that of the base and of every delta. Bytes past
 * the base read as zero.
 *
 * Takes all descriptors over, also on failure. ERROR_BAD_SNAPSHOT when a delta is damaged or
 * truncated, ERROR_INCOMPATIBLE when another version wrote it. */
int disk_open(int base_fd, const int *lower_fds, unsigned lower_count, int delta_fd, uint64_t bytes,
	struct disk **ret, struct error *e);
void disk_close(struct disk *d); /* NULL is fine; does not flush */

uint64_t disk_bytes(const struct disk *d);
bool disk_is_read_only(const struct disk *d);
struct disk_stats disk_stats(const struct disk *d);
/* Bytes of the blocks in the top delta, by a scan of its map; for tests. */
uint64_t disk_delta_bytes(const struct disk *d);

/* The request must be whole sectors within the capacity, which is checked. Returns 0, -EINVAL,
 * -EROFS, -ENOSPC or -EIO. The memory may change during the call. */
int disk_read(struct disk *d, uint64_t offset, void *out, uint32_t n);
int disk_write(struct disk *d, uint64_t offset, const void *data, uint32_t n);
int disk_readv(struct disk *d, uint64_t offset, const struct iovec *iov, unsigned count);
int disk_writev(struct disk *d, uint64_t offset, const struct iovec *iov, unsigned count);
int disk_write_zeroes(struct disk *d, uint64_t offset, uint64_t n);

/* Tells the disk that the content no longer matters. Blocks of the top delta become holes that read
 * as zeroes; everything else stays as it is. */
int disk_discard(struct disk *d, uint64_t offset, uint64_t n);

/* True if the range lies within the disk, in whole sectors, and is not empty. */
bool disk_range_is_valid(const struct disk *d, uint64_t offset, uint64_t n);

/* After success, all earlier writes survive a crash of the host, and the top delta may be
 * copied. */
int disk_flush(struct disk *d);

/* Fails for good once the host failed to write a delta. The kernel reports such a failure once and
 * then marks the pages clean. A later fdatasync succeeds, yet the data is lost as soon as the
 * kernel reclaims the pages. From then on disk_flush returns -EIO, and disk_freeze, disk_flatten
 * and disk_merge_frozen fail. */
int disk_check(const struct disk *d, struct error *e);

/* Freezes the top delta and puts a fresh one on top. The frozen file must not change from now on.
 * It may serve as a lower delta of any disk. delta_fd: an empty read-write file, taken over also on
 * failure; -1: the disk goes on without a top, read-only.
 *
 * Does not wait for the host's disk. The frozen delta is complete at once, but survives a crash of
 * the host only after the next disk_flush or after its owner's own sync. ERROR_LIMIT when there are
 * DISK_FROZEN_MAX frozen deltas; more than disk_open accepts, so the lower ones can be merged
 * later. On failure the disk is as before. */
int disk_freeze(struct disk *d, int delta_fd, struct error *e);

/* Undoes the last disk_freeze, if nothing was written since, and closes the fresh delta. */
void disk_thaw(struct disk *d);

/* disk_unsynced_fd returns the file of a frozen delta that is not durable yet (borrowed), or -1.
 * disk_set_synced reports the result of the owner's fdatasync of it: 0 or -errno. */
int disk_unsynced_fd(const struct disk *d);
void disk_set_synced(struct disk *d, int fd, int result);
int disk_top_fd(const struct disk *d); /* borrowed; -1: read-only */
unsigned disk_frozen_count(const struct disk *d);

/* Writes one delta with the content of all deltas but the `below` lowest to out_fd and flushes it.
 * out_fd is an empty read-write file and stays the caller's. That delta alone, on the same base and
 * those lowest deltas, is the same disk. */
int disk_flatten(struct disk *d, unsigned below, int out_fd, struct error *e);

/* Makes a range of whole blocks as the base has it: no delta counts there any more. In this process
 * only: no file changes. For disk_flatten of a read-only disk. */
void disk_forget(struct disk *d, uint64_t offset, uint64_t n);

/* Merges only the frozen deltas, ready to take their place. Takes out_fd over, also on failure. The
 * frozen deltas do not change, so another thread may go on reading and writing the disk. */
struct disk_merged;
int disk_merge_frozen(const struct disk *d, int out_fd, struct disk_merged **ret, struct error *e);
void disk_merged_free(struct disk_merged *m); /* NULL is fine */

/* Replaces the frozen deltas by the merged one and frees m. More deltas may have been frozen
 * since. */
void disk_replace_frozen(struct disk *d, struct disk_merged *m);

#endif
