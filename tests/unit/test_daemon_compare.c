#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fleet/compare.h"

static struct agent_node file(const char *path)
{
	return (struct agent_node){.mode = S_IFREG | 0644,
		.uid = 1,
		.gid = 2,
		.inode = 3,
		.size = 4,
		.mtime_ns = 5,
		.ctime_ns = 6,
		.path = path,
		.target = ""};
}

static struct agent_node directory(const char *path)
{
	struct agent_node n = file(path);

	n.mode = S_IFDIR | 0755;
	return n;
}

static void add(struct compare *c, unsigned side, struct agent_node n)
{
	struct error e = {0};

	assert_int_equal(compare_add(c, side, &n, &e), 0);
}

/* The steps as text, until more is wanted or all is done. */
static const char *steps(struct compare *c)
{
	static const char letters[] = {[COMPARE_ADDED] = 'A',
		[COMPARE_DELETED] = 'D',
		[COMPARE_CHANGED] = 'C',
		[COMPARE_UNSURE] = '?'};
	static char out[4096];
	enum compare_step s;
	struct agent_node n;
	size_t at = 0;

	out[0] = '\0';
	while ((s = compare_next(c, &n)) != COMPARE_MORE && s != COMPARE_DONE)
		at += (size_t)snprintf(
			out + at, sizeof(out) - at, "%c%s ", letters[s], n.path); /* short */
	(void)snprintf(out + at, sizeof(out) - at, "%s", s == COMPARE_DONE ? "." : "");
	return out;
}

static const char *end(struct compare *c)
{
	compare_end(c, 0);
	compare_end(c, 1);
	return steps(c);
}

static void test_added_and_deleted(void **state)
{
	struct compare *c = compare_new();

	add(c, 0, file("/a"));
	add(c, 0, file("/c"));
	add(c, 1, file("/b"));
	add(c, 1, file("/c"));
	add(c, 1, file("/d"));
	assert_string_equal(end(c), "D/a A/b A/d .");
	compare_free(c);
}

static void test_empty_sides(void **state)
{
	struct compare *c = compare_new();

	assert_string_equal(steps(c), "");
	compare_end(c, 0);
	assert_string_equal(steps(c), "");
	add(c, 1, file("/a"));
	assert_string_equal(steps(c), "A/a ");
	compare_end(c, 1);
	assert_string_equal(steps(c), ".");
	assert_string_equal(steps(c), ".");
	compare_free(c);
}

/* "b!" stands behind what is in "b", though '!' is less than '/'. */
static void test_order_of_walk(void **state)
{
	struct compare *c = compare_new();

	for (unsigned side = 0; side < 2; side++) {
		add(c, side, directory("/b"));
		add(c, side, file("/b/x"));
		add(c, side, file("/b!"));
		add(c, side, file("/b\xff"));
	}
	add(c, 1, file("/c"));
	assert_string_equal(end(c), "A/c .");
	compare_free(c);
}

static void test_out_of_order(void **state)
{
	static const char *const wrong[] = {"/b", "/a", "/", "", "/b!"};
	struct compare *c = compare_new();

	add(c, 0, file("/b"));
	add(c, 0, file("/b!"));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct agent_node n = file(wrong[i]);
		struct error e = {0};

		assert_int_equal(compare_add(c, 0, &n, &e), -EBADMSG);
		assert_int_equal(e.code, ERROR_SANDBOX);
	}
	compare_free(c);
}

/* A directory that is gone stands for all that was in it; one that came does not. */
static void test_whole_directories(void **state)
{
	struct compare *c = compare_new();

	add(c, 0, directory("/d"));
	add(c, 0, file("/d/1"));
	add(c, 0, directory("/d/2"));
	add(c, 0, file("/d/2/3"));
	add(c, 0, file("/d!"));
	add(c, 1, directory("/n"));
	add(c, 1, file("/n/1"));
	assert_string_equal(end(c), "D/d D/d! A/n A/n/1 .");
	compare_free(c);
}

static void test_directory_becomes_file(void **state)
{
	struct compare *c = compare_new();

	add(c, 0, directory("/d"));
	add(c, 0, file("/d/1"));
	add(c, 1, file("/d"));
	assert_string_equal(end(c), "C/d .");
	compare_free(c);
	c = compare_new();
	add(c, 0, file("/d"));
	add(c, 1, directory("/d"));
	add(c, 1, file("/d/1"));
	assert_string_equal(end(c), "C/d A/d/1 .");
	compare_free(c);
}

static const char *between(struct agent_node a, struct agent_node b)
{
	struct compare *c = compare_new();
	const char *said;

	add(c, 0, a);
	add(c, 1, b);
	said = end(c);
	compare_free(c);
	return said;
}

#define WITH(make, member, value)                                                                  \
	({                                                                                         \
		struct agent_node n_ = make("/f");                                                 \
		n_.member = (value);                                                               \
		n_;                                                                                \
	})

static void test_what_counts(void **state)
{
	assert_string_equal(between(file("/f"), file("/f")), ".");
	assert_string_equal(between(file("/f"), WITH(file, mode, S_IFREG | 0600)), "C/f .");
	assert_string_equal(between(file("/f"), WITH(file, mode, S_IFIFO | 0644)), "C/f .");
	assert_string_equal(between(file("/f"), WITH(file, uid, 9)), "C/f .");
	assert_string_equal(between(file("/f"), WITH(file, gid, 9)), "C/f .");
	assert_string_equal(between(file("/f"), WITH(file, size, 9)), "C/f .");
	assert_string_equal(between(file("/f"), WITH(file, mtime_ns, 9)), "C/f .");
	assert_string_equal(between(file("/f"), WITH(file, inode, 9)), "?/f .");
	assert_string_equal(between(file("/f"), WITH(file, ctime_ns, 9)), "?/f .");
	assert_string_equal(between(directory("/f"), WITH(directory, size, 9)), ".");
	assert_string_equal(between(directory("/f"), WITH(directory, inode, 9)), ".");
	assert_string_equal(between(directory("/f"), WITH(directory, ctime_ns, 9)), ".");
	assert_string_equal(between(directory("/f"), WITH(directory, mtime_ns, 9)), "C/f .");
}

static void test_links_and_devices(void **state)
{
	struct agent_node l = WITH(file, mode, S_IFLNK | 0777),
			  d = WITH(file, mode, S_IFCHR | 0600);
	struct agent_node other = l;

	l.target = "one";
	other.target = "one";
	other.inode = 9;
	assert_string_equal(between(l, other), ".");
	other.target = "two";
	assert_string_equal(between(l, other), "C/f .");
	other = d;
	other.mtime_ns = 9; /* whoever writes to it changes that */
	assert_string_equal(between(d, other), ".");
	other.device = 9;
	assert_string_equal(between(d, other), "C/f .");
}

/* Whatever the pieces are, the same is told; a side that is full is so at its bound. */
static void test_queues(void **state)
{
	struct compare *c = compare_new();
	char path[32];
	unsigned n = 0, told = 0;
	enum compare_step s;
	struct agent_node ret;

	while (!compare_is_full(c, 0)) {
		(void)snprintf(path, sizeof(path), "/%08u", n++); /* fits */
		add(c, 0, file(path));
	}
	assert_in_range(n, 1000, COMPARE_QUEUE_BYTES / 40);
	assert_int_equal(compare_next(c, &ret), COMPARE_MORE);
	compare_end(c, 1);
	while ((s = compare_next(c, &ret)) == COMPARE_DELETED)
		told++;
	assert_int_equal(s, COMPARE_MORE);
	assert_int_equal(told, n);
	assert_false(compare_is_full(c, 0));
	compare_free(c);
}

static void test_overflow(void **state)
{
	struct compare *c = compare_new();
	char path[32];
	int r = 0;

	for (unsigned n = 0; r == 0 && n < 100000; n++) {
		struct agent_node f = file(path);
		struct error e = {0};

		(void)snprintf(path, sizeof(path), "/%08u", n); /* fits */
		r = compare_add(c, 0, &f, &e);
	}
	assert_true(r == -EMSGSIZE);
	compare_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_added_and_deleted),
		cmocka_unit_test(test_empty_sides),
		cmocka_unit_test(test_order_of_walk),
		cmocka_unit_test(test_out_of_order),
		cmocka_unit_test(test_whole_directories),
		cmocka_unit_test(test_directory_becomes_file),
		cmocka_unit_test(test_what_counts),
		cmocka_unit_test(test_links_and_devices),
		cmocka_unit_test(test_queues),
		cmocka_unit_test(test_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
