/* Hot pages: what was written comes back as the memory's own, what the page cache lacks comes from
 * the file, and a bad hint does nothing. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "vmm/hot.h"

enum { PAGE = 4096, PAGES = 64, MANY = 400 };

struct fixture {
	char dir[64];
	int dirfd, memory_fd;
	struct guest_memory m;
};

static void map(struct fixture *f)
{
	assert_int_equal(guest_memory_map(&f->m, f->memory_fd, PAGES * PAGE, NULL), 0);
}

static void load_as(const struct fixture *f, const struct page_set *above, enum hot_use use)
{
	int fd = openat(f->dirfd, "hot", O_RDONLY | O_CLOEXEC);

	hot_load(&f->m, above, fd, use);
	if (fd >= 0)
		close(fd);
}

static void load(const struct fixture *f)
{
	load_as(f, &(struct page_set){0}, HOT_USE_AUTO);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->dir, "/tmp/test_hot-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	f->dirfd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f->memory_fd = openat(f->dirfd, "memory", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(f->memory_fd, PAGES * PAGE), 0);
	map(f);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	guest_memory_done(&f->m);
	close(f->memory_fd);
	close(f->dirfd);
	file_remove_tree(AT_FDCWD, f->dir);
	free(f);
	return 0;
}

/* Whether the page is the mapping's own copy. */
static bool is_own(const struct fixture *f, unsigned page)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0, at = (uintptr_t)f->m.map / PAGE + page;

	assert_int_equal(pread(fd, &entry, sizeof(entry), (off_t)(at * sizeof(entry))), 8);
	close(fd);
	return entry >> 63 && !(entry >> 61 & 1);
}

static unsigned count_own(const struct fixture *f)
{
	unsigned n = 0;

	for (unsigned i = 0; i < PAGES; i++)
		n += is_own(f, i);
	return n;
}

static void save(struct fixture *f)
{
	int fd = openat(f->dirfd, "hot", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int pagemap_fd = pages_open(-1);

	assert_int_equal(hot_save(&f->m, pagemap_fd, f->memory_fd, fd, NULL), 0);
	close(pagemap_fd);
	close(fd);
}

/* A rehearsal that writes some pages and reads others. The snapshot has 'a' in all of them. */
static void rehearse(struct fixture *f)
{
	static const unsigned pages[] = {0, 3, 4, 5, 40, PAGES - 1};
	static uint8_t all[PAGES * PAGE];

	memset(all, 'a', sizeof(all));
	assert_int_equal(pwrite(f->memory_fd, all, sizeof(all), 0), sizeof(all));
	assert_int_equal(fsync(f->memory_fd), 0);
	hot_rehearse(&f->m, f->memory_fd);
	for (size_t i = 0; i < ARRAY_SIZE(pages); i++)
		f->m.map[pages[i] * PAGE + 7] = 1;
	(void)*(volatile uint8_t *)(f->m.map + 20 * PAGE); /* only read */
	save(f);
	guest_memory_done(&f->m);
	map(f);
}

static void written_pages_come_back(void **state)
{
	struct fixture *f = *state;

	rehearse(f);
	assert_int_equal(count_own(f), 0);
	load(f);
	assert_int_equal(count_own(f), 6);
	assert_true(is_own(f, 0) && is_own(f, 4) && is_own(f, PAGES - 1) && !is_own(f, 20));
	assert_int_equal(f->m.map[4 * PAGE + 7], 'a'); /* a copy of the snapshot's */
}

/* Tells where pages come from: the memory file has other content from now on. */
static void change_memory(const struct fixture *f)
{
	static uint8_t all[PAGES * PAGE];

	memset(all, 'b', sizeof(all));
	assert_int_equal(pwrite(f->memory_fd, all, sizeof(all), 0), sizeof(all));
}

static void pages_come_from_the_file(void **state)
{
	struct fixture *f = *state;

	rehearse(f);
	change_memory(f);
	load_as(f, &(struct page_set){0}, HOT_USE_FILE);
	assert_true(is_own(f, 0) && is_own(f, 40) && !is_own(f, 20));
	assert_int_equal(f->m.map[0], 'a');
	assert_int_equal(f->m.map[20 * PAGE], 'a'); /* was only read */
	assert_int_equal(f->m.map[40 * PAGE], 'a');
	assert_int_equal(f->m.map[60 * PAGE], 'b'); /* was not touched, nor are its neighbours */
}

/* What a layer has is newer than the file. */
static void pages_of_layers_stay(void **state)
{
	struct fixture *f = *state;
	struct page_range layer[] = {{3, 2}, {20, 1}};

	rehearse(f);
	change_memory(f);
	load_as(f, &(struct page_set){.ranges = layer, .count = 2}, HOT_USE_FILE);
	assert_int_equal(f->m.map[0], 'a');
	assert_int_equal(f->m.map[3 * PAGE], 'b');
	assert_int_equal(f->m.map[4 * PAGE], 'b');
	assert_int_equal(f->m.map[5 * PAGE], 'a');
	assert_int_equal(f->m.map[20 * PAGE], 'b');
}

static void warm_pages_are_not_mapped(void **state)
{
	struct fixture *f = *state;

	rehearse(f);
	change_memory(f); /* which puts all of it into the page cache */
	load(f);
	assert_int_equal(count_own(f), 6);
	assert_int_equal(f->m.map[0], 'b');
}

/* As after a reboot, where the file system has a page cache that can be dropped. */
static void cold_pages_come_from_the_file(void **state)
{
	struct fixture *f = *state;
	unsigned char there = 1;

	rehearse(f);
	change_memory(f);
	assert_int_equal(fsync(f->memory_fd), 0);
	assert_int_equal(posix_fadvise(f->memory_fd, 0, 0, POSIX_FADV_DONTNEED), 0);
	assert_int_equal(mincore(f->m.map, PAGE, &there), 0);
	if (there & 1)
		skip(); /* a tmpfs */
	load(f);
	assert_int_equal(f->m.map[0], 'a');
	assert_int_equal(f->m.map[20 * PAGE], 'a');
}

static void nothing_written_nothing_hot(void **state)
{
	struct fixture *f = *state;

	save(f);
	load(f);
	assert_int_equal(count_own(f), 0);
}

static void missing_file_is_fine(void **state)
{
	struct fixture *f = *state;

	load(f);
	assert_int_equal(count_own(f), 0);
}

static void put_file(const struct fixture *f, const char *file, size_t n)
{
	guest_memory_done(&((struct fixture *)f)->m);
	map((struct fixture *)f);
	assert_int_equal(file_write_atomic(f->dirfd, "hot", file, n, 0600), 0);
}

/* In the head nothing of the file counts, in its pages none is taken from it. */
static void every_damage_is_ignored(void **state)
{
	struct fixture *f = *state;
	size_t n, head_bytes;
	char *file;

	rehearse(f);
	change_memory(f);
	assert_int_equal(file_read(f->dirfd, "hot", 1 << 20, &file, &n), 0);
	head_bytes = hot_head_bytes(0) /* one page */;
	for (size_t i = 0; i < n; i += i < 200 ? 1 : 509) {
		if (i >= 56 + 6 * 12 && i < head_bytes)
			continue; /* padding */
		file[i] ^= 0x40;
		put_file(f, file, n);
		load_as(f, &(struct page_set){0}, HOT_USE_FILE);
		assert_int_equal(count_own(f), 0);
		assert_int_equal(f->m.map[40 * PAGE], 'b');
		file[i] ^= 0x40;
	}
	for (size_t i = 0; i < n; i += i < 200 ? 1 : 509) {
		put_file(f, file, i);
		load_as(f, &(struct page_set){0}, HOT_USE_FILE);
		assert_int_equal(count_own(f), 0);
	}
	put_file(f, file, n);
	load_as(f, &(struct page_set){0}, HOT_USE_FILE);
	assert_int_equal(count_own(f), 6);
	free(file);
}

/* A file of another snapshot: intact, but of a larger memory. */
static void another_memory_is_ignored(void **state)
{
	struct fixture *f = *state;

	rehearse(f);
	guest_memory_done(&f->m);
	assert_int_equal(guest_memory_map(&f->m, f->memory_fd, 8 * PAGE, NULL), 0);
	load(f);
	assert_true(!is_own(f, 0) && !is_own(f, 5));
}

/* Ranges whose table does not fit into the file's first page. */
static void a_long_head_is_read(void **state)
{
	struct fixture *f = *state;
	struct hot_head *h = calloc(1, sizeof(*h));
	struct buf b = BUF_INIT(HOT_HEAD_MAX + MANY * PAGE);
	static uint8_t data[MANY * PAGE];

	*h = (struct hot_head){.memory_bytes = sizeof(data),
		.range_count = MANY,
		.data_crc = crc32c(0, data, sizeof(data))};
	for (uint32_t i = 0; i < MANY; i++)
		h->ranges[i] = (struct hot_range){i, 1, i % 2};
	assert_int_equal(hot_head_write(h, &b), 0);
	assert_int_equal(hot_head_length(buf_head(&b), 100), 2 * PAGE);
	assert_int_equal(buf_add(&b, data, sizeof(data)), 0);
	assert_int_equal(file_write_atomic(f->dirfd, "hot", buf_head(&b), buf_len(&b), 0600), 0);
	assert_int_equal(ftruncate(f->memory_fd, sizeof(data)), 0);
	guest_memory_done(&f->m);
	assert_int_equal(guest_memory_map(&f->m, f->memory_fd, sizeof(data), NULL), 0);
	load(f);
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(is_own(f, i), i % 2);
	buf_done(&b);
	free(h);
}

/* Ranges that cannot be, with right checksums. */
static void impossible_ranges_are_refused(void **state)
{
	static const struct hot_range bad[][2] = {
		{{0, 0, true}, {1, 1, false}},		/* empty */
		{{5, 2, true}, {6, 1, false}},		/* overlapping */
		{{9, 1, true}, {3, 1, false}},		/* not in order */
		{{0, 1, true}, {PAGES - 1, 2, true}},	/* beyond the end */
		{{0, 1, true}, {UINT32_MAX, 9, false}}, /* wraps around */
	};
	struct hot_head *h = calloc(1, sizeof(*h)), *back = calloc(1, sizeof(*back));

	for (size_t i = 0; i <= ARRAY_SIZE(bad); i++) {
		bool right = i == ARRAY_SIZE(bad);
		struct buf b = BUF_INIT(HOT_HEAD_MAX);

		*h = (struct hot_head){.memory_bytes = PAGES * PAGE, .range_count = 2};
		h->ranges[0] = right ? (struct hot_range){0, 2, true} : bad[i][0];
		h->ranges[1] = right ? (struct hot_range){2, PAGES - 2, false} : bad[i][1];
		assert_int_equal(hot_head_write(h, &b), 0);
		assert_int_equal(hot_head_read(buf_head(&b), buf_len(&b),
					 buf_len(&b) + hot_data_pages(h) * PAGE, back),
			right ? 0 : -EBADMSG);
		buf_done(&b);
	}
	assert_true(back->ranges[0].written && !back->ranges[1].written);
	free(h);
	free(back);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(written_pages_come_back, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_written_nothing_hot, setup, teardown),
		cmocka_unit_test_setup_teardown(missing_file_is_fine, setup, teardown),
		cmocka_unit_test_setup_teardown(every_damage_is_ignored, setup, teardown),
		cmocka_unit_test_setup_teardown(pages_come_from_the_file, setup, teardown),
		cmocka_unit_test_setup_teardown(pages_of_layers_stay, setup, teardown),
		cmocka_unit_test_setup_teardown(warm_pages_are_not_mapped, setup, teardown),
		cmocka_unit_test_setup_teardown(cold_pages_come_from_the_file, setup, teardown),
		cmocka_unit_test_setup_teardown(another_memory_is_ignored, setup, teardown),
		cmocka_unit_test_setup_teardown(a_long_head_is_read, setup, teardown),
		cmocka_unit_test(impossible_ranges_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
