/* Control groups: where they are, and what is written into them. The directories are fake ones; the
 * real ones are for tests/system/test_cgroup. */
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
#include "base/str.h"
#include "sandbox/cgroup.h"
#include "sandbox/cgroup_build.h"
#include "sandbox/cgroup_find.h"
#include "sandbox/cgroup_tree.h"

#define ID	 "i0123456789abcdefghi"
#define MOUNT_V2 "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define MIB	 (UINT64_C(1) << 20)

static char root[] = "/tmp/cgroup-XXXXXX";
static struct error e;

static int set_up(void **state)
{
	(void)state; /* none */
	memset(&e, 0, sizeof(e));
	(void)snprintf(root, sizeof(root), "/tmp/cgroup-XXXXXX"); /* fits */
	return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state; /* none */
	return file_remove_tree(AT_FDCWD, root);
}

/* --- where --- */

static void expect_found(const char *mounts, const char *own, const char *expected)
{
	_cleanup_free_ char *path = NULL;

	assert_int_equal(cgroup_find(mounts, own, &path, &e), 0);
	assert_string_equal(path, expected);
}

static void expect_none(const char *mounts, const char *own, const char *text)
{
	char *path = NULL;

	memset(&e, 0, sizeof(e));
	assert_true(cgroup_find(mounts, own, &path, &e) < 0);
	assert_null(path);
	assert_int_equal(e.code, ERROR_HOST);
	assert_non_null(strstr(e.message, text));
	assert_non_null(strstr(e.message, ": ")); /* what to do */
}

static void test_find(void **state)
{
	(void)state; /* none */
	expect_found("24 1 8:1 / / rw - ext4 /dev/sda1 rw\n" MOUNT_V2,
		"0::/system.slice/mayfly.service\n", "/sys/fs/cgroup/system.slice/mayfly.service");
	expect_found(MOUNT_V2, "0::/\n", "/sys/fs/cgroup");
	/* in a container that shares the host's cgroup namespace */
	expect_found("30 23 0:26 /docker/ab /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
		"0::/docker/ab/inner\n", "/sys/fs/cgroup/inner");
	expect_found("30 23 0:26 /docker/ab /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
		"0::/docker/ab\n", "/sys/fs/cgroup");
	/* a path with a space, and a mount that does not show us before the one that does */
	expect_found("29 23 0:26 /other /mnt rw - cgroup2 cgroup2 rw\n"
		     "30 23 0:26 / /a\\040b rw - cgroup2 cgroup2 rw\n",
		"0::/x\n", "/a b/x");
}

static void test_find_nothing(void **state)
{
	(void)state; /* none */
	expect_none("24 1 8:1 / / rw - ext4 /dev/sda1 rw\n", "0::/\n", "no cgroup v2 is mounted");
	expect_none(MOUNT_V2, "", "no cgroup v2 is mounted");
	expect_none("", "", "no cgroup v2 is mounted");
	/* hybrid: version 2 is mounted beside version 1, which has the controllers */
	expect_none(MOUNT_V2, "4:memory:/\n1:name=systemd:/init.scope\n0::/init.scope\n",
		"cgroup version 1 has this host's controllers");
	expect_none(MOUNT_V2, "9:cpu,cpuacct:/\n", "cgroup version 1");
	expect_none(
		"30 23 0:26 /other /mnt rw - cgroup2 cgroup2 rw\n", "0::/x\n", "no mount shows");
	expect_none("30 23 0:26 /x /mnt rw - cgroup2 cgroup2 rw\n", "0::/xy\n", "no mount shows");
	expect_none(MOUNT_V2, "0::/../other\n", "no cgroup v2");
	/* only a named hierarchy of version 1: version 2 has the controllers */
	expect_found(MOUNT_V2, "1:name=systemd:/\n0::/x\n", "/sys/fs/cgroup/x");
}

/* A damaged or cut text ends in an error or a path, never beyond its end. */
static void test_find_cut(void **state)
{
	static const char mounts[] = "30 23 0:26 /a /sys/fs/cg\\040roup rw - cgroup2 cgroup2 rw\n";
	static const char own[] = "4:memory:/\n0::/a/b\n";

	(void)state; /* none */
	for (size_t m = 0; m < sizeof(mounts); m++)
		for (size_t o = 0; o < sizeof(own); o++) {
			_cleanup_free_ char *cut_mounts = strndup(mounts, m);
			_cleanup_free_ char *cut_own = strndup(own + sizeof(own) - 1 - o, o);
			_cleanup_free_ char *path = NULL;

			memset(&e, 0, sizeof(e));
			if (cgroup_find(cut_mounts, cut_own, &path, &e) < 0)
				assert_int_equal(e.code, ERROR_HOST);
			else
				assert_string_equal(path, "/sys/fs/cg roup/b");
		}
}

/* --- a fake tree --- */

static void put(const char *path, const char *text)
{
	_cleanup_free_ char *full = str_printf("%s/%s", root, path), *dir = strdup(full);
	_cleanup_fclose_ FILE *f = NULL;

	*strrchr(dir, '/') = '\0';
	assert_int_equal(file_mkdir_p(dir, 0700), 0);
	f = fopen(full, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
}

static void expect(const char *path, const char *text)
{
	_cleanup_free_ char *full = str_printf("%s/%s", root, path), *found = NULL;

	assert_int_equal(file_read(AT_FDCWD, full, 4096, &found, NULL), 0);
	assert_string_equal(found, text);
}

static void make_tree(const char *controllers)
{
	put("cgroup.controllers", controllers);
	put("cgroup.procs", "");
	put("cgroup.subtree_control", "");
	put("sandboxes/cgroup.subtree_control", "");
}

static void expect_refused(const char *text)
{
	struct cgroup_tree t = CGROUP_TREE_INIT;

	memset(&e, 0, sizeof(e));
	assert_true(cgroup_tree_open_at(root, true, &t, &e) < 0);
	assert_int_equal(t.fd, -1);
	assert_int_equal(e.code, ERROR_HOST);
	assert_non_null(strstr(e.message, text));
	assert_non_null(strstr(e.message, ": "));
}

static void test_tree(void **state)
{
	struct cgroup_tree t = CGROUP_TREE_INIT;

	(void)state; /* none */
	make_tree("cpuset cpu io memory pids\n");
	assert_int_equal(cgroup_tree_open_at(root, true, &t, &e), 0);
	assert_true(t.io);
	assert_true(str_ends_with(t.path, "/sandboxes"));
	/* a fake file keeps what was written last over what was there: "+io" over "+pids" */
	expect("sandboxes/cgroup.subtree_control", "+iodsry");
	cgroup_tree_close(&t);
	assert_int_equal(t.fd, -1);
}

static void test_tree_refused(void **state)
{
	(void)state; /* none */
	expect_refused("no directory of cgroup v2");
	make_tree("cpuset memory pids\n"); /* "cpuset" is not "cpu" */
	expect_refused("no controller cpu");
	make_tree("cpu io memory\n");
	expect_refused("no controller pids");
	make_tree("");
	expect_refused("no controller cpu");
}

static void test_processes_move(void **state)
{
	struct cgroup_tree t = CGROUP_TREE_INIT;

	(void)state; /* none */
	make_tree("cpu memory pids");
	put("cgroup.procs", "41\n4711\n");
	put("daemon/cgroup.procs", "");
	put("daemon/cpu.weight", "100\n");
	assert_int_equal(cgroup_tree_open_at(root, true, &t, &e), 0);
	assert_false(t.io);
	expect("daemon/cgroup.procs", "4711"); /* a fake file keeps what was written last */
	expect("daemon/cpu.weight", "1000");
	cgroup_tree_close(&t);
	/* one that is not asked to move others leaves them */
	put("daemon/cgroup.procs", "");
	assert_int_equal(cgroup_tree_open_at(root, false, &t, &e), 0);
	expect("daemon/cgroup.procs", "");
	cgroup_tree_close(&t);
}

/* A directory of a fake tree has no cgroup.procs, so no process can enter it. */
static void builds_in(const char *directory, const struct cgroup_tree *t)
{
	_cleanup_free_ char *path = str_printf("%s/%s", root, directory);
	_cleanup_free_ char *weight = str_printf("%s/cpu.weight", directory);
	_cleanup_close_ int fd = -1;

	assert_int_equal(cgroup_build_remove(t, "one"), -ENOENT);
	cgroup_build_sweep(t); /* there has been no build */
	put(weight, "");
	assert_int_equal(cgroup_build_enter(t, "one", 4711), -ENOENT);
	expect(weight, "20");
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(faccessat(fd, "one", F_OK, 0), -1);
	assert_int_equal(cgroup_build_remove(t, "one"), -ENOENT);
	assert_int_equal(mkdirat(fd, "one", 0700), 0);
	assert_int_equal(mkdirat(fd, "two", 0700), 0);
	assert_int_equal(cgroup_build_remove(t, "two"), 0);
	cgroup_build_sweep(t);
	assert_int_equal(faccessat(fd, "one", F_OK, 0), -1);
	assert_int_equal(faccessat(fd, "cpu.weight", F_OK, 0), 0);
}

static void test_builds(void **state)
{
	struct cgroup_tree t = CGROUP_TREE_INIT, of_root = CGROUP_TREE_INIT;

	(void)state; /* none */
	make_tree("cpu memory pids");
	assert_int_equal(cgroup_tree_open_at(root, true, &t, &e), 0);
	builds_in("builds", &t);
	cgroup_tree_close(&t);
	of_root.path = str_printf("%s/mayfly", root);
	builds_in("mayfly-builds", &of_root);
	cgroup_tree_close(&of_root);
	assert_int_equal(cgroup_build_enter(NULL, "one", 4711), 0);
	assert_int_equal(cgroup_build_remove(NULL, "one"), -ENOENT);
	cgroup_build_sweep(NULL);
}

/* --- a sandbox's group --- */

static const char *const files[] = {"memory.max", "memory.swap.max", "memory.oom.group", "cpu.max",
	"cpu.weight", "pids.max", "io.max"};

static int open_group(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		put(files[i], "");
	return open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void test_limits(void **state)
{
	struct cgroup_limits l = {.cpus = 2, .memory_bytes = 512 * MIB};
	_cleanup_close_ int fd = open_group();

	(void)state; /* none */
	assert_int_equal(cgroup_set_limits(fd, &l, &e), 0);
	expect("memory.max", "746586112"); /* 512 MiB + 8 + 64 + 128 */
	expect("memory.swap.max", "0");
	expect("memory.oom.group", "0");
	expect("cpu.max", "210000 100000");
	expect("cpu.weight", "200");
	expect("pids.max", "35");
	expect("io.max", "");
}

static void test_idle(void **state)
{
	_cleanup_close_ int fd = open_group();

	(void)state;						 /* none */
	assert_int_equal(cgroup_set_idle(fd, true, 2), -ENOENT); /* before Linux 5.15 */
	assert_int_equal(cgroup_set_idle(fd, false, 2), 0);
	expect("cpu.weight", "200");
	put("cpu.idle", "0");
	put("cpu.weight", "");
	assert_int_equal(cgroup_set_idle(fd, true, 2), 0);
	expect("cpu.idle", "1");
	expect("cpu.weight", ""); /* the kernel refuses one */
	assert_int_equal(cgroup_set_idle(fd, false, 2), 0);
	expect("cpu.idle", "0");
	expect("cpu.weight", "200");
	assert_int_equal(unlinkat(fd, "cpu.idle", 0), 0);
}

static void test_other_limits(void **state)
{
	struct cgroup_limits l = {.cpus = 1000, .io = {8, 16, 1000000, 0}};
	_cleanup_close_ int fd = open_group();

	(void)state; /* none */
	assert_int_equal(cgroup_set_limits(fd, &l, &e), 0);
	expect("memory.max", "max"); /* on a tmpfs */
	expect("cpu.weight", "10000");
	expect("io.max", "8:16 rbps=1000000 wbps=1000000");
	l.io.ops_per_s = 50;
	assert_int_equal(cgroup_set_limits(fd, &l, &e), 0);
	expect("io.max", "8:16 rbps=1000000 wbps=1000000 riops=50 wiops=50");
}

static void test_limit_fails(void **state)
{
	struct cgroup_limits l = {.cpus = 1, .memory_bytes = 128 * MIB, .io = {8, 0, 0, 5}};

	(void)state; /* none */
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_close_ int fd = open_group();

		assert_int_equal(unlinkat(fd, files[i], 0), 0);
		memset(&e, 0, sizeof(e));
		if (strcmp(files[i], "memory.swap.max") == 0) /* a kernel without swap */
			assert_int_equal(cgroup_set_limits(fd, &l, &e), 0);
		else
			assert_int_equal(cgroup_set_limits(fd, &l, &e), -ENOENT);
	}
}

static void test_usage(void **state)
{
	_cleanup_close_ int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct cgroup_usage u;

	(void)state; /* none */
	cgroup_read_usage(fd, &u);
	assert_int_equal(u.memory_bytes, 0);
	put("memory.current", "123456\n");
	put("memory.events", "low 0\nmax 7\noom 2\noom_kill 1\noom_group_kill 1\n");
	put("cpu.stat", "usage_usec 9\nnr_periods 5\nnr_throttled 3\nthrottled_usec 1234\n");
	cgroup_read_usage(fd, &u);
	assert_int_equal(u.memory_bytes, 123456);
	assert_int_equal(u.oom_kills, 1);
	assert_int_equal(u.throttled, 3);
	assert_int_equal(u.throttled_us, 1234);
}

/* A link that leads elsewhere is never followed: neither to a directory that is no group, nor to
 * another's. */
static void test_link(void **state)
{
	_cleanup_close_ int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_free_ char *to = str_printf("%s/%s", root, ID);
	static const char *const bad[] = {"/sys/fs/cgroup/another", ID, "/" ID, "/proc/self/../" ID,
		"/sys/fs/cgroup/" ID "/", ""};

	(void)state; /* none */
	assert_int_equal(cgroup_open(fd, ID), -ENOENT);
	assert_int_equal(cgroup_remove(fd, ID), -ENOENT);
	put(ID "/kept", "");
	assert_int_equal(symlinkat(to, fd, "cgroup"), 0);
	assert_int_equal(cgroup_open(fd, ID), -EBADMSG);
	assert_int_equal(cgroup_remove(fd, ID), -EBADMSG);
	expect(ID "/kept", "");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(unlinkat(fd, "cgroup", 0), 0);
		if (*bad[i])
			assert_int_equal(symlinkat(bad[i], fd, "cgroup"), 0);
		else
			put("cgroup", "no link");
		assert_true(cgroup_remove(fd, ID) < 0);
		assert_true(cgroup_open(fd, ID) < 0);
		assert_false(cgroup_explain_end(fd, ID, &e));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_find, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_find_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_find_cut, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_tree, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_tree_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_builds, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_processes_move, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_limits, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_idle, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_other_limits, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_limit_fails, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_usage, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_link, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
