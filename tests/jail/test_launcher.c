/* Launchers that are killed, stopped or out of order. Whatever happens to one, a start succeeds or
 * fails with a clear error, and no child, zombie or descriptor stays behind. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "jail/launcher.h"

enum {
	THREADS = 8,
	STARTS = 25,
	WITNESS_STATUS = 7,
	FAULTY_STATUS = 7,
	PAUSE_US = 4000,
	PATH_BYTES = 600,
	KILLS = 100
};

static char launcher_path[512], witness_path[512], faulty_path[512];

/* --- what stays behind --- */

static unsigned count_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		(void)closedir(d); /* only read */
	return n;
}

static bool nothing_left(unsigned descriptors)
{
	return waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD &&
	       count_descriptors() == descriptors;
}

/* --- starts --- */

static struct launcher *make(const char *path, bool on)
{
	struct error e = {0};
	struct launcher *l = NULL;

	if (launcher_make(path, on, &l, &e) < 0)
		fail_msg("%s", e.message);
	return l;
}

static int start_one(struct launcher *l, pid_t *ret, struct error *e)
{
	char *argv[] = {(char *)"witness", (char *)"exit", NULL}, *env[] = {NULL};
	_cleanup_close_ int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int fds[] = {null_fd};

	return launcher_start(l,
		&(struct launcher_start){.path = witness_path,
			.argv = argv,
			.env = env,
			.fds = fds,
			.fd_count = 1,
			.log_fd = null_fd,
			.cgroup_fd = -1},
		ret, e);
}

static int end_of(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct crowd {
	struct launcher *launcher;
	atomic_uint started, refused, wrong, busy;
};

static void start_in_crowd(struct crowd *c)
{
	struct error e = {0};
	pid_t pid = 0;

	if (start_one(c->launcher, &pid, &e) < 0) {
		c->refused++;
		c->wrong += e.code != ERROR_HOST || !strstr(e.message, "mayfly-launcher");
	} else {
		c->started++;
		c->wrong += pid <= 0 || end_of(pid) != WITNESS_STATUS;
	}
}

static void *start_many(void *arg)
{
	struct crowd *c = arg;

	for (unsigned i = 0; i < STARTS; i++)
		start_in_crowd(c);
	c->busy--;
	return NULL;
}

/* --- signals to the launcher, also while it works --- */

static bool has_its_name(const char *pid, unsigned long long *ret_start)
{
	_cleanup_free_ char *text = NULL;
	char path[64];
	int parent = 0;

	(void)snprintf(path, sizeof(path), "/proc/%.16s/stat", pid); /* fits */
	return file_read(AT_FDCWD, path, 4096, &text, NULL) == 0 &&
	       strstr(text, " (mayfly-launcher) ") &&
	       sscanf(strrchr(text, ')'),
		       ") %*c %d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d "
		       "%*d %llu",
		       &parent, ret_start) == 2 &&
	       parent == getpid();
}

/* The oldest of that name: a child has the name too until it is the program. launcher_pid would
 * wait for a request's end. Returns a pidfd, -1 when there is none. */
static int find_launcher(void)
{
	unsigned long long first = ULLONG_MAX, start;
	DIR *d = opendir("/proc");
	int pid = 0, fd;
	char name[16];

	for (struct dirent *x; d && (x = readdir(d));)
		if (x->d_name[0] >= '1' && x->d_name[0] <= '9' && has_its_name(x->d_name, &start) &&
			start < first) {
			first = start;
			pid = atoi(x->d_name);
		}
	if (d)
		(void)closedir(d); /* only read */
	fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	(void)snprintf(name, sizeof(name), "%d", pid);
	if (fd >= 0 && has_its_name(name, &start) && start == first)
		return fd;
	if (fd >= 0)
		(void)close(fd); /* the pid is another's by now */
	return -1;
}

static void signal_launcher(int signo)
{
	_cleanup_close_ int fd = find_launcher();

	if (fd >= 0)
		(void)syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0);
}

static void trouble_crowd(const char *path, bool on, int signo, unsigned signals)
{
	unsigned descriptors = count_descriptors();
	struct crowd c = {.launcher = make(path, on), .busy = THREADS};
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, start_many, &c), 0);
	for (unsigned seed = 1; c.busy > 0 && signals > 0; signals--) {
		(void)usleep((unsigned)rand_r(&seed) % PAUSE_US);
		signal_launcher(signo);
	}
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	launcher_free(c.launcher);
	print_message("# %u started, %u refused\n", c.started, c.refused);
	assert_int_equal(c.wrong, 0);
	assert_int_equal(c.started + c.refused, THREADS * STARTS);
	assert_true(c.started > 0);
	assert_true(nothing_left(descriptors));
}

static void test_killed_again_and_again(void **state)
{
	trouble_crowd(launcher_path, true, SIGKILL, KILLS);
	trouble_crowd(launcher_path, false, SIGKILL, KILLS);
}

static void test_stopped_among_many_starts(void **state)
{
	trouble_crowd(launcher_path, true, SIGSTOP, 1);
}

/* --- launchers out of order --- */

struct fault {
	const char *name;  /* of the program (faulty.c) */
	int made, started; /* what launcher_make and launcher_start return */
	const char *says;
	unsigned starts;
};

/* cmocka's checks leave by longjmp, which a child must not. */
static void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s\n", what);
	_exit(1);
}

static void make_faulty(const char *name, char path[PATH_BYTES])
{
	size_t n;

	(void)snprintf(path, PATH_BYTES, "%s.%d", faulty_path, (int)getpid()); /* fits */
	check(mkdir(path, 0700) == 0, path);
	n = strlen(path);
	(void)snprintf(path + n, PATH_BYTES - n, "/%s", name); /* fits */
	check(link(faulty_path, path) == 0, path);
}

static void remove_faulty(char path[PATH_BYTES])
{
	check(unlink(path) == 0, path);
	*strrchr(path, '/') = '\0';
	check(rmdir(path) == 0, path);
}

/* More than once: the first fault must not spoil what follows. */
static void start_again(const struct fault *f, struct launcher *l)
{
	pid_t last = 0;

	for (unsigned n = 0; n < f->starts; n++) {
		struct error e = {0};
		pid_t pid = 0;

		check(start_one(l, &pid, &e) == f->started, e.message);
		if (f->started < 0) {
			check(strstr(e.message, f->says), e.message);
			continue;
		}
		check(pid > 0 && pid != last, "it is no new process");
		check(end_of(pid) == FAULTY_STATUS, "it did not end");
		last = pid;
	}
}

static void see_fault(const struct fault *f)
{
	unsigned descriptors = count_descriptors();
	struct launcher *l = NULL;
	struct error e = {0};
	char path[PATH_BYTES];
	int r;

	make_faulty(f->name, path);
	r = launcher_make(path, false, &l, &e);
	check(r == f->made, e.message);
	if (r == 0)
		start_again(f, l);
	else
		check(strstr(e.message, f->says), e.message);
	launcher_free(l);
	remove_faulty(path);
	check(nothing_left(descriptors), "something is left");
}

/* Most of them take ten seconds, so all run at once, each in a process of its own. */
static void test_out_of_order(void **state)
{
	static const struct fault faults[] = {
		{"is-silent", -ETIMEDOUT, 0, "does not answer", 0},
		{"ends", 0, -EPIPE, "ended before", 2},
		{"hangs", 0, -EPIPE, "ended before", 1},
		{"babbles", 0, -EPROTO, "cannot start", 2},
		{"loses-child", 0, -ECHILD, "cannot start", 2},
		{"is-late", 0, 0, NULL, 2},
	};
	pid_t pids[ARRAY_SIZE(faults)];
	unsigned bad = 0;

	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			see_fault(&faults[i]);
			_exit(0);
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
		if (end_of(pids[i]) != 0) {
			print_error("a launcher that %s\n", faults[i].name);
			bad++;
		}
	assert_int_equal(bad, 0);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_killed_again_and_again),
		cmocka_unit_test(test_stopped_among_many_starts),
		cmocka_unit_test(test_out_of_order),
	};

	if (argc != 2)
		return 2;
	(void)snprintf(launcher_path, sizeof(launcher_path), "%s/mayfly-launcher", argv[1]);
	(void)snprintf(witness_path, sizeof(witness_path), "%s/tests/jail/jail-witness", argv[1]);
	(void)snprintf(faulty_path, sizeof(faulty_path), "%s/tests/jail/jail-faulty", argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
