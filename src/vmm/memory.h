/* Guest physical memory: one mapping with up to two RAM regions, below and above the MMIO gap.
 *
 * A guest address is a number that is never dereferenced. Only the functions here turn it into a
 * host pointer, and they check that the whole range lies in one region. vCPUs run, so memory behind
 * such a pointer may change at any moment: copy it once, check the copy, use the copy. */
#ifndef VMM_MEMORY_H
#define VMM_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef uint64_t gpa_t; /* guest physical address; a scalar on purpose */

enum {
	GUEST_MEMORY_REGIONS = 2,
	GUEST_MEMORY_MIN_MB = 1, /* for bare test guests; the command line asks for 128 or more */
	GUEST_MEMORY_MAX_MB = 4096,
};

/* RAM ends at the gap's start and continues at 4 GiB. MMIO lies in between. */
#define GUEST_MMIO_GAP_START UINT64_C(0xc0000000)
#define GUEST_MMIO_GAP_END   UINT64_C(0x100000000)

struct guest_region {
	gpa_t start;
	uint64_t bytes;
	uint8_t *host;
};

struct guest_memory {
	struct guest_region regions[GUEST_MEMORY_REGIONS];
	unsigned region_count;
	uint8_t *map; /* owned; holds all regions in order */
	uint64_t bytes;
};

/* Creates anonymous memory, zeroed on first touch, in huge pages if the host has them. bytes is a
 * multiple of 4096. */
int guest_memory_create(struct guest_memory *m, uint64_t bytes, struct error *e);

/* Maps a memory file of exactly `bytes` bytes copy-on-write: pages come from the page cache until
 * they are written. The descriptor may be closed afterwards. */
int guest_memory_map(struct guest_memory *m, int fd, uint64_t bytes, struct error *e);

void guest_memory_done(struct guest_memory *m);

/* Returns the host address of n bytes at addr, or NULL unless all of them lie in one region. n may
 * be 0. */
void *guest_memory_ptr(const struct guest_memory *m, gpa_t addr, uint64_t n);

/* Copies n bytes. Returns 0, or -EFAULT if nothing was copied. */
int guest_memory_write(const struct guest_memory *m, gpa_t addr, const void *data, size_t n);

#endif
