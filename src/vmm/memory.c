#include "vmm/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* Returns an unused address that is a multiple of 2 MiB. The host can map 2 MiB of a guest at once
 * only if guest and host addresses agree in their lower bits. Only a hint; NULL: none. */
static void *aligned_hint(uint64_t bytes)
{
	const uint64_t huge = UINT64_C(2) << 20;
	void *p = mmap(NULL, bytes + huge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	(void)munmap(p, bytes + huge); /* our own, and empty */
	return (void *)(((uintptr_t)p + huge - 1) & ~(uintptr_t)(huge - 1));
}

static int map_regions(struct guest_memory *m, int fd, uint64_t bytes, struct error *e)
{
	int flags = MAP_PRIVATE | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);
	uint64_t low = bytes < GUEST_MMIO_GAP_START ? bytes : GUEST_MMIO_GAP_START;
	void *p;

	*m = (struct guest_memory){0};
	if (bytes == 0 || bytes % 4096 || bytes > (uint64_t)GUEST_MEMORY_MAX_MB << 20)
		return error_set(e, ERROR_LIMIT, EINVAL,
			"guest memory of %llu bytes: must be whole pages, at most %d MB",
			(unsigned long long)bytes, GUEST_MEMORY_MAX_MB);
	p = mmap(aligned_hint(bytes), bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (p == MAP_FAILED)
		return error_set_errno(e, ERROR_NO_SPACE, errno,
			"cannot map %llu MB of guest memory%s", (unsigned long long)(bytes >> 20),
			errno == ENOMEM ? " (with vm.overcommit_memory=2 all of it counts: "
					  "`mayfly doctor`)"
					: "");
	m->map = p;
	m->bytes = bytes;
	m->regions[0] = (struct guest_region){.start = 0, .bytes = low, .host = p};
	m->region_count = 1;
	if (bytes > low) {
		m->regions[1] = (struct guest_region){
			.start = GUEST_MMIO_GAP_END, .bytes = bytes - low, .host = m->map + low};
		m->region_count = 2;
	}
	return 0;
}

/* #calls start: madvise(MADV_HUGEPAGE) */
int guest_memory_create(struct guest_memory *m, uint64_t bytes, struct error *e)
{
	int r = map_regions(m, -1, bytes, e);

	if (r == 0)
		(void)madvise(m->map, bytes, MADV_HUGEPAGE); /* only for speed */
	return r;
}

int guest_memory_map(struct guest_memory *m, int fd, uint64_t bytes, struct error *e)
{
	return map_regions(m, fd, bytes, e);
}

void guest_memory_done(struct guest_memory *m)
{
	if (m->map)
		(void)munmap(m->map, m->bytes); /* our own mapping: cannot fail */
	*m = (struct guest_memory){0};
}

void *guest_memory_ptr(const struct guest_memory *m, gpa_t addr, uint64_t n)
{
	for (unsigned i = 0; i < m->region_count; i++) {
		const struct guest_region *g = &m->regions[i];

		if (addr >= g->start && addr - g->start <= g->bytes &&
			n <= g->bytes - (addr - g->start))
			return g->host + (addr - g->start);
	}
	return NULL;
}

int guest_memory_write(const struct guest_memory *m, gpa_t addr, const void *data, size_t n)
{
	void *p = guest_memory_ptr(m, addr, n);

	if (!p)
		return -EFAULT;
	memcpy(p, data, n);
	return 0;
}
