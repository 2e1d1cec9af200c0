/* Programs of ours: where they are, and that a kept one stays in the page cache. */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "io/program.h"

enum { PAGES = 16, PAGE = 4096 };

/* On the disk of the build: a tmpfs has no other place for a page. */
static int make_program(char dir[64], char path[80])
{
	static const char page[PAGE] = "#";
	int fd;

	(void)snprintf(dir, 64, "program-XXXXXX");
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, 80, "%s/it", dir);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	assert_true(fd >= 0);
	for (unsigned i = 0; i < PAGES; i++)
		assert_int_equal(write(fd, page, PAGE), PAGE);
	assert_int_equal(fsync(fd), 0);
	assert_int_equal(setenv("MAYFLY_LIBEXEC", dir, 1), 0);
	return fd;
}

static void remove_program(const char *dir, const char *path, int fd)
{
	(void)close(fd);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

/* Drops what may be dropped, and counts what the page cache has. */
static unsigned count_pages_left(int fd)
{
	unsigned char resident[PAGES] = {0};
	unsigned n = 0;
	void *map;

	assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
	map = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	assert_int_equal(mincore(map, (size_t)PAGES * PAGE, resident), 0);
	(void)munmap(map, (size_t)PAGES * PAGE);
	for (unsigned i = 0; i < PAGES; i++)
		n += resident[i] & 1;
	return n;
}

static void test_kept_pages_stay(void **state)
{
	char dir[64], path[80];
	int fd = make_program(dir, path);

	if (count_pages_left(fd) == PAGES) {
		remove_program(dir, path, fd);
		skip(); /* this file system does not drop pages */
	}
	program_keep("it");
	assert_int_equal(count_pages_left(fd), PAGES);
	remove_program(dir, path, fd);
}

static void test_a_program_that_is_missing(void **state)
{
	char path[256];
	struct error e = {0};

	assert_int_equal(setenv("MAYFLY_LIBEXEC", "/nonexistent", 1), 0);
	assert_true(program_path("no-such-program", path, sizeof(path), &e) < 0);
	assert_int_equal(e.code, ERROR_HOST);
	assert_non_null(strstr(e.message, "reinstall Mayfly or set MAYFLY_LIBEXEC"));
	program_keep("no-such-program"); /* no harm */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kept_pages_stay),
		cmocka_unit_test(test_a_program_that_is_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
