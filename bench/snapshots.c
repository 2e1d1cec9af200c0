/* Snapshots on this machine: how long a live one stops the guest beside a plain copy of the same
 * bytes, what a pause and a resume take, and forks, roll-backs and claims by processes (forks.c).
 *
 * The guest is a bare one that writes the same pages over and over, so that just these are dirty at
 * any moment. Everything lies on the file system of --dir, a tmpfs unless said otherwise: no disk
 * is measured. */
#include "snapshots.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "sandbox/host_cpu.h"
#include "vmm/kvm.h"
#include "vmm/pages.h"
#include "vmm/vm_internal.h"

enum { WAIT_MS = 5000, MAILBOX_AT = 0x30000, BASE_BYTES = 8 << 20, IOVECS = 256 };

_Noreturn void bench_die(const char *what, const char *why)
{
	(void)fprintf(stderr, "bench-snapshots: %s: %s\n", what, why); /* stderr is all there is */
	exit(1);
}

static int must(int fd, const char *what)
{
	if (fd < 0)
		bench_die(what, strerror(errno));
	return fd;
}

/* --- a machine and its snapshots --- */

struct bench {
	int dirfd; /* owned */
	unsigned deltas, snapshots;
	char memory[32], layers[SNAPSHOT_LAYERS_MAX][32], deltas_below[SNAPSHOT_LAYERS_MAX][32];
	unsigned layer_count, delta_count;
	char state[32];
};

static int create(struct bench *b, const char *name)
{
	return must(openat(b->dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600), name);
}

static int reopen(struct bench *b, const char *name)
{
	return must(openat(b->dirfd, name, O_RDONLY | O_CLOEXEC), name);
}

static int new_delta(struct bench *b)
{
	char name[32];

	(void)snprintf(name, sizeof(name), "delta%u", ++b->deltas); /* fits */
	return create(b, name);
}

static struct vm *boot(struct bench *b, const char *line)
{
	struct vm_options o = {.cpus = 1,
		.memory_bytes = BENCH_MEMORY_BYTES,
		.initrd_fd = -1,
		.state_fd = -1,
		.cmdline = line,
		.console_fd = -1,
		.kvm_fd = must(kvm_open(NULL), "/dev/kvm"),
		.pagemap_fd = must(pages_open(-1), "pagemap"),
		.vsock_listen_fd = -1,
		.disk_count = 1};
	struct error e = {0};
	struct vm *vm;

	o.kernel_fd = must(open(BENCH_GUEST, O_RDONLY | O_CLOEXEC), BENCH_GUEST);
	o.disks[0] = (struct vm_disk){
		.base_fd = reopen(b, "image"), .delta_fd = new_delta(b), .bytes = BASE_BYTES};
	if (vm_create(&o, &vm, &e) < 0)
		bench_die("boot", e.message);
	(void)close(o.kernel_fd); /* only read */
	return vm;
}

/* On the last snapshot, or on its base only. */
static struct vm *restore(struct bench *b, bool layers)
{
	struct vm_options o = {.hot_fd = -1,
		.console_fd = -1,
		.host_cpu = host_cpu_hash(),
		.kvm_fd = must(kvm_open(NULL), "/dev/kvm"),
		.pagemap_fd = must(pages_open(-1), "pagemap"),
		.vsock_listen_fd = -1,
		.disk_count = 1};
	struct error e = {0};
	struct vm *vm;

	o.disks[0] = (struct vm_disk){
		.base_fd = reopen(b, "image"), .delta_fd = new_delta(b), .bytes = BASE_BYTES};
	o.state_fd = reopen(b, layers ? b->state : "full/state");
	o.memory_fd = reopen(b, b->memory);
	for (unsigned i = 0; layers && i < b->layer_count; i++)
		o.layer_fds[o.layer_count++] = reopen(b, b->layers[i]);
	for (unsigned i = 0; i < (layers ? b->delta_count : 1); i++)
		o.disks[0].lower_fds[o.disks[0].lower_count++] = reopen(b, b->deltas_below[i]);
	if (vm_create(&o, &vm, &e) < 0)
		bench_die("restore", e.message);
	(void)close(o.state_fd); /* only read */
	(void)close(o.memory_fd);
	for (unsigned i = 0; i < o.layer_count; i++)
		(void)close(o.layer_fds[i]);
	return vm;
}

/* Until the guest has written all of its pages since now. */
static void wait_pass(struct vm *vm)
{
	const volatile uint32_t *beat =
		guest_memory_ptr(&vm->memory, MAILBOX_AT + 16, sizeof(*beat));
	uint32_t before = *beat;

	for (unsigned i = 0; i < WAIT_MS * 10 && *beat - before < 2; i++)
		(void)usleep(100); /* sleeps */
	if (*beat - before < 2)
		bench_die("guest", "does not go on");
}

static uint64_t wait_first_exit(const struct vm *vm)
{
	for (unsigned i = 0; i < WAIT_MS * 5; i++) {
		struct vm_stats s;

		vm_get_stats(vm, &s);
		if (s.first_exit_ns)
			return s.first_exit_ns;
		(void)usleep(200); /* sleeps */
	}
	bench_die("guest", "does not leave");
}

static void note_snapshot(struct bench *b, const char *name, const struct vm_snapshot_result *r)
{
	if (r->memory_full || r->memory_merged)
		b->layer_count = 0;
	if (r->disk_merged[0])
		b->delta_count = 0;
	(void)snprintf(b->state, sizeof(b->state), "%s/state", name); /* short names */
	if (r->memory_full)
		(void)snprintf(b->memory, sizeof(b->memory), "%s/memory", name);
	if (r->memory_merged)
		(void)snprintf(b->layers[b->layer_count++], 32, "%s/memory.merged", name);
	if (!r->memory_full)
		(void)snprintf(b->layers[b->layer_count++], 32, "%s/memory.layer", name);
	if (r->disk_merged[0])
		(void)snprintf(b->deltas_below[b->delta_count++], 32, "%s/disk0.merged", name);
	(void)snprintf(b->deltas_below[b->delta_count++], 32, "%s/disk0", name);
}

static void take(
	struct bench *b, struct vm *vm, const char *name, bool final, struct vm_snapshot_result *r)
{
	struct vm_snapshot_options o = {.final = final};
	struct snapshot_needs needs = vm_snapshot_needs(vm);
	char from[32], to[48];
	int dirfd;
	struct error e = {0};

	if (mkdirat(b->dirfd, name, 0700) < 0)
		bench_die(name, strerror(errno));
	(void)snprintf(from, sizeof(from), "delta%u", b->deltas); /* fits */
	(void)snprintf(to, sizeof(to), "%s/disk0", name);	  /* fits */
	if (linkat(b->dirfd, from, b->dirfd, to, 0) < 0)
		bench_die(to, strerror(errno));
	dirfd = must(openat(b->dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), name);
	if (snapshot_files_create(dirfd, &needs, &o.files, &e) < 0)
		bench_die(name, e.message);
	if (!final)
		o.files.disk_fd[0] = new_delta(b);
	if (vm_snapshot(vm, &o, r, &e) < 0)
		bench_die("vm_snapshot", e.message);
	(void)close(dirfd); /* only a directory */
	note_snapshot(b, name, r);
}

/* A running guest with so many dirty pages, on a full snapshot "full". */
static struct vm *begin(struct bench *b, const char *path, uint64_t pages, unsigned step)
{
	struct vm_snapshot_result r;
	char line[64];
	struct vm *vm;
	int image;

	*b = (struct bench){0};
	if (mkdir(path, 0700) < 0)
		bench_die(path, strerror(errno));
	b->dirfd = must(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), path);
	image = create(b, "image");
	if (ftruncate(image, BASE_BYTES) < 0)
		bench_die("image", strerror(errno));
	(void)close(image); /* empty */
	(void)snprintf(line, sizeof(line), "pages %llu",
		(unsigned long long)(pages + 1000000ull * (step - 1))); /* fits */
	vm = boot(b, line);
	vm_resume(vm);
	wait_pass(vm);
	take(b, vm, "full", false, &r);
	return vm;
}

static void end(struct bench *b, struct vm *vm, const char *path)
{
	vm_free(vm);
	(void)close(b->dirfd);			/* only a directory */
	(void)file_remove_tree(AT_FDCWD, path); /* temporary */
}

/* --- what is measured --- */

/* What a copy of the dirty pages costs: the same bytes, from the same places. */
static uint64_t time_copy(struct bench *b, struct vm *vm, const struct page_set *pages)
{
	int fd = create(b, "copy");
	uint64_t begin, at = 0;

	begin = clock_monotonic_ns();
	for (uint32_t i = 0; i < pages->count;) {
		struct iovec iov[IOVECS];
		uint64_t bytes = 0;
		unsigned n = 0;

		for (; n < IOVECS && i < pages->count; n++, i++) {
			iov[n].iov_base =
				vm->memory.map + (uint64_t)pages->ranges[i].first * PAGE_BYTES;
			iov[n].iov_len = (uint64_t)pages->ranges[i].count * PAGE_BYTES;
			bytes += iov[n].iov_len;
		}
		if (fd_pwritev_full(fd, iov, n, (off_t)at) < 0)
			bench_die("copy", "failed");
		at += bytes;
	}
	begin = clock_monotonic_ns() - begin;
	(void)close(fd); /* not needed */
	(void)unlinkat(b->dirfd, "copy", 0);
	return begin;
}

static void pause_vm(struct vm *vm)
{
	struct error e = {0};

	if (vm_pause(vm, &e) < 0)
		bench_die("guest", e.message);
}

static uint64_t copy_dirty(struct bench *b, struct vm *vm)
{
	struct page_set pages = {0};
	uint64_t ns;

	pause_vm(vm);
	if (pages_written(&vm->memory, vm->pagemap_fd, &pages) < 0)
		bench_die("copy", "cannot find the dirty pages");
	ns = time_copy(b, vm, &pages);
	vm_resume(vm);
	page_set_done(&pages);
	return ns;
}

static uint64_t snapshot_bytes(struct bench *b, const char *name)
{
	static const char *const files[] = {"memory.layer", "disk0", "state"};
	uint64_t n = 0;
	char path[64];

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", name, files[i]); /* short names */
		n += file_disk_bytes(b->dirfd, path);
	}
	return n;
}

struct live {
	struct samples copy, stop, whole;
	uint64_t bytes; /* on disk, of the last snapshot */
};

static void live_round(struct bench *b, struct vm *vm, struct live *l)
{
	struct vm_snapshot_result r;
	uint64_t begin;
	char name[16];

	(void)snprintf(name, sizeof(name), "S%u", b->snapshots++); /* fits */
	wait_pass(vm);
	samples_add(&l->copy, copy_dirty(b, vm));
	wait_pass(vm);
	begin = clock_monotonic_ns();
	take(b, vm, name, false, &r);
	samples_add(&l->whole, clock_monotonic_ns() - begin);
	samples_add(&l->stop, r.stop_ns);
	l->bytes = snapshot_bytes(b, name);
}

static void bench_live(
	const char *path, uint64_t mb, unsigned step, unsigned rounds, struct report *j)
{
	uint64_t pages = (mb << 20) / PAGE_BYTES;
	struct live l = {.bytes = 0};
	struct bench b;
	struct vm *vm = begin(&b, path, pages, step);

	samples_init(&l.copy, rounds);
	samples_init(&l.stop, rounds);
	samples_init(&l.whole, rounds);
	for (unsigned i = 0; i < rounds; i++)
		live_round(&b, vm, &l);
	(void)printf("\n%3llu MB dirty%s, %u rounds, in ms; %.1f MB on disk\n",
		(unsigned long long)mb, step > 1 ? ", scattered" : "", rounds,
		(double)l.bytes / 1048576);
	bench_row("floor: plain copy", &l.copy, NULL);
	bench_row("live snapshot: stop", &l.stop, &l.copy);
	bench_row("until it is complete", &l.whole, &l.copy);
	report_open(j, NULL, '{');
	report_integer(j, "dirty_mb", mb);
	report_integer(j, "step_pages", step);
	report_integer(j, "bytes_on_disk", l.bytes);
	report_samples(j, "copy", &l.copy);
	report_samples(j, "stop", &l.stop);
	report_samples(j, "complete", &l.whole);
	report_close(j, '}');
	samples_done(&l.copy);
	samples_done(&l.stop);
	samples_done(&l.whole);
	end(&b, vm, path);
}

struct pause {
	struct samples pause, stop, cold, resume;
};

static uint64_t time_restore(struct bench *b, bool layers)
{
	uint64_t start = clock_monotonic_ns();
	struct vm *vm = restore(b, layers);
	uint64_t exited;

	vm_resume(vm);
	exited = wait_first_exit(vm);
	vm_free(vm);
	return exited - start;
}

/* Pauses on a fresh machine each, so that no round stands on the one before. */
static void pause_round(struct bench *b, struct pause *p)
{
	struct bench base = *b;
	struct vm_snapshot_result r;
	struct vm *vm;
	uint64_t start;
	char name[16];

	base.layer_count = 0;
	base.delta_count = 1;
	(void)snprintf(base.state, sizeof(base.state), "full/state"); /* fits */
	vm = restore(&base, true);
	vm_resume(vm);
	wait_pass(vm);
	(void)snprintf(name, sizeof(name), "P%u", b->snapshots++); /* fits */
	start = clock_monotonic_ns();
	take(&base, vm, name, true, &r);
	samples_add(&p->pause, clock_monotonic_ns() - start);
	samples_add(&p->stop, r.stop_ns);
	vm_free(vm);
	samples_add(&p->cold, time_restore(&base, false));
	samples_add(&p->resume, time_restore(&base, true));
	base.snapshots = b->snapshots;
	b->deltas = base.deltas;
}

static void bench_pause(
	const char *path, uint64_t mb, unsigned step, unsigned rounds, struct report *j)
{
	struct pause p;
	struct bench b;
	struct vm *vm = begin(&b, path, (mb << 20) / PAGE_BYTES, step);
	struct samples *all[] = {&p.pause, &p.stop, &p.cold, &p.resume};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		samples_init(all[i], rounds);
	pause_vm(vm);
	for (unsigned i = 0; i < rounds; i++)
		pause_round(&b, &p);
	(void)printf("\npause and resume, %llu MB dirty%s, in ms\n", (unsigned long long)mb,
		step > 1 ? ", scattered" : "");
	bench_row("pause, until it is complete", &p.pause, NULL);
	bench_row("cold restore, to the first exit", &p.cold, NULL);
	bench_row("resume, to the first exit", &p.resume, &p.cold);
	report_open(j, NULL, '{');
	report_integer(j, "dirty_mb", mb);
	report_integer(j, "step_pages", step);
	report_samples(j, "pause", &p.pause);
	report_samples(j, "cold_restore", &p.cold);
	report_samples(j, "resume", &p.resume);
	report_close(j, '}');
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		samples_done(all[i]);
	end(&b, vm, path);
}

/* --- output --- */

void bench_row(const char *name, struct samples *s, struct samples *floor)
{
	(void)printf("  %-34s %8.3f %8.3f %8.3f %8.3f", name,
		(double)samples_percentile(s, 50) / 1e6, (double)samples_percentile(s, 90) / 1e6,
		(double)samples_percentile(s, 99) / 1e6,
		(double)samples_percentile(s, 0.001) / 1e6);
	if (floor)
		(void)printf(" %8.2f",
			(double)samples_percentile(s, 50) / (double)samples_percentile(floor, 50));
	(void)printf("\n");
	(void)fflush(stdout); /* shows how far it is */
}

static char dir[4096];

static void remove_dir(void)
{
	(void)file_remove_tree(AT_FDCWD, dir); /* temporary */
}

static void run_all(const char *parent, unsigned rounds, bool freeze, struct report *j)
{
	static const struct {
		unsigned mb, step;
	} live[] = {{1, 1}, {7, 1}, {7, 8}, {10, 1}, {100, 1}};
	char path[4200];

	(void)snprintf(dir, sizeof(dir), "%s/mayfly-bench-XXXXXX", parent); /* checked by mkdtemp */
	if (!mkdtemp(dir))
		bench_die(dir, strerror(errno));
	(void)atexit(remove_dir);			 /* failing, it stays behind */
	(void)snprintf(path, sizeof(path), "%s/b", dir); /* fits */
	report_open(j, NULL, '{');
	report_string(j, "benchmark", "snapshots");
	report_machine(j);
	print_machine();
	(void)printf("columns: p50, p90, p99, least, p50 to the floor's\n");
	if (freeze) {
		bench_freezes(path, rounds, j);
		report_close(j, '}');
		return;
	}
	report_open(j, "live", '[');
	for (size_t i = 0; i < ARRAY_SIZE(live); i++)
		bench_live(path, live[i].mb, live[i].step,
			live[i].mb < 100 ? rounds : rounds / 4 + 1, j);
	report_close(j, ']');
	report_open(j, "pause", '[');
	bench_pause(path, 7, 1, rounds, j);
	bench_pause(path, 7, 8, rounds, j);
	report_close(j, ']');
	bench_forks(path, rounds, j);
	report_close(j, '}');
}

static void usage(void)
{
	(void)fprintf(stderr,
		"usage: bench-snapshots [--freeze] [--rounds N] [--json FILE] [--dir DIR]\n");
	exit(2);
}

int main(int argc, char **argv)
{
	static const struct option names[] = {{"rounds", required_argument, NULL, 'r'},
		{"json", required_argument, NULL, 'j'}, {"dir", required_argument, NULL, 'd'},
		{"freeze", no_argument, NULL, 'f'}, {0}};
	const char *parent = "/dev/shm", *json = NULL;
	struct report j = {0};
	unsigned long rounds = 40;
	bool freeze = false;
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (c == 'r')
			rounds = strtoul(optarg, NULL, 10);
		else if (c == 'j')
			json = optarg;
		else if (c == 'd')
			parent = optarg;
		else if (c == 'f')
			freeze = true;
		else
			usage();
	}
	if (optind != argc || rounds == 0 || rounds > 10000)
		usage();
	j.f = json ? fopen(json, "we") : NULL;
	if (json && !j.f)
		bench_die(json, strerror(errno));
	run_all(parent, (unsigned)rounds, freeze, &j);
	if (j.f && fclose(j.f) != 0)
		bench_die(json, strerror(errno));
	return 0;
}
