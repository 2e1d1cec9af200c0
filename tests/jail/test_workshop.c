/* mayfly-workshop: what it lets in and out, its limits, and its end. What gets out of it is
 * tests/system/test_image's subject. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "jail/hand.h"
#include "jail/workshop.h"
#include "jail/workshop_root.h"
#include "jail/workshop_watch.h"

enum { OUTPUT_MAX = 8192, COMMAND_MAX = 16384, OTHER = 1234 };

static const char *prefix = "";
static char program[512], work[] = "/tmp/test-workshop-XXXXXX";

/* Runs mayfly-workshop with these words for a shell. Returns its exit status; its output, messages
 * too, goes to out. */
static int run(char out[OUTPUT_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));

static int run(char out[OUTPUT_MAX], const char *format, ...)
{
	char words[COMMAND_MAX - 700], command[COMMAND_MAX];
	va_list args;
	size_t n;
	FILE *f;
	int status;

	va_start(args, format);
	(void)vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	(void)snprintf(command, sizeof(command), "exec %s%s %s 2>&1", prefix, program, words);
	f = popen(command, "r");
	assert_non_null(f);
	n = fread(out, 1, OUTPUT_MAX - 1, f);
	out[n] = '\0';
	status = pclose(f);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void need_root(void)
{
	if (geteuid() != 0)
		skip();
}

/* --- words --- */

static void test_status(void **state)
{
	char out[OUTPUT_MAX];

	assert_int_equal(run(out, "nobody -- /bin/sh -c 'exit 7'"), 7);
	assert_int_equal(run(out, "nobody -- /bin/sh -c 'kill -9 $$'"), 128 + SIGKILL);
	assert_int_equal(run(out, "nobody -- /bin/echo here"), 0);
	assert_string_equal(out, "here\n");
	assert_int_equal(run(out, "nobody -- /usr/bin/no-such-program"), WORKSHOP_FAILED);
	assert_non_null(strstr(out, "no jail for /usr/bin/no-such-program"));
}

static void test_bad_words(void **state)
{
	static const char *const bad[] = {"", "somebody -- /bin/true", "nobody", "nobody --",
		"nobody -- true", "nobody read=relative -- /bin/true",
		"nobody home=relative -- /bin/true", "nobody what=/x -- /bin/true"};
	char out[OUTPUT_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(run(out, "%s", bad[i]), WORKSHOP_FAILED);
		assert_non_null(strstr(out, "mayfly runs this program itself"));
	}
}

static void test_number_of_paths(void **state)
{
	char out[OUTPUT_MAX], paths[WORKSHOP_PATHS_MAX * 12 + 16] = "";

	for (unsigned i = 0; i < WORKSHOP_PATHS_MAX; i++)
		(void)strcat(paths, "read=/none "); /* NOLINT: there is room */
	assert_int_equal(run(out, "nobody %s -- /bin/true", paths), 0);
	assert_int_equal(run(out, "nobody %s read=/none -- /bin/true", paths), WORKSHOP_FAILED);
}

/* --- files --- */

static void write_file(const char *name, mode_t mode, off_t bytes)
{
	char path[128];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", work, name); /* fits */
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "text\n", 5), 5);
	if (bytes)
		assert_int_equal(ftruncate(fd, bytes), 0);
	(void)close(fd); /* written */
}

static void make_nest(const char *name, unsigned levels)
{
	char path[128 + 2 * 256];
	size_t n = (size_t)snprintf(path, sizeof(path), "%s/%s", work, name);

	for (unsigned i = 0; i < levels; i++)
		n += (size_t)snprintf(path + n, sizeof(path) - n, "/d");
	assert_int_equal(file_mkdir_p(path, 0755), 0);
}

static void test_copies(void **state)
{
	char out[OUTPUT_MAX];

	write_file("private", 0600, 0);
	assert_int_equal(run(out, "nobody copy=%s/private -- /bin/cat %s/private", work, work), 0);
	assert_string_equal(out, "text\n");
	assert_int_equal(run(out, "nobody copy=%s/none -- /bin/true", work), 0);
	write_file("large", 0600, WORKSHOP_COPY_BYTES_MAX + 1);
	assert_int_equal(run(out, "nobody copy=%s/large -- /bin/true", work), WORKSHOP_FAILED);
	assert_non_null(strstr(out, "/large cannot be put into its root"));
	make_nest("copied", WORKSHOP_COPY_DEPTH_MAX);
	assert_int_equal(run(out, "nobody copy=%s/copied -- /bin/true", work), 0);
	make_nest("copied", WORKSHOP_COPY_DEPTH_MAX + 1);
	assert_int_equal(run(out, "nobody copy=%s/copied -- /bin/true", work), WORKSHOP_FAILED);
}

static void test_number_of_copies(void **state)
{
	char out[OUTPUT_MAX], name[32];

	make_nest("many", 0);
	for (unsigned i = 0; i < WORKSHOP_COPY_ENTRIES_MAX; i++) {
		(void)snprintf(name, sizeof(name), "many/%u", i); /* fits */
		write_file(name, 0600, 0);
	}
	assert_int_equal(run(out, "nobody copy=%s/many -- /bin/true", work), WORKSHOP_FAILED);
	assert_non_null(strstr(out, "/many cannot be put into its root"));
}

static void test_what_it_writes_is_given_back(void **state)
{
	char out[OUTPUT_MAX], path[128];
	struct stat st;

	need_root();
	make_nest("given", 1);
	assert_int_equal(run(out,
				 "nobody write=%s/given -- /bin/sh -c 'cd %s/given && touch d/f && "
				 "chmod 4755 d/f && stat -c %%u d'",
				 work, work),
		0);
	assert_string_equal(out, "1000\n");
	(void)snprintf(path, sizeof(path), "%s/given/d/f", work); /* fits */
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_uid, 0);
	assert_int_equal(st.st_mode & 07777, 0755);
}

static void test_what_it_writes_has_a_limit(void **state)
{
	char out[OUTPUT_MAX];

	make_nest("much", 0);
	assert_int_equal(run(out,
				 "nobody write=%s/much bytes=1048576 -- /bin/sh -c 'cd %s/much; "
				 "head -c 2000000 /dev/zero >f; exec sleep 60'",
				 work, work),
		WORKSHOP_FAILED);
	assert_non_null(strstr(out, "more than a build may (1 MB)"));
	assert_int_equal(run(out,
				 "nobody write=%s/much bytes=9000000 -- /bin/sh -c 'cd %s/much; "
				 "head -c 2000000 /dev/zero >g; sleep 2; rm f g'",
				 work, work),
		0);
	assert_int_equal(
		run(out,
			"nobody write=%s/much -- /bin/sh -c 'cd %s/much; i=0; while test $i "
			"-lt 130; do mkdir d; cd d; i=$((i+1)); done; exec sleep 60'",
			work, work),
		WORKSHOP_FAILED);
	assert_non_null(strstr(out, "deeper directories"));
	(void)snprintf(out, sizeof(out), "rm -r %s/much", work); /* fits; ours cannot */
	assert_int_equal(system(out), 0);
	assert_int_not_equal(run(out, "nobody -- /usr/bin/truncate -s 1T /tmp/f"), 0);
	assert_int_equal(run(out, "nobody -- /usr/bin/truncate -s 1G /tmp/f"), 0);
}

/* Between two measurements that take long, the disk's free space tells. */
static void test_it_is_measured_in_time(void **state)
{
	const struct workshop_measure last = {
		.left_bytes = 1000, .free_bytes = 50000, .pause_ms = 60000};

	assert_false(workshop_watch_is_due(&last, 500, 50000));
	assert_false(workshop_watch_is_due(&last, 500, 49000));
	assert_true(workshop_watch_is_due(&last, 500, 48999));
	assert_true(workshop_watch_is_due(&last, 500, 0));
	assert_false(workshop_watch_is_due(&last, 59500, UINT64_MAX - 1000));
	assert_true(workshop_watch_is_due(&last, 60000, 50000));
}

static void test_hand_over(void **state)
{
	char path[128], link[128];
	struct stat st;

	need_root();
	write_file("outside", 0600, 0);
	make_nest("handed", HAND_DEPTH_MAX);
	(void)snprintf(path, sizeof(path), "%s/outside", work);	    /* fits */
	(void)snprintf(link, sizeof(link), "%s/handed/link", work); /* fits */
	assert_int_equal(symlink(path, link), 0);
	(void)snprintf(link, sizeof(link), "%s/handed", work); /* fits */
	assert_int_equal(hand_over(link, OTHER, OTHER), 0);
	assert_int_equal(stat(link, &st), 0);
	assert_int_equal(st.st_uid, OTHER);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_uid, 0);
	make_nest("handed", HAND_DEPTH_MAX + 1);
	assert_int_equal(hand_over(link, 0, 0), -E2BIG);
}

static void make_link(const char *target, const char *name)
{
	char to[128], path[128];

	(void)snprintf(to, sizeof(to), "%s%s%s", *target == '/' ? work : "", target, ""); /* fits */
	(void)snprintf(path, sizeof(path), "%s/%s", work, name);			  /* fits */
	assert_int_equal(symlink(to, path), 0);
}

/* Directories that are links, and links in them, lead to the host's files: to read, at most. */
static void test_copies_stay_inside(void **state)
{
	char out[OUTPUT_MAX], path[128];
	struct stat before, after;

	make_nest("far", 0);
	make_nest("near", 0);
	write_file("far/ca", 0644, 0);
	make_link("/far", "linked");
	make_link("/far", "near/in");
	make_link("../../../../..", "near/up");
	(void)snprintf(path, sizeof(path), "%s/far/ca", work); /* fits */
	assert_int_equal(stat(path, &before), 0);
	assert_int_equal(
		run(out, "nobody read=%s/linked copy=%s/linked/ca -- /bin/cat %s/linked/ca", work,
			work, work),
		0);
	assert_string_equal(out, "text\n");
	assert_int_equal(run(out,
				 "nobody read=%s/near copy=%s/near/in/ca copy=%s/near/up%s/far/ca "
				 "-- /bin/true",
				 work, work, work, work),
		0);
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(after.st_uid, before.st_uid);
	assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
	assert_int_equal(after.st_ctim.tv_nsec, before.st_ctim.tv_nsec);
}

/* Root of the host that cannot take other ids: nothing of the host's switches is writable. */
static void test_root_without_rights(void **state)
{
	static const char words[] =
		"nobody -- /bin/sh -c 'for f in sys/kernel/core_pattern sysrq-trigger; do "
		"(: >>/proc/$f) 2>/dev/null && echo open; done; "
		"echo x >/dev/null && chmod 666 /dev/null 2>/dev/null || echo device; id -u'";
	char out[OUTPUT_MAX];
	int r;

	need_root();
	prefix = "setpriv --bounding-set -sys_admin,-setuid --inh-caps -all ";
	r = run(out, "%s", words);
	prefix = "";
	if (r == WORKSHOP_FAILED && strstr(out, "this host refuses"))
		skip();
	assert_string_equal(out, "device\n0\n");
	assert_int_equal(r, 0);
}

/* --- its end --- */

/* The pipe ends when the last process that has it does. */
static void test_ends_with_its_parent(void **state)
{
	int ends[2];
	char text[8];
	pid_t pid;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		(void)dup2(ends[1], STDOUT_FILENO);
		(void)execl(program, program, "nobody", "--", "/bin/sh", "-c",
			"sleep 1000 & echo ready; sleep 1000", NULL);
		_exit(127);
	}
	(void)close(ends[1]); /* the children have it */
	assert_int_equal(read(ends[0], text, sizeof(text)), 6);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(read(ends[0], text, sizeof(text)), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	(void)close(ends[0]); /* read */
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_status),
		cmocka_unit_test(test_bad_words), cmocka_unit_test(test_number_of_paths),
		cmocka_unit_test(test_copies), cmocka_unit_test(test_number_of_copies),
		cmocka_unit_test(test_copies_stay_inside),
		cmocka_unit_test(test_root_without_rights),
		cmocka_unit_test(test_what_it_writes_is_given_back),
		cmocka_unit_test(test_what_it_writes_has_a_limit),
		cmocka_unit_test(test_it_is_measured_in_time), cmocka_unit_test(test_hand_over),
		cmocka_unit_test(test_ends_with_its_parent)};
	int r;

	if (argc != 2 || !mkdtemp(work))
		return 2;
	(void)snprintf(program, sizeof(program), "%s/mayfly-workshop", argv[1]);
	r = cmocka_run_group_tests(tests, NULL, NULL);
	(void)file_remove_tree(AT_FDCWD, work);
	return r;
}
