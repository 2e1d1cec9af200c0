/* Which snapshots for other sizes than the template's stay. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "image/template.h"
#include "sandbox/sizes.h"
#include "home_fixture.h"

enum { BYTES = 64 * 1024, OWN_CPUS = 2, OWN_MB = 512 };

static void make_template(const char *name)
{
	struct template_build b = TEMPLATE_BUILD_INIT;
	struct template t = {.kernel_release = (char *)"6.1.0",
		.agent_version = (char *)"0.1",
		.image_digest = (char *)"00",
		.created_s = 1700000000};
	struct error e = {0};

	assert_int_equal(config_init(&t.config), 0);
	t.config.cpus = OWN_CPUS;
	t.config.memory_mb = OWN_MB;
	assert_int_equal(template_begin(&home, name, &b, &e), 0);
	assert_int_equal(file_write_atomic(template_build_fd(&b), "rootfs.ext4", "x", 1, 0600), 0);
	assert_int_equal(template_commit(&b, &t, &e), 0);
	config_done(&t.config);
}

/* Used at that second. */
static void make_snapshot(const char *template, unsigned cpus, unsigned mb, time_t used_s)
{
	const struct timespec times[2] = {{.tv_sec = used_s}, {.tv_sec = used_s}};
	int template_fd = template_open(&home, template, NULL), fd, f;

	assert_true(template_fd >= 0);
	fd = template_snapshot_dir(template_fd, cpus, mb, true);
	assert_true(fd >= 0);
	f = openat(fd, "memory", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(posix_fallocate(f, 0, BYTES), 0);
	close(f);
	assert_int_equal(futimens(fd, times), 0);
	close(fd);
	close(template_fd);
}

static bool is_there(const char *template, unsigned cpus, unsigned mb)
{
	int template_fd = template_open(&home, template, NULL);
	int fd = template_snapshot_dir(template_fd, cpus, mb, false);

	close(template_fd);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void test_count(void **state)
{
	make_template("a");
	make_template("b");
	make_snapshot("a", OWN_CPUS, OWN_MB, 1); /* never goes */
	for (unsigned n = 1; n <= SIZES_MAX + 2; n++)
		make_snapshot(n % 2 ? "a" : "b", 1, 128 * n, 100 + n);
	sizes_evict(&home, UINT64_MAX);
	assert_true(is_there("a", OWN_CPUS, OWN_MB));
	for (unsigned n = 1; n <= SIZES_MAX + 2; n++)
		assert_int_equal(is_there(n % 2 ? "a" : "b", 1, 128 * n), n > 2);
}

static void test_bytes_and_use(void **state)
{
	int template_fd, fd;

	make_template("a");
	for (unsigned n = 1; n <= 4; n++)
		make_snapshot("a", n, 256, 100 + n);
	template_fd = template_open(&home, "a", NULL);
	fd = template_snapshot_dir(template_fd, 1, 256, false);
	sizes_used(fd); /* the oldest becomes the newest */
	sizes_evict(&home, 2 * BYTES);
	assert_true(is_there("a", 1, 256) && is_there("a", 4, 256));
	assert_false(is_there("a", 2, 256) || is_there("a", 3, 256));
	sizes_evict(&home, 1); /* the one used last stays */
	assert_true(is_there("a", 1, 256) && !is_there("a", 4, 256));
	close(fd);
	close(template_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_count, home_setup, home_teardown),
		cmocka_unit_test_setup_teardown(test_bytes_and_use, home_setup, home_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
