/* The cache of a build's steps: disks of several deltas, digests of steps, and what is kept. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "build/layers.h"
#include "build/stage.h"
#include "build/step_cache.h"
#include "image/workdir.h"
#include "build/step_key.h"
#include "home_fixture.h"
#include "image/ext4.h"
#include "io/jailed.h"
#include "vmm/disk.h"

enum { BLOCKS = 64, FILE_BYTES = 64 * 1024 };

static char key_text[STEP_KEY_BYTES];

/* 64 digits. */
static const struct step_cache cache = {.home = &home};

static const char *key(unsigned n)
{
	(void)snprintf(key_text, sizeof(key_text), "%064u", n); /* fits */
	return key_text;
}

static int make_dir(const char *name)
{
	assert_int_equal(mkdirat(home.fd, name, 0700), 0);
	return openat(home.fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void make_file(int dirfd, const char *name, size_t bytes)
{
	_cleanup_close_ int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	_cleanup_free_ char *data = malloc(bytes);

	assert_true(fd >= 0 && data);
	memset(data, 'x', bytes);
	assert_int_equal(write(fd, data, bytes), bytes);
}

/* --- disks --- */

static int open_rw(int dirfd, const char *name)
{
	return openat(dirfd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

/* A delta in which one block has one letter. */
static void make_delta(int dirfd, const char *name, unsigned block, char letter)
{
	char data[DISK_BLOCK_BYTES];
	struct disk *d;

	memset(data, letter, sizeof(data));
	assert_int_equal(disk_open(openat(dirfd, "rootfs.ext4", O_RDONLY | O_CLOEXEC), NULL, 0,
				 open_rw(dirfd, name), BLOCKS * DISK_BLOCK_BYTES, &d, NULL),
		0);
	assert_int_equal(disk_write(d, block * DISK_BLOCK_BYTES, data, sizeof(data)), 0);
	assert_int_equal(disk_flush(d), 0);
	disk_close(d);
}

/* The disk of a directory, to be read. */
static struct disk *open_dir_disk(int dirfd)
{
	int deltas[LAYERS_DELTAS_MAX];
	unsigned n = layers_count(dirfd);
	char name[IMAGE_DELTA_NAME_BYTES];
	struct disk *d = NULL;
	struct stat st;

	assert_int_equal(fstatat(dirfd, "rootfs.ext4", &st, 0), 0);
	for (unsigned i = 0; i < n; i++) {
		image_delta_name(i, name);
		deltas[i] = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
	}
	assert_int_equal(disk_open(openat(dirfd, "rootfs.ext4", O_RDONLY | O_CLOEXEC), deltas, n,
				 -1, (uint64_t)st.st_size, &d, NULL),
		0);
	return d;
}

static char letter_of(int dirfd, uint64_t block)
{
	struct disk *d = open_dir_disk(dirfd);
	char sector[DISK_SECTOR_BYTES];

	assert_int_equal(disk_read(d, block * DISK_BLOCK_BYTES, sector, sizeof(sector)), 0);
	disk_close(d);
	return sector[0];
}

static bool is_same(int a_fd, const char *a, int b_fd, const char *b)
{
	struct stat x, y;

	assert_int_equal(fstatat(a_fd, a, &x, 0), 0);
	assert_int_equal(fstatat(b_fd, b, &y, 0), 0);
	return x.st_ino == y.st_ino;
}

static void test_disks(void **state)
{
	_cleanup_close_ int work = make_dir("work"), a = make_dir("a"), b = make_dir("b");
	char name[IMAGE_DELTA_NAME_BYTES];

	(void)close(open_rw(work, "empty"));
	make_file(a, "rootfs.ext4", BLOCKS * DISK_BLOCK_BYTES);
	assert_int_equal(linkat(a, "rootfs.ext4", work, "rootfs.ext4", 0), 0);
	for (unsigned i = 0; i < LAYERS_DELTAS_MAX; i++) {
		assert_int_equal(layers_count(a), i);
		(void)snprintf(name, sizeof(name), "top%u", i);
		make_delta(work, name, i, (char)('a' + i));
		assert_int_equal(layers_add(work, name, a, NULL), 0);
		if (i == 2)
			assert_int_equal(layers_link(a, b, NULL), 0);
	}
	assert_int_equal(layers_count(a), LAYERS_LOW_MAX + 1); /* merged, but the lowest */
	assert_true(is_same(a, "delta0", work, "top0") && is_same(a, "delta2", work, "top2"));
	make_delta(work, "last", 0, 'z');
	assert_int_equal(layers_add(work, "last", a, NULL), 0);
	assert_int_equal(layers_add(work, "empty", a, NULL), 0);
	assert_int_equal(layers_count(a), LAYERS_LOW_MAX + 2);
	assert_int_equal(letter_of(a, 0), 'z');
	for (unsigned i = 1; i < LAYERS_DELTAS_MAX; i++)
		assert_int_equal(letter_of(a, i), 'a' + (int)i);
	assert_int_equal(letter_of(a, LAYERS_DELTAS_MAX), 'x');
	assert_int_equal(layers_count(b), 3);
	assert_int_equal(letter_of(b, 2), 'c'); /* as it was linked */
	assert_int_equal(letter_of(b, 3), 'x');
	assert_true(layers_add(work, "none", a, NULL) < 0);
}

/* An image keeps what its base had, and the rest is one delta. */
static void test_settle(void **state)
{
	static const struct {
		unsigned keep, count;
	} cases[] = {{0, 1}, {1, 2}, {3, 4}, {9, 4}};
	_cleanup_close_ int work = make_dir("parts"), a = make_dir("of"), none = make_dir("none");
	char name[32];

	make_file(a, "rootfs.ext4", BLOCKS * DISK_BLOCK_BYTES);
	assert_int_equal(linkat(a, "rootfs.ext4", work, "rootfs.ext4", 0), 0);
	assert_int_equal(layers_settle(a, 1, none, NULL), 0);
	assert_int_equal(layers_count(none), 0);
	for (unsigned i = 0; i < 6; i++) {
		(void)snprintf(name, sizeof(name), "top%u", i); /* fits */
		make_delta(work, name, i / 2, (char)('a' + i));
		assert_int_equal(layers_add(work, name, a, NULL), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_close_ int to = -1;

		(void)snprintf(name, sizeof(name), "to%zu", i); /* fits */
		to = make_dir(name);
		assert_int_equal(layers_settle(a, cases[i].keep, to, NULL), 0);
		assert_int_equal(layers_count(to), cases[i].count);
		assert_true(is_same(to, "rootfs.ext4", a, "rootfs.ext4"));
		assert_true(is_same(to, "delta0", a, "delta0") == (cases[i].keep > 0));
		for (unsigned k = 0; k < 3; k++)
			assert_int_equal(letter_of(to, k), 'b' + (int)(2 * k));
		assert_int_equal(letter_of(to, 3), 'x');
	}
}

/* --- the journal --- */

enum { FS_BYTES = 256 << 20, JOURNAL_BLOCKS = (16 << 20) / DISK_BLOCK_BYTES };

/* Writes to all of the journal, as its extents in the superblock say. Returns its first block. */
static uint64_t fill_journal(struct disk *d, const uint8_t *extents)
{
	_cleanup_free_ char *data = malloc(JOURNAL_BLOCKS * DISK_BLOCK_BYTES);
	unsigned count = get_le16(extents + 2), blocks = 0;

	assert_non_null(data);
	memset(data, 'j', JOURNAL_BLOCKS * DISK_BLOCK_BYTES);
	assert_int_equal(get_le16(extents), 0xf30a);
	for (unsigned i = 1; i <= count; i++) {
		uint64_t at = get_le32(extents + 12 * i + 8), n = get_le16(extents + 12 * i + 4);

		blocks += (unsigned)n;
		assert_in_range(blocks, 1, JOURNAL_BLOCKS);
		assert_int_equal(disk_write(d, at * DISK_BLOCK_BYTES, data,
					 (uint32_t)(n * DISK_BLOCK_BYTES)),
			0);
	}
	assert_int_equal(blocks, JOURNAL_BLOCKS);
	return get_le32(extents + 12 + 8);
}

/* Makes an image as ours are, and a delta in which all of the journal was written and `flags` are
 * added to those that a kernel must know. Returns the journal's first block. */
static uint64_t write_journal(int work, int a, const char *name, unsigned flags)
{
	_cleanup_free_ char *path = str_printf("%s/%s/rootfs.ext4", home_dir, name);
	uint8_t block[DISK_BLOCK_BYTES], *sb = block + 1024;
	const uint8_t uuid[16] = {1};
	struct ext4_image *x;
	uint64_t at;
	struct disk *d;

	assert_int_equal(ext4_create(path, FS_BYTES, 1, &x, NULL), 0);
	assert_int_equal(ext4_finish(x, uuid, NULL), 0);
	d = open_dir_disk(a);
	assert_int_equal(disk_read(d, 0, block, sizeof(block)), 0);
	disk_close(d);
	sb[0x60] |= (uint8_t)flags;
	assert_int_equal(disk_open(openat(a, "rootfs.ext4", O_RDONLY | O_CLOEXEC), NULL, 0,
				 open_rw(work, "top"), FS_BYTES, &d, NULL),
		0);
	assert_int_equal(disk_write(d, 0, block, sizeof(block)), 0);
	at = fill_journal(d, sb + 0x10c);
	assert_int_equal(disk_flush(d), 0);
	disk_close(d);
	assert_int_equal(layers_add(work, "top", a, NULL), 0);
	return at;
}

/* It takes no room in an image, unless the file system needs it; its first block always stays. */
static void test_journal(void **state)
{
	for (unsigned recover = 0; recover < 2; recover++) {
		char names[3][16];
		_cleanup_close_ int work = -1, a = -1, to = -1;
		uint64_t at, taken;

		for (unsigned i = 0; i < 3; i++)
			(void)snprintf(names[i], sizeof(names[i]), "j%u-%u", recover, i); /* fits */
		work = make_dir(names[0]);
		a = make_dir(names[1]);
		to = make_dir(names[2]);
		at = write_journal(work, a, names[1], recover ? 4 : 0);
		assert_int_equal(layers_settle(a, 0, to, NULL), 0);
		taken = file_disk_bytes(to, "delta0");
		assert_true(recover ? taken > JOURNAL_BLOCKS * DISK_BLOCK_BYTES : taken < 64 << 10);
		assert_int_equal(letter_of(to, at), 'j');
		assert_int_equal(letter_of(to, at + 1) == 'j', recover);
	}
}

/* What a guest writes there leads to no harm: at most to a part of its own disk. */
static void test_hostile_journal(void **state)
{
	uint8_t block[DISK_BLOCK_BYTES] = {0}, *sb = block + 1024, *extents = sb + 0x10c;
	_cleanup_close_ int work = make_dir("h0"), a = make_dir("h1");

	make_file(a, "rootfs.ext4", BLOCKS * DISK_BLOCK_BYTES);
	assert_int_equal(linkat(a, "rootfs.ext4", work, "rootfs.ext4", 0), 0);
	put_le16(sb + 0x38, 0xef53);
	put_le32(sb + 0x18, 2);
	sb[0xfd] = 1;
	put_le16(extents, 0xf30a);
	for (unsigned i = 0; i < 4; i++)
		memset(extents + 12 + 12 * i, i == 1 ? 0xff : 0x7f, 12);
	for (uint16_t count = 0; count < 9; count++) {
		char name[16], to_name[16];
		_cleanup_close_ int to = -1;
		struct disk *d;

		(void)snprintf(name, sizeof(name), "top%u", count); /* these fit */
		(void)snprintf(to_name, sizeof(to_name), "h-to%u", count);
		put_le16(extents + 2, count == 8 ? UINT16_MAX : count);
		assert_int_equal(disk_open(openat(a, "rootfs.ext4", O_RDONLY | O_CLOEXEC), NULL, 0,
					 open_rw(work, name), BLOCKS * DISK_BLOCK_BYTES, &d, NULL),
			0);
		assert_int_equal(disk_write(d, 0, block, sizeof(block)), 0);
		assert_int_equal(disk_flush(d), 0);
		disk_close(d);
		assert_int_equal(layers_add(work, name, a, NULL), 0);
		to = make_dir(to_name);
		assert_int_equal(layers_settle(a, 0, to, NULL), 0);
		assert_int_equal(layers_count(to), 1);
		assert_int_equal(letter_of(to, 1), 'x');
	}
}

/* --- the cache --- */

/* An entry whose disk is a file of its own, or that of `like`. */
static void put(unsigned n, int like, bool replace)
{
	char name[32];
	int fd;

	(void)snprintf(name, sizeof(name), "entry-%u", n);
	fd = make_dir(name);
	if (like >= 0)
		assert_int_equal(layers_link(like, fd, NULL), 0);
	else
		make_file(fd, "rootfs.ext4", FILE_BYTES);
	step_cache_put(&cache, key(n), home.fd, name, fd, replace);
	(void)close(fd);
}

static bool has(unsigned n)
{
	int fd = step_cache_find(&cache, key(n));

	if (fd >= 0)
		(void)close(fd); /* a directory */
	return fd >= 0;
}

/* Says when an entry was used last. */
static void set_used(unsigned n, time_t when)
{
	const struct timespec times[2] = {{.tv_sec = when}, {.tv_sec = when}};

	assert_int_equal(utimensat(home.area_fd[HOME_STEPS], key(n), times, 0), 0);
}

static void test_cache(void **state)
{
	struct step_cache_usage u;
	struct stat st, other;
	int fd;

	assert_int_equal(step_cache_find(&cache, key(1)), -ENOENT);
	put(1, -1, false);
	fd = step_cache_find(&cache, key(1));
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	put(1, -1, true);
	(void)close(fd);
	fd = step_cache_find(&cache, key(1));
	assert_true(fd >= 0 && fstat(fd, &other) == 0);
	assert_int_not_equal(st.st_ino, other.st_ino);
	(void)close(fd);
	/* without the base it is none */
	assert_int_equal(mkdirat(home.area_fd[HOME_STEPS], key(2), 0700), 0);
	assert_false(has(2));
	/* another one of the key stays, and the new one where it was made */
	make_file(home.fd, "mark", 1);
	put(3, -1, false);
	(void)renameat(home.fd, "entry-3", home.fd, "gone");
	put(3, -1, false);
	assert_true(file_exists(home.fd, "entry-3/rootfs.ext4"));
	assert_int_equal(step_cache_trim(&home, UINT64_MAX, &u, NULL), 0);
	assert_int_equal(u.entries, 3);
	assert_int_equal(u.bytes, 2 * FILE_BYTES);
}

static void test_owners(void **state)
{
	static const char owner[] = "a0000000-0000-4000-8000-00000000000a";
	const struct step_cache own = {&home, owner}, bad = {&home, "../a"};
	char name[32] = "entry-7", entry[128];
	int fd = make_dir(name);

	make_file(fd, "rootfs.ext4", 1);
	step_cache_put(&bad, key(7), home.fd, name, fd, true);
	assert_true(file_exists(home.fd, "entry-7"));
	step_cache_put(&own, key(7), home.fd, name, fd, false);
	(void)close(fd);
	assert_false(has(7)); /* the operator's */
	fd = step_cache_find(&own, key(7));
	assert_true(fd >= 0 && step_cache_age_ns(fd) < UINT64_MAX);
	(void)close(fd);
	put(7, -1, false);
	(void)snprintf(entry, sizeof(entry), "%s.%s", owner, key(7));
	assert_true(file_exists(home.area_fd[HOME_STEPS], entry));
	workdir_remove_owned(home.area_fd[HOME_STEPS], "a0000000");
	assert_true(file_exists(home.area_fd[HOME_STEPS], entry));
	workdir_remove_owned(home.area_fd[HOME_STEPS], owner);
	assert_int_equal(step_cache_find(&own, key(7)), -ENOENT);
	assert_true(has(7));
}

static void test_bounds(void **state)
{
	struct step_cache_usage u;
	int held;

	for (unsigned i = 1; i <= 5; i++)
		put(i, -1, false);
	held = step_cache_find(&cache, key(5));
	put(6, held, false); /* shares all that 5 has */
	for (unsigned i = 1; i <= 6; i++)
		set_used(i, 1000 + i);
	set_used(5, 900); /* the first to go, but for its use */
	assert_true(has(1));
	assert_int_equal(mkdirat(home.area_fd[HOME_STEPS], ".tmp-killed", 0700), 0);
	assert_int_equal(step_cache_trim(&home, UINT64_MAX, &u, NULL), 0);
	assert_int_equal(u.entries, 6);
	assert_int_equal(u.bytes, 5 * FILE_BYTES);
	assert_false(file_exists(home.area_fd[HOME_STEPS], ".tmp-killed"));
	assert_int_equal(step_cache_trim(&home, 3 * FILE_BYTES, &u, NULL), 0);
	assert_int_equal(u.removed, 2);
	assert_int_equal(u.freed_bytes, 2 * FILE_BYTES);
	assert_true(has(1) && !has(2) && !has(3) && has(4) && has(6));
	assert_int_equal(step_cache_trim(&home, 0, &u, NULL), 0);
	assert_int_equal(u.entries, 1);
	assert_true(has(5)); /* in use */
	(void)close(held);
	assert_int_equal(step_cache_trim(&home, 0, &u, NULL), 0);
	assert_false(has(5));
}

/* --- digests --- */

static struct files_context context;
static const char *source_key_text = "one";

static int get_files(void *opaque, const char *from, struct files **ret, struct error *e)
{
	*ret = &context.files;
	return 0;
}

static int get_source_key(void *opaque, const char *from, char ret[STEP_KEY_BYTES], struct error *e)
{
	(void)snprintf(ret, STEP_KEY_BYTES, "%s", source_key_text);
	return 0;
}

static void note(void *opaque, unsigned line, const char *text)
{
}

/* The digest of the last step of a text; the others are done. */
static void digest(const char *text, char ret[STEP_KEY_BYTES])
{
	static const struct vars none = {NULL, 0};
	struct stage s = {.global = &none,
		.build_args = &none,
		.ops = {.files = get_files, .source_key = get_source_key, .note = note}};
	struct dockerfile d;
	struct error e = {0};
	const struct dockerfile_steps *steps;

	assert_int_equal(dockerfile_parse(text, strlen(text), &d, NULL), 0);
	steps = &d.stages[0].steps;
	s.file = &d;
	assert_int_equal(stage_state_init(&s.state), 0);
	for (size_t i = 0; i + 1 < steps->count; i++)
		assert_int_equal((stage_changes_disk(&steps->items[i]) ? stage_skip : stage_step)(
					 &s, &steps->items[i], &e),
			0);
	assert_true(stage_changes_disk(&steps->items[steps->count - 1]));
	if (stage_key(&s, &steps->items[steps->count - 1], ret, &e) < 0)
		fail_msg("%s: %s", text, e.message);
	stage_state_done(&s.state);
	vars_done(&s.args);
	dockerfile_done(&d);
}

static bool differ(const char *text, const char *other)
{
	char a[STEP_KEY_BYTES], b[STEP_KEY_BYTES];

	digest(text, a);
	digest(other, b);
	assert_int_equal(strlen(a), STEP_KEY_BYTES - 1);
	return strcmp(a, b) != 0;
}

static void test_digests_of_commands(void **state)
{
	static const char *const others[] = {"FROM x\nRUN b", "FROM x\nRUN [\"a\"]",
		"FROM x\nENV A=1\nRUN a", "FROM x\nARG A=1\nRUN a", "FROM x\nUSER u\nRUN a",
		"FROM x\nWORKDIR /w\nRUN a", "FROM x\nSHELL [\"/bin/sh\"]\nRUN a",
		"FROM x\nRUN --network=none a", "FROM x\nWORKDIR a"};

	assert_false(differ("FROM x\nRUN a", "FROM x\nLABEL a=b\nCMD c\nRUN a"));
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_true(differ("FROM x\nRUN a", others[i]));
	assert_true(differ("FROM x\nRUN [\"a\", \"b\"]", "FROM x\nRUN [\"ab\"]"));
	assert_true(differ("FROM x\nENV A=1 B=2\nRUN a", "FROM x\nENV A=\"1 B=2\"\nRUN a"));
	assert_true(differ("FROM x\nRUN <<E\na\nE\n", "FROM x\nRUN <<E\nb\nE\n"));
	assert_false(differ("FROM x\nARG A=/w\nWORKDIR $A", "FROM x\nARG A\nWORKDIR /w"));
}

/* Whether COPY has another digest after a change. */
static bool changes(const char *text, const char before[STEP_KEY_BYTES])
{
	char now[STEP_KEY_BYTES];

	digest(text, now);
	return strcmp(now, before) != 0;
}

static void test_digests_of_files(void **state)
{
	static const char copy[] = "FROM x\nCOPY d /d", pattern[] = "FROM x\nCOPY d/*.t* /d/",
			  from[] = "FROM x\nCOPY --from=s d /d";
	const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
	_cleanup_close_ int top = make_dir("context");
	char a[STEP_KEY_BYTES], b[STEP_KEY_BYTES], c[STEP_KEY_BYTES];
	struct ignore g;

	assert_int_equal(ignore_parse("d/left", 6, &g, NULL), 0);
	assert_int_equal(mkdirat(top, "d", 0755), 0);
	make_file(top, "d/a.txt", 10);
	make_file(top, "d/b", 10);
	make_file(top, "a", 1);
	files_context_init(&context, top, false, &g);
	digest(copy, a);
	digest(pattern, b);
	digest(from, c);
	assert_int_equal(utimensat(top, "d/b", times, 0), 0);
	make_file(top, "d/left", 1);
	assert_false(changes(copy, a)); /* neither times nor what is left out */
	assert_int_equal(fchmodat(top, "d/b", 0755, 0), 0);
	assert_true(changes(copy, a));
	assert_false(changes(pattern, b));
	digest(copy, a);
	assert_int_equal(renameat(top, "d/b", top, "d/c"), 0);
	assert_true(changes(copy, a));
	assert_int_equal(unlinkat(top, "d/a.txt", 0), 0);
	make_file(top, "d/a.txt", 11);
	files_context_done(&context); /* it may have the old one open */
	assert_true(changes(pattern, b));
	assert_false(changes(from, c));
	source_key_text = "other";
	assert_true(changes(from, c));
	assert_true(differ("FROM x\nCOPY d /d", "FROM x\nCOPY --chmod=0600 d /d"));
	assert_true(differ("FROM x\nCOPY d /d", "FROM x\nCOPY --chown=1 d /d"));
	assert_true(differ("FROM x\nCOPY a d /d/", "FROM x\nCOPY d a /d/"));
	files_context_done(&context);
	ignore_done(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_disks, home_setup, home_teardown),
		cmocka_unit_test_setup_teardown(test_settle, home_setup, home_teardown),
		cmocka_unit_test_setup_teardown(test_journal, home_setup, home_teardown),
		cmocka_unit_test_setup_teardown(test_hostile_journal, home_setup, home_teardown),
		cmocka_unit_test_setup_teardown(test_cache, home_setup, home_teardown),
		cmocka_unit_test_setup_teardown(test_owners, home_setup, home_teardown),
		cmocka_unit_test_setup_teardown(test_bounds, home_setup, home_teardown),
		cmocka_unit_test_setup_teardown(
			test_digests_of_commands, home_setup, home_teardown),
		cmocka_unit_test_setup_teardown(test_digests_of_files, home_setup, home_teardown)};

	if (jailed_configure("off", NULL) < 0) /* mke2fs; its workshop is test_image's subject */
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
