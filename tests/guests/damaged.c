/* Snapshots whose state file is damaged. With a checksum that does not match it must be refused;
 * with one that does, as from an attacker, the VM is refused or its guest misbehaves, and nothing
 * happens to the VMM's process: no signal, no hang, no write outside of guest memory. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/fd.h"
#include "base/file.h"
#include "harness.h"
#include "proto/snapshot.h"
#include "vmm/kvm.h"

enum {
	HEADER_BYTES = 32,
	CRC_AT = 24,
	VERSION_AT = 8,
	POSITIONS = 2000,
	STRIDE = 797, /* from one to the next: what a slow host gets done is spread */
	BUDGET_MS = 25000,
	BATCH = 50,	/* positions of one process */
	RUN_MS = 2,	/* of a guest that was restored all the same */
	HANG_MS = 8000, /* at one position */
};

struct state {
	int fd;
	uint8_t *good, *bad; /* owned */
	size_t bytes;
};

/* Shared between the processes of a batch. */
struct progress {
	volatile uint32_t position, restored, refused;
};

static void make_snapshot(const struct test *t, struct state *s)
{
	struct machine m;
	char *data;

	machine_boot(&m, t->guest, t->line, t->cpus);
	vm_resume(m.vm);
	machine_wait_stage(&m, 1);
	machine_pause(&m);
	machine_save(&m, "snapshot");
	machine_free(&m);
	CHECK(file_read(work_dirfd, "snapshot/state", SNAPSHOT_STATE_MAX, &data, &s->bytes) == 0);
	s->good = (uint8_t *)data;
	s->bad = malloc(s->bytes);
	CHECK(s->bad);
	s->fd = openat(work_dirfd, "snapshot/state", O_WRONLY | O_CLOEXEC);
	CHECK(s->fd >= 0);
}

static void state_done(struct state *s)
{
	(void)close(s->fd); /* a test's file */
	free(s->good);
	free(s->bad);
}

static void write_state(struct state *s, const uint8_t *data, size_t n)
{
	CHECK(fd_pwrite_full(s->fd, data, n, 0) == 0);
	CHECK(ftruncate(s->fd, (off_t)n) == 0);
}

/* s->bad, with a checksum that matches. */
static void write_forged(struct state *s)
{
	put_le32(s->bad + CRC_AT, crc32c(0, s->bad + HEADER_BYTES, s->bytes - HEADER_BYTES));
	write_state(s, s->bad, s->bytes);
}

static void write_damaged(struct state *s, size_t at, uint8_t flip)
{
	memcpy(s->bad, s->good, s->bytes);
	s->bad[at] ^= flip;
	write_forged(s);
}

static void try_position(struct state *s, uint32_t position, struct progress *p)
{
	static const uint8_t flips[] = {0xff, 0x01, 0x80, 0x40, 0x10};
	size_t at = HEADER_BYTES + (s->bytes - HEADER_BYTES) *
					   (position * (uint64_t)STRIDE % POSITIONS) / POSITIONS;
	struct error e = {0};
	struct machine m;

	write_damaged(s, at, flips[position % sizeof(flips)]);
	if (machine_try_restore(&m, "snapshot", 0, &e) < 0) {
		if (e.code == ERROR_NONE || e.code == ERROR_INTERNAL || !e.message[0])
			fail("byte %zu: error %d without a message for users: %s", at, (int)e.code,
				e.message);
		p->refused++;
		return;
	}
	p->restored++;
	machine_answer(&m, 1);
	vm_resume(m.vm);
	(void)machine_serve(&m, RUN_MS); /* however it ends */
	machine_pause(&m);
	machine_free(&m);
}

static _Noreturn void run_batch(struct state *s, struct progress *p)
{
	uint32_t end = p->position + BATCH;

	for (; p->position < end && p->position < POSITIONS; p->position++)
		try_position(s, p->position, p);
	if (!guard_is_intact())
		fail("memory around guest memory was written to");
	_exit(0);
}

/* Waits for a batch as long as it advances. */
static int await(pid_t pid, const struct progress *p)
{
	uint32_t seen = p->position;
	uint64_t deadline = clock_monotonic_ns() + HANG_MS * NS_PER_MS;
	int status;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (p->position != seen) {
			seen = p->position;
			deadline = clock_monotonic_ns() + HANG_MS * NS_PER_MS;
		} else if (clock_monotonic_ns() > deadline) {
			(void)kill(pid, SIGKILL); /* our own child, not yet waited for */
			(void)waitpid(pid, &status, 0);
			fail("position %u: the VMM hangs", seen);
		}
		(void)poll(NULL, 0, 1); /* sleeps */
	}
	return status;
}

void flip_bytes(const struct test *t)
{
	struct progress *p =
		mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t deadline = clock_monotonic_ns() + BUDGET_MS * NS_PER_MS;
	struct state s;

	CHECK(p != MAP_FAILED);
	make_snapshot(t, &s);
	while (p->position < POSITIONS && clock_monotonic_ns() < deadline) {
		pid_t pid = fork();
		int status;

		CHECK(pid >= 0);
		if (pid == 0)
			run_batch(&s, p);
		status = await(pid, p);
		if (WIFSIGNALED(status))
			fail("position %u of %d (of %zu bytes): the VMM died of signal %d",
				p->position, POSITIONS, s.bytes, WTERMSIG(status));
		if (WEXITSTATUS(status) != 0)
			fail("position %u failed", p->position);
	}
	(void)printf("%u restored, %u refused\n", p->restored, p->refused);
	state_done(&s);
	(void)munmap(p, sizeof(*p)); /* our own mapping */
}

static void expect_refused(enum error_code code, const char *what, size_t at)
{
	struct error e = {0};
	struct machine m;

	if (machine_try_restore(&m, "snapshot", 0, &e) == 0)
		fail("%s, byte %zu: restored", what, at);
	if (e.code != code || !e.message[0])
		fail("%s, byte %zu: error %d (%s), expected %d", what, at, (int)e.code, e.message,
			(int)code);
}

/* Every damage that the checksum is there to find. */
void refuse_damaged(const struct test *t)
{
	struct state s;

	make_snapshot(t, &s);
	for (size_t at = 0; at < s.bytes; at += at < 64 ? 1 : 97) {
		memcpy(s.bad, s.good, s.bytes);
		s.bad[at] ^= 0x10;
		write_state(&s, s.bad, s.bytes);
		expect_refused(at >= VERSION_AT && at < VERSION_AT + 4 ? ERROR_INCOMPATIBLE
								       : ERROR_BAD_SNAPSHOT,
			"flipped", at);
	}
	for (size_t n = 0; n < s.bytes; n += n < 64 ? 1 : 211) {
		write_state(&s, s.good, n);
		expect_refused(ERROR_BAD_SNAPSHOT, "truncated", n);
	}
	memset(s.bad, 0, s.bytes);
	write_state(&s, s.bad, s.bytes);
	expect_refused(ERROR_BAD_SNAPSHOT, "zeroes", 0);
	state_done(&s);
}

/* Where a state file has the TSC frequency: behind the number of vCPUs and the memory's size. */
static size_t find_tsc_khz(const uint8_t *data, size_t bytes, unsigned cpus)
{
	for (size_t at = HEADER_BYTES; at + 16 <= bytes; at++)
		if (get_le32(data + at) == cpus && get_le64(data + at + 4) == MEMORY_MB << 20)
			return at + 12;
	fail("the state has no frequency");
}

static uint32_t saved_tsc_khz(const char *path, unsigned cpus)
{
	uint32_t khz;
	size_t n;
	char *data;

	CHECK(file_read(work_dirfd, path, SNAPSHOT_STATE_MAX, &data, &n) == 0);
	khz = get_le32((uint8_t *)data + find_tsc_khz((uint8_t *)data, n, cpus));
	free(data);
	return khz;
}

static bool host_scales_tsc(void)
{
	struct error e = {0};
	int kvm = kvm_open(&e);
	bool scales;

	CHECK(kvm >= 0);
	scales = kvm_ioctl_n(kvm, KVM_CHECK_EXTENSION, KVM_CAP_TSC_CONTROL) > 0;
	(void)close(kvm); /* no data behind it */
	return scales;
}

/* A snapshot of a host whose TSC ran a little faster can be restored and still says so when it is
 * saved again; one that ran twice as fast only where KVM scales. */
void load_other_tsc(const struct test *t)
{
	unsigned cpus = t->cpus ? t->cpus : 1;
	struct error e = {0};
	struct machine m;
	struct state s;
	size_t at;
	uint32_t khz;

	make_snapshot(t, &s);
	at = find_tsc_khz(s.good, s.bytes, cpus);
	khz = get_le32(s.good + at);
	memcpy(s.bad, s.good, s.bytes);
	put_le32(s.bad + at, khz + khz / 200);
	write_forged(&s);
	machine_restore(&m, "snapshot", 0);
	machine_save(&m, "again");
	machine_answer(&m, 1);
	vm_resume(m.vm);
	machine_expect_pass(&m);
	machine_free(&m);
	CHECK(saved_tsc_khz("again/state", cpus) == khz + khz / 200);

	put_le32(s.bad + at, 2 * khz);
	write_forged(&s);
	if (machine_try_restore(&m, "snapshot", 0, &e) == 0) {
		CHECK(host_scales_tsc());
		machine_free(&m);
	} else {
		CHECK(!host_scales_tsc() && e.code == ERROR_INCOMPATIBLE);
	}
	state_done(&s);
}
