/* A copy-on-write disk: a read-only base image and a sparse delta with a block map.
 *
 * Works on any host file system: the delta is an ordinary sparse file. Layout of the delta file
 * (docs/disk-format.md): a header page, then the map (one bit or entry per block of
 * DISK_BLOCK_BYTES), then data. Opening treats the file as hostile input. */
#ifndef VMM_DISK_H
#define VMM_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { DISK_BLOCK_BYTES = 4096, DISK_SECTOR_BYTES = 512 };

struct disk;

/* base_fd: the read-only image (taken over). delta_fd: read-write file, empty for a fresh delta, or
 * an existing one; -1 for a read-only disk (taken over). bytes: capacity the guest sees, at least
 * that of the base and of an existing delta, a multiple of 512; bytes past the base read as
 * zero. */
int disk_open(int base_fd, int delta_fd, uint64_t bytes, struct disk **ret, struct error *e);
void disk_close(struct disk *d); /* NULL is fine; does not flush */

uint64_t disk_bytes(const struct disk *d);
bool disk_is_read_only(const struct disk *d);
uint64_t disk_delta_bytes(const struct disk *d); /* bytes of data blocks in the delta */

/* Whole sectors within the capacity, checked: 0, -EINVAL, -EROFS, -ENOSPC, -EIO. */
int disk_read(struct disk *d, uint64_t offset, void *out, uint32_t n);
int disk_write(struct disk *d, uint64_t offset, const void *data, uint32_t n);
int disk_write_zeroes(struct disk *d, uint64_t offset, uint64_t n);
/* What was written before survives a crash of the host. */
int disk_flush(struct disk *d);

/* Enlarges the capacity; shrinking is -EINVAL. */
int disk_grow(struct disk *d, uint64_t bytes);

#endif
