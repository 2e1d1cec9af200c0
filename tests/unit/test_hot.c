/* Hot pages: what was written comes back as the memory's own, and a bad hint does nothing. */
#include "test.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "vmm/hot.h"

enum { PAGE = 4096, PAGES = 64 };

struct fixture {
	char dir[64];
	int dirfd, memory_fd;
	struct guest_memory m;
};

static void map(struct fixture *f)
{
	assert_int_equal(guest_memory_map(&f->m, f->memory_fd, PAGES * PAGE, NULL), 0);
}

static void load(const struct fixture *f)
{
	int fd = openat(f->dirfd, "hot", O_RDONLY | O_CLOEXEC);

	hot_load(&f->m, fd);
	if (fd >= 0)
		close(fd);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->dir, "/tmp/test_hot-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	f->dirfd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f->memory_fd = openat(f->dirfd, "memory", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(f->memory_fd, PAGES * PAGE), 0);
	map(f);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	guest_memory_done(&f->m);
	close(f->memory_fd);
	close(f->dirfd);
	file_remove_tree(AT_FDCWD, f->dir);
	free(f);
	return 0;
}

/* Whether the page is the mapping's own copy. */
static bool is_own(const struct fixture *f, unsigned page)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0, at = (uintptr_t)f->m.map / PAGE + page;

	assert_int_equal(pread(fd, &entry, sizeof(entry), (off_t)(at * sizeof(entry))), 8);
	close(fd);
	return entry >> 63 && !(entry >> 61 & 1);
}

static unsigned count_own(const struct fixture *f)
{
	unsigned n = 0;

	for (unsigned i = 0; i < PAGES; i++)
		n += is_own(f, i);
	return n;
}

static void write_pages(struct fixture *f)
{
	static const unsigned pages[] = {0, 3, 4, 5, 40, PAGES - 1};

	for (size_t i = 0; i < ARRAY_SIZE(pages); i++)
		f->m.map[pages[i] * PAGE + 7] = 1;
	(void)*(volatile uint8_t *)(f->m.map + 20 * PAGE); /* only read */
	assert_int_equal(hot_save(&f->m, f->dirfd, NULL), 0);
	guest_memory_done(&f->m);
	map(f);
}

static void written_pages_come_back(void **state)
{
	struct fixture *f = *state;

	write_pages(f);
	assert_int_equal(count_own(f), 0);
	load(f);
	assert_int_equal(count_own(f), 6);
	assert_true(is_own(f, 0) && is_own(f, 4) && is_own(f, PAGES - 1) && !is_own(f, 20));
	assert_int_equal(f->m.map[4 * PAGE + 7], 0); /* a copy of the snapshot's */
}

static void nothing_written_nothing_hot(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(hot_save(&f->m, f->dirfd, NULL), 0);
	load(f);
	assert_int_equal(count_own(f), 0);
}

static void missing_file_is_fine(void **state)
{
	struct fixture *f = *state;

	load(f);
	assert_int_equal(count_own(f), 0);
}

static void every_damage_is_ignored(void **state)
{
	struct fixture *f = *state;
	char *file;
	size_t n;

	write_pages(f);
	assert_int_equal(file_read(f->dirfd, "hot", 1 << 16, &file, &n), 0);
	for (size_t i = 0; i < n; i++) {
		file[i] ^= 0x40;
		assert_int_equal(file_write_atomic(f->dirfd, "hot", file, n, 0600), 0);
		load(f);
		assert_int_equal(count_own(f), 0);
		file[i] ^= 0x40;
		assert_int_equal(file_write_atomic(f->dirfd, "hot", file, i, 0600), 0);
		load(f);
		assert_int_equal(count_own(f), 0);
	}
	free(file);
}

/* A file of another snapshot: intact, but of a larger memory. */
static void pages_beyond_the_end_are_ignored(void **state)
{
	struct fixture *f = *state;

	write_pages(f);
	guest_memory_done(&f->m);
	assert_int_equal(guest_memory_map(&f->m, f->memory_fd, 8 * PAGE, NULL), 0);
	load(f);
	assert_true(is_own(f, 0) && is_own(f, 5) && !is_own(f, 7));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(written_pages_come_back, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_written_nothing_hot, setup, teardown),
		cmocka_unit_test_setup_teardown(missing_file_is_fine, setup, teardown),
		cmocka_unit_test_setup_teardown(every_damage_is_ignored, setup, teardown),
		cmocka_unit_test_setup_teardown(pages_beyond_the_end_are_ignored, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
