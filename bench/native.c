/* Restoring a microVM on this machine: the bare KVM calls that nobody can do without (the floor),
 * a cold restore by our VMM, and the claim of a VM that was restored before and waits.
 *
 * The guest is a bare one that leaves for the VMM in a loop of user-mode code: its first exit ends
 * a measurement, so that the figures are those of the VMM and not of a guest's kernel. All three
 * are measured in turn, round by round, in one process, with one snapshot. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "calls.h"
#include "floor.h"
#include "proto/snapshot.h"
#include "stats.h"
#include "vmm/cpu_model.h"
#include "vmm/kvm.h"
#include "vmm/pages.h"
#include "vmm/vm_internal.h"

enum { BASE_BYTES = 8 << 20, WAIT_MS = 2000, MAILBOX_AT = 0x30000, STEP_ROUNDS = 100 };

struct options {
	const char *guest, *json, *dir;
	unsigned rounds;
	bool steps;
};

static _Noreturn void die(const char *what, const char *why)
{
	(void)fprintf(stderr, "bench-native: %s: %s\n", what, why); /* stderr is all there is */
	exit(1);
}

static int must(int fd, const char *what)
{
	if (fd < 0)
		die(what, strerror(errno));
	return fd;
}

/* --- the snapshot --- */

struct bench {
	int dirfd, snapshot_dirfd; /* owned */
	uint64_t memory_bytes;
	struct floor_state floor;
};

/* Disk and socket of one VM: as whoever launches a VM opens them. */
static void open_files(const struct bench *b, struct vm_options *o)
{
	struct vm_disk *d = &o->disks[0];

	*d = (struct vm_disk){.bytes = BASE_BYTES};
	d->base_fd = must(openat(b->dirfd, "base", O_RDONLY | O_CLOEXEC), "base");
	d->delta_fd = must(openat(b->dirfd, "delta", O_RDWR | O_CLOEXEC), "delta");
	o->disk_count = 1;
}

static int listen_socket(const struct bench *b)
{
	int fd;

	(void)unlinkat(b->dirfd, "vsock", 0); /* of the last one, if any */
	fd = fd_unix_listen(b->dirfd, "vsock", SOCK_STREAM, 4);
	if (fd < 0)
		die("socket", strerror(-fd));
	return fd;
}

static struct vm *boot(const struct bench *b, const char *guest)
{
	struct vm_options o = {.cpus = 1,
		.memory_bytes = b->memory_bytes,
		.initrd_fd = -1,
		.cmdline = "exits",
		.state_fd = -1,
		.console_fd = -1,
		.kvm_fd = must(kvm_open(NULL), "/dev/kvm"),
		.pagemap_fd = must(pages_open(-1), "pagemap"),
		.rng = true};
	struct error e = {0};
	struct vm *vm;

	o.kernel_fd = must(open(guest, O_RDONLY | O_CLOEXEC), guest);
	o.vsock_listen_fd = listen_socket(b);
	open_files(b, &o);
	if (vm_create(&o, &vm, &e) < 0)
		die("boot", e.message);
	(void)close(o.kernel_fd); /* only read */
	return vm;
}

static void pause_vm(struct vm *vm)
{
	struct error e = {0};

	if (vm_pause(vm, &e) < 0)
		die("guest", e.message);
}

static void save_vm(const struct bench *b, struct vm *vm)
{
	static const struct snapshot_needs full = {.memory_full = true,
		.part = {[SNAPSHOT_PART_STATE] = true, [SNAPSHOT_PART_MEMORY] = true}};
	struct snapshot_files f;
	struct error e = {0};

	if (snapshot_files_create(b->snapshot_dirfd, &full, &f, &e) < 0)
		die("save", e.message);
	f.disk_fd[0] = must(
		openat(b->snapshot_dirfd, "disk0", O_RDWR | O_CREAT | O_CLOEXEC, 0600), "disk0");
	if (vm_save(vm, &f, &e) < 0)
		die("save", e.message);
	snapshot_files_close(&f);
}

static void make_snapshot(struct bench *b, const char *guest)
{
	struct vm *vm = boot(b, guest);
	const volatile uint32_t *stage = guest_memory_ptr(&vm->memory, MAILBOX_AT, sizeof(*stage));

	vm_resume(vm);
	for (unsigned i = 0; i < WAIT_MS && *stage != 1; i++)
		(void)poll(NULL, 0, 1); /* sleeps */
	pause_vm(vm);
	if (*stage != 1)
		die("guest", "does not reach its loop");
	save_vm(b, vm);
	vm_free(vm);
}

static void prepare(
	struct bench *b, const struct options *o, const char *path, uint64_t memory_bytes)
{
	_cleanup_free_ char *state = NULL;
	size_t n;

	*b = (struct bench){.memory_bytes = memory_bytes};
	if (mkdir(path, 0700) < 0)
		die(path, strerror(errno));
	b->dirfd = must(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), path);
	if (mkdirat(b->dirfd, "snapshot", 0700) < 0)
		die("snapshot", strerror(errno));
	b->snapshot_dirfd =
		must(openat(b->dirfd, "snapshot", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "snapshot");
	(void)close(must(openat(b->dirfd, "delta", O_RDWR | O_CREAT | O_CLOEXEC, 0600), "delta"));
	b->floor.memory_fd =
		must(openat(b->dirfd, "base", O_RDWR | O_CREAT | O_CLOEXEC, 0600), "base");
	if (ftruncate(b->floor.memory_fd, BASE_BYTES) < 0)
		die("base", strerror(errno));
	(void)close(b->floor.memory_fd); /* empty */
	make_snapshot(b, o->guest);
	if (file_read(b->snapshot_dirfd, "state", SNAPSHOT_STATE_MAX, &state, &n) < 0 ||
		floor_load(&b->floor, state, n) < 0)
		die("snapshot", "cannot be read");
	b->floor.memory_fd =
		must(openat(b->snapshot_dirfd, "memory", O_RDONLY | O_CLOEXEC), "memory");
	b->floor.memory_bytes = memory_bytes;
}

static void bench_done(struct bench *b)
{
	(void)close(b->floor.memory_fd); /* only read */
	(void)close(b->snapshot_dirfd);
	(void)close(b->dirfd);
}

/* --- measurements --- */

struct results {
	struct samples floor, cold, create, claim;
	struct samples floor_end, end;
};

/* What a daemon keeps (sandbox/host_cpu.h). */
static uint64_t host_cpu(void)
{
	static uint64_t known;
	_cleanup_close_ int kvm_fd = known ? -1 : must(kvm_open(NULL), "/dev/kvm");
	struct cpu_facts f;

	if (!known && cpu_facts_here(kvm_fd, &f, NULL) == 0)
		known = cpu_facts_hash(&f);
	return known;
}

static struct vm *restore(const struct bench *b, int vsock_fd)
{
	struct vm_options o = {.hot_fd = -1,
		.console_fd = -1,
		.kvm_fd = must(kvm_open(NULL), "/dev/kvm"),
		.pagemap_fd = must(pages_open(-1), "pagemap"),
		.vsock_listen_fd = vsock_fd,
		.host_cpu = host_cpu()};
	struct error e = {0};
	struct vm *vm;

	open_files(b, &o);
	o.state_fd = must(openat(b->snapshot_dirfd, "state", O_RDONLY | O_CLOEXEC), "state");
	o.memory_fd = must(openat(b->snapshot_dirfd, "memory", O_RDONLY | O_CLOEXEC), "memory");
	if (vm_create(&o, &vm, &e) < 0)
		die("restore", e.message);
	(void)close(o.state_fd);  /* only read */
	(void)close(o.memory_fd); /* only read */
	return vm;
}

/* The exit is stamped by the vCPU's thread, so there is no hurry in looking. */
static uint64_t wait_first_exit(const struct vm *vm)
{
	for (unsigned i = 0; i < WAIT_MS * 5; i++) {
		struct vm_stats s;

		vm_get_stats(vm, &s);
		if (s.first_exit_ns)
			return s.first_exit_ns;
		(void)usleep(200); /* sleeps */
	}
	die("guest", "does not leave");
}

static void measure_floor(const struct bench *b, struct results *r)
{
	struct floor_times t;

	if (floor_run(&b->floor, &t) < 0)
		die("floor", "failed");
	samples_add(&r->floor, t.first_exit_ns);
	samples_add(&r->floor_end, t.teardown_ns);
}

static void measure_cold(const struct bench *b, struct results *r)
{
	int vsock_fd = listen_socket(b);
	uint64_t begin = clock_monotonic_ns(), created;
	struct vm *vm = restore(b, vsock_fd);

	created = clock_monotonic_ns();
	vm_resume(vm);
	samples_add(&r->cold, wait_first_exit(vm) - begin);
	samples_add(&r->create, created - begin);
	pause_vm(vm);
	begin = clock_monotonic_ns();
	vm_free(vm);
	samples_add(&r->end, clock_monotonic_ns() - begin);
}

static void measure_claim(const struct bench *b, struct results *r)
{
	struct vm *vm = restore(b, listen_socket(b));
	uint64_t begin;

	(void)usleep(1000); /* it waits for a customer: its threads have come to rest */
	begin = clock_monotonic_ns();
	vm_resume(vm);
	samples_add(&r->claim, wait_first_exit(vm) - begin);
	vm_free(vm);
}

static void measure(const struct bench *b, struct results *r, unsigned rounds)
{
	struct samples *all[] = {
		&r->floor, &r->cold, &r->create, &r->claim, &r->floor_end, &r->end};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		samples_init(all[i], rounds);
	for (unsigned i = 0; i < rounds; i++) {
		measure_floor(b, r);
		measure_cold(b, r);
		measure_claim(b, r);
	}
}

static void print_calls(const char *what, uint64_t memory_bytes, uint64_t total)
{
	const struct calls_row *rows;
	unsigned n = calls_rows(&rows);
	uint64_t calls = 0;

	(void)printf("\n%s of %llu MB, mean of %d: %.1f us %21s\n", what,
		(unsigned long long)(memory_bytes >> 20), STEP_ROUNDS,
		(double)total / STEP_ROUNDS / 1000, "longest call");
	for (unsigned i = 0; i < n; i++) {
		(void)printf("  %-28s %5.1f calls %8.1f us %8.1f us\n", rows[i].name,
			(double)rows[i].count / STEP_ROUNDS,
			(double)rows[i].ns / STEP_ROUNDS / 1000, (double)rows[i].max_ns / 1000);
		calls += rows[i].ns;
	}
	(void)printf("  %-28s %11s %8.1f us\n", "outside of these calls", "",
		(double)(total - calls) / STEP_ROUNDS / 1000);
	calls_clear();
}

static uint64_t timed_restore(const struct bench *b, bool count, struct vm **ret)
{
	int vsock_fd = listen_socket(b);
	uint64_t begin = clock_monotonic_ns();

	calls_enable(count);
	*ret = restore(b, vsock_fd);
	calls_enable(false);
	return clock_monotonic_ns() - begin;
}

static uint64_t timed_free(struct vm *vm, bool count)
{
	uint64_t begin;

	vm_resume(vm);
	(void)wait_first_exit(vm); /* only waited for */
	pause_vm(vm);
	begin = clock_monotonic_ns();
	calls_enable(count);
	vm_free(vm);
	calls_enable(false);
	return clock_monotonic_ns() - begin;
}

/* Which calls a cold restore and its teardown make, and what each costs. */
static void print_steps(const struct bench *b)
{
	for (unsigned teardown = 0; teardown < 2; teardown++) {
		uint64_t total[2] = {0};

		for (unsigned i = 0; i < STEP_ROUNDS; i++) {
			struct vm *vm;

			total[0] += timed_restore(b, !teardown, &vm);
			total[1] += timed_free(vm, teardown);
		}
		print_calls(teardown ? "vm_free" : "vm_create", b->memory_bytes, total[teardown]);
	}
}

/* --- output --- */

static void print_row(const char *name, struct samples *s, struct samples *floor)
{
	(void)printf("  %-34s %8.3f %8.3f %8.3f", name, (double)samples_percentile(s, 50) / 1e6,
		(double)samples_percentile(s, 90) / 1e6, (double)samples_percentile(s, 99) / 1e6);
	if (floor)
		(void)printf(" %8.2f",
			(double)samples_percentile(s, 50) / (double)samples_percentile(floor, 50));
	(void)printf("\n");
}

static void print_results(uint64_t memory_bytes, unsigned rounds, struct results *r)
{
	(void)printf("\n%4llu MB, %4u rounds, in ms %9s %8s %8s %8s %8s\n",
		(unsigned long long)(memory_bytes >> 20), rounds, "", "p50", "p90", "p99",
		"/ floor");
	print_row("floor: bare KVM calls", &r->floor, NULL);
	print_row("cold restore to first exit", &r->cold, &r->floor);
	print_row("  of it vm_create", &r->create, NULL);
	print_row("claim of a waiting VM", &r->claim, &r->floor);
	print_row("teardown, bare", &r->floor_end, NULL);
	print_row("teardown", &r->end, &r->floor_end);
}

static double ratio(struct samples *a, struct samples *b)
{
	return (double)samples_percentile(a, 50) / (double)samples_percentile(b, 50);
}

static void write_results(struct report *j, uint64_t memory_bytes, struct results *r)
{
	report_open(j, NULL, '{');
	report_integer(j, "memory_mb", memory_bytes >> 20);
	report_samples(j, "floor", &r->floor);
	report_samples(j, "cold_restore", &r->cold);
	report_samples(j, "cold_restore_create", &r->create);
	report_samples(j, "claim", &r->claim);
	report_samples(j, "floor_teardown", &r->floor_end);
	report_samples(j, "teardown", &r->end);
	report_number(j, "cold_to_floor_p50", ratio(&r->cold, &r->floor));
	report_number(j, "claim_to_floor_p50", ratio(&r->claim, &r->floor));
	report_close(j, '}');
}

static void run_size(const struct options *o, struct report *j, const char *path, uint64_t bytes)
{
	static struct bench b; /* large */
	struct results r;

	prepare(&b, o, path, bytes);
	measure_floor(&b, &(struct results){0}); /* the first one warms caches up */
	measure(&b, &r, o->rounds);
	print_results(bytes, o->rounds, &r);
	write_results(j, bytes, &r);
	if (o->steps)
		print_steps(&b);
	bench_done(&b);
	samples_done(&r.floor);
	samples_done(&r.cold);
	samples_done(&r.create);
	samples_done(&r.claim);
	samples_done(&r.floor_end);
	samples_done(&r.end);
}

static char dir[4096];

static void remove_dir(void)
{
	(void)file_remove_tree(AT_FDCWD, dir); /* temporary */
}

static void run_all(const struct options *o, struct report *j)
{
	static const unsigned sizes_mb[] = {256, 2048};
	char sub[4200];

	(void)snprintf(dir, sizeof(dir), "%s/mayfly-bench-XXXXXX", o->dir); /* checked by mkdtemp */
	if (!mkdtemp(dir))
		die(dir, strerror(errno));
	(void)atexit(remove_dir); /* failing, it stays behind */
	report_open(j, NULL, '{');
	report_string(j, "benchmark", "native");
	report_machine(j);
	report_integer(j, "rounds", o->rounds);
	report_open(j, "sizes", '[');
	print_machine();
	for (size_t i = 0; i < sizeof(sizes_mb) / sizeof(sizes_mb[0]); i++) {
		(void)snprintf(sub, sizeof(sub), "%s/%u", dir, sizes_mb[i]); /* fits */
		run_size(o, j, sub, (uint64_t)sizes_mb[i] << 20);
	}
	report_close(j, ']');
	report_close(j, '}');
}

static void usage(void)
{
	(void)fprintf(stderr, "usage: bench-native [--rounds N] [--json FILE] [--steps] [--guest "
			      "FILE] [--dir DIR]\n");
	exit(2);
}

static void parse(int argc, char **argv, struct options *o)
{
	static const struct option names[] = {{"rounds", required_argument, NULL, 'r'},
		{"json", required_argument, NULL, 'j'}, {"steps", no_argument, NULL, 's'},
		{"guest", required_argument, NULL, 'g'}, {"dir", required_argument, NULL, 'd'},
		{0}};
	const char *tmp = getenv("TMPDIR");
	int c;

	*o = (struct options){.guest = BENCH_GUEST, .rounds = 300, .dir = tmp ? tmp : "/tmp"};
	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 'r':
			o->rounds = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'j':
			o->json = optarg;
			break;
		case 's':
			o->steps = true;
			break;
		case 'g':
			o->guest = optarg;
			break;
		case 'd':
			o->dir = optarg;
			break;
		default:
			usage();
		}
	}
	if (optind != argc || o->rounds == 0 || o->rounds > 100000)
		usage();
}

int main(int argc, char **argv)
{
	struct report j = {0};
	struct options o;

	parse(argc, argv, &o);
	if (o.json) {
		j.f = fopen(o.json, "we");
		if (!j.f)
			die(o.json, strerror(errno));
	}
	run_all(&o, &j);
	if (j.f && fclose(j.f) != 0)
		die(o.json, strerror(errno));
	return 0;
}
