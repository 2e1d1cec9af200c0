/* The copy-on-write disk: every path against a model in memory, chains of deltas, durability of the
 * map, and damaged files. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/crc32c.h"
#include "base/fd.h"
#include "vmm/disk.h"

enum {
	BLOCK = DISK_BLOCK_BYTES,
	DATA = 4096 + 2 * 1024 * 1024, /* where block 0 lies in a delta */
};

/* An anonymous file; memfd is tmpfs, so holes and punching work. */
static int file_new(void)
{
	int fd = memfd_create("disk", MFD_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static int file_filled(size_t n, uint8_t seed)
{
	_cleanup_free_ uint8_t *p = malloc(n);
	int fd = file_new();

	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(seed + i * 31 + i / 4096);
	assert_int_equal(fd_pwrite_full(fd, p, n, 0), 0);
	return fd;
}

static uint8_t base_byte(uint8_t seed, size_t i)
{
	return (uint8_t)(seed + i * 31 + i / 4096);
}

static struct disk *open_ok(int base, const int *lowers, unsigned count, int delta, uint64_t bytes)
{
	struct error e = {0};
	struct disk *d = NULL;

	if (disk_open(base, lowers, count, delta, bytes, &d, &e) < 0)
		fail_msg("%s", e.message);
	return d;
}

static void open_fails(int base, const int *lowers, unsigned count, int delta, uint64_t bytes,
	enum error_code code)
{
	struct error e = {0};
	struct disk *d = NULL;

	assert_true(disk_open(base, lowers, count, delta, bytes, &d, &e) < 0);
	assert_null(d);
	assert_int_equal(e.code, code);
	assert_true(strlen(e.message) > 10);
}

static void expect_fill(struct disk *d, uint64_t offset, uint32_t n, uint8_t value)
{
	_cleanup_free_ uint8_t *p = malloc(n);

	assert_int_equal(disk_read(d, offset, p, n), 0);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(p[i], value);
}

static void write_fill(struct disk *d, uint64_t offset, uint32_t n, uint8_t value)
{
	_cleanup_free_ uint8_t *p = malloc(n);

	memset(p, value, n);
	assert_int_equal(disk_write(d, offset, p, n), 0);
}

static void reads_base_and_zeroes_behind_it(void **state)
{
	struct disk *d = open_ok(file_filled(10000, 1), NULL, 0, -1, 8 * BLOCK);
	uint8_t p[8 * BLOCK];

	assert_true(disk_is_read_only(d));
	assert_int_equal(disk_bytes(d), 8 * BLOCK);
	assert_int_equal(disk_read(d, 0, p, sizeof(p)), 0);
	for (size_t i = 0; i < sizeof(p); i++)
		assert_int_equal(p[i], i < 10000 ? base_byte(1, i) : 0);
	assert_int_equal(disk_write(d, 0, p, 512), -EROFS);
	assert_int_equal(disk_write_zeroes(d, 0, 512), -EROFS);
	assert_int_equal(disk_discard(d, 0, 512), -EROFS);
	assert_int_equal(disk_flush(d), 0);
	assert_int_equal(disk_delta_bytes(d), 0);
	disk_close(d);
}

static void bounds_are_checked(void **state)
{
	struct disk *d = open_ok(file_filled(BLOCK, 1), NULL, 0, file_new(), 8 * BLOCK + 512);
	uint8_t p[BLOCK] = {0};
	struct iovec iov[DISK_IOVECS_MAX + 1];

	assert_int_equal(disk_read(d, 8 * BLOCK, p, 512), 0);
	assert_int_equal(disk_read(d, 8 * BLOCK + 512, p, 512), -EINVAL);
	assert_int_equal(disk_read(d, 8 * BLOCK, p, 1024), -EINVAL);
	assert_int_equal(disk_read(d, 1, p, 512), -EINVAL);
	assert_int_equal(disk_read(d, 0, p, 511), -EINVAL);
	assert_int_equal(disk_read(d, 0, p, 0), -EINVAL);
	assert_int_equal(disk_write(d, UINT64_MAX - 511, p, 512), -EINVAL);
	assert_int_equal(disk_write(d, UINT64_MAX - 511, p, 1024), -EINVAL);
	assert_int_equal(disk_write_zeroes(d, 0, 9 * BLOCK), -EINVAL);
	assert_int_equal(disk_write_zeroes(d, UINT64_MAX - 511, 1024), -EINVAL);
	assert_int_equal(disk_write_zeroes(d, 0, 0), -EINVAL);
	assert_int_equal(disk_discard(d, 512, UINT64_MAX - 511), -EINVAL);
	for (unsigned i = 0; i <= DISK_IOVECS_MAX; i++)
		iov[i] = (struct iovec){p, 512};
	assert_int_equal(disk_readv(d, 0, iov, DISK_IOVECS_MAX + 1), -EINVAL);
	iov[0].iov_len = SIZE_MAX;
	iov[1].iov_len = 513;
	assert_int_equal(disk_readv(d, 0, iov, 2), -EINVAL);
	assert_int_equal(disk_stats(d).errors, 0); /* these are the guest's mistakes */
	disk_close(d);
}

static void partial_writes_merge(void **state)
{
	struct disk *d = open_ok(file_filled(4 * BLOCK, 7), NULL, 0, file_new(), 4 * BLOCK);
	uint8_t p[4 * BLOCK];

	write_fill(d, BLOCK + 512, 1024, 0xaa);
	assert_int_equal(disk_delta_bytes(d), BLOCK);
	write_fill(d, BLOCK + 2048, 512, 0xbb); /* in place */
	write_fill(d, 3 * BLOCK - 512, 1024, 0xcc);
	assert_int_equal(disk_delta_bytes(d), 3 * BLOCK);
	assert_int_equal(disk_read(d, 0, p, sizeof(p)), 0);
	for (size_t i = 0; i < sizeof(p); i++) {
		uint8_t want = base_byte(7, i);

		if (i >= BLOCK + 512 && i < BLOCK + 1536)
			want = 0xaa;
		if (i >= BLOCK + 2048 && i < BLOCK + 2560)
			want = 0xbb;
		if (i >= 3 * BLOCK - 512 && i < 3 * BLOCK + 512)
			want = 0xcc;
		assert_int_equal(p[i], want);
	}
	disk_close(d);
}

/* Random operations against a model in memory; the disk is frozen, flattened, flushed, reopened and
 * grown on the way. */
struct model {
	uint8_t *bytes;
	uint64_t size;
	int base;
	int files[DISK_LOWER_MAX + 1]; /* the last is the top */
	unsigned count;
	struct disk *disk;
	uint32_t seed;
};

static uint32_t model_random(struct model *m, uint32_t n)
{
	m->seed = m->seed * 1103515245 + 12345;
	return (m->seed >> 8) % n;
}

static void model_open(struct model *m)
{
	int lowers[DISK_LOWER_MAX];

	for (unsigned i = 0; i + 1 < m->count; i++)
		lowers[i] = dup(m->files[i]);
	m->disk = open_ok(dup(m->base), lowers, m->count - 1, dup(m->files[m->count - 1]), m->size);
}

static void model_vector(struct model *m, bool write, uint64_t offset, uint32_t n)
{
	_cleanup_free_ uint8_t *p = malloc(n);
	struct iovec iov[8];
	unsigned count = 0;
	uint32_t at = 0;

	for (uint32_t i = 0; i < n; i++)
		p[i] = (uint8_t)model_random(m, 256);
	while (at < n) {
		uint32_t part = count == 7 ? n - at : model_random(m, n - at + 1);

		iov[count++] = (struct iovec){p + at, part};
		at += part;
	}
	if (write) {
		assert_int_equal(disk_writev(m->disk, offset, iov, count), 0);
		memcpy(m->bytes + offset, p, n);
	} else {
		assert_int_equal(disk_readv(m->disk, offset, iov, count), 0);
		assert_memory_equal(p, m->bytes + offset, n);
	}
}

/* One delta takes the place of all but some of the lowest. */
static void model_flatten(struct model *m)
{
	unsigned below = model_random(m, m->count);
	int fd = file_new();

	assert_int_equal(disk_flatten(m->disk, below, fd, NULL), 0);
	disk_close(m->disk);
	while (m->count > below)
		(void)close(m->files[--m->count]);
	m->files[m->count++] = fd;
	model_open(m);
}

static void model_reshape(struct model *m, uint32_t what)
{
	int fd;

	switch (what) {
	case 0: /* reopen */
		assert_int_equal(disk_flush(m->disk), 0);
		disk_close(m->disk);
		model_open(m);
		break;
	case 1: /* freeze */
		if (m->count > DISK_LOWER_MAX)
			break;
		fd = file_new();
		assert_int_equal(disk_freeze(m->disk, dup(fd), NULL), 0);
		m->files[m->count++] = fd;
		break;
	case 2:
		model_flatten(m);
		break;
	default: /* grow */
		if (m->size >= 100 * BLOCK)
			break;
		m->size += 512 * (1 + model_random(m, 8));
		assert_int_equal(disk_flush(m->disk), 0);
		disk_close(m->disk);
		model_open(m);
		break;
	}
}

static void model_step(struct model *m)
{
	uint64_t sectors = m->size / 512, sector = model_random(m, (uint32_t)sectors);
	uint32_t n = 1 + model_random(m, (uint32_t)(sectors - sector));
	uint32_t what = model_random(m, 100);

	if (n > 40)
		n = 40;
	if (what < 40) {
		model_vector(m, true, sector * 512, n * 512);
	} else if (what < 80) {
		model_vector(m, false, sector * 512, n * 512);
	} else if (what < 90) {
		assert_int_equal(disk_write_zeroes(m->disk, sector * 512, n * 512), 0);
		memset(m->bytes + sector * 512, 0, n * 512);
	} else {
		model_reshape(m, model_random(m, 4));
	}
}

static void random_operations_match_a_model(void **state)
{
	struct model m = {.size = 40 * BLOCK + 512, .seed = 1};

	m.bytes = calloc(128, BLOCK);
	m.base = file_filled(30 * BLOCK + 1000, 3);
	for (size_t i = 0; i < 30 * BLOCK + 1000; i++)
		m.bytes[i] = base_byte(3, i);
	m.files[m.count++] = file_new();
	model_open(&m);
	for (unsigned i = 0; i < 4000; i++)
		model_step(&m);
	disk_close(m.disk);
	while (m.count)
		(void)close(m.files[--m.count]);
	(void)close(m.base);
	free(m.bytes);
}

static void chain_of_base_two_lowers_and_top(void **state)
{
	int base = file_filled(4 * BLOCK, 0), a = file_new(), b = file_new(), top = file_new();
	struct disk *d = open_ok(dup(base), NULL, 0, dup(a), 4 * BLOCK);
	int lowers[2];

	write_fill(d, 0, 3 * BLOCK, 0xa1);
	assert_int_equal(disk_flush(d), 0);
	disk_close(d);
	lowers[0] = dup(a);
	d = open_ok(dup(base), lowers, 1, dup(b), 4 * BLOCK);
	write_fill(d, 0, 2 * BLOCK, 0xb2);
	assert_int_equal(disk_flush(d), 0);
	disk_close(d);
	lowers[0] = dup(a);
	lowers[1] = dup(b);
	d = open_ok(dup(base), lowers, 2, dup(top), 4 * BLOCK);
	write_fill(d, 512, 512, 0xc3);
	expect_fill(d, 0, 512, 0xb2);
	expect_fill(d, 512, 512, 0xc3);
	expect_fill(d, 1024, 2 * BLOCK - 1024, 0xb2);
	expect_fill(d, 2 * BLOCK, BLOCK, 0xa1);
	assert_int_equal(disk_delta_bytes(d), BLOCK);
	disk_close(d);
	/* What lies below did not change, and serves another sandbox. */
	lowers[0] = dup(a);
	lowers[1] = dup(b);
	d = open_ok(base, lowers, 2, -1, 4 * BLOCK);
	expect_fill(d, 0, 2 * BLOCK, 0xb2);
	assert_true(disk_is_read_only(d));
	disk_close(d);
	(void)close(a);
	(void)close(b);
	(void)close(top);
}

static void fresh_delta_stays_empty(void **state)
{
	int delta = file_new();
	struct disk *d = open_ok(file_filled(BLOCK, 0), NULL, 0, dup(delta), 4 * BLOCK);
	struct stat st;
	uint8_t p[512];

	assert_int_equal(disk_read(d, 0, p, sizeof(p)), 0);
	assert_int_equal(fstat(delta, &st), 0);
	assert_int_equal(st.st_size, 0);
	assert_int_equal(disk_flush(d), 0); /* from here on a valid delta */
	disk_close(d);
	d = open_ok(file_filled(BLOCK, 0), &delta, 1, -1, 4 * BLOCK);
	disk_close(d);
}

static void unflushed_delta_is_refused(void **state)
{
	int delta = file_new();
	struct disk *d = open_ok(file_filled(BLOCK, 0), NULL, 0, dup(delta), 4 * BLOCK);

	write_fill(d, 0, BLOCK, 1);
	disk_close(d);
	open_fails(file_filled(BLOCK, 0), NULL, 0, delta, 4 * BLOCK, ERROR_BAD_SNAPSHOT);
}

/* After the first flush, what is written later and not flushed has no bit on disk. */
static void map_holds_only_what_was_flushed(void **state)
{
	int delta = file_new();
	struct disk *d = open_ok(file_filled(4 * BLOCK, 0), NULL, 0, dup(delta), 4 * BLOCK);
	uint8_t map;

	write_fill(d, 0, BLOCK, 1);
	assert_int_equal(disk_flush(d), 0);
	write_fill(d, BLOCK, BLOCK, 2);
	assert_int_equal(fd_pread_full(delta, &map, 1, 4096), 0);
	assert_int_equal(map, 1);
	assert_int_equal(disk_flush(d), 0);
	assert_int_equal(fd_pread_full(delta, &map, 1, 4096), 0);
	assert_int_equal(map, 3);
	disk_close(d);
	(void)close(delta);
}

static void discard_punches_and_keeps_the_bit(void **state)
{
	int delta = file_new();
	struct disk *d = open_ok(file_filled(64 * BLOCK, 9), NULL, 0, dup(delta), 64 * BLOCK);
	struct stat before, after;
	uint8_t p[BLOCK];

	write_fill(d, 0, 32 * BLOCK, 0xee);
	assert_int_equal(fstat(delta, &before), 0);
	assert_int_equal(disk_discard(d, 512, 16 * BLOCK), 0);
	assert_int_equal(fstat(delta, &after), 0);
	assert_true(after.st_blocks + 15 * 8 <= before.st_blocks);
	assert_int_equal(disk_delta_bytes(d), 32 * BLOCK);
	expect_fill(d, 0, BLOCK, 0xee); /* partly covered */
	expect_fill(d, BLOCK, 15 * BLOCK, 0);
	expect_fill(d, 16 * BLOCK, 16 * BLOCK, 0xee);
	assert_int_equal(disk_discard(d, 40 * BLOCK, BLOCK), 0); /* only in the base: stays */
	assert_int_equal(disk_read(d, 40 * BLOCK, p, BLOCK), 0);
	assert_int_equal(p[5], base_byte(9, 40 * BLOCK + 5));
	disk_close(d);
	(void)close(delta);
}

static void zeroes_hide_the_base(void **state)
{
	int delta = file_new();
	struct disk *d = open_ok(file_filled(8 * BLOCK, 9), NULL, 0, dup(delta), 16 * BLOCK);
	struct stat st;

	assert_int_equal(disk_write_zeroes(d, 512, 12 * BLOCK), 0);
	expect_fill(d, 512, 12 * BLOCK, 0);
	assert_int_equal(disk_delta_bytes(d), 8 * BLOCK); /* nothing past the base */
	assert_int_equal(fstat(delta, &st), 0);
	assert_true(st.st_blocks * 512 <= 3 * BLOCK);
	assert_int_equal(disk_flush(d), 0);
	disk_close(d);
	d = open_ok(file_filled(8 * BLOCK, 9), NULL, 0, delta, 16 * BLOCK);
	expect_fill(d, 512, 12 * BLOCK, 0);
	disk_close(d);
}

static void grows(void **state)
{
	int delta = file_new();
	struct disk *d = open_ok(file_filled(BLOCK + 512, 0), NULL, 0, dup(delta), 2 * BLOCK - 512);

	write_fill(d, BLOCK, BLOCK - 512, 5);
	assert_int_equal(disk_flush(d), 0);
	disk_close(d);
	d = open_ok(file_filled(BLOCK + 512, 0), NULL, 0, dup(delta), DISK_MAX_BYTES);
	expect_fill(d, 2 * BLOCK - 512, 512, 0);
	write_fill(d, DISK_MAX_BYTES - BLOCK, BLOCK, 6);
	assert_int_equal(disk_flush(d), 0);
	disk_close(d);
	open_fails(file_filled(BLOCK, 0), NULL, 0, dup(delta), 4 * BLOCK, ERROR_LIMIT);
	d = open_ok(file_filled(BLOCK, 0), NULL, 0, delta, DISK_MAX_BYTES);
	expect_fill(d, DISK_MAX_BYTES - BLOCK, BLOCK, 6);
	disk_close(d);
}

/* Bits past the capacity that a file claims do not come to life when the disk grows. */
static void growing_ignores_bits_past_the_end(void **state)
{
	int delta = file_new();
	struct disk *d = open_ok(file_filled(BLOCK, 0), NULL, 0, dup(delta), 4 * BLOCK);
	uint8_t ff = 0xff;

	write_fill(d, 0, 4 * BLOCK, 1);
	assert_int_equal(disk_flush(d), 0);
	disk_close(d);
	assert_int_equal(fd_pwrite_full(delta, &ff, 1, 4096), 0);
	d = open_ok(file_filled(BLOCK, 0), NULL, 0, dup(delta), 8 * BLOCK);
	expect_fill(d, 4 * BLOCK, 4 * BLOCK, 0);
	disk_close(d);
	d = open_ok(file_filled(BLOCK, 0), &delta, 1, -1, 8 * BLOCK);
	expect_fill(d, 4 * BLOCK, 4 * BLOCK, 0);
	disk_close(d);
}

static int valid_delta(void)
{
	int delta = file_new();
	struct disk *d = open_ok(file_filled(BLOCK, 0), NULL, 0, dup(delta), 64 * BLOCK);

	write_fill(d, 8 * BLOCK, 2 * BLOCK, 1);
	assert_int_equal(disk_flush(d), 0);
	disk_close(d);
	return delta;
}

static void damaged_delta(int delta, enum error_code code)
{
	open_fails(file_filled(BLOCK, 0), NULL, 0, dup(delta), 64 * BLOCK, code);
	open_fails(file_filled(BLOCK, 0), &delta, 1, file_new(), 64 * BLOCK, code);
}

static void truncated_deltas_are_refused(void **state)
{
	static const off_t sizes[] = {1, 511, 4095, 4096, 8192, DATA - 1, DATA, DATA + 8 * BLOCK,
		DATA + 9 * BLOCK, DATA + 10 * BLOCK - 1};

	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		int delta = valid_delta();

		assert_int_equal(ftruncate(delta, sizes[i]), 0);
		damaged_delta(delta, ERROR_BAD_SNAPSHOT);
	}
}

static void empty_lower_is_refused(void **state)
{
	int delta = file_new();

	open_fails(file_filled(BLOCK, 0), &delta, 1, file_new(), 64 * BLOCK, ERROR_BAD_SNAPSHOT);
}

static void every_flipped_header_bit_is_refused(void **state)
{
	int delta = valid_delta();
	uint8_t header[4096];

	assert_int_equal(fd_pread_full(delta, header, sizeof(header), 0), 0);
	for (size_t i = 0; i < sizeof(header) * 8; i += i < 512 || i > 32700 ? 1 : 97) {
		header[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_int_equal(fd_pwrite_full(delta, header, sizeof(header), 0), 0);
		open_fails(file_new(), NULL, 0, dup(delta), 64 * BLOCK, ERROR_BAD_SNAPSHOT);
		header[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	(void)close(delta);
}

static void hostile_header(unsigned at, uint64_t value, enum error_code code)
{
	int delta = valid_delta();
	uint8_t header[4096];

	assert_int_equal(fd_pread_full(delta, header, sizeof(header), 0), 0);
	if (at == 8 || at == 12)
		put_le32(header + at, (uint32_t)value);
	else
		put_le64(header + at, value);
	put_le32(header + 4092, crc32c(0, header, 4092));
	assert_int_equal(fd_pwrite_full(delta, header, sizeof(header), 0), 0);
	damaged_delta(delta, code);
}

static void hostile_headers_are_refused(void **state)
{
	hostile_header(8, 2, ERROR_INCOMPATIBLE);
	hostile_header(12, 512, ERROR_BAD_SNAPSHOT);
	hostile_header(16, 0, ERROR_BAD_SNAPSHOT);
	hostile_header(16, 513, ERROR_BAD_SNAPSHOT);
	hostile_header(16, UINT64_MAX - 511, ERROR_BAD_SNAPSHOT);
	hostile_header(16, 65 * BLOCK, ERROR_LIMIT);
	hostile_header(24, 8192, ERROR_BAD_SNAPSHOT);
	hostile_header(32, 4096, ERROR_BAD_SNAPSHOT);
	hostile_header(40, 0, ERROR_BAD_SNAPSHOT);
}

static void bad_arguments_are_refused(void **state)
{
	int lowers[DISK_LOWER_MAX + 1];

	open_fails(file_filled(BLOCK, 0), NULL, 0, file_new(), 0, ERROR_LIMIT);
	open_fails(file_filled(BLOCK, 0), NULL, 0, file_new(), BLOCK + 1, ERROR_LIMIT);
	open_fails(file_filled(BLOCK, 0), NULL, 0, file_new(), 512, ERROR_LIMIT);
	open_fails(file_filled(BLOCK, 0), NULL, 0, file_new(), DISK_MAX_BYTES + 512, ERROR_LIMIT);
	for (unsigned i = 0; i <= DISK_LOWER_MAX; i++)
		lowers[i] = file_new();
	open_fails(
		file_filled(BLOCK, 0), lowers, DISK_LOWER_MAX + 1, file_new(), BLOCK, ERROR_LIMIT);
}

static void freeze_has_limits(void **state)
{
	struct disk *d = open_ok(file_filled(BLOCK, 0), NULL, 0, file_new(), 4 * BLOCK);
	struct error e = {0};

	assert_int_equal(disk_freeze(d, file_filled(10, 0), &e), -EEXIST);
	error_clear(&e);
	for (unsigned i = 0; i < DISK_FROZEN_MAX; i++)
		assert_int_equal(disk_freeze(d, file_new(), &e), 0);
	assert_int_equal(disk_freeze(d, file_new(), &e), -EMLINK);
	assert_int_equal(e.code, ERROR_LIMIT);
	write_fill(d, 0, BLOCK, 3);
	assert_int_equal(disk_freeze(d, -1, NULL), 0);
	assert_true(disk_is_read_only(d));
	expect_fill(d, 0, BLOCK, 3);
	assert_int_equal(disk_freeze(d, -1, NULL), -EROFS);
	disk_close(d);
}

/* A file size limit stands in for a full disk as far as the code can tell them apart: the write
 * fails half-way, the bit is not set, and the old content stays. */
static void failing_writes_leave_the_old_content(void **state)
{
	char path[] = "/tmp/disk-test-XXXXXX";
	int delta = mkstemp(path);
	struct disk *d = open_ok(file_filled(8 * BLOCK, 4), NULL, 0, delta, 8 * BLOCK);
	struct rlimit old, small = {.rlim_cur = DATA + 2 * BLOCK, .rlim_max = RLIM_INFINITY};
	uint8_t p[8 * BLOCK];

	assert_int_equal(unlink(path), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small.rlim_max = old.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	memset(p, 1, sizeof(p));
	assert_int_equal(disk_write(d, BLOCK, p, 4 * BLOCK), -EIO);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(disk_stats(d).errors, 1);
	assert_int_equal(disk_read(d, 0, p, sizeof(p)), 0);
	for (size_t i = 0; i < sizeof(p); i++)
		assert_int_equal(p[i], base_byte(4, i));
	disk_close(d);
}

static void full_host_disk_is_told_apart(void **state)
{
	int full = open("/dev/full", O_RDWR | O_CLOEXEC);
	struct disk *d;

	if (full < 0)
		skip();
	d = open_ok(file_filled(BLOCK, 4), NULL, 0, full, 8 * BLOCK);
	assert_int_equal(disk_write(d, 0, &(uint8_t[512]){0}, 512), -ENOSPC);
	assert_int_equal(disk_stats(d).no_space, 1);
	disk_close(d);
}

static void shrunken_base_is_an_error_not_a_crash(void **state)
{
	int base = file_filled(8 * BLOCK, 0);
	struct disk *d = open_ok(dup(base), NULL, 0, -1, 8 * BLOCK);
	uint8_t p[BLOCK];

	assert_int_equal(ftruncate(base, BLOCK), 0);
	assert_int_equal(disk_read(d, 4 * BLOCK, p, sizeof(p)), -EIO);
	disk_close(d);
	(void)close(base);
}

static off_t occupied(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (off_t)st.st_blocks * 512;
}

/* 64 MiB that were discarded or written with zeroes, and three blocks of data among them. */
static void merging_keeps_holes(void **state)
{
	const uint64_t bytes = UINT64_C(64) << 20;
	int merged = file_new(), flat = file_new(), base = file_new();
	struct disk_merged *m = NULL;
	struct disk *d;
	_cleanup_free_ uint8_t *zero = calloc(1, 1 << 20);

	assert_int_equal(ftruncate(base, (off_t)bytes), 0);
	d = open_ok(base, NULL, 0, file_new(), bytes);
	assert_int_equal(disk_write_zeroes(d, 0, bytes), 0);	    /* holes with their bits set */
	assert_int_equal(disk_write(d, 1 << 20, zero, 1 << 20), 0); /* zeroes that were written */
	write_fill(d, 5 * BLOCK, BLOCK, 1);
	write_fill(d, 700 * BLOCK, BLOCK, 2);
	assert_int_equal(disk_freeze(d, file_new(), NULL), 0);
	write_fill(d, 9000 * BLOCK, BLOCK, 3);
	assert_int_equal(disk_flatten(d, 0, flat, NULL), 0);
	assert_in_range(occupied(flat), 3 * BLOCK, 32 * BLOCK);
	assert_int_equal(disk_freeze(d, file_new(), NULL), 0);
	assert_int_equal(disk_merge_frozen(d, dup(merged), &m, NULL), 0);
	assert_in_range(occupied(merged), 3 * BLOCK, 32 * BLOCK);
	disk_replace_frozen(d, m);
	for (unsigned i = 0; i < 2; i++) {
		expect_fill(d, 0, 5 * BLOCK, 0);
		expect_fill(d, 5 * BLOCK, BLOCK, 1);
		expect_fill(d, 700 * BLOCK, BLOCK, 2);
		expect_fill(d, 9000 * BLOCK, BLOCK, 3);
		expect_fill(d, bytes - BLOCK, BLOCK, 0);
		disk_close(d);
		if (i == 0)
			d = open_ok(file_filled(BLOCK, 9), &flat, 1, -1, bytes);
	}
	(void)close(merged);
}

/* What the lowest deltas have is not written again, but what hides it is. */
static void flattening_leaves_out_the_lowest(void **state)
{
	const uint64_t bytes = 600 * BLOCK;
	int low = file_new(), flat = file_new(), lowers[2];
	struct disk *d = open_ok(file_new(), NULL, 0, dup(low), bytes);

	write_fill(d, 10 * BLOCK, 500 * BLOCK, 1);
	assert_int_equal(disk_freeze(d, file_new(), NULL), 0);
	write_fill(d, 20 * BLOCK, BLOCK, 2);
	assert_int_equal(disk_write_zeroes(d, 30 * BLOCK, BLOCK), 0);
	assert_int_equal(disk_flatten(d, 1, flat, NULL), 0);
	disk_close(d);
	assert_in_range(occupied(flat), 0, 32 * BLOCK);
	lowers[0] = low;
	lowers[1] = flat;
	d = open_ok(file_new(), lowers, 2, -1, bytes);
	expect_fill(d, 0, 10 * BLOCK, 0);
	expect_fill(d, 10 * BLOCK, 10 * BLOCK, 1);
	expect_fill(d, 20 * BLOCK, BLOCK, 2);
	expect_fill(d, 21 * BLOCK, 9 * BLOCK, 1);
	expect_fill(d, 30 * BLOCK, BLOCK, 0);
	expect_fill(d, 31 * BLOCK, 479 * BLOCK, 1);
	disk_close(d);
}

static void fill(int fd, uint64_t offset, size_t n, uint8_t value)
{
	_cleanup_free_ uint8_t *p = malloc(n);

	memset(p, value, n);
	assert_int_equal(fd_pwrite_full(fd, p, n, (off_t)offset), 0);
}

/* What is forgotten is the base's again, also in what becomes of the deltas. */
static void test_forget(void **state)
{
	const uint64_t bytes = 300 * BLOCK;
	int base = file_new(), low = file_new(), top = file_new(), flat = file_new();
	int lowers[2] = {low, top};
	struct disk *d;

	fill(base, 0, bytes, 9);
	d = open_ok(dup(base), NULL, 0, dup(low), bytes);
	write_fill(d, 10 * BLOCK, 20 * BLOCK, 1);
	assert_int_equal(disk_flush(d), 0);
	disk_close(d);
	d = open_ok(dup(base), NULL, 0, dup(top), bytes);
	write_fill(d, 15 * BLOCK, BLOCK, 2);
	write_fill(d, 299 * BLOCK, BLOCK, 3);
	assert_int_equal(disk_flush(d), 0);
	disk_close(d);
	assert_int_equal(disk_open(dup(base), lowers, 2, -1, bytes, &d, NULL), 0);
	disk_forget(d, 12 * BLOCK, 8 * BLOCK);
	disk_forget(d, 298 * BLOCK, 1000 * BLOCK); /* no further than its end */
	assert_int_equal(disk_flatten(d, 0, flat, NULL), 0);
	disk_close(d);
	d = open_ok(base, &flat, 1, file_new(), bytes);
	expect_fill(d, 0, 10 * BLOCK, 9);
	expect_fill(d, 10 * BLOCK, 2 * BLOCK, 1);
	expect_fill(d, 12 * BLOCK, 8 * BLOCK, 9);
	expect_fill(d, 20 * BLOCK, 10 * BLOCK, 1);
	expect_fill(d, 30 * BLOCK, 270 * BLOCK, 9);
	disk_forget(d, 10 * BLOCK, BLOCK); /* one that is written to keeps all */
	expect_fill(d, 10 * BLOCK, BLOCK, 1);
	disk_close(d);
}

/* In place of libc's. */
static bool sync_fails;

int fdatasync(int fd)
{
	if (sync_fails) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

/* The kernel tells once; what it could not write is lost all the same. */
static void a_failed_sync_is_not_forgotten(void **state)
{
	struct disk *d = open_ok(file_filled(8 * BLOCK, 0), NULL, 0, file_new(), 8 * BLOCK);
	struct disk_merged *m = NULL;
	struct error e = {0};

	write_fill(d, 0, BLOCK, 1);
	sync_fails = true;
	assert_int_equal(disk_flush(d), -EIO);
	sync_fails = false;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(disk_flush(d), -EIO);
	expect_fill(d, 0, BLOCK, 1); /* the page cache still has it */
	assert_int_equal(disk_freeze(d, file_new(), &e), -EIO);
	assert_int_equal(e.code, ERROR_HOST);
	assert_non_null(strstr(e.message, "lost"));
	assert_int_equal(disk_flatten(d, 0, file_new(), NULL), -EIO);
	assert_int_equal(disk_merge_frozen(d, file_new(), &m, NULL), -EIO);
	disk_close(d);
}

static void a_failed_sync_of_a_frozen_delta_is_not_forgotten(void **state)
{
	struct disk *d = open_ok(file_filled(8 * BLOCK, 0), NULL, 0, file_new(), 8 * BLOCK);

	write_fill(d, 0, BLOCK, 1);
	assert_int_equal(disk_freeze(d, file_new(), NULL), 0);
	disk_set_synced(d, disk_unsynced_fd(d), -EIO);
	assert_int_equal(disk_flush(d), -EIO);
	assert_int_equal(disk_freeze(d, file_new(), NULL), -EIO);
	assert_int_equal(disk_check(d, NULL), -EIO);
	disk_close(d);
}

static void counts(void **state)
{
	struct disk *d = open_ok(file_filled(8 * BLOCK, 0), NULL, 0, file_new(), 8 * BLOCK);

	write_fill(d, 0, 1024, 1);
	expect_fill(d, 0, 512, 1);
	assert_int_equal(disk_flush(d), 0);
	assert_int_equal(disk_stats(d).writes, 1);
	assert_int_equal(disk_stats(d).written_bytes, 1024);
	assert_int_equal(disk_stats(d).reads, 1);
	assert_int_equal(disk_stats(d).read_bytes, 512);
	assert_int_equal(disk_stats(d).flushes, 1);
	disk_close(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_base_and_zeroes_behind_it),
		cmocka_unit_test(bounds_are_checked),
		cmocka_unit_test(partial_writes_merge),
		cmocka_unit_test(random_operations_match_a_model),
		cmocka_unit_test(chain_of_base_two_lowers_and_top),
		cmocka_unit_test(fresh_delta_stays_empty),
		cmocka_unit_test(unflushed_delta_is_refused),
		cmocka_unit_test(map_holds_only_what_was_flushed),
		cmocka_unit_test(discard_punches_and_keeps_the_bit),
		cmocka_unit_test(zeroes_hide_the_base),
		cmocka_unit_test(grows),
		cmocka_unit_test(growing_ignores_bits_past_the_end),
		cmocka_unit_test(truncated_deltas_are_refused),
		cmocka_unit_test(empty_lower_is_refused),
		cmocka_unit_test(every_flipped_header_bit_is_refused),
		cmocka_unit_test(hostile_headers_are_refused),
		cmocka_unit_test(bad_arguments_are_refused),
		cmocka_unit_test(freeze_has_limits),
		cmocka_unit_test(failing_writes_leave_the_old_content),
		cmocka_unit_test(full_host_disk_is_told_apart),
		cmocka_unit_test(shrunken_base_is_an_error_not_a_crash),
		cmocka_unit_test(merging_keeps_holes),
		cmocka_unit_test(flattening_leaves_out_the_lowest),
		cmocka_unit_test(a_failed_sync_is_not_forgotten),
		cmocka_unit_test(a_failed_sync_of_a_frozen_delta_is_not_forgotten),
		cmocka_unit_test(test_forget),
		cmocka_unit_test(counts),
	};

	return cmocka_run_group_tests_name("disk", tests, NULL, NULL);
}
