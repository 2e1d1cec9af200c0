/* Sandboxes of a template whose image has deltas: which files they stand on, and in which order. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "home_fixture.h"
#include "image/template.h"
#include "image/verify.h"
#include "sandbox/sandbox_plan.h"
#include "sandbox/stack.h"

enum { TEXT_BYTES = 256 };

static void put(int fd, const char *name)
{
	assert_int_equal(file_write_atomic(fd, name, name, strlen(name), 0600), 0);
}

/* An image of a base and two deltas, and its template with a snapshot. */
static void make_template(void)
{
	struct image m = {.name = (char *)"t", .kind = IMAGE_EXT4, .deltas = 2};
	struct template_build b = TEMPLATE_BUILD_INIT;
	struct template t = {.kernel_release = (char *)"6.1.0",
		.agent_version = (char *)"0.1",
		.image_digest = (char *)"00",
		.deltas = 2,
		.created_s = 1700000000};
	_cleanup_close_ int image = -1, snapshot = -1;

	(void)mkdirat(home.area_fd[HOME_IMAGES], "t", 0700); /* may exist; openat tells */
	image = openat(home.area_fd[HOME_IMAGES], "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put(image, "rootfs.ext4");
	put(image, "delta0");
	put(image, "delta1");
	assert_int_equal(config_init(&t.config), 0);
	t.config.cpus = 1;
	t.config.memory_mb = 128;
	assert_int_equal(template_begin(&home, "t", &b, NULL), 0);
	assert_int_equal(template_add_image(&home, &b, &m, NULL), 0);
	assert_int_equal(
		template_record_image(template_build_fd(&b), IMAGE_EXT4, m.deltas, NULL), 0);
	snapshot = template_snapshot_dir(template_build_fd(&b), 1, 128, true);
	put(snapshot, "memory");
	put(snapshot, "disk0");
	assert_int_equal(verify_record(snapshot, "memory", NULL), 0);
	assert_int_equal(verify_record(snapshot, "disk0", NULL), 0);
	assert_int_equal(template_commit(&b, &t, NULL), 0);
	config_done(&t.config);
}

static int plan(struct sandbox_plan *p, struct error *e)
{
	const struct sandbox_options o = {.template = "t"};

	return sandbox_plan_make(&home, &o, p, e);
}

static const char *last_part(const char *path)
{
	return strrchr(path, '/') + 1;
}

static int add_name(void *arg, enum stack_role role, unsigned disk, const char *name)
{
	char *all = arg;
	size_t n = strlen(all);

	(void)snprintf(
		all + n, TEXT_BYTES - n, "%s%u:%s ", role == STACK_DELTA ? "+" : "", disk, name);
	return 0;
}

static void test_deltas(void **state)
{
	static const char *const layers[] = {"delta0", "delta1", "disk0"};
	_cleanup_close_ int sandbox = -1, stack = -1;
	struct sandbox_plan p;
	struct error e = {0};
	char names[TEXT_BYTES] = "";

	make_template();
	if (plan(&p, &e) < 0)
		fail_msg("%s", e.message);
	assert_int_equal(p.t.deltas, 2);
	assert_int_equal(p.launch.disk_count, 1);
	assert_string_equal(last_part(p.launch.disks[0].base), "rootfs.ext4");
	assert_int_equal(p.launch.disks[0].layer_count, ARRAY_SIZE(layers));
	for (size_t i = 0; i < ARRAY_SIZE(layers); i++)
		assert_string_equal(last_part(p.launch.disks[0].layers[i]), layers[i]);
	assert_int_equal(mkdirat(home.fd, "sandbox", 0700), 0);
	sandbox = openat(home.fd, "sandbox", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(sandbox_plan_link(&p, sandbox, &e), 0);
	sandbox_plan_done(&p);
	stack = stack_open(sandbox, STACK_DIR, false, &e);
	assert_int_equal(stack_each(stack, true, add_name, names), 0);
	assert_string_equal(names, "0:memory 0:rootfs.ext4 +0:delta0 +0:delta1 +0:disk0 ");
	for (size_t i = 0; i < ARRAY_SIZE(layers); i++)
		assert_int_equal(verify_check(stack, layers[i], "it", "do", NULL, &e), 0);
}

/* What was planned stays, all of it, when another template takes the name, or none has it. */
static void test_a_template_that_is_replaced(void **state)
{
	_cleanup_close_ int sandbox = -1, stack = -1;
	struct sandbox_plan p;
	struct error e = {0};
	char names[TEXT_BYTES] = "";

	make_template();
	assert_int_equal(plan(&p, &e), 0);
	make_template();
	assert_int_equal(template_remove(&home, "t", &e), 0);
	assert_int_equal(mkdirat(home.fd, "sandbox", 0700), 0);
	sandbox = openat(home.fd, "sandbox", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (sandbox_plan_link(&p, sandbox, &e) < 0)
		fail_msg("%s", e.message);
	sandbox_plan_done(&p);
	stack = stack_open(sandbox, STACK_DIR, false, &e);
	assert_int_equal(stack_each(stack, true, add_name, names), 0);
	assert_string_equal(names, "0:memory 0:rootfs.ext4 +0:delta0 +0:delta1 +0:disk0 ");
}

/* Its image is a part of it, so it is its own. */
static void test_bytes(void **state)
{
	struct template_bytes bytes;
	struct template t;

	make_template();
	assert_int_equal(template_load(&home, "t", &t, NULL), 0);
	assert_int_equal(t.rootfs_disk_bytes, 3 * 4096);
	template_done(&t);
	bytes = template_bytes(&home, "t");
	assert_true(bytes.unique >= 5 * 4096);
	assert_int_equal(bytes.shared, 0);
}

static void test_damage(void **state)
{
	struct sandbox_plan p;
	struct error e = {0};
	int fd, template_fd;

	make_template();
	template_fd = template_open(&home, "t", NULL);
	fd = openat(template_fd, "delta1", O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "x", 1, 0), 1);
	(void)close(fd);
	assert_true(plan(&p, &e) < 0);
	assert_int_equal(e.code, ERROR_BAD_SNAPSHOT);
	assert_non_null(strstr(e.message, "delta1 is damaged"));
	error_clear(&e);
	assert_int_equal(unlinkat(template_fd, "delta0", 0), 0);
	assert_true(plan(&p, &e) < 0);
	assert_non_null(strstr(e.message, "delta0 is missing"));
	(void)close(template_fd); /* a directory */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_deltas, home_setup, home_teardown),
		cmocka_unit_test_setup_teardown(
			test_a_template_that_is_replaced, home_setup, home_teardown),
		cmocka_unit_test_setup_teardown(test_bytes, home_setup, home_teardown),
		cmocka_unit_test_setup_teardown(test_damage, home_setup, home_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
