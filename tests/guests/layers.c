/* Incremental and live snapshots of bare guests: chains, siblings, damaged layers, faults. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/crc32c.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/file.h"
#include "harness.h"
#include "proto/memory_layer.h"
#include "proto/snapshot.h"

enum { PAUSES = 40 }; /* TEST_CYCLES: another number */

enum {
	PAGES = (MEMORY_MB << 20) / 4096,
	LINKS = 20,
	SCATTER = 200, /* pages written between two links */
	SIBLINGS = 4,
	PAUSING = 20,
	PAUSE_PAGES = 20,
	STORM_PAIRS = 128,
	STORM_SNAPSHOTS = 12,
	CORRUPTIONS = 2000,
	FORGERIES = 400,
};

/* --- the scattering guest --- */

/* Lets it write: how many pages, and what moves its random numbers. */
static void scatter(struct machine *m, uint32_t *stage, uint32_t pages, uint32_t seed)
{
	machine_mailbox(m)->value = (uint64_t)seed << 32 | pages;
	machine_answer(m, *stage);
	machine_wait_stage(m, ++*stage);
}

/* The guest checks all of its memory and disk, and powers off. */
static void finish(struct machine *m, uint32_t stage)
{
	machine_mailbox(m)->value = 0;
	machine_answer(m, stage);
	machine_expect_pass(m);
	machine_free(m);
}

/* A running guest at its first stage, on top of a full live snapshot "full". */
static void begin(const struct test *t, struct machine *m, struct lineage *l)
{
	*l = (struct lineage){0};
	machine_boot(m, t->guest, t->line, t->cpus);
	vm_resume(m->vm);
	machine_wait_stage(m, 1);
	machine_snapshot(m, "full", false, l);
}

static void sum_pages(struct machine *m, uint32_t *sums)
{
	const uint8_t *p = machine_memory(m, 0, (uint64_t)MEMORY_MB << 20);

	machine_pause(m);
	for (unsigned i = 0; i < PAGES; i++)
		sums[i] = crc32c(0, p + i * 4096, 4096);
	vm_resume(m->vm);
}

static void expect_pages(struct machine *m, const uint32_t *sums, const char *what)
{
	const uint8_t *p = machine_memory(m, 0, (uint64_t)MEMORY_MB << 20);

	for (unsigned i = 0; i < PAGES; i++)
		if (crc32c(0, p + i * 4096, 4096) != sums[i])
			fail("%s: page %u is not what it was", what, i);
}

static uint64_t disk_blocks(const char *path)
{
	struct stat st;

	CHECK(fstatat(work_dirfd, path, &st, 0) == 0);
	return (uint64_t)st.st_blocks;
}

struct link {
	struct lineage l;
	uint32_t stage;
	uint32_t sums[PAGES];
};

static void make_link(struct machine *m, struct link *k, struct lineage *l, unsigned i)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "L%u", i); /* fits */
	sum_pages(m, k->sums);
	machine_snapshot(m, name, i == LINKS, l);
	k->l = *l;
	k->l.check = true;
}

static void check_link(const struct link *k, unsigned i)
{
	struct machine m;
	char what[24];
	uint32_t stage = k->stage;

	(void)snprintf(what, sizeof(what), "link %u", i); /* fits */
	machine_restore_lineage(&m, &k->l);
	expect_pages(&m, k->sums, what);
	vm_resume(m.vm);
	scatter(&m, &stage, 50, i);
	finish(&m, stage);
}

/* --- pauses --- */

struct pausing {
	struct machine m; /* stands still but for its turn */
	struct lineage l;
	uint32_t stage;
};

/* It writes, is kept as what was written since the last time, ended, and made again of that. */
static void pause_once(struct pausing *p, unsigned machine, unsigned cycle, uint32_t pages)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "P%u-%u", machine, cycle); /* fits */
	vm_resume(p->m.vm);
	scatter(&p->m, &p->stage, pages, cycle);
	machine_snapshot(&p->m, name, true, &p->l);
	machine_free(&p->m);
	p->l.check = cycle % 10 == 0;
	machine_restore_lineage(&p->m, &p->l);
}

static unsigned pauses_wanted(void)
{
	const char *s = getenv("TEST_CYCLES");

	return s ? (unsigned)strtoul(s, NULL, 10) : PAUSES;
}

/* Many pauses of 20 machines that write memory and disk in between. Each finds every page and
 * sector as it left it, every time. */
static void pauses(const struct test *t)
{
	static struct pausing all[PAUSING];
	unsigned count = pauses_wanted();

	for (unsigned i = 0; i < PAUSING; i++) {
		machine_boot(&all[i].m, t->guest, t->line, t->cpus);
		vm_resume(all[i].m.vm);
		all[i].stage = 1;
		machine_wait_stage(&all[i].m, 1);
		machine_pause(&all[i].m);
	}
	for (unsigned n = 0; n < count; n++)
		pause_once(&all[n % PAUSING], n % PAUSING, n / PAUSING, PAUSE_PAGES);
	for (unsigned i = 0; i < PAUSING; i++) {
		vm_resume(all[i].m.vm);
		finish(&all[i].m, all[i].stage);
	}
}

/* 20 snapshots, each of what was written since the one before, the last one final. Layers and
 * deltas are merged on the way. Every one of them is what the machine was. */
static void chain(const struct test *t)
{
	static struct link links[LINKS + 1]; /* large */
	struct lineage l;
	struct machine m;
	uint32_t stage = 1;

	begin(t, &m, &l);
	for (unsigned i = 1; i <= LINKS; i++) {
		scatter(&m, &stage, SCATTER, i);
		links[i].stage = stage;
		make_link(&m, &links[i], &l, i);
	}
	machine_free(&m);
	CHECK(l.layer_count < LINKS && l.delta_count < LINKS); /* merged */
	CHECK(disk_blocks("L1/memory.layer") * 512 < 4 * (SCATTER + 64) * 4096);
	for (unsigned i = 1; i <= LINKS; i++)
		check_link(&links[i], i);
}

/* The machine goes on after many snapshots, without being restored from one. */
static void go_on(const struct test *t)
{
	struct lineage l;
	struct machine m;
	uint32_t stage = 1;
	char name[16];

	begin(t, &m, &l);
	for (unsigned i = 0; i < 3 * LINKS; i++) {
		(void)snprintf(name, sizeof(name), "S%u", i); /* fits */
		scatter(&m, &stage, 20, i);
		machine_snapshot(&m, name, false, &l);
	}
	finish(&m, stage);
}

/* A chain where each link is restored from the one before, as pause and resume make it. */
static void pause_and_resume(const struct test *t)
{
	struct pausing p = {.stage = 1};

	begin(t, &p.m, &p.l);
	machine_pause(&p.m);
	for (unsigned i = 0; i < LINKS; i++)
		pause_once(&p, 0, i, 50);
	vm_resume(p.m.vm);
	finish(&p.m, p.stage);
}

/* --- siblings --- */

static uint32_t file_crc(const char *path)
{
	char *file;
	size_t n;
	uint32_t crc;

	CHECK(file_read(work_dirfd, path, 128 << 20, &file, &n) == 0);
	crc = crc32c(0, file, n);
	free(file);
	return crc;
}

/* Parent and children write all over their memory and disk, in turn; each finds what it wrote
 * itself and nothing else, and so do children made afterwards. */
static void isolation(const struct test *t)
{
	struct machine m[SIBLINGS + 1], late;
	uint32_t stage[SIBLINGS + 1], first = 1, layer, base;
	struct lineage l, children;

	begin(t, &m[0], &l);
	scatter(&m[0], &first, SCATTER, 1);
	machine_snapshot(&m[0], "fork", false, &l);
	children = l;
	layer = file_crc("fork/memory.layer");
	base = file_crc("full/memory");
	stage[0] = first;
	for (unsigned i = 1; i <= SIBLINGS; i++) {
		machine_restore_lineage(&m[i], &children);
		vm_resume(m[i].vm);
		stage[i] = first;
	}
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i <= SIBLINGS; i++)
			scatter(&m[i], &stage[i], 300, 1000 * i + round);
	machine_restore_lineage(&late, &children);
	vm_resume(late.vm);
	finish(&late, first);
	for (unsigned i = 0; i <= SIBLINGS; i++)
		finish(&m[i], stage[i]);
	CHECK(file_crc("fork/memory.layer") == layer && file_crc("full/memory") == base);
}

/* --- while all CPUs write --- */

static void check_pairs(struct machine *m, unsigned cpus, const char *what)
{
	uint64_t first = machine_mailbox(m)->value;

	for (unsigned i = 0; i < cpus * STORM_PAIRS; i++) {
		const uint64_t *a = machine_memory(m, first + (uint64_t)i * 2 * 4096, 8192);
		const uint64_t *b = a + 4096 / 8;

		if (*a != *b && *a != *b + 1)
			fail("%s: pair %u holds %llu and %llu", what, i, (unsigned long long)*a,
				(unsigned long long)*b);
	}
}

static uint64_t progress(struct machine *m, unsigned cpu)
{
	uint64_t at = machine_mailbox(m)->value + (uint64_t)cpu * 2 * STORM_PAIRS * 4096;

	return *(volatile uint64_t *)machine_memory(m, at, 8);
}

/* Every CPU of a running machine advances. */
static void expect_progress(struct machine *m, unsigned cpus)
{
	for (unsigned i = 0; i < cpus; i++) {
		uint64_t before = progress(m, i);

		for (unsigned k = 0; k < DEADLINE_MS && progress(m, i) == before; k++)
			(void)poll(NULL, 0, 1); /* sleeps */
		if (progress(m, i) == before)
			fail("CPU %u does not go on", i);
	}
}

static void storm(const struct test *t)
{
	static struct lineage at[STORM_SNAPSHOTS]; /* large */
	struct lineage l;
	struct machine m;
	char name[16];

	begin(t, &m, &l);
	for (unsigned i = 0; i < STORM_SNAPSHOTS; i++) {
		(void)snprintf(name, sizeof(name), "S%u", i); /* fits */
		expect_progress(&m, t->cpus);
		machine_snapshot(&m, name, false, &l);
		at[i] = l;
	}
	expect_progress(&m, t->cpus);
	machine_pause(&m);
	check_pairs(&m, t->cpus, "the parent");
	machine_free(&m);
	for (unsigned i = 0; i < STORM_SNAPSHOTS; i++) {
		(void)snprintf(name, sizeof(name), "snapshot %u", i); /* fits */
		machine_restore_lineage(&m, &at[i]);
		check_pairs(&m, t->cpus, name);
		vm_resume(m.vm);
		expect_progress(&m, t->cpus);
		machine_pause(&m);
		check_pairs(&m, t->cpus, name);
		machine_free(&m);
	}
}

/* --- damaged layers --- */

struct layer_file {
	int fd;
	uint8_t *good, *bad; /* owned */
	size_t bytes;
};

/* A lineage of a base and one layer, whose file is at hand. */
static void make_layer(const struct test *t, struct lineage *l, struct layer_file *f)
{
	struct machine m;
	uint32_t stage = 1;
	char *file;

	begin(t, &m, l);
	scatter(&m, &stage, SCATTER, 1);
	machine_snapshot(&m, "top", true, l);
	machine_free(&m);
	CHECK(l->layer_count == 1);
	l->check = true;
	CHECK(file_read(work_dirfd, l->layers[0], 128 << 20, &file, &f->bytes) == 0);
	f->good = (uint8_t *)file;
	f->bad = malloc(f->bytes);
	CHECK(f->bad);
	f->fd = openat(work_dirfd, l->layers[0], O_WRONLY | O_CLOEXEC);
	CHECK(f->fd >= 0);
}

static void layer_file_done(struct layer_file *f)
{
	(void)close(f->fd); /* a test's file */
	free(f->good);
	free(f->bad);
}

static uint64_t random_number(void)
{
	static uint64_t x = 88172645463325252;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

static void expect_refusal(const struct lineage *l, const char *what, uint64_t at)
{
	struct error e = {0};
	struct machine m;

	if (machine_try_restore_lineage(&m, l, &e) == 0)
		fail("%s %llu: restored", what, (unsigned long long)at);
	if ((e.code != ERROR_BAD_SNAPSHOT && e.code != ERROR_INCOMPATIBLE) || !e.message[0])
		fail("%s %llu: error %d (%s)", what, (unsigned long long)at, (int)e.code,
			e.message);
}

/* Half of the damage is in the head, where the table is. */
static void damage_once(const struct lineage *l, struct layer_file *f, unsigned i)
{
	uint64_t where = i % 2 ? f->bytes : layer_head_bytes(get_le32(f->good + 12));
	uint64_t at = random_number() % where;
	uint8_t byte = f->good[at] ^ (uint8_t)(1 << random_number() % 8);

	if (at >= LAYER_HEADER_BYTES + LAYER_RANGE_BYTES * get_le32(f->good + 12) &&
		at < layer_head_bytes(get_le32(f->good + 12)))
		return; /* padding: nobody reads it */
	CHECK(fd_pwrite_full(f->fd, &byte, 1, (off_t)at) == 0);
	expect_refusal(l, "byte", at);
	CHECK(fd_pwrite_full(f->fd, f->good + at, 1, (off_t)at) == 0);
}

static void refuse_damaged_layers(const struct test *t)
{
	struct layer_file f;
	struct lineage l;

	make_layer(t, &l, &f);
	for (unsigned i = 0; i < CORRUPTIONS; i++)
		damage_once(&l, &f, i);
	for (uint64_t n = 0; n < f.bytes; n += n < 200 ? 1 : 4096 + n / 3) {
		CHECK(ftruncate(f.fd, (off_t)n) == 0);
		expect_refusal(&l, "length", n);
		CHECK(fd_pwrite_full(f.fd, f.good, f.bytes, 0) == 0);
	}
	CHECK(ftruncate(f.fd, (off_t)f.bytes + 1) == 0);
	expect_refusal(&l, "length", f.bytes + 1);
	layer_file_done(&f);
}

/* Tables that somebody made up, with a checksum that is right. */
static void forge_once(const struct lineage *l, struct layer_file *f)
{
	static const uint64_t values[] = {0, 1, PAGES - 1, PAGES, UINT32_MAX, UINT32_MAX - 1};
	uint32_t ranges = get_le32(f->good + 12);
	uint8_t *p = f->bad + LAYER_HEADER_BYTES + random_number() % (ranges * 2) * 4;
	struct error e = {0};
	struct machine m;

	memcpy(f->bad, f->good, f->bytes);
	if (random_number() % 4 == 0)
		p = f->bad + 8 + random_number() % 16 * 4;
	put_le32(p, (uint32_t)(random_number() % 2 ? values[random_number() % 6]
						   : get_le32(p) + random_number() % 3 - 1));
	ranges = get_le32(f->bad + 12) < LAYER_RANGES_MAX ? get_le32(f->bad + 12) : 0;
	put_le32(f->bad + LAYER_HEADER_BYTES - 4,
		crc32c(crc32c(0, f->bad, LAYER_HEADER_BYTES - 4), f->bad + LAYER_HEADER_BYTES,
			ranges * LAYER_RANGE_BYTES));
	CHECK(fd_pwrite_full(f->fd, f->bad, f->bytes, 0) == 0);
	if (machine_try_restore_lineage(&m, l, &e) < 0) {
		CHECK(e.code != ERROR_NONE && e.message[0]);
		return;
	}
	vm_resume(m.vm);
	(void)machine_serve(&m, 1); /* however it ends */
	machine_pause(&m);
	machine_free(&m);
}

static void survive_forged_layers(const struct test *t)
{
	struct layer_file f;
	struct lineage l;

	make_layer(t, &l, &f);
	l.check = false;
	for (unsigned i = 0; i < FORGERIES; i++)
		forge_once(&l, &f);
	layer_file_done(&f);
}

/* Layers, state and base that do not belong together. */
static void refuse_wrong_stacks(const struct test *t)
{
	struct lineage l, first, wrong;
	struct machine m;
	uint32_t stage = 1;

	begin(t, &m, &l);
	scatter(&m, &stage, 20, 1);
	machine_snapshot(&m, "A", false, &l);
	first = l;
	scatter(&m, &stage, 20, 2);
	machine_snapshot(&m, "B", true, &l);
	machine_free(&m);
	wrong = l;
	memcpy(wrong.layers[0], l.layers[1], sizeof(wrong.layers[0]));
	memcpy(wrong.layers[1], l.layers[0], sizeof(wrong.layers[1]));
	expect_refusal(&wrong, "order", 0);
	wrong = l;
	wrong.layer_count = 1;
	expect_refusal(&wrong, "a layer less", 0);
	wrong = first;
	memcpy(wrong.layers[1], l.layers[1], sizeof(wrong.layers[1]));
	wrong.layer_count = 2;
	expect_refusal(&wrong, "a layer more", 0);
	wrong = l;
	memcpy(wrong.layers[0], l.layers[1], sizeof(wrong.layers[0]));
	wrong.layer_count = 1;
	expect_refusal(&wrong, "a gap", 0);
	wrong = l;
	memcpy(wrong.memory, l.layers[0], sizeof(wrong.memory));
	expect_refusal(&wrong, "a layer as base", 0);
	machine_restore_lineage(&m, &first);
	vm_resume(m.vm);
	finish(&m, stage - 1);
}

/* --- failures on the way --- */

static const char *const points[] = {"snapshot-prepared", "snapshot-pages-written",
	"snapshot-state-saved", "snapshot-disks-frozen", "snapshot-pages-adopted",
	"snapshot-captured", "snapshot-memory-complete", "snapshot-disks-synced",
	"snapshot-complete"};

/* The machine is what it was, goes on, and its next snapshot is good. */
static void expect_unharmed(struct machine *m, struct lineage *l, uint32_t *stage, const char *what)
{
	static uint32_t sums[PAGES]; /* large */
	struct machine child;
	uint32_t child_stage;

	scatter(m, stage, 30, 7);
	sum_pages(m, sums);
	machine_snapshot(m, what, false, l);
	machine_restore_lineage(&child, l);
	expect_pages(&child, sums, what);
	vm_resume(child.vm);
	child_stage = *stage;
	finish(&child, child_stage);
}

/* Its state says so. */
static bool is_snapshot(const char *name)
{
	_cleanup_free_ char *data = NULL;
	struct snapshot_reader reader;
	char path[32];
	size_t n;

	(void)snprintf(path, sizeof(path), "%s/state", name); /* short names */
	CHECK(file_read(work_dirfd, path, SNAPSHOT_STATE_MAX, &data, &n) == 0);
	return snapshot_reader_open(&reader, data, n, NULL) == 0;
}

static void fail_at(const struct test *t, const char *point, bool final)
{
	static uint32_t sums[PAGES]; /* large */
	struct vm_snapshot_result result;
	struct error e = {0};
	struct lineage l;
	struct machine m;
	uint32_t stage = 1;
	char spec[64];

	begin(t, &m, &l);
	scatter(&m, &stage, SCATTER, 1);
	sum_pages(&m, sums);
	(void)snprintf(spec, sizeof(spec), "%s=%d", point, ENOSPC); /* fits */
	fault_set(spec);
	if (machine_try_snapshot(&m, "bad", final, &l, &result, &e) == 0 ||
		e.code != ERROR_NO_SPACE)
		fail("%s: error %d (%s)", point, (int)e.code, e.message);
	fault_set(NULL);
	expect_pages(&m, sums, point);
	CHECK(!is_snapshot("bad"));
	CHECK(file_remove_tree(work_dirfd, "bad") == 0);
	expect_unharmed(&m, &l, &stage, "good");
	finish(&m, stage);
	CHECK(file_remove_tree(work_dirfd, "full") == 0 &&
		file_remove_tree(work_dirfd, "good") == 0);
}

static void fail_everywhere(const struct test *t, bool final)
{
	for (unsigned i = 0; i < sizeof(points) / sizeof(points[0]); i++)
		fail_at(t, points[i], final);
}

static void fail_live(const struct test *t)
{
	fail_everywhere(t, false);
}

static void fail_final(const struct test *t)
{
	fail_everywhere(t, true);
}

/* Killed at each point: what is there without its state is no snapshot, with it a good one. */
static void kill_at(const struct test *t, const char *point)
{
	char name[16] = "killed";
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (pid == 0) {
		struct lineage l;
		struct machine m;
		uint32_t stage = 1;

		begin(t, &m, &l);
		scatter(&m, &stage, SCATTER, 1);
		fault_set(point);
		machine_snapshot(&m, name, false, &l);
		_exit(3);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		fail("%s: status %d", point, status);
}

static void expect_killed(const char *point, bool complete)
{
	struct lineage l;
	struct error e = {0};
	struct machine m;

	lineage_start(&l, "full");
	(void)snprintf(l.state, sizeof(l.state), "killed"); /* fits */
	(void)snprintf(l.layers[l.layer_count++], 32, "killed/memory.layer");
	(void)snprintf(l.deltas[l.delta_count++], 32, "killed/disk0");
	l.check = true;
	if (faccessat(work_dirfd, "killed/memory.layer", F_OK, 0) < 0)
		l.layer_count = 0;
	if (machine_try_restore_lineage(&m, &l, &e) < 0) {
		if (complete || e.code != ERROR_BAD_SNAPSHOT)
			fail("%s: error %d (%s)", point, (int)e.code, e.message);
		return;
	}
	if (!complete)
		fail("%s: half a snapshot was restored", point);
	vm_resume(m.vm);
	finish(&m, 2);
}

static void kill_everywhere(const struct test *t)
{
	for (unsigned i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		kill_at(t, points[i]);
		expect_killed(points[i], strcmp(points[i], "snapshot-complete") == 0);
		CHECK(file_remove_tree(work_dirfd, "full") == 0 &&
			file_remove_tree(work_dirfd, "killed") == 0);
	}
}

/* Files may not grow: as on a full disk. */
static void limit_files(rlim_t bytes)
{
	struct rlimit r;

	(void)signal(SIGXFSZ, SIG_IGN);
	CHECK(getrlimit(RLIMIT_FSIZE, &r) == 0);
	r.rlim_cur = bytes;
	CHECK(setrlimit(RLIMIT_FSIZE, &r) == 0);
}

static void no_space(const struct test *t)
{
	static const rlim_t limits[] = {
		20000, 100000, 400000, 700000}; /* the deltas lie in holes */
	struct vm_snapshot_result result;
	struct lineage l;
	struct machine m;
	uint32_t stage = 1;

	begin(t, &m, &l);
	for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct error e = {0};
		int r;

		scatter(&m, &stage, SCATTER, i);
		limit_files(limits[i]);
		r = machine_try_snapshot(&m, "bad", i % 2, &l, &result, &e);
		limit_files(RLIM_INFINITY); /* messages go to a file as well */
		if (r == 0 || e.code != ERROR_NO_SPACE)
			fail("limit %llu: error %d (%s)", (unsigned long long)limits[i],
				(int)e.code, e.message);
		CHECK(!is_snapshot("bad"));
		CHECK(file_remove_tree(work_dirfd, "bad") == 0);
	}
	expect_unharmed(&m, &l, &stage, "good");
	finish(&m, stage);
}

/* Requests that make no sense. */
static void refuse_requests(const struct test *t)
{
	struct vm_snapshot_options o = {.files = SNAPSHOT_FILES_INIT};
	struct vm_snapshot_result result;
	struct error e = {0};
	struct lineage l;
	struct machine m;

	begin(t, &m, &l);
	CHECK(vm_snapshot(m.vm, &o, &result, &e) < 0 && e.code == ERROR_USAGE); /* no files */
	error_clear(&e);
	o.files = machine_snapshot_files(&m, "no-delta");
	CHECK(vm_snapshot(m.vm, &o, &result, &e) < 0 && e.code == ERROR_USAGE);
	error_clear(&e);
	o.files = machine_snapshot_files(&m, "used-delta");
	o.files.disk_fd[0] = openat(work_dirfd, "full/memory", O_RDWR | O_CLOEXEC);
	CHECK(vm_snapshot(m.vm, &o, &result, &e) < 0 && e.code == ERROR_EXISTS);
	error_clear(&e);
	o.files = machine_snapshot_files(&m, "too-many");
	o.files.fd[SNAPSHOT_PART_MEMORY_MERGED] = memfd_create("merged", MFD_CLOEXEC);
	CHECK(vm_snapshot(m.vm, &o, &result, &e) < 0 && e.code == ERROR_USAGE);
	finish(&m, 1);
}

const struct test layer_tests[] = {
	{"pauses", pauses, "snapshot", "scatter", .once = true, .limit_s = 600},
	{"layers-chain", chain, "snapshot", "scatter", .once = true},
	{"layers-go-on", go_on, "snapshot", "scatter", .once = true},
	{"layers-pause-and-resume", pause_and_resume, "snapshot", "scatter", .once = true},
	{"layers-isolation", isolation, "snapshot", "scatter"},
	{"layers-while-writing", storm, "snapshot", "storm 1", .cpus = 1},
	{"layers-while-writing-smp", storm, "snapshot", "storm 4", .cpus = 4},
	{"layers-damaged", refuse_damaged_layers, "snapshot", "scatter", .once = true},
	{"layers-forged", survive_forged_layers, "snapshot", "scatter"},
	{"layers-wrong-stacks", refuse_wrong_stacks, "snapshot", "scatter"},
	{"layers-fail-live", fail_live, "snapshot", "scatter", .once = true},
	{"layers-fail-final", fail_final, "snapshot", "scatter", .once = true},
	{"layers-kill-everywhere", kill_everywhere, "snapshot", "scatter", .once = true},
	{"layers-no-space", no_space, "snapshot", "scatter"},
	{"layers-bad-requests", refuse_requests, "snapshot", "scatter"},
	{0},
};
