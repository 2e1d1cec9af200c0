/* A copy-on-write disk: a read-only base image under a stack of sparse deltas.
 *
 * A read finds each block in the topmost delta that has it, else in the base. Writes go to the top
 * delta, whole blocks at a time; what lies below is never touched, so any number of sandboxes share
 * it. Works on any host file system: a delta is an ordinary sparse file. Its layout
 * (docs/disk-format.md) is a header page, a map of one bit per block, then the blocks, each at the
 * place its number gives. Opening treats the file as hostile input; it reads the header and nothing
 * else, the map is paged in as it is used.
 *
 * A fresh delta is an empty file and costs no I/O until something is written or flushed. What is
 * written becomes part of the delta at the next disk_flush: data first, then the map, so a crash of
 * the host loses what was not flushed and nothing else. After a flush the file is a valid delta,
 * even if it holds nothing.
 *
 * Files below the top must not change while the disk is open; truncating one ends the process with
 * SIGBUS. Not thread-safe: the block device's lock covers its disk. Calls block on host I/O. */
#ifndef VMM_DISK_H
#define VMM_DISK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/error.h"

enum {
	DISK_BLOCK_BYTES = 4096,
	DISK_SECTOR_BYTES = 512,
	DISK_LOWER_MAX = 16,   /* frozen deltas between base and top of a disk that is opened */
	DISK_FROZEN_MAX = 32,  /* of one that is in use */
	DISK_IOVECS_MAX = 130, /* pieces of one disk_readv or disk_writev */
};

#define DISK_MAX_BYTES (UINT64_C(64) << 30)

struct disk;

struct disk_stats {
	uint64_t reads, read_bytes;
	uint64_t writes, written_bytes;
	uint64_t flushes;
	uint64_t errors;   /* failed for any reason that is not the guest's */
	uint64_t no_space; /* of these, the host's disk was full */
};

/* base_fd: the read-only image. lower_fds: frozen deltas, the lowest first. delta_fd: read-write
 * file, empty for a fresh delta, or an existing one; -1 for a read-only disk. bytes: capacity the
 * guest sees, at least that of the base and of every delta, a multiple of 512; bytes past the base
 * read as zero. All descriptors are taken over, also on failure. ERROR_BAD_SNAPSHOT when a delta is
 * damaged or truncated, ERROR_INCOMPATIBLE when another version wrote it. */
int disk_open(int base_fd, const int *lower_fds, unsigned lower_count, int delta_fd, uint64_t bytes,
	struct disk **ret, struct error *e);
void disk_close(struct disk *d); /* NULL is fine; does not flush */

uint64_t disk_bytes(const struct disk *d);
bool disk_is_read_only(const struct disk *d);
uint64_t disk_delta_bytes(
	const struct disk *d); /* bytes of blocks in the top delta; scans its map */
struct disk_stats disk_stats(const struct disk *d);

/* Whole sectors within the capacity, checked: 0, -EINVAL, -EROFS, -ENOSPC, -EIO. The memory may
 * change during the call. */
int disk_read(struct disk *d, uint64_t offset, void *out, uint32_t n);
int disk_write(struct disk *d, uint64_t offset, const void *data, uint32_t n);
int disk_readv(struct disk *d, uint64_t offset, const struct iovec *iov, unsigned count);
int disk_writev(struct disk *d, uint64_t offset, const struct iovec *iov, unsigned count);
int disk_write_zeroes(struct disk *d, uint64_t offset, uint64_t n);

/* The content no longer matters: blocks of the top delta turn into holes that read as zeroes,
 * everything else stays as it is. */
int disk_discard(struct disk *d, uint64_t offset, uint64_t n);

/* The range lies within the disk, in whole sectors, and is not empty. */
bool disk_range_is_valid(const struct disk *d, uint64_t offset, uint64_t n);

/* What was written before survives a crash of the host, and the top delta may be copied. */
int disk_flush(struct disk *d);

/* Fails for good once the host failed to write a delta. The kernel reports such a failure once, then
 * takes the pages for clean: what they held is lost as soon as it needs the memory, though a further
 * fdatasync succeeds. From then on disk_flush is -EIO and disk_freeze, disk_flatten and
 * disk_merge_frozen fail. */
int disk_check(const struct disk *d, struct error *e);

/* Enlarges the capacity; shrinking is -EINVAL, more than DISK_MAX_BYTES -EFBIG. */
int disk_grow(struct disk *d, uint64_t bytes);

/* Freezes the top delta (its file must not change from now on, and may serve as a lower one
 * anywhere) and puts a fresh one on top of it: delta_fd, an empty read-write file, taken over also
 * on failure. With -1 the disk goes on without a top, read-only. Does not wait for the host's disk:
 * the frozen delta is complete, and survives a crash of the host from the next disk_flush on, which
 * makes it durable, or from when its owner synced its file. ERROR_LIMIT when there are
 * DISK_FROZEN_MAX frozen ones already, which is more than can be opened, so that the lower ones can
 * be merged afterwards. On failure the disk is as before. */
int disk_freeze(struct disk *d, int delta_fd, struct error *e);

/* Undoes the last disk_freeze, as long as nothing was written since; closes the fresh delta. */
void disk_thaw(struct disk *d);

/* A frozen delta's file that is not durable yet (borrowed), or -1; and what its owner's fdatasync
 * of it gave: 0 or -errno. */
int disk_unsynced_fd(const struct disk *d);
void disk_set_synced(struct disk *d, int fd, int result);
int disk_top_fd(const struct disk *d); /* borrowed; -1: read-only */
unsigned disk_frozen_count(const struct disk *d);

/* Writes one delta with the content of all deltas into out_fd, an empty read-write file (not taken
 * over), and flushes it. On top of the same base it is the same disk. */
int disk_flatten(struct disk *d, int out_fd, struct error *e);

/* The same of the frozen ones only, ready to take their place: out_fd is taken over, also on
 * failure. They do not change: reads and writes of the disk may go on in another thread meanwhile.
 */
struct disk_merged;
int disk_merge_frozen(const struct disk *d, int out_fd, struct disk_merged **ret, struct error *e);
void disk_merged_free(struct disk_merged *m); /* NULL is fine */

/* Puts it there; frees it. Further deltas may have been frozen since. */
void disk_replace_frozen(struct disk *d, struct disk_merged *m);

#endif
