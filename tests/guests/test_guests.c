/* usage: test-guests DIRECTORY [PART-OF-A-NAME | -PART]...
 * Runs the tests of bare guests, whose programs are in DIRECTORY; those with one of the parts in
 * their name, if any are given. One line for each: "ok - name", "not ok - name", "skip - name:
 * reason"; what a failed test printed comes before it. Exit status 1 when one failed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "harness.h"
#include "vmm/kvm.h"

enum { TEST_LIMIT_S = 300, SKIPPED = 77 }; /* the longest takes 20 s of CPU time */

static const struct test simple_tests[] = {
	{"boot", run_guest, "basic", "boot 42"},
	{"acpi", run_guest, "basic", "acpi 1"},
	{"acpi-4-cpus", run_guest, "basic", "acpi 4", .cpus = 4},
	{"serial", run_guest, "basic", "serial"},
	{"serial-interrupt", run_guest, "basic", "serial-interrupt"},
	{"interrupt", run_guest, "basic", "interrupt"},
	{"masked-interrupt", run_guest, "basic", "masked-interrupt"},
	{"event-index", run_guest, "basic", "event-index"},
	{"apic-timer", run_guest, "basic", "apic-timer"},
	{"smp-2", run_guest, "basic", "smp 2", .cpus = 2},
	{"smp-4", run_guest, "basic", "smp 4", .cpus = 4},
	{"smp-interrupt", run_guest, "basic", "smp-interrupt", .cpus = 2},
	{"rng", run_guest, "block", "rng"},
	{"block-read-write", run_guest, "block", "read-write"},
	{"block-get-id", run_guest, "block", "get-id"},
	{"block-out-of-range", run_guest, "block", "out-of-range"},
	{"block-read-only", run_guest, "block", "read-only"},
	{"block-indirect", run_guest, "block", "indirect"},
	{"block-odd-framing", run_guest, "block", "odd-framing"},
	{"block-write-zeroes", run_guest, "block", "write-zeroes"},
	{"block-many", run_guest, "block", "many"},
	{"queue-index-wrap", run_guest, "block", "index-wrap"},
	{0},
};

/* --- the process of a test --- */

static unsigned open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	CHECK(d);
	while (readdir(d))
		n++;
	(void)closedir(d); /* only read */
	return n;
}

static _Noreturn void child(const struct test *t, bool accessible)
{
	unsigned before = open_fds(), after;

	guard_set_accessible(accessible);
	t->run(t);
	after = open_fds();
	if (after != before)
		fail("%u descriptors were open before the test, %u after it", before, after);
	if (!guard_is_intact())
		fail("memory around guest memory was written to");
	(void)fflush(stdout); /* only messages */
	exit(0);	      /* not _exit: the leak checker of a sanitized build runs here */
}

/* The test's messages go to a file, so that nothing waits for a reader. */
static pid_t start(const struct test *t, bool accessible, int output)
{
	pid_t pid;

	(void)fflush(stdout); /* else the child prints it again */
	pid = fork();
	if (pid != 0)
		return pid;
	if (dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0)
		_exit(1);
	child(t, accessible);
}

/* The environment may say more for a slow host. */
static unsigned limit_s(const struct test *t)
{
	const char *s = getenv("TEST_LIMIT_S");
	unsigned least = s ? (unsigned)strtoul(s, NULL, 10) : TEST_LIMIT_S;

	return t->limit_s > least ? t->limit_s : least;
}

static int await(pid_t pid, unsigned seconds)
{
	uint64_t deadline = clock_monotonic_ns() + seconds * NS_PER_S;
	int status;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (clock_monotonic_ns() > deadline) {
			(void)kill(pid, SIGKILL); /* our own child, not yet waited for */
			(void)waitpid(pid, &status, 0);
			return -1;
		}
		(void)poll(NULL, 0, 1); /* sleeps */
	}
	return status;
}

static void print_output(int fd, const char *before)
{
	char text[8192];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	char *line, *rest = text;

	text[n > 0 ? n : 0] = 0;
	while ((line = strsep(&rest, "\n")))
		if (*line)
			(void)printf("%s%s\n", before, line);
}

static char work_dir[] = "/tmp/mayfly-guests-XXXXXX";

static void make_work_dir(void)
{
	if (mkdir(work_dir, 0700) < 0 && errno != EEXIST)
		fail("cannot create %s", work_dir);
	work_dirfd = open(work_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(work_dirfd >= 0);
}

/* Returns the test's status: 0, 1 or 77. */
static int run_test(const struct test *t, bool accessible)
{
	int output, status;

	make_work_dir();
	output = openat(work_dirfd, "output", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	CHECK(output >= 0);
	status = await(start(t, accessible, output), limit_s(t));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && status != -1) {
		status = 0;
	} else if (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
		(void)printf("skip - %s: ", t->name);
		print_output(output, "");
		status = SKIPPED;
	} else {
		print_output(output, "# ");
		if (status == -1)
			(void)printf("# hung: no end within %u s\n", limit_s(t));
		else if (WIFSIGNALED(status))
			(void)printf("# the VMM's process died of signal %d\n", WTERMSIG(status));
		status = 1;
	}
	(void)close(output);
	(void)close(work_dirfd);
	(void)file_remove_tree(AT_FDCWD, work_dir); /* below /tmp: what is left does no harm */
	return status;
}

/* --- all of them --- */

/* A part of a name, or -PART for tests that are left out. */
static bool wanted(const struct test *t, int parts, char **part)
{
	bool by_default = true, named = false;

	for (int i = 0; i < parts; i++) {
		if (part[i][0] != '-') {
			by_default = false;
			named = named || strstr(t->name, part[i]);
		} else if (strstr(t->name, part[i] + 1)) {
			return false;
		}
	}
	return by_default || named;
}

static unsigned run_tests(const struct test *t, int parts, char **part)
{
	unsigned failed = 0;

	for (; t->name; t++) {
		uint64_t begin = clock_monotonic_ns();
		int status;

		if (!wanted(t, parts, part))
			continue;
		status = run_test(t, true);
		if (status == 0 && !t->once)
			status = run_test(t, false);
		if (status == 0)
			(void)printf("ok - %s (%u ms)\n", t->name,
				(unsigned)((clock_monotonic_ns() - begin) / NS_PER_MS));
		else if (status != SKIPPED)
			(void)printf("not ok - %s\n", t->name);
		failed += status != 0 && status != SKIPPED;
	}
	return failed;
}

int main(int argc, char **argv)
{
	struct error e = {0};
	unsigned failed = 0;
	int fd;

	if (argc < 2) {
		(void)fprintf(stderr, "usage: test-guests DIRECTORY [PART-OF-A-NAME | -PART]...\n");
		return 2;
	}
	guests_dirfd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (guests_dirfd < 0) {
		(void)fprintf(stderr, "test-guests: no directory %s\n", argv[1]);
		return 2;
	}
	fd = kvm_open(&e);
	if (fd < 0) {
		(void)printf("skip - bare guests: %s\n", e.message);
		return SKIPPED;
	}
	(void)close(fd);
	if (!mkdtemp(work_dir)) {
		(void)fprintf(stderr, "test-guests: cannot create %s\n", work_dir);
		return 2;
	}
	failed += run_tests(simple_tests, argc - 2, argv + 2);
	failed += run_tests(snapshot_tests, argc - 2, argv + 2);
	failed += run_tests(layer_tests, argc - 2, argv + 2);
	failed += run_tests(hostile_tests, argc - 2, argv + 2);
	(void)file_remove_tree(AT_FDCWD, work_dir); /* is there when no test ran */
	return failed ? 1 : 0;
}
