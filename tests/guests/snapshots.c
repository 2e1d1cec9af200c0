/* Snapshots of bare guests, and machines restored from them. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "harness.h"
#include "vmm/disk.h"
#include "vmm/kvm.h"
#include "vmm/vm_internal.h"

enum { GROWN_SECTORS = 40960, WRITTEN_SECTOR = 40, OWN_SECTOR = 300, BUSY_ROUNDS = 12 };

/* Runs a guest up to stage 1 and saves it as "snapshot". */
static void make_snapshot(const struct test *t, struct machine *m)
{
	machine_boot(m, t->guest, t->line, t->cpus);
	vm_resume(m->vm);
	machine_wait_stage(m, 1);
	machine_pause(m);
	machine_save(m, "snapshot");
}

static void finish(struct machine *m)
{
	machine_answer(m, 1);
	vm_resume(m->vm);
	machine_expect_pass(m);
	machine_free(m);
}

static void restore_once(const struct test *t)
{
	struct machine m;

	make_snapshot(t, &m);
	machine_free(&m);
	machine_restore(&m, "snapshot", 0);
	finish(&m);
}

/* The saved machine goes on, while there is a restored one. */
static void go_on(const struct test *t)
{
	struct machine saved, restored;

	make_snapshot(t, &saved);
	machine_restore(&restored, "snapshot", 0);
	finish(&restored);
	finish(&saved);
}

static uint64_t kvm_clock(const struct machine *m)
{
	struct kvm_clock_data clock;

	CHECK(kvm_ioctl(m->vm->fd, KVM_GET_CLOCK, &clock) == 0);
	return clock.clock;
}

/* A frozen guest's clock stands still, in its snapshots too, and its timer comes as it should. */
static void freeze_clock(const struct test *t)
{
	struct machine m, restored;
	struct error e = {0};
	uint64_t frozen, from, slack = 5 * NS_PER_MS;

	machine_boot(&m, t->guest, t->line, t->cpus);
	vm_resume(m.vm);
	machine_wait_stage(&m, 1);
	CHECK(vm_freeze(m.vm, &e) == 0);
	frozen = m.vm->frozen_ns;
	CHECK(frozen > 0);
	(void)usleep(1100000); /* a shorter sleep is fine */
	CHECK(kvm_clock(&m) > frozen + NS_PER_S);
	CHECK(vm_freeze(m.vm, &e) == 0 && m.vm->frozen_ns == frozen);
	machine_save(&m, "snapshot");
	machine_answer(&m, 1);
	from = clock_monotonic_ns();
	vm_resume(m.vm);
	CHECK(kvm_clock(&m) <= frozen + (clock_monotonic_ns() - from) + slack);
	CHECK(m.vm->frozen_ns == 0);
	machine_expect_pass(&m);
	machine_free(&m);
	machine_restore(&restored, "snapshot", 0);
	CHECK(restored.vm->clock_ns == frozen);
	finish(&restored);
}

static uint32_t file_crc(const char *path)
{
	char *data;
	size_t n;
	uint32_t crc;

	CHECK(file_read(work_dirfd, path, 128 << 20, &data, &n) == 0);
	crc = crc32c(0, data, n);
	free(data);
	return crc;
}

static void check_own_sector(struct machine *m, uint64_t value)
{
	uint8_t sector[SECTOR_BYTES];

	machine_read_sector(m, OWN_SECTOR, sector);
	CHECK(memcmp(sector, &value, sizeof(value)) == 0);
}

/* Two at once: what one writes neither the other nor the snapshot sees. */
static void restore_siblings(const struct test *t)
{
	struct machine saved, m[2];
	uint32_t memory_crc, state_crc, disk_crc;
	struct stat st;

	make_snapshot(t, &saved);
	machine_free(&saved);
	memory_crc = file_crc("snapshot/memory");
	state_crc = file_crc("snapshot/state");
	disk_crc = file_crc("snapshot/disk0");
	CHECK(fstatat(work_dirfd, "snapshot/memory", &st, 0) == 0);
	CHECK(st.st_blocks * 512 < st.st_size * 3 / 4); /* untouched pages are holes */
	for (unsigned i = 0; i < 2; i++) {
		machine_restore(&m[i], "snapshot", 0);
		machine_mailbox(&m[i])->value = 1000 + i;
		machine_answer(&m[i], 1);
	}
	for (unsigned i = 0; i < 2; i++)
		vm_resume(m[i].vm);
	for (unsigned i = 0; i < 2; i++)
		machine_wait_stage(&m[i], 2);
	/* what the entropy device gave each, behind its mailbox */
	CHECK(memcmp(machine_mailbox(&m[0]) + 1, machine_mailbox(&m[1]) + 1, 64) != 0);
	for (unsigned i = 0; i < 2; i++) {
		machine_answer(&m[i], 2);
		machine_expect_pass(&m[i]);
		check_own_sector(&m[i], 1000 + i);
		machine_free(&m[i]);
	}
	CHECK(file_crc("snapshot/memory") == memory_crc);
	CHECK(file_crc("snapshot/state") == state_crc);
	CHECK(file_crc("snapshot/disk0") == disk_crc);
}

/* The disk of a running machine gets a fresh delta, twice. What was written is below. */
static void freeze_running(const struct test *t)
{
	static const char *const names[] = {"fresh1", "fresh2"};
	struct machine m;
	struct error e = {0};
	struct stat st;

	make_snapshot(t, &m);
	machine_free(&m);
	machine_restore(&m, "snapshot", 0);
	machine_mailbox(&m)->value = 7;
	machine_answer(&m, 1);
	vm_resume(m.vm);
	machine_wait_stage(&m, 2);
	for (unsigned i = 0; i < 2; i++) {
		struct vm_stats s;
		int fd = openat(work_dirfd, names[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600);

		CHECK(fd >= 0 && fstat(fd, &st) == 0);
		CHECK(vm_freeze_disk(m.vm, fd, &e) == 0);
		vm_get_stats(m.vm, &s);
		CHECK(s.disk_tops[0] == st.st_ino);
	}
	CHECK(vm_freeze_disk(m.vm, openat(work_dirfd, "snapshot/disk0", O_RDWR | O_CLOEXEC), &e) <
		0);
	check_own_sector(&m, 7); /* in the delta that was frozen first */
	machine_answer(&m, 2);
	machine_expect_pass(&m);
	machine_free(&m);
}

/* A snapshot of a restored machine, three times. */
static void restore_generations(const struct test *t)
{
	struct machine m;
	char from[] = "snapshot", to[] = "snapshot1";

	make_snapshot(t, &m);
	machine_free(&m);
	machine_restore(&m, from, 0);
	for (unsigned i = 0; i < 3; i++) {
		to[sizeof(to) - 2] = (char)('1' + i);
		vm_resume(m.vm);
		(void)poll(NULL, 0, 5); /* it runs a while */
		machine_pause(&m);
		machine_save(&m, to);
		machine_free(&m);
		machine_restore(&m, to, 0);
	}
	finish(&m);
}

/* A sector as one delta has it, without those below. */
static uint64_t sector_of(const char *delta, uint64_t sector)
{
	int base = openat(work_dirfd, "base", O_RDONLY | O_CLOEXEC),
	    fd = openat(work_dirfd, delta, O_RDONLY | O_CLOEXEC);
	uint64_t words[SECTOR_BYTES / 8];
	struct disk *d;

	CHECK(base >= 0 && fd >= 0);
	CHECK(disk_open(base, &fd, 1, -1, DISK_SECTORS * SECTOR_BYTES, &d, NULL) == 0);
	CHECK(disk_read(d, sector * SECTOR_BYTES, words, sizeof(words)) == 0);
	disk_close(d);
	return words[0];
}

/* The image has a delta. A machine's snapshot does not take its blocks, and stands on it. */
static void save_over_image(const struct test *t)
{
	struct machine m;
	struct lineage l;

	make_snapshot(t, &m);
	machine_free(&m);
	lineage_start(&l, "snapshot");
	l.image_deltas = 1;
	machine_restore_lineage(&m, &l);
	machine_mailbox(&m)->value = 7;
	machine_answer(&m, 1);
	vm_resume(m.vm);
	machine_wait_stage(&m, 2);
	machine_pause(&m);
	machine_save(&m, "over");
	machine_free(&m);
	CHECK(sector_of("snapshot/disk0", WRITTEN_SECTOR) != WRITTEN_SECTOR);
	CHECK(sector_of("over/disk0", WRITTEN_SECTOR) == WRITTEN_SECTOR); /* as the base has it */
	CHECK(sector_of("over/disk0", OWN_SECTOR) == 7);
	(void)snprintf(l.state, sizeof(l.state), "over"); /* fits */
	(void)snprintf(l.memory, sizeof(l.memory), "over/memory");
	(void)snprintf(l.deltas[l.delta_count++], sizeof(l.deltas[0]), "over/disk0");
	machine_restore_lineage(&m, &l);
	machine_answer(&m, 2);
	vm_resume(m.vm);
	machine_expect_pass(&m);
	machine_free(&m);
}

static void restore_larger_disk(const struct test *t)
{
	struct machine m;

	make_snapshot(t, &m);
	machine_free(&m);
	machine_restore(&m, "snapshot", (uint64_t)GROWN_SECTORS * SECTOR_BYTES);
	machine_mailbox(&m)->value = GROWN_SECTORS;
	finish(&m);
}

/* A capacity below the snapshot's does not count: the guest knows the larger one. */
static void restore_smaller_disk(const struct test *t)
{
	struct machine m;

	make_snapshot(t, &m);
	machine_free(&m);
	machine_restore(&m, "snapshot", 4096 * SECTOR_BYTES);
	finish(&m);
}

static void wait_beats(struct machine *m, unsigned n)
{
	uint32_t before = machine_mailbox(m)->beat;

	for (unsigned i = 0; i < DEADLINE_MS && machine_mailbox(m)->beat - before < n; i++)
		(void)machine_serve(m, 1);
	if (machine_mailbox(m)->beat - before < n) {
		if (vm_ended(m->vm, NULL, 0) != VM_RUNNING)
			machine_expect_pass(m);
		fail("the guest does not go on");
	}
}

/* Stopped wherever it happens to be, in the middle of device accesses as well. */
static void pause_busy(const struct test *t)
{
	struct machine m;

	machine_boot(&m, t->guest, t->line, t->cpus);
	vm_resume(m.vm);
	machine_wait_stage(&m, 1);
	for (unsigned i = 0; i < 500; i++) {
		struct mailbox *box = machine_mailbox(&m);
		uint32_t beat;

		machine_pause(&m);
		beat = box->beat;
		if (i % 50 == 0)
			(void)poll(NULL, 0, 2);
		CHECK(box->beat == beat);
		vm_resume(m.vm);
		if (i % 7 == 0)
			wait_beats(&m, 1);
	}
	machine_answer(&m, 1);
	machine_expect_pass(&m);
	machine_free(&m);
}

static void save_busy(const struct test *t)
{
	char name[] = "snapshotA";
	struct machine m;

	machine_boot(&m, t->guest, t->line, t->cpus);
	vm_resume(m.vm);
	machine_wait_stage(&m, 1);
	for (unsigned i = 0; i < BUSY_ROUNDS; i++) {
		wait_beats(&m, 3 + i % 5);
		machine_pause(&m);
		name[sizeof(name) - 2] = (char)('A' + i);
		machine_save(&m, name);
		machine_free(&m);
		machine_restore(&m, name, 0);
		vm_resume(m.vm);
	}
	machine_answer(&m, 1);
	machine_expect_pass(&m);
	machine_free(&m);
}

/* --- snapshots that cannot be restored --- */

static void expect_refusal(const char *what, enum error_code code)
{
	struct error e = {0};
	struct machine m;

	if (machine_try_restore(&m, "snapshot", 0, &e) == 0)
		fail("%s: restored", what);
	if (e.code != code || !e.message[0])
		fail("%s: error %d (%s), expected %d", what, (int)e.code, e.message, (int)code);
}

static void refuse_missing_files(const struct test *t)
{
	static const char *const files[] = {"snapshot/memory", "snapshot/state"};
	struct machine m;

	make_snapshot(t, &m);
	machine_free(&m);
	for (unsigned i = 0; i < 2; i++) {
		CHECK(renameat(work_dirfd, files[i], work_dirfd, "away") == 0);
		expect_refusal(files[i], ERROR_BAD_SNAPSHOT);
		CHECK(renameat(work_dirfd, "away", work_dirfd, files[i]) == 0);
	}
	machine_restore(&m, "snapshot", 0);
	finish(&m);
}

static void refuse_truncated_memory(const struct test *t)
{
	struct machine m;
	int fd;

	make_snapshot(t, &m);
	machine_free(&m);
	fd = openat(work_dirfd, "snapshot/memory", O_WRONLY | O_CLOEXEC);
	CHECK(fd >= 0 && ftruncate(fd, (MEMORY_MB << 20) - 4096) == 0);
	expect_refusal("a page less", ERROR_BAD_SNAPSHOT);
	CHECK(ftruncate(fd, (MEMORY_MB << 20) + 4096) == 0);
	expect_refusal("a page more", ERROR_BAD_SNAPSHOT);
	CHECK(ftruncate(fd, 0) == 0);
	expect_refusal("empty", ERROR_BAD_SNAPSHOT);
	(void)close(fd);
}

const struct test snapshot_tests[] = {
	{"snapshot-go-on", go_on, "snapshot", "registers"},
	{"snapshot-go-on-smp", go_on, "snapshot", "smp 4", .cpus = 4},
	{"snapshot-registers", restore_once, "snapshot", "registers"},
	{"snapshot-request-in-flight", restore_once, "snapshot", "in-flight"},
	{"snapshot-pending-interrupt", restore_once, "snapshot", "masked"},
	{"snapshot-timer", restore_once, "snapshot", "timer"},
	{"freeze-clock", freeze_clock, "snapshot", "timer"},
	{"freeze-clock-smp", freeze_clock, "snapshot", "counter", .cpus = 2},
	{"snapshot-counter", restore_once, "snapshot", "counter"},
	{"snapshot-counter-smp", restore_once, "snapshot", "counter", .cpus = 2},
	{"snapshot-smp", restore_once, "snapshot", "smp 4", .cpus = 4},
	{"snapshot-siblings", restore_siblings, "snapshot", "memory"},
	{"disk-frozen", freeze_running, "snapshot", "memory"},
	{"snapshot-generations", restore_generations, "snapshot", "timer"},
	{"snapshot-over-image", save_over_image, "snapshot", "memory"},
	{"snapshot-larger-disk", restore_larger_disk, "snapshot", "grow"},
	{"snapshot-smaller-disk", restore_smaller_disk, "snapshot", "masked"},
	{"pause-busy", pause_busy, "snapshot", "busy", .cpus = 2},
	{"snapshot-busy", save_busy, "snapshot", "busy", .cpus = 2},
	{"snapshot-missing-files", refuse_missing_files, "snapshot", "registers"},
	{"snapshot-truncated-memory", refuse_truncated_memory, "snapshot", "registers"},
	{"snapshot-damaged", refuse_damaged, "snapshot", "in-flight"},
	{"snapshot-other-tsc", load_other_tsc, "snapshot", "in-flight"},
	{"snapshot-flipped-bytes", flip_bytes, "snapshot", "in-flight", .once = true},
	{"snapshot-flipped-bytes-smp", flip_bytes, "snapshot", "busy", .cpus = 2, .once = true},
	{0},
};
