/* The launcher, and what a process in its jail sees. The witness runs there and reports. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/magic.h>
#include <netinet/in.h>
#include <poll.h>
#include <pty.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "jail/landlock.h"
#include "jail/launcher.h"
#include "jail/request.h"
#include "jail/space.h"

enum { REPORT_MAX = 16384, USER = 65534, THREADS = 8, STARTS = 25, SKIPPED = 77 };

static char launcher_path[512], witness_path[512];

/* --- requests --- */

static void test_request_round_trip(void **state)
{
	struct jail_request r = {.fd_count = 2,
				    .argv = {(char *)"program", (char *)"", NULL},
				    .env = {(char *)"A=b", NULL}},
			    back;
	char data[JAIL_REQUEST_MAX];
	int n = jail_request_encode(&r, data);

	assert_true(n > 0);
	assert_int_equal(jail_request_decode(data, (size_t)n, 4, &back), 0);
	assert_string_equal(back.argv[0], "program");
	assert_string_equal(back.argv[1], "");
	assert_null(back.argv[2]);
	assert_string_equal(back.env[0], "A=b");
	assert_null(back.env[1]);
	assert_int_equal(jail_request_decode(data, (size_t)n, 5, &back), -EPROTO);
	for (int cut = 0; cut < n; cut++)
		assert_int_equal(jail_request_decode(data, (size_t)cut, 4, &back), -EPROTO);
}

static void test_request_limits(void **state)
{
	static char longest[JAIL_REQUEST_MAX];
	struct jail_request r = {.argv = {longest, NULL}};
	char data[JAIL_REQUEST_MAX];

	memset(longest, 'x', sizeof(longest) - 1);
	assert_int_equal(jail_request_encode(&r, data), -E2BIG);
	longest[sizeof(longest) - 64] = '\0';
	assert_true(jail_request_encode(&r, data) > 0);
	r.fd_count = JAIL_FDS_MAX + 1;
	assert_int_equal(jail_request_encode(&r, data), -E2BIG);
}

/* --- a witness --- */

struct witness {
	pid_t pid;
	int log_fd;
	char report[REPORT_MAX];
};

/* The value of the line "name=value"; "" without one. */
static const char *value(const struct witness *w, const char *name)
{
	static _Thread_local char out[256];
	char wanted[64];
	const char *at;

	(void)snprintf(wanted, sizeof(wanted), "\n%s=", name);
	at = strstr(w->report, wanted);
	if (!at)
		return "";
	at += strlen(wanted);
	(void)snprintf(out, sizeof(out), "%.*s", (int)strcspn(at, "\n"), at);
	return out;
}

static void read_report(struct witness *w)
{
	size_t n = 1;

	memcpy(w->report, "\n", 2);
	while (n < sizeof(w->report) - 1 && !strstr(w->report, "\nend\n")) {
		ssize_t r = read(w->log_fd, w->report + n, sizeof(w->report) - 1 - n);

		if (r <= 0)
			break;
		n += (size_t)r;
		w->report[n] = '\0';
	}
}

static int where_fd = -1; /* control group of the next witness */

static int start_witness(struct launcher *l, const char *what, struct witness *w, struct error *e)
{
	char *argv[] = {(char *)"witness", (char *)what, NULL},
	     *env[] = {(char *)"ONLY=this", NULL};
	_cleanup_close_ int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fds[] = {proc_fd}, ends[2], r;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	r = launcher_start(l,
		&(struct launcher_start){.path = witness_path,
			.argv = argv,
			.env = env,
			.fds = fds,
			.fd_count = 1,
			.log_fd = ends[1],
			.cgroup_fd = where_fd},
		&w->pid, e);
	(void)close(ends[1]); /* the witness has it */
	w->log_fd = ends[0];
	if (r == 0)
		read_report(w);
	return r;
}

static int end_witness(struct witness *w)
{
	int status = -1;

	assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
	(void)close(w->log_fd); /* read */
	return status;
}

static struct launcher *make(enum jail_place place)
{
	struct error e = {0};
	struct launcher *l = NULL;

	if (launcher_make(launcher_path, place, &l, &e) < 0)
		fail_msg("%s", e.message);
	return l;
}

static void run_witness(struct launcher *l, const char *what, struct witness *w)
{
	struct error e = {0};

	if (start_witness(l, what, w, &e) < 0)
		fail_msg("%s", e.message);
}

/* --- what it sees --- */

static void expect(const struct witness *w, const char *name, const char *wanted)
{
	const char *got = value(w, name);

	if (strcmp(got, wanted) != 0)
		fail_msg("%s is %s, not %s", name, got, wanted);
}

/* Whether the witness has this process's namespace of a kind. */
static bool shares_namespace(const struct witness *w, const char *kind)
{
	char path[64], name[32], text[64];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
	(void)snprintf(name, sizeof(name), "ns_%s", kind);
	n = readlink(path, text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	assert_string_not_equal(value(w, name), "");
	return strcmp(value(w, name), text) == 0;
}

/* What every jail takes away, namespaces or not. */
static void expect_confined(const struct witness *w)
{
	expect(w, "argv0", "witness");
	expect(w, "env", "ONLY=this");
	expect(w, "caps", "0.0.0.0.0.0");
	expect(w, "no_new_privs", "1");
	expect(w, "fds", "0,1,2,3,");
	expect(w, "core", "0");
	expect(w, "fsize", "69793218560");
	expect(w, "memlock", "0");
	expect(w, "blocked", "0");
}

static void expect_empty(const struct witness *w, enum jail_place place)
{
	static const char *const kinds[] = {"user", "mnt", "net", "ipc", "uts", "pid"};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		assert_int_equal(shares_namespace(w, kinds[i]),
			place == JAIL_PLACE_NETWORK && strcmp(kinds[i], "net") == 0);
	expect(w, "pid", "1");
	expect(w, "ppid", "0");
	expect(w, "pgid", "1");
	expect(w, "root_entries", "0");
	expect(w, "mkdir", "EROFS");
	expect(w, "etc", "ENOENT");
	expect(w, "up", "ENOENT");
	expect(w, "bounding", "0");
}

static unsigned host_user(pid_t pid)
{
	char path[32];
	struct stat st = {0};

	(void)snprintf(path, sizeof(path), "/proc/%d", (int)pid); /* fits */
	(void)stat(path, &st);					  /* 0 is not what is expected */
	return st.st_uid;
}

static void see_full(enum jail_place place)
{
	struct launcher *l;
	struct witness w;
	char ids[64];

	if (geteuid() != 0)
		skip();
	l = make(place);
	assert_int_equal(launcher_kind(l), JAIL_FULL);
	run_witness(l, "wait", &w);
	expect_confined(&w);
	expect_empty(&w, place);
	(void)snprintf(ids, sizeof(ids), "%d gid=%d groups=0", w.pid, w.pid);
	expect(&w, "uid", ids);
	assert_int_equal(host_user(w.pid), SPACE_FIRST_ID + (unsigned)w.pid);
	expect(&w, "nproc", "32");
	assert_int_equal(kill(w.pid, SIGKILL), 0);
	assert_int_equal(end_witness(&w), SIGKILL);
	launcher_free(l);
}

static void test_full(void **state)
{
	see_full(JAIL_PLACE_EMPTY);
}

static void test_network_kept(void **state)
{
	see_full(JAIL_PLACE_NETWORK);
}

static void test_off(void **state)
{
	struct launcher *l = make(JAIL_PLACE_NONE);
	struct witness w;

	assert_int_equal(launcher_kind(l), JAIL_OFF);
	run_witness(l, "exit", &w);
	expect_confined(&w);
	expect(&w, "etc", "opened");
	assert_int_not_equal(atoi(value(&w, "pid")), 1);
	assert_int_equal(end_witness(&w), 7 << 8);
	launcher_free(l);
}

/* Runs a function in a process that has no rights, and takes its exit status. */
static void as_user(void (*f)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(USER, USER, USER) < 0 ||
					      setresuid(USER, USER, USER) < 0))
			_exit(100);
		(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* /proc/self is ours again */
		f();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status == SKIPPED << 8)
		skip();
	assert_int_equal(status, 0);
}

/* cmocka's checks leave by longjmp, which a child must not. */
static void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s\n", what);
	_exit(1);
}

static void see_as_user(void)
{
	struct launcher *l = NULL;
	struct error e = {0};
	struct witness w;
	int status;

	check(launcher_make(launcher_path, JAIL_PLACE_EMPTY, &l, &e) == 0, e.message);
	check(launcher_kind(l) == JAIL_USER, "the jail is not the user's");
	check(start_witness(l, "exit", &w, &e) == 0, e.message);
	check(strcmp(value(&w, "pid"), "1") == 0, "it is not pid 1");
	check(strcmp(value(&w, "caps"), "0.0.0.0.0.0") == 0, "it has capabilities");
	check(strcmp(value(&w, "root_entries"), "0") == 0, "its root is not empty");
	check(strcmp(value(&w, "mkdir"), "EROFS") == 0, "its root can be written");
	check(atoi(value(&w, "uid")) == (int)getuid(), "its user is another");
	check(strcmp(value(&w, "fds"), "0,1,2,3,") == 0, "it has other descriptors");
	check(waitpid(w.pid, &status, 0) == w.pid && status == 7 << 8, "it did not end");
	launcher_free(l);
}

static void test_unprivileged(void **state)
{
	as_user(see_as_user);
}

/* --- terminals --- */

/* In a session with a terminal that was made for it. */
static void see_terminal(enum jail_place place)
{
	struct launcher *l = NULL;
	struct error e = {0};
	struct witness w;
	int status;

	check(tcgetpgrp(STDIN_FILENO) == getpgrp(), "there is no terminal");
	check(launcher_make(launcher_path, place, &l, &e) == 0, e.message);
	check(start_witness(l, "exit", &w, &e) == 0, e.message);
	check(atoi(value(&w, "terminal")) == 0, "it has a terminal");
	check(atoi(value(&w, "session")) == getsid(0), "its session is another");
	check(waitpid(w.pid, &status, 0) == w.pid && status == 7 << 8, "it did not end");
	launcher_free(l);
}

/* The session stays the same, or priorities would mean nothing to the kernel's autogroups. */
static void test_no_terminal(void **state)
{
	static const enum jail_place places[] = {JAIL_PLACE_EMPTY, JAIL_PLACE_NONE};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		int terminal, status, log_fd = dup(STDERR_FILENO);
		pid_t pid = forkpty(&terminal, NULL, NULL, NULL);

		assert_true(pid >= 0);
		if (pid == 0) {
			(void)dup2(log_fd, STDERR_FILENO);
			see_terminal(places[i]);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		(void)close(terminal);
		(void)close(log_fd);
	}
}

/* --- control groups --- */

static int make_group(char path[128])
{
	static const char *const roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	struct statfs s;

	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		if (statfs(roots[i], &s) < 0 || s.f_type != CGROUP2_SUPER_MAGIC)
			continue;
		(void)snprintf(path, 128, "%s/test-jail-%d", roots[i], (int)getpid()); /* fits */
		if (mkdir(path, 0755) == 0)
			return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	return -1;
}

static void expect_born_in(struct launcher *l, int group_fd, const char *name)
{
	_cleanup_free_ char *text = NULL;
	char path[64];
	struct witness w;

	where_fd = group_fd;
	run_witness(l, "wait", &w);
	where_fd = -1;
	(void)snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)w.pid); /* fits */
	assert_int_equal(file_read(AT_FDCWD, path, 4096, &text, NULL), 0);
	assert_non_null(strstr(text, name));
	assert_int_equal(kill(w.pid, SIGKILL), 0);
	assert_int_equal(end_witness(&w), SIGKILL);
}

static void test_control_group(void **state)
{
	char path[128];
	int fd = make_group(path);

	if (fd < 0)
		skip();
	for (int on = 0; on < 2; on++) {
		struct launcher *l = make(on);

		expect_born_in(l, fd, strrchr(path, '/'));
		launcher_free(l);
	}
	(void)close(fd); /* only a directory */
	assert_int_equal(rmdir(path), 0);
}

/* As an administrator who switched user namespaces off. */
static void see_refusal(void)
{
	static const char limit[] = "/proc/sys/user/max_user_namespaces";
	struct launcher *l = NULL;
	struct error e = {0};
	int fd;

	check(unshare(CLONE_NEWUSER) == 0, "unshare");
	fd = open(limit, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		_exit(SKIPPED); /* /proc/sys is read-only */
	check(write(fd, "0", 1) == 1, limit);
	check(launcher_make(launcher_path, JAIL_PLACE_EMPTY, &l, &e) < 0, "a jail was made");
	check(e.code == ERROR_HOST && strstr(e.message, "a user namespace") &&
			strstr(e.message, "--jail=off"),
		e.message);
	check(launcher_make(launcher_path, JAIL_PLACE_NONE, &l, NULL) == 0,
		"nothing starts without either");
	launcher_free(l);
}

static void test_refused(void **state)
{
	as_user(see_refusal);
}

/* --- life and death --- */

static void test_signals(void **state)
{
	struct launcher *l = make(JAIL_PLACE_EMPTY);
	struct witness w;
	int status;

	run_witness(l, "wait", &w);
	assert_int_equal(kill(w.pid, SIGKILL), 0);
	assert_int_equal(end_witness(&w), SIGKILL);
	run_witness(l, "abort", &w); /* as pid 1 it survives its SIGABRT, not what follows */
	status = end_witness(&w);
	assert_true(WIFSIGNALED(status));
	launcher_free(l);
}

static void test_launcher_dies(void **state)
{
	struct launcher *l = make(JAIL_PLACE_EMPTY);
	pid_t first = launcher_pid(l);
	struct witness old, next;

	run_witness(l, "wait", &old);
	assert_int_equal(kill(first, SIGKILL), 0);
	run_witness(l, "exit", &next);
	assert_int_not_equal(launcher_pid(l), first);
	assert_int_equal(end_witness(&next), 7 << 8);
	assert_int_equal(waitpid(old.pid, NULL, WNOHANG), 0); /* it lives */
	launcher_free(l);
	assert_int_equal(waitpid(old.pid, NULL, WNOHANG), 0); /* still */
	assert_int_equal(kill(old.pid, SIGKILL), 0);
	assert_int_equal(end_witness(&old), SIGKILL);
}

static void test_launcher_ends_with_client(void **state)
{
	int ends[2];
	pid_t pid, launcher = 0;
	struct pollfd p = {.events = POLLIN};

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		struct launcher *l = NULL;

		if (launcher_make(launcher_path, JAIL_PLACE_EMPTY, &l, NULL) < 0)
			_exit(1);
		launcher = launcher_pid(l);
		(void)!write(ends[1], &launcher, sizeof(launcher));
		_exit(0); /* without ending it */
	}
	assert_int_equal(read(ends[0], &launcher, sizeof(launcher)), sizeof(launcher));
	p.fd = (int)syscall(SYS_pidfd_open, launcher, 0);
	if (p.fd >= 0) /* else it has ended already */
		assert_int_equal(poll(&p, 1, 10000), 1);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

static void test_bad_programs(void **state)
{
	struct launcher *l = make(JAIL_PLACE_EMPTY);
	char *argv[] = {(char *)"x", NULL}, *env[] = {NULL};
	struct launcher_start s = {
		.path = "/no/such", .argv = argv, .env = env, .log_fd = 2, .cgroup_fd = -1};
	struct error e = {0};
	struct witness w;
	pid_t pid = 0;

	assert_int_equal(launcher_start(l, &s, &pid, &e), -ENOENT);
	s.path = "/etc/passwd"; /* not executable */
	error_clear(&e);
	assert_int_equal(launcher_start(l, &s, &pid, &e), -EACCES);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), 0); /* only the launcher is our child */
	run_witness(l, "exit", &w);			 /* which serves on */
	assert_int_equal(end_witness(&w), 7 << 8);
	launcher_free(l);
}

static void *start_many(void *arg)
{
	intptr_t bad = 0;

	for (unsigned i = 0; i < STARTS; i++) {
		struct error e = {0};
		struct witness w;
		int status;

		if (start_witness(arg, "exit", &w, &e) < 0) {
			fprintf(stderr, "%s\n", e.message);
			bad++;
			continue;
		}
		status = end_witness(&w);
		if (strcmp(value(&w, "fds"), "0,1,2,3,") == 0 && status == 7 << 8)
			continue;
		fprintf(stderr, "status %#x, fds %s\n", (unsigned)status, value(&w, "fds"));
		bad++;
	}
	return (void *)bad;
}

static void test_many_threads(void **state)
{
	struct launcher *l = make(JAIL_PLACE_EMPTY);
	pthread_t threads[THREADS];
	void *bad;

	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, start_many, l), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &bad), 0);
		assert_null(bad);
	}
	launcher_free(l);
}

/* --- Landlock --- */

static void forbid(void)
{
	int own = open("/dev/null", O_RDWR | O_CLOEXEC);

	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
	check(landlock_forbid_all(LANDLOCK_NO_PORT) == 0, "landlock");
	check(open("/etc/passwd", O_RDONLY) < 0 && errno == EACCES, "a file can be opened");
	check(open("/tmp/landlocked", O_WRONLY | O_CREAT, 0600) < 0, "a file can be made");
	check(write(own, "x", 1) == 1, "an open descriptor does not work");
	check(landlock_abi() < 6 || (kill(getppid(), 0) < 0 && errno == EPERM),
		"the parent can be signalled");
}

static void test_landlock(void **state)
{
	if (landlock_abi() == 0)
		skip();
	as_user(forbid);
}

static int try_port(int (*call)(int, const struct sockaddr *, socklen_t), uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return call(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? errno : 0;
}

static void forbid_ports(void)
{
	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
	check(landlock_forbid_all(LANDLOCK_CONNECT) == 0, "landlock");
	check(open("/etc/passwd", O_RDONLY) < 0 && errno == EACCES, "a file can be opened");
	check(try_port(connect, 9) == ECONNREFUSED, "it cannot connect");
	check(landlock_abi() < 4 || try_port(bind, 0) == EACCES, "it can bind");
}

static void test_landlock_connect(void **state)
{
	if (landlock_abi() == 0)
		skip();
	as_user(forbid_ports);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_request_round_trip),
		cmocka_unit_test(test_request_limits),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_network_kept),
		cmocka_unit_test(test_unprivileged),
		cmocka_unit_test(test_off),
		cmocka_unit_test(test_no_terminal),
		cmocka_unit_test(test_control_group),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_launcher_dies),
		cmocka_unit_test(test_launcher_ends_with_client),
		cmocka_unit_test(test_bad_programs),
		cmocka_unit_test(test_many_threads),
		cmocka_unit_test(test_landlock),
		cmocka_unit_test(test_landlock_connect),
	};

	if (argc != 2)
		return 2;
	(void)snprintf(launcher_path, sizeof(launcher_path), "%s/mayfly-launcher", argv[1]);
	(void)snprintf(witness_path, sizeof(witness_path), "%s/tests/jail/jail-witness", argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
