/* What `mayfly doctor` reads of other hosts' sysfs and procfs. */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "cli/doctor/doctor_host.h"

static char root[] = "/tmp/doctor-host-XXXXXX";
static struct doctor d;

static int set_up(void **state)
{
	(void)state; /* none */
	memset(&d, 0, sizeof(d));
	(void)snprintf(root, sizeof(root), "/tmp/doctor-host-XXXXXX"); /* fits */
	return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state; /* none */
	return file_remove_tree(AT_FDCWD, root);
}

static void put(const char *path, const char *text)
{
	_cleanup_free_ char *full = str_printf("%s%s", root, path), *dir = strdup(full);
	_cleanup_fclose_ FILE *f = NULL;

	*strrchr(dir, '/') = '\0';
	assert_int_equal(file_mkdir_p(dir, 0700), 0);
	f = fopen(full, "we");
	assert_non_null(f);
	assert_true(fprintf(f, "%s\n", text) > 0);
}

static void put_flaw(const char *name, const char *text)
{
	_cleanup_free_ char *path = str_printf("/sys/devices/system/cpu/vulnerabilities/%s", name);

	put(path, text);
}

static void expect_one(enum doctor_status status, const char *text, const char *remedy)
{
	assert_int_equal(d.count, 1);
	assert_int_equal(d.checks[0].status, status);
	assert_non_null(strstr(d.checks[0].text, text));
	assert_non_null(strstr(d.checks[0].remedy, remedy));
	d.count = 0;
}

static void test_flaws(void **state)
{
	(void)state; /* none */
	put_flaw("mds", "Mitigation: Clear CPU buffers; SMT vulnerable");
	put_flaw("l1tf", "Not affected");
	put("/sys/devices/system/cpu/smt/active", "0");
	doctor_check_isolation(&d, root, false);
	expect_one(DOCTOR_OK, "no known flaw", "");
	put_flaw("retbleed", "Vulnerable");
	put_flaw("gather_data_sampling", "Vulnerable: No microcode");
	doctor_check_isolation(&d, root, true);
	expect_one(DOCTOR_WARN, "gather_data_sampling, retbleed", "microcode");
}

static void test_smt(void **state)
{
	(void)state; /* none */
	put("/sys/devices/system/cpu/smt/active", "1");
	doctor_check_isolation(&d, root, true);
	expect_one(DOCTOR_OK, "cores to itself", "");
	doctor_check_isolation(&d, root, false);
	expect_one(DOCTOR_WARN, "share cores", "nosmt");
}

static void test_clock(void **state)
{
	static const char file[] =
		"/sys/devices/system/clocksource/clocksource0/current_clocksource";

	(void)state; /* none */
	doctor_check_clock(&d, root);
	assert_int_equal(d.count, 0);
	put(file, "tsc");
	doctor_check_clock(&d, root);
	expect_one(DOCTOR_OK, "tsc", "");
	put(file, "kvm-clock");
	doctor_check_clock(&d, root);
	expect_one(DOCTOR_WARN, "kvm-clock", "clocksource=tsc");
}

static void test_overcommit(void **state)
{
	(void)state; /* none */
	put("/proc/sys/vm/overcommit_memory", "0");
	doctor_check_overcommit(&d, root);
	assert_int_equal(d.count, 0);
	put("/proc/sys/vm/overcommit_memory", "2");
	doctor_check_overcommit(&d, root);
	expect_one(DOCTOR_WARN, "whole memory", "overcommit_memory=0");
}

static void test_vm_start(void **state)
{
	static const char file[] = "/sys/module/kvm/parameters/nx_huge_pages";

	(void)state; /* none */
	put(file, "N");
	put_flaw("itlb_multihit", "Not affected");
	doctor_check_vm_start(&d, root, "5.10.0-30-amd64");
	assert_int_equal(d.count, 0);
	doctor_check_vm_start(&d, root, "6.12.1");
	expect_one(DOCTOR_OK, "thread", "nx_huge_pages=never");
	doctor_check_vm_start(&d, root, "6.1.0-28-amd64"); /* knows no "never" */
	expect_one(DOCTOR_OK, "thread", "favordynmods");
	put_flaw("itlb_multihit", "KVM: Mitigation: Split huge pages");
	doctor_check_vm_start(&d, root, "6.12.1");
	expect_one(DOCTOR_OK, "thread", "favordynmods");
	put("/proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw,favordynmods 0 0");
	doctor_check_vm_start(&d, root, "6.12.1");
	assert_int_equal(d.count, 0);
	put("/proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0");
	put(file, "never");
	doctor_check_vm_start(&d, root, "6.12.1");
	assert_int_equal(d.count, 0);
}

static void test_split_locks(void **state)
{
	(void)state; /* none */
	put("/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 quiet");
	doctor_check_split_locks(&d, root);
	assert_int_equal(d.count, 0);
	put("/proc/cmdline", "BOOT_IMAGE=/vmlinuz split_lock_detect=fatal");
	doctor_check_split_locks(&d, root);
	expect_one(DOCTOR_WARN, "split lock", "split_lock_detect=warn");
}

static void test_more_lines_than_room(void **state)
{
	(void)state; /* none */
	for (unsigned i = 0; i < 2 * DOCTOR_CHECKS_MAX; i++)
		doctor_add(&d, "line", DOCTOR_OK, "%u", i);
	assert_true(d.count < DOCTOR_CHECKS_MAX);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_flaws),
		TEST(test_smt),
		TEST(test_clock),
		TEST(test_overcommit),
		TEST(test_vm_start),
		TEST(test_split_locks),
		TEST(test_more_lines_than_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
