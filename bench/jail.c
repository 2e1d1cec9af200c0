/* What a jail costs: from a request to a process that runs, with 16 descriptors of its own. The
 * same static program is started with posix_spawn, through a launcher without namespaces, and in
 * the jail, in turn, round by round. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "jail/launcher.h"
#include "stats.h"

enum { FDS = 16, FIRST_FD = 100, ROUNDS = 500, WARM_UP = 20 };

static _Noreturn void die(const char *what, const char *why)
{
	(void)fprintf(stderr, "bench-jail: %s: %s\n", what, why); /* stderr is all there is */
	exit(1);
}

struct bench {
	int fds[FDS];
	struct launcher *off, *on;
};

static pid_t start_spawned(const struct bench *b, int log_fd)
{
	char *argv[] = {(char *)"child", NULL}, *env[] = {NULL};
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int r;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
	posix_spawn_file_actions_adddup2(&actions, 0, 1);
	posix_spawn_file_actions_adddup2(&actions, log_fd, 2);
	for (unsigned i = 0; i < FDS; i++) /* onto itself: clears close-on-exec */
		posix_spawn_file_actions_adddup2(&actions, b->fds[i], b->fds[i]);
	r = posix_spawn(&pid, BENCH_CHILD, &actions, NULL, argv, env);
	posix_spawn_file_actions_destroy(&actions);
	if (r)
		die("posix_spawn", strerror(r));
	return pid;
}

static pid_t start_launched(const struct bench *b, struct launcher *l, int log_fd)
{
	char *argv[] = {(char *)"child", NULL}, *env[] = {NULL};
	struct launcher_start s = {.path = BENCH_CHILD,
		.argv = argv,
		.env = env,
		.fds = b->fds,
		.fd_count = FDS,
		.log_fd = log_fd,
		.cgroup_fd = -1};
	struct error e = {0};
	pid_t pid;

	if (launcher_start(l, &s, &pid, &e) < 0)
		die("launcher_start", e.message);
	return pid;
}

static void measure(const struct bench *b, unsigned way, struct samples *runs, struct samples *all)
{
	int ends[2], status;
	uint64_t begin;
	pid_t pid;
	char c;

	if (pipe2(ends, O_CLOEXEC) < 0)
		die("pipe2", strerror(errno));
	begin = clock_monotonic_ns();
	pid = way == 0 ? start_spawned(b, ends[1])
		       : start_launched(b, way == 1 ? b->off : b->on, ends[1]);
	(void)close(ends[1]); /* the child's */
	if (read(ends[0], &c, 1) != 1)
		die("the child", "did not run");
	samples_add(runs, clock_monotonic_ns() - begin);
	if (waitpid(pid, &status, 0) != pid || status != 0)
		die("the child", "failed");
	samples_add(all, clock_monotonic_ns() - begin);
	(void)close(ends[0]); /* read */
}

static void print(struct report *j, const char *key, const char *name, struct samples *s)
{
	printf("  %-40s %8.3f %8.3f %8.3f\n", name, (double)samples_percentile(s, 50) / NS_PER_MS,
		(double)samples_percentile(s, 90) / NS_PER_MS,
		(double)samples_percentile(s, 99) / NS_PER_MS);
	report_samples(j, key, s);
}

static void run(const struct bench *b, unsigned rounds, struct report *j)
{
	static const char *const names[] = {
		"posix_spawn", "launcher without namespaces", "launcher, in the jail"};
	static const char *const keys[] = {"spawn", "off", "jail"};
	static const char *const end_keys[] = {"spawn_end", "off_end", "jail_end"};
	struct samples runs[3], all[3], warm;

	samples_init(&warm, WARM_UP * 6);
	for (unsigned i = 0; i < WARM_UP * 3; i++)
		measure(b, i % 3, &warm, &warm);
	for (unsigned i = 0; i < 3; i++) {
		samples_init(&runs[i], rounds);
		samples_init(&all[i], rounds);
	}
	for (unsigned i = 0; i < rounds * 3; i++)
		measure(b, i % 3, &runs[i % 3], &all[i % 3]);
	printf("\nuntil the process runs, in ms%14sp50      p90      p99\n", "");
	for (unsigned i = 0; i < 3; i++)
		print(j, keys[i], names[i], &runs[i]);
	printf("until it has ended\n");
	for (unsigned i = 0; i < 3; i++)
		print(j, end_keys[i], names[i], &all[i]);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"rounds", required_argument, NULL, 'r'},
		{"json", required_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
	unsigned rounds = ROUNDS;
	const char *json = NULL;
	struct report report = {0};
	struct error e = {0};
	struct bench b;
	int o;

	while ((o = getopt_long(argc, argv, "", options, NULL)) >= 0)
		if (o == 'r')
			rounds = (unsigned)strtoul(optarg, NULL, 10);
		else if (o == 'j')
			json = optarg;
		else
			return 2;
	for (int i = 0; i < FDS; i++) {
		int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

		b.fds[i] = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
		(void)close(fd); /* duplicated */
	}
	if (launcher_make(BENCH_LAUNCHER, JAIL_PLACE_NONE, &b.off, &e) < 0 ||
		launcher_make(BENCH_LAUNCHER, JAIL_PLACE_EMPTY, &b.on, &e) < 0)
		die("launcher", e.message);
	report.f = json ? fopen(json, "w") : NULL;
	print_machine();
	report_open(&report, NULL, '{');
	report_machine(&report);
	run(&b, rounds ? rounds : 1, &report);
	report_close(&report, '}');
	if (report.f && fclose(report.f) != 0)
		die(json, strerror(errno));
	launcher_free(b.off);
	launcher_free(b.on);
	return 0;
}
