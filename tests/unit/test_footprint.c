/* What a kept state takes of the disk: all of its files but those of templates. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "image/home.h"
#include "sandbox/footprint.h"
#include "test.h"

enum { BYTES = 64 * 1024 };

static void make_file(int fd, const char *path)
{
	int f = openat(fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(f >= 0);
	assert_int_equal(posix_fallocate(f, 0, BYTES), 0);
	close(f);
}

static void link_file(int fd, const char *from, const char *to)
{
	assert_int_equal(linkat(fd, from, fd, to, 0), 0);
}

static void test_footprint(void **state)
{
	char path[] = "/tmp/mayfly-footprint-XXXXXX";
	struct home h = HOME_INIT;
	struct error e = {0};

	assert_non_null(mkdtemp(path));
	assert_int_equal(home_open(path, &h, &e), 0);
	assert_int_equal(mkdirat(h.fd, "templates/base", 0700), 0);
	assert_int_equal(mkdirat(h.fd, "templates/base/snapshots", 0700), 0);
	assert_int_equal(mkdirat(h.fd, "templates/base/snapshots/1c-128m", 0700), 0);
	assert_int_equal(mkdirat(h.fd, "paused/i1", 0700), 0);
	assert_int_equal(mkdirat(h.fd, "snapshots/s1", 0700), 0);
	make_file(h.fd, "templates/base/rootfs.ext4");
	make_file(h.fd, "templates/base/snapshots/1c-128m/memory");
	link_file(h.fd, "templates/base/rootfs.ext4", "paused/i1/rootfs.ext4");
	link_file(h.fd, "templates/base/snapshots/1c-128m/memory", "paused/i1/memory");
	assert_int_equal(footprint_of(&h, HOME_PAUSED, "i1"), 0);
	make_file(h.fd, "paused/i1/memory.1");
	link_file(h.fd, "paused/i1/memory.1", "snapshots/s1/memory.1");
	assert_int_equal(footprint_of(&h, HOME_PAUSED, "i1"), BYTES);
	assert_int_equal(footprint_of(&h, HOME_SNAPSHOTS, "s1"), BYTES); /* both have it */
	assert_int_equal(footprint_of(&h, HOME_SNAPSHOTS, "none"), 0);
	/* once the template is gone, its files stay for this one */
	assert_int_equal(file_remove_tree(h.fd, "templates/base"), 0);
	assert_int_equal(footprint_of(&h, HOME_PAUSED, "i1"), 3 * BYTES);
	assert_int_equal(file_remove_tree(AT_FDCWD, path), 0);
	home_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_footprint)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
