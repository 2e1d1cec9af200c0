/* src/agent/hosts: the line of the guest's name in /etc/hosts. */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/hosts.h"
#include "base/cleanup.h"

/* A file with this text, which nobody else sees. */
static int file_with(const char *text, size_t n)
{
	char path[] = "/tmp/test-agent-hosts.XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(write(fd, text, n), (ssize_t)n);
	return fd;
}

static void test_lines(void **state)
{
	static const struct {
		const char *before, *from, *to, *after;
	} rows[] = {
		{"", "old", "new", "127.0.1.1 new\n"},
		{"127.0.0.1 localhost\n127.0.1.1 old\n::1 localhost\n", "old", "new",
			"127.0.0.1 localhost\n127.0.1.1 new\n::1 localhost\n"},
		{"127.0.1.1 old\n::1 localhost\n", "old", "a-longer-one",
			"127.0.1.1 a-longer-one\n::1 localhost\n"},
		{"127.0.1.1\t a-longer-one \r\n::1 localhost\n", "a-longer-one", "new",
			"127.0.1.1 new\n::1 localhost\n"},
		{"127.0.1.1 old\n", "old", "old", "127.0.1.1 old\n"},
		{"127.0.1.1 old\n", "older", "new", "127.0.1.1 old\n127.0.1.1 new\n"},
		{"127.0.1.1 older\n", "old", "new", "127.0.1.1 older\n127.0.1.1 new\n"},
		{"127.0.1.10 old\n", "old", "new", "127.0.1.10 old\n127.0.1.1 new\n"},
		{"127.0.1.1 old mine\n", "old", "new", "127.0.1.1 old mine\n127.0.1.1 new\n"},
		{"127.0.0.1 localhost", "old", "new", "127.0.0.1 localhost\n127.0.1.1 new\n"},
		{"::1 localhost\n127.0.1.1 old", "old", "new", "::1 localhost\n127.0.1.1 new\n"},
	};

	(void)state; /* none */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_close_ int fd = file_with(rows[i].before, strlen(rows[i].before));
		char got[256] = "";

		assert_int_equal(hosts_rename(fd, rows[i].from, rows[i].to), 0);
		assert_true(pread(fd, got, sizeof(got) - 1, 0) >= 0);
		assert_string_equal(got, rows[i].after);
	}
}

static void test_what_is_left_alone(void **state)
{
	static const char binary[] = "127.0.1.1 old\n\0x\n";
	static char large[HOSTS_MAX + 1];
	_cleanup_close_ int one = file_with(binary, sizeof(binary) - 1), two = -1, three = -1;
	char name[128], got[sizeof(large) + 100];

	(void)state; /* none */
	assert_int_equal(hosts_rename(one, "old", "new"), -EINVAL);
	assert_int_equal(pread(one, got, sizeof(got), 0), sizeof(binary) - 1);
	assert_memory_equal(got, binary, sizeof(binary) - 1);
	memset(large, '\n', sizeof(large));
	two = file_with(large, sizeof(large));
	assert_int_equal(hosts_rename(two, "old", "new"), -EFBIG);
	assert_int_equal(ftruncate(two, HOSTS_MAX), 0);
	assert_int_equal(hosts_rename(two, "old", "new"), 0);
	assert_int_equal(pread(two, got, sizeof(got), 0), HOSTS_MAX + strlen("127.0.1.1 new\n"));
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	three = file_with("", 0);
	assert_int_equal(hosts_rename(three, "old", name), -EINVAL);
	assert_int_equal(pread(three, got, sizeof(got), 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_what_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
