/* Starting a process with given descriptors, here and in a control group. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "sandbox/launch_spawn.h"

static char group[128]; /* of this test; "": there is no cgroup v2 that it can write to */
static int group_fd = -1, pipe_fds[2], other_fd;

static int make_group(void **state)
{
	static const char *const roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	struct statfs s;

	(void)state; /* none */
	for (size_t i = 0; i < ARRAY_SIZE(roots) && group_fd < 0; i++) {
		if (statfs(roots[i], &s) < 0 || s.f_type != CGROUP2_SUPER_MAGIC)
			continue;
		(void)snprintf(group, sizeof(group), "%s/test-launch-spawn-%d", roots[i],
			(int)getpid()); /* fits */
		if (mkdir(group, 0755) == 0)
			group_fd = open(group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	return 0;
}

static int remove_group(void **state)
{
	(void)state; /* none */
	cleanup_close_p(&group_fd);
	return *group ? rmdir(group) : 0;
}

static int set_up(void **state)
{
	(void)state; /* none */
	other_fd = open("/", O_RDONLY | O_DIRECTORY);
	return other_fd < 0 || pipe(pipe_fds);
}

static int tear_down(void **state)
{
	(void)state; /* none */
	return close(pipe_fds[0]) | close(other_fd);
}

/* Runs a shell command whose output is what it wrote to the pipe. Returns its wait status. */
static int run(const char *script, int cgroup_fd, char out[4096])
{
	char sh[] = "sh", c[] = "-c", only[] = "ONLY=this";
	_cleanup_free_ char *copy = strdup(script);
	char *argv[] = {sh, c, copy, NULL}, *env[] = {only, NULL};
	struct launch_spawn s = {.path = "/bin/sh",
		.argv = argv,
		.env = env,
		.fds = &pipe_fds[1],
		.fd_count = 1,
		.cgroup_fd = cgroup_fd,
		.log_fd = pipe_fds[1]};
	pid_t pid = -1;
	ssize_t n, len = 0;
	int status;

	assert_int_equal(launch_spawn(&s, &pid), 0);
	assert_int_equal(close(pipe_fds[1]), 0);
	while ((n = read(pipe_fds[0], out + len, 4095 - (size_t)len)) > 0)
		len += n;
	out[len] = '\0';
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static int groups(unsigned i)
{
	return i ? group_fd : 0;
}

static unsigned ways(void)
{
	return group_fd < 0 ? 1 : 2;
}

static void again(void)
{
	assert_int_equal(close(pipe_fds[0]), 0);
	assert_int_equal(pipe(pipe_fds), 0);
}

/* It has the descriptors that it was given, no signals blocked or ignored, and a group of its own.
 * Our own signal mask is as before. */
static void test_what_it_has(void **state)
{
	static const char script[] = "exec >&2; echo $ONLY; i=0; while [ $i -lt 40 ]; do "
				     "[ ! -e /proc/$$/fd/$i ] || printf \"$i \"; "
				     "i=$((i+1)); done; echo; "
				     "[ $(cut -d' ' -f5 /proc/$$/stat) = $$ ] && echo own; "
				     "exec grep -E 'Sig(Blk|Ign)' /proc/self/status";
	char out[4096], expected[128], *ignored;
	sigset_t mask, one;

	(void)state; /* none */
	sigemptyset(&one);
	sigaddset(&one, SIGUSR2);
	assert_int_equal(sigprocmask(SIG_BLOCK, &one, NULL), 0);
	(void)signal(SIGUSR1, SIG_IGN);
	for (unsigned i = 0; i < ways(); i++, again()) {
		(void)snprintf(expected, sizeof(expected), "this\n0 1 2 %d \n", pipe_fds[1]);
		assert_int_equal(run(script, groups(i), out), 0);
		assert_true(str_starts_with(out, expected));
		assert_non_null(strstr(out, "SigBlk:\t0000000000000000\n"));
		ignored = strstr(out, "SigIgn:");
		assert_non_null(ignored); /* libc keeps 32 and 33 to itself */
		assert_int_equal(strtoull(ignored + 7, NULL, 16) & 0x7fffffff, 0);
		assert_non_null(strstr(out, "own\n"));
		assert_int_equal(sigprocmask(SIG_BLOCK, NULL, &mask), 0);
		assert_int_equal(sigismember(&mask, SIGUSR2), 1);
		assert_int_equal(sigismember(&mask, SIGTERM), 0);
	}
	(void)signal(SIGUSR1, SIG_DFL);
	assert_int_equal(sigprocmask(SIG_UNBLOCK, &one, NULL), 0);
}

static void test_group(void **state)
{
	char out[4096], *line;

	(void)state; /* none */
	if (group_fd < 0)
		skip();
	assert_int_equal(run("grep ^0:: /proc/self/cgroup >&2", group_fd, out), 0);
	line = strrchr(out, '/');
	assert_non_null(line);
	line[strcspn(line, "\n")] = '\0';
	assert_string_equal(line, strrchr(group, '/'));
}

/* The errors of a program that cannot be executed, and of a group that is none, come back. */
static void test_failures(void **state)
{
	char none[] = "none", *argv[] = {none, NULL}, *env[] = {NULL};
	struct launch_spawn s = {.path = "/none", .argv = argv, .env = env, .log_fd = pipe_fds[1]};
	pid_t pid = -1;

	(void)state; /* none */
	for (unsigned i = 0; i < ways(); i++) {
		s.cgroup_fd = groups(i);
		s.path = "/none";
		assert_int_equal(launch_spawn(&s, &pid), -ENOENT);
		s.path = "/";
		assert_int_equal(launch_spawn(&s, &pid), -EACCES);
	}
	s.cgroup_fd = other_fd;
	assert_int_equal(launch_spawn(&s, &pid), -EBADF);
	assert_int_equal(pid, -1);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
	assert_int_equal(close(pipe_fds[1]), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_it_has, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_group, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_failures, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, make_group, remove_group);
}
