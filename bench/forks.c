/* Forks, roll-backs and claims as the daemon makes them: a process each, over control sockets. */
#include "snapshots.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "io/jailed.h"
#include "io/program.h"
#include "sandbox/launch.h"
#include "sandbox/vmm_request.h"
#include "sandbox/vmm_snapshot.h"

enum { CHILDREN_MAX = 100, WAIT_MS = 10000, PATH_BYTES = 512, DIRTY_PAGES = 1792 };

struct forks {
	const char *path;
	int dirfd; /* owned */
	unsigned freezes, snapshots;
	char image[PATH_BYTES];
	/* What a child is restored from: */
	char state[PATH_BYTES], memory[PATH_BYTES];
	char layers[SNAPSHOT_LAYERS_MAX][PATH_BYTES], deltas[SNAPSHOT_LAYERS_MAX][PATH_BYTES];
	unsigned layer_count, delta_count;
};

static void format_path(const struct forks *f, char out[PATH_BYTES], const char *a, const char *b)
{
	if (snprintf(out, PATH_BYTES, "%s/%s%s%s", f->path, a, b ? "/" : "", b ? b : "") >=
		PATH_BYTES)
		bench_die(f->path, "is too long");
}

static struct vmm *launch(const struct forks *f, const char *name, struct vmm_launch *l)
{
	char dir[PATH_BYTES];
	struct error e = {0};
	struct vmm *v;

	format_path(f, dir, name, NULL);
	if (mkdir(dir, 0700) < 0)
		bench_die(dir, strerror(errno));
	l->dir = dir;
	l->disks[0].base = f->image;
	l->disks[0].delta = "delta0";
	l->disk_count = 1;
	if (vmm_launch(l, &v, &e) < 0)
		bench_die("launch", e.message);
	return v;
}

static struct vmm *launch_child(const struct forks *f, const char *name, bool paused)
{
	struct vmm_launch l = {.snapshot = f->state, .memory = f->memory, .paused = paused};

	for (unsigned i = 0; i < f->layer_count; i++)
		l.layers[l.layer_count++] = f->layers[i];
	for (unsigned i = 0; i < f->delta_count; i++)
		l.disks[0].layers[l.disks[0].layer_count++] = f->deltas[i];
	return launch(f, name, &l);
}

static void await_start(struct vmm *v)
{
	struct pollfd p = {.fd = vmm_fd(v), .events = POLLIN};
	struct error e = {0};

	if (poll(&p, 1, WAIT_MS) <= 0 || vmm_next_event(v, &e) != VMM_STARTED)
		bench_die("a microVM does not start", e.message);
}

static void stop(const struct forks *f, struct vmm *v, const char *name)
{
	vmm_stop(v);
	(void)file_remove_tree(f->dirfd, name); /* temporary */
}

static void take(struct forks *f, const char *name, struct vmm_snapshot_result *r)
{
	struct vmm_snapshot_options o = {.dirfd = -1};
	char delta[16], next[16];
	struct error e = {0};
	int parent = openat(f->dirfd, "parent", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)snprintf(delta, sizeof(delta), "delta%u", f->freezes++); /* fits */
	(void)snprintf(next, sizeof(next), "delta%u", f->freezes);     /* fits */
	if (mkdirat(f->dirfd, name, 0700) < 0)
		bench_die(name, strerror(errno));
	o.dirfd = openat(f->dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	o.disks[0].delta = delta;
	o.disks[0].next = next;
	if (parent < 0 || vmm_snapshot(parent, &o, r, NULL, &e) < 0)
		bench_die("snapshot", e.message);
	(void)close(o.dirfd); /* only directories */
	(void)close(parent);
	format_path(f, f->state, name, NULL);
	if (r->memory_full)
		format_path(f, f->memory, name, "memory");
	if (r->memory_full || r->memory_merged)
		f->layer_count = 0;
	if (r->disk_merged[0])
		f->delta_count = 0;
	if (r->memory_merged)
		format_path(f, f->layers[f->layer_count++], name, "memory.merged");
	if (!r->memory_full)
		format_path(f, f->layers[f->layer_count++], name, "memory.layer");
	if (r->disk_merged[0])
		format_path(f, f->deltas[f->delta_count++], name, "disk0.merged");
	format_path(f, f->deltas[f->delta_count++], name, "disk0");
}

/* --- forks --- */

/* The least a child costs: a process that does nothing, as many of them at once. */
static uint64_t time_spawns(unsigned n)
{
	static pid_t pids[CHILDREN_MAX];
	char path[PATH_BYTES], *argv[] = {path, (char *)"--help", NULL};
	uint64_t start;
	struct error e = {0};
	posix_spawn_file_actions_t quiet;

	if (program_path("mayfly-vmm", path, sizeof(path), &e) < 0)
		bench_die("spawn", e.message);
	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
	start = clock_monotonic_ns();
	for (unsigned i = 0; i < n; i++)
		if (posix_spawn(&pids[i], path, &quiet, NULL, argv, environ) != 0)
			bench_die("spawn", path);
	for (unsigned i = 0; i < n; i++)
		(void)waitpid(pids[i], NULL, 0); /* our own child */
	posix_spawn_file_actions_destroy(&quiet);
	return clock_monotonic_ns() - start;
}

struct fork_times {
	struct samples spawns, stop, snapshot, whole;
};

static unsigned long long exits(const struct forks *f)
{
	int fd = openat(f->dirfd, "parent", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct error e = {0};
	char text[256];
	const char *p;

	if (fd < 0 || vmm_request(fd, "status", text, sizeof(text), &e) < 0)
		bench_die("status", e.message);
	(void)close(fd); /* only a directory */
	p = strstr(text, "exits=");
	return p ? strtoull(p + strlen("exits="), NULL, 10) : 0;
}

/* A parent that has written its pages since the full snapshot and is at rest, as its children will
 * be: what they do with the CPUs is not measured. */
static struct vmm *start_parent(struct forks *f)
{
	struct vmm *v;

	f->freezes = f->layer_count = 0;
	f->delta_count = 1;
	format_path(f, f->state, "full", NULL);
	v = launch_child(f, "parent", false);
	await_start(v);
	for (unsigned i = 0; i < WAIT_MS && exits(f) == 0; i++)
		(void)usleep(1000); /* sleeps */
	return v;
}

static void fork_round(struct forks *f, unsigned n, struct fork_times *t)
{
	static struct vmm *child[CHILDREN_MAX];
	struct vmm *parent = start_parent(f);
	struct vmm_snapshot_result r;
	char name[16];
	uint64_t begin;

	samples_add(&t->spawns, time_spawns(n));
	begin = clock_monotonic_ns();
	(void)snprintf(name, sizeof(name), "S%u", f->snapshots++); /* fits */
	take(f, name, &r);
	if (r.pages < DIRTY_PAGES)
		bench_die("parent", "was too slow: its pages are not dirty");
	samples_add(&t->snapshot, clock_monotonic_ns() - begin);
	samples_add(&t->stop, r.stop_ns);
	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "C%u", i); /* fits */
		child[i] = launch_child(f, name, false);
	}
	for (unsigned i = 0; i < n; i++)
		await_start(child[i]);
	samples_add(&t->whole, clock_monotonic_ns() - begin);
	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "C%u", i); /* fits */
		stop(f, child[i], name);
	}
	stop(f, parent, "parent");
}

static void bench_children(struct forks *f, unsigned n, unsigned rounds, struct report *j)
{
	struct fork_times t;
	struct samples *all[] = {&t.spawns, &t.stop, &t.snapshot, &t.whole};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		samples_init(all[i], rounds);
	for (unsigned i = 0; i < rounds; i++)
		fork_round(f, n, &t);
	(void)printf("\nfork of %u children, %u rounds, in ms; %.2f ms a child\n", n, rounds,
		(double)samples_percentile(&t.whole, 50) / 1e6 / n);
	bench_row("floor: as many idle processes", &t.spawns, NULL);
	bench_row("the parent's stop", &t.stop, NULL);
	bench_row("its snapshot", &t.snapshot, NULL);
	bench_row("all, until the last child runs", &t.whole, &t.spawns);
	report_open(j, NULL, '{');
	report_integer(j, "children", n);
	report_samples(j, "spawns", &t.spawns);
	report_samples(j, "stop", &t.stop);
	report_samples(j, "snapshot", &t.snapshot);
	report_samples(j, "whole", &t.whole);
	report_close(j, '}');
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		samples_done(all[i]);
}

/* --- roll back, claim --- */

/* The process that runs ends, another one takes its place. */
static void bench_rollback(struct forks *f, unsigned rounds, struct report *j)
{
	struct samples times;
	struct vmm *v = launch_child(f, "rolled", false);

	await_start(v);
	samples_init(&times, rounds);
	for (unsigned i = 0; i < rounds; i++) {
		uint64_t begin = clock_monotonic_ns();

		stop(f, v, "rolled");
		v = launch_child(f, "rolled", false);
		await_start(v);
		samples_add(&times, clock_monotonic_ns() - begin);
	}
	stop(f, v, "rolled");
	bench_row("roll back, until it runs", &times, NULL);
	report_samples(j, "rollback", &times);
	samples_done(&times);
}

/* What the jail costs a restored process: with and without in turn. */
static void bench_jail(struct forks *f, unsigned rounds, struct report *j)
{
	static const char *const words[] = {"on", "off"};
	struct samples times[2];

	for (unsigned i = 0; i < 2; i++)
		samples_init(&times[i], rounds);
	for (unsigned i = 0; i < 2 * rounds; i++) {
		uint64_t begin;
		struct vmm *v;

		(void)jailed_configure(words[i % 2], NULL); /* a good word */
		if (jailed_prepare(NULL, NULL) < 0)
			bench_die("jail", "cannot be made");
		begin = clock_monotonic_ns();
		v = launch_child(f, "jailed", true);
		await_start(v);
		samples_add(&times[i % 2], clock_monotonic_ns() - begin);
		stop(f, v, "jailed");
	}
	bench_row("a process restored without a jail", &times[1], NULL);
	bench_row("in a jail", &times[0], &times[1]);
	report_samples(j, "restore_unjailed", &times[1]);
	report_samples(j, "restore_jailed", &times[0]);
	for (unsigned i = 0; i < 2; i++)
		samples_done(&times[i]);
}

static void bench_claim(struct forks *f, unsigned rounds, struct report *j)
{
	struct samples fresh, claim;
	struct error e = {0};

	samples_init(&fresh, rounds);
	samples_init(&claim, rounds);
	for (unsigned i = 0; i < rounds; i++) {
		uint64_t begin = clock_monotonic_ns();
		struct vmm *v = launch_child(f, "waiting", true);

		await_start(v);
		samples_add(&fresh, clock_monotonic_ns() - begin);
		(void)usleep(2000); /* it waits for a customer */
		begin = clock_monotonic_ns();
		if (vmm_resume(v, &e) < 0)
			bench_die("claim", e.message);
		samples_add(&claim, clock_monotonic_ns() - begin);
		stop(f, v, "waiting");
	}
	bench_row("a process restored", &fresh, NULL);
	bench_row("claim: resume", &claim, &fresh);
	report_samples(j, "restore_process", &fresh);
	report_samples(j, "claim_process", &claim);
	samples_done(&fresh);
	samples_done(&claim);
}

static uint64_t time_request(int dirfd, const char *text)
{
	uint64_t begin = clock_monotonic_ns();
	struct error e = {0};

	if (vmm_request(dirfd, text, NULL, 0, &e) < 0)
		bench_die(text, e.message);
	return clock_monotonic_ns() - begin;
}

/* As a sandbox that waits for a person: a request to its process each, with the connection. The
 * guest writes its pages over and over in between. */
static void bench_freeze(struct forks *f, unsigned rounds, struct report *j)
{
	struct vmm_launch l = {.kernel = BENCH_GUEST,
		.cmdline = "pages 256",
		.cpus = 1,
		.memory_bytes = BENCH_MEMORY_BYTES};
	struct vmm *v = launch(f, "frozen", &l);
	struct samples floor, freeze, go_on;
	int dirfd = openat(f->dirfd, "frozen", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	await_start(v);
	if (dirfd < 0)
		bench_die("frozen", strerror(errno));
	samples_init(&floor, rounds);
	samples_init(&freeze, rounds);
	samples_init(&go_on, rounds);
	for (unsigned i = 0; i < rounds; i++) {
		samples_add(&floor, time_request(dirfd, "status"));
		samples_add(&freeze, time_request(dirfd, "freeze"));
		(void)usleep(2000); /* it waits for a person */
		samples_add(&go_on, time_request(dirfd, "resume"));
		(void)usleep(2000); /* its guest runs */
	}
	(void)close(dirfd); /* only a directory */
	stop(f, v, "frozen");
	bench_row("floor: a request for the status", &floor, NULL);
	bench_row("freeze", &freeze, &floor);
	bench_row("go on", &go_on, &floor);
	report_samples(j, "freeze_floor", &floor);
	report_samples(j, "freeze", &freeze);
	report_samples(j, "go_on", &go_on);
	samples_done(&floor);
	samples_done(&freeze);
	samples_done(&go_on);
}

/* A full snapshot of a machine of 256 MB. */
static void begin(struct forks *f, const char *path)
{
	struct vmm_launch l = {
		.kernel = BENCH_GUEST, .cpus = 1, .memory_bytes = BENCH_MEMORY_BYTES};
	struct vmm_snapshot_result r;
	char line[32];
	struct vmm *v;
	int fd;

	*f = (struct forks){.path = path};
	if (mkdir(path, 0700) < 0)
		bench_die(path, strerror(errno));
	f->dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	format_path(f, f->image, "image", NULL);
	fd = open(f->image, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (f->dirfd < 0 || fd < 0 || ftruncate(fd, 8 << 20) < 0)
		bench_die(f->image, strerror(errno));
	(void)close(fd);					    /* empty */
	(void)snprintf(line, sizeof(line), "rest %d", DIRTY_PAGES); /* fits */
	l.cmdline = line;
	v = launch(f, "parent", &l);
	await_start(v);
	(void)usleep(20000); /* it is where it waits */
	take(f, "full", &r);
	stop(f, v, "parent");
}

void bench_forks(const char *path, unsigned rounds, struct report *j)
{
	static struct forks f; /* large */
	struct vmm *parent;

	begin(&f, path);
	report_open(j, "forks", '[');
	bench_children(&f, 1, rounds / 4 + 1, j);
	bench_children(&f, 10, rounds / 4 + 1, j);
	bench_children(&f, 100, rounds / 4 + 1, j);
	report_close(j, ']');
	(void)printf("\nprocesses, in ms\n");
	parent = start_parent(&f);
	take(&f, "last", &(struct vmm_snapshot_result){0});
	stop(&f, parent, "parent");
	bench_rollback(&f, rounds, j);
	bench_claim(&f, rounds, j);
	bench_jail(&f, rounds * 5, j);
	bench_freeze(&f, rounds * 25, j);
	(void)close(f.dirfd);			/* only a directory */
	(void)file_remove_tree(AT_FDCWD, path); /* temporary */
}

void bench_freezes(const char *path, unsigned rounds, struct report *j)
{
	static struct forks f; /* large */

	begin(&f, path);
	bench_freeze(&f, rounds * 25, j);
	(void)close(f.dirfd);			/* only a directory */
	(void)file_remove_tree(AT_FDCWD, path); /* temporary */
}
