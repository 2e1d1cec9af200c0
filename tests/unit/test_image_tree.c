/* The sinks that images are written through: replacing, linking, names from outside. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "image/ext4.h"
#include "image/parse.h"
#include "image/rootfs.h"
#include "image/tree_dir.h"
#include "io/child.h"
#include "io/jailed.h"

static char dir[64], path[96];

static int set_up(void **state)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/test-tree-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/image", dir);
	return 0;
}

static int tear_down(void **state)
{
	return file_remove_tree(AT_FDCWD, dir);
}

static void test_clean_path(void **state)
{
	static const struct {
		const char *in, *out; /* NULL: refused */
	} cases[] = {{"a/b", "a/b"}, {"./a//b/", "a/b"}, {"/a/./b/.", "a/b"}, {"", ""}, {".", ""},
		{"/", ""}, {"..", NULL}, {"a/../b", NULL}, {"../../etc/passwd", NULL},
		{"a/..", NULL}, {"...", "..."}, {"a..b/..c", "a..b/..c"}};
	char out[TREE_PATH_MAX], long_name[400];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(tree_clean_path(cases[i].in, out), cases[i].out != NULL);
		if (cases[i].out)
			assert_string_equal(out, cases[i].out);
	}
	memset(long_name, 'x', 256);
	long_name[256] = '\0';
	assert_false(tree_clean_path(long_name, out));
	long_name[255] = '\0';
	assert_true(tree_clean_path(long_name, out));
}

static int put(struct tree_sink *s, const char *name, const char *text)
{
	return tree_put(s, name, text, strlen(text), 0640, 7, 70000, 1000, NULL);
}

static int add(struct tree_sink *s, const char *name, uint32_t mode, const char *symlink,
	const char *hardlink)
{
	struct tree_entry t = {.path = name,
		.mode = mode,
		.symlink = symlink,
		.hardlink = hardlink,
		.mtime = 1000};

	return s->ops->add(s, &t, NULL, NULL);
}

static void expect_text(struct tree_sink *s, const char *name, const char *text)
{
	char *data = NULL;
	size_t len;

	assert_int_equal(s->ops->read(s, name, &data, &len), 0);
	assert_int_equal(len, strlen(text));
	assert_string_equal(data, text);
	free(data);
}

/* What must be the same for every sink. */
static void exercise(struct tree_sink *s)
{
	struct tree_stat st;

	assert_int_equal(put(s, "a/b/c", "first"), 0); /* implied parents */
	expect_text(s, "a/b/c", "first");
	assert_int_equal(s->ops->lookup(s, "a/b/c", &st), 0);
	assert_int_equal(st.mode, S_IFREG | 0640);
	assert_int_equal(st.uid, 7);
	assert_int_equal(st.gid, 70000);
	assert_int_equal(s->ops->lookup(s, "a/b", &st), 0);
	assert_int_equal(st.mode, S_IFDIR | 0755);
	assert_int_equal(s->ops->lookup(s, "nothing", &st), -ENOENT);

	assert_int_equal(put(s, "a/b/c", "second, longer"), 0); /* replaced */
	expect_text(s, "a/b/c", "second, longer");
	assert_int_equal(add(s, "hard", 0, NULL, "a/b/c"), 0);
	assert_int_equal(put(s, "a/b/c", "third"), 0); /* the other name keeps the content */
	expect_text(s, "hard", "second, longer");
	expect_text(s, "a/b/c", "third");
	assert_true(add(s, "dangling", 0, NULL, "no/file") < 0);

	assert_int_equal(add(s, "link", S_IFLNK | 0777, "a/b", NULL), 0);
	expect_text(s, "link/c", "third");
	assert_int_equal(put(s, "link/d", "through"), 0);
	expect_text(s, "a/b/d", "through");
	assert_int_equal(put(s, "link", "a file now"), 0); /* replaces the link, not its target */
	expect_text(s, "link", "a file now");
	expect_text(s, "a/b/d", "through");

	assert_int_equal(add(s, "a", S_IFDIR | 0700, NULL, NULL), 0); /* keeps what is in it */
	assert_int_equal(s->ops->lookup(s, "a", &st), 0);
	assert_int_equal(st.mode, S_IFDIR | 0700);
	expect_text(s, "a/b/c", "third");
	assert_true(put(s, "a/b", "file over directory") < 0);
	assert_true(put(s, "hard/x", "below a file") < 0);

	/* Links that would lead out end at the image's own root. */
	assert_int_equal(put(s, "etc/passwd", "inside"), 0);
	assert_int_equal(add(s, "up", S_IFLNK | 0777, "../../../../../etc", NULL), 0);
	expect_text(s, "up/passwd", "inside");
	assert_int_equal(add(s, "absolute", S_IFLNK | 0777, "/etc/passwd", NULL), 0);
	expect_text(s, "absolute", "inside");
	assert_int_equal(add(s, "loop", S_IFLNK | 0777, "loop", NULL), 0);
	assert_true(s->ops->lookup(s, "loop", &st) < 0);
	assert_int_equal(
		add(s, "slow", S_IFLNK | 0777,
			"a/very/long/target/that/does/not/fit/into/an/inode/of/sixty/bytes/"
			"and/so/gets/a/block",
			NULL),
		0);
	assert_int_equal(put(s, "slow", "instead"), 0);
	for (int i = 0; i < 600; i++) { /* more than one block of a directory */
		char name[64];

		(void)snprintf(name, sizeof(name), "many/a-rather-long-name-%d", i);
		assert_int_equal(put(s, name, name), 0);
	}
	expect_text(s, "many/a-rather-long-name-599", "many/a-rather-long-name-599");
}

static void check_ext4(void)
{
	const char *argv[] = {"e2fsck", "-fn", path, NULL};
	struct child_options o = {.argv = argv};
	struct buf out = BUF_INIT(1 << 20);
	struct error e = {0};

	if (child_run(&o, &out, &e) < 0)
		fail_msg("%s: %.*s", e.message, (int)buf_len(&out), (const char *)buf_head(&out));
	buf_done(&out);
}

static void test_ext4(void **state)
{
	static const uint8_t uuid[16] = {1, 2, 3};
	const struct tree_xattr xattr = {"user.note", "value", 5};
	struct tree_entry node = {.path = "dev/sda", .mode = S_IFBLK | 0600, .rdev = 8 << 8},
			  noted = {.path = "noted",
				  .mode = S_IFDIR | 0755,
				  .xattrs = &xattr,
				  .xattr_count = 1};
	struct ext4_image *x;
	struct error e = {0};

	if (!child_program_exists("mke2fs"))
		skip();
	assert_true(ext4_create(path, 1, 1000, &x, &e) < 0);
	assert_int_equal(e.code, ERROR_LIMIT);
	assert_int_equal(ext4_create(path, 64 << 20, 1000, &x, NULL), 0);
	exercise(ext4_sink(x));
	assert_int_equal(ext4_sink(x)->ops->add(ext4_sink(x), &node, NULL, NULL), 0);
	assert_int_equal(ext4_sink(x)->ops->add(ext4_sink(x), &noted, NULL, NULL), 0);
	assert_int_equal(ext4_finish(x, uuid, NULL), 0);
	check_ext4();
}

enum { MANY = 50000, MANY_DIRS = 65100 };

static const char *many_name(char out[64], int i)
{
	(void)snprintf(out, 64, "many/%.*s%d", i % 23, "of-different-lengths---", i);
	return out;
}

static void expect_many(struct tree_sink *s)
{
	struct tree_stat st;
	char name[64];

	for (int i = 0; i < MANY; i += 97)
		assert_int_equal(s->ops->lookup(s, many_name(name, i), &st), 0);
	assert_int_equal(s->ops->lookup(s, "many/no-such", &st), -ENOENT);
}

/* Names are added, replaced and linked in a directory of many blocks. */
static void test_ext4_many_files(void **state)
{
	static const uint8_t uuid[16] = {2};
	struct ext4_image *x;
	struct tree_sink *s;
	char name[64];

	if (!child_program_exists("mke2fs"))
		skip();
	assert_int_equal(ext4_create(path, UINT64_C(1) << 30, 1000, &x, NULL), 0);
	s = ext4_sink(x);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(add(s, many_name(name, i), S_IFREG | 0644, NULL, NULL), 0);
	for (int i = 0; i < MANY; i += 10) /* by something of the same name, in every block */
		assert_int_equal(add(s, many_name(name, i), S_IFLNK | 0777, "o1", NULL), 0);
	assert_int_equal(put(s, many_name(name, 49999), "again"), 0);
	expect_text(s, name, "again");
	assert_int_equal(add(s, "many/linked", 0, NULL, many_name(name, 49999)), 0);
	expect_text(s, "many/linked", "again");
	assert_true(add(s, "many/dangling", 0, NULL, "many/no-such") < 0);
	assert_true(put(s, "many/linked/x", "below a file") < 0);
	expect_many(s);
	assert_int_equal(ext4_finish(x, uuid, NULL), 0);
	check_ext4();
}

/* More than a number of links can say. */
static void test_ext4_many_directories(void **state)
{
	static const uint8_t uuid[16] = {3};
	struct ext4_image *x;
	struct tree_sink *s;
	char name[64];

	if (!child_program_exists("mke2fs"))
		skip();
	assert_int_equal(ext4_create(path, UINT64_C(2) << 30, 1000, &x, NULL), 0);
	s = ext4_sink(x);
	for (int i = 0; i < MANY_DIRS; i++) {
		(void)snprintf(name, sizeof(name), "dirs/%d", i);
		assert_int_equal(add(s, name, S_IFDIR | 0755, NULL, NULL), 0);
	}
	assert_int_equal(put(s, "dirs/65099/in/it", "text"), 0);
	expect_text(s, "dirs/65099/in/it", "text");
	assert_int_equal(ext4_finish(x, uuid, NULL), 0);
	check_ext4();
}

static ssize_t zeros_but_last(void *opaque, void *buf, size_t n)
{
	uint64_t *left = opaque;

	if (n > *left)
		n = (size_t)*left;
	memset(buf, 0, n);
	*left -= n;
	if (*left == 0 && n > 0)
		((char *)buf)[n - 1] = 'x';
	return (ssize_t)n;
}

static ssize_t broken(void *opaque, void *buf, size_t n)
{
	return -EBADMSG;
}

static void test_ext4_data(void **state)
{
	static const uint8_t uuid[16] = {1};
	uint64_t left = 200 << 20; /* larger than the image, but for its hole */
	struct tree_data d = {zeros_but_last, &left}, bad = {broken, NULL};
	struct tree_entry t = {.path = "sparse", .mode = S_IFREG | 0644, .size = 200 << 20};
	struct ext4_image *x;
	struct tree_sink *s;
	struct error e = {0};

	if (!child_program_exists("mke2fs"))
		skip();
	assert_int_equal(ext4_create(path, 64 << 20, 1000, &x, NULL), 0);
	s = ext4_sink(x);
	assert_int_equal(s->ops->add(s, &t, &d, &e), 0);
	t.path = "short";
	left = 100;
	assert_true(s->ops->add(s, &t, &d, &e) < 0); /* fewer bytes than it says */
	assert_int_equal(e.code, ERROR_BAD_IMAGE);
	t.size = 10;
	left = 100;
	assert_true(s->ops->add(s, &t, &d, NULL) < 0); /* more */
	error_clear(&e);
	assert_true(s->ops->add(s, &t, &bad, &e) < 0);
	assert_non_null(strstr(e.message, "damaged"));
	assert_int_equal(ext4_finish(x, uuid, NULL), 0);
}

static void test_dir(void **state)
{
	struct tree_dir *d;
	int fd;

	if (geteuid() != 0)
		skip();
	assert_int_equal(mkdir(path, 0755), 0);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(tree_dir_new(fd, 1000, &d, NULL), 0);
	exercise(tree_dir_sink(d));
	assert_int_equal(tree_dir_finish(d, NULL), 0);
	tree_dir_free(d);
	(void)close(fd);
}

/* A tar header with its checksum. */
static void make_header(uint8_t out[512], const char *name, char type, const char *link)
{
	unsigned sum = 0;

	memset(out, 0, 512);
	(void)snprintf((char *)out, 100, "%s", name);
	memcpy(out + 100, "0000644\0000000000\0000000000\00000000000000\00000000000000", 48);
	out[156] = (uint8_t)type;
	(void)snprintf((char *)out + 157, 100, "%s", link);
	memcpy(out + 257, "ustar\00000", 8);
	memset(out + 148, ' ', 8);
	for (int i = 0; i < 512; i++)
		sum += out[i];
	(void)snprintf((char *)out + 148, 8, "%06o", sum);
}

/* Reads a small tar file as mayfly-unpack does. */
static int add_tar(struct rootfs *f, const uint8_t *tar, size_t n)
{
	struct parse_options o = {.job = PARSE_TAR};
	int ends[2], r;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(write(ends[1], tar, n), n);
	(void)close(ends[1]); /* so that the file ends */
	o.fd = ends[0];
	r = parse(&o, rootfs_sink(f), NULL);
	(void)close(ends[0]); /* read */
	return r;
}

static void test_tar(void **state)
{
	static const struct {
		const char *name, *link;
		char type;
		bool good;
	} cases[] = {{"plain", "", '0', true}, {"../x", "", '0', false}, {"a/../x", "", '0', false},
		{"/abs", "", '0', true}, {"h", "../../etc/shadow", '1', false},
		{"h", "none", '1', false}, {"s", "../../anything", '2', true},
		{"s", "", '2', false}};
	uint8_t tar[1536];

	if (geteuid() != 0)
		skip();
	assert_int_equal(mkdir(path, 0755), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
		struct tree_dir *d;
		struct rootfs *f;

		memset(tar, 0, sizeof(tar));
		make_header(tar, cases[i].name, cases[i].type, cases[i].link);
		assert_int_equal(tree_dir_new(fd, 1000, &d, NULL), 0);
		f = rootfs_new(tree_dir_sink(d), 1000, NULL);
		r = add_tar(f, tar, sizeof(tar));
		if ((r == 0) != cases[i].good)
			fail_msg("case %zu: %d", i, r);
		rootfs_free(f);
		tree_dir_free(d);
		(void)close(fd);
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_clean_path), TEST(test_ext4),
		TEST(test_ext4_many_files), TEST(test_ext4_many_directories), TEST(test_ext4_data),
		TEST(test_dir), TEST(test_tar)};

	if (jailed_configure("off", NULL) < 0) /* mke2fs; its workshop is test_image's subject */
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
