/* Takes the place of mmap and munmap for guest memory, so that it lies between two guard areas:
 * either not accessible, so that an access of the VMM's there is a crash, or filled with a pattern,
 * which also finds what the kernel wrote on the VMM's behalf. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "harness.h"

enum { GUARD_BYTES = 64 << 10, GUARDS_MAX = 2048, PATTERN = 0xa7 };

void *__real_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t n);
void *__wrap_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t n);

static struct {
	uint8_t *at; /* of the guest memory; NULL: free */
	size_t bytes;
} guarded[GUARDS_MAX];
static bool accessible = true, intact = true;

void guard_set_accessible(bool a)
{
	accessible = a;
}

bool guard_is_intact(void)
{
	return intact;
}

/* No other mapping of the VMM's has these flags. What is fixed goes into guest memory that is
 * there. */
static bool is_guest_memory(int flags)
{
	return (flags & (MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED)) == (MAP_PRIVATE | MAP_NORESERVE);
}

static void remember(uint8_t *at, size_t n)
{
	for (unsigned i = 0; i < GUARDS_MAX; i++)
		if (!guarded[i].at) {
			guarded[i].at = at;
			guarded[i].bytes = n;
			return;
		}
	fail("too many mappings of guest memory");
}

void *__wrap_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
	uint8_t *area;
	void *p;

	if (!is_guest_memory(flags))
		return __real_mmap64(at, n, prot, flags, fd, offset);
	area = __real_mmap64(NULL, n + 2 * GUARD_BYTES,
		accessible ? PROT_READ | PROT_WRITE : PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		return area;
	if (accessible) {
		memset(area, PATTERN, GUARD_BYTES);
		memset(area + GUARD_BYTES + n, PATTERN, GUARD_BYTES);
	}
	p = __real_mmap64(area + GUARD_BYTES, n, prot, flags | MAP_FIXED, fd, offset);
	if (p == MAP_FAILED)
		return p;
	remember(p, n);
	return p;
}

static bool is_pattern(const uint8_t *p, size_t n)
{
	return p[0] == PATTERN && memcmp(p, p + 1, n - 1) == 0;
}

int __wrap_munmap(void *at, size_t n)
{
	uint8_t *p = at;

	for (unsigned i = 0; i < GUARDS_MAX; i++) {
		if (!at || guarded[i].at != at || guarded[i].bytes != n)
			continue;
		if (accessible && (!is_pattern(p - GUARD_BYTES, GUARD_BYTES) ||
					  !is_pattern(p + n, GUARD_BYTES)))
			intact = false;
		guarded[i].at = NULL;
		return __real_munmap(p - GUARD_BYTES, n + 2 * GUARD_BYTES);
	}
	return __real_munmap(at, n);
}
