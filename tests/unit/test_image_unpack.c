/* What is believed of a process that unpacks files, and what that process may do. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image/unpack_jail.h"
#include "image/unpack_wire.h"

enum { STREAM_MAX = 1 << 20, MUTATIONS = 20000 };

/* --- a stream in memory --- */

struct stream {
	uint8_t data[STREAM_MAX];
	size_t len, at;
};

static struct stream stream;
static struct wire_writer writer;
static struct wire_reader reader;

static void begin(void)
{
	int fd = memfd_create("stream", MFD_CLOEXEC);

	assert_true(fd >= 0);
	wire_writer_init(&writer, fd);
}

static void end(int r, const struct error *why)
{
	ssize_t n;

	assert_int_equal(wire_finish(&writer, r, why), 0);
	n = pread(writer.fd, stream.data, sizeof(stream.data), 0);
	assert_in_range(n, 1, STREAM_MAX - 1);
	stream.len = (size_t)n;
	(void)close(writer.fd); /* only memory */
}

static ssize_t read_stream(void *opaque, void *data, size_t n, struct error *e)
{
	struct stream *s = opaque;
	size_t left = s->len - s->at;

	n = n < left ? n : left;
	memcpy(data, s->data + s->at, n);
	s->at += n;
	return (ssize_t)n;
}

/* --- a sink that notes what it gets --- */

static char notes[8192];

static int note(
	struct tree_sink *s, const struct tree_entry *t, const struct tree_data *d, struct error *e)
{
	char clean[TREE_PATH_MAX], text[256] = "";
	size_t done = 0;
	ssize_t n = 0;

	assert_true(tree_clean_path(t->path, clean));
	assert_string_equal(t->path, clean);
	assert_true(t->xattr_count <= TREE_XATTRS_MAX);
	for (size_t i = 0; i < t->xattr_count; i++)
		assert_true(
			t->xattrs[i].size <= TREE_XATTR_BYTES_MAX && *t->xattrs[i].name != '\0');
	while (d && (n = d->read(d->opaque, text, sizeof(text) - 1)) > 0)
		done += (size_t)n;
	assert_true(!d || done <= t->size);
	if (n < 0)
		return (int)n;
	n = (ssize_t)strlen(notes);
	(void)snprintf(notes + n, sizeof(notes) - (size_t)n, "%s %o %zu %zu %s %s\n", t->path,
		t->mode, done, t->xattr_count, t->symlink ? t->symlink : "-",
		t->hardlink ? t->hardlink : "-"); /* a cut is seen */
	return 0;
}

static int receive(struct error *e)
{
	static const struct tree_sink_ops ops = {.add = note};
	struct tree_sink sink = {&ops};

	notes[0] = '\0';
	stream.at = 0;
	wire_reader_init(&reader, read_stream, &stream);
	return wire_receive(&reader, &sink, e);
}

static void put(const struct tree_entry *t, const char *content)
{
	struct error e = {0};

	if (content)
		assert_int_equal(tree_put(&writer.sink, t->path, content, strlen(content),
					 t->mode & 07777, 0, 0, 0, &e),
			0);
	else
		assert_int_equal(writer.sink.ops->add(&writer.sink, t, NULL, &e), 0);
}

static void write_all_kinds(void)
{
	static const struct tree_xattr x[] = {{"user.a", "value", 5}, {"user.b", "", 0}};

	begin();
	put(&(struct tree_entry){.path = "", .mode = S_IFDIR | 0755}, NULL);
	put(&(struct tree_entry){.path = "a/b", .mode = 0644}, "content");
	put(&(struct tree_entry){.path = "empty", .mode = 0600}, "");
	put(&(struct tree_entry){.path = "s", .mode = S_IFLNK | 0777, .symlink = "../../etc"},
		NULL);
	put(&(struct tree_entry){.path = "h", .mode = S_IFREG, .hardlink = "a/b"}, NULL);
	put(&(struct tree_entry){.path = "dev", .mode = S_IFCHR | 0600, .rdev = 0x103}, NULL);
	put(
		&(struct tree_entry){
			.path = "x", .mode = S_IFDIR | 0700, .xattrs = x, .xattr_count = 2},
		NULL);
	end(0, NULL);
}

static void test_round_trip(void **state)
{
	struct error e = {0};

	write_all_kinds();
	assert_int_equal(receive(&e), 0);
	assert_string_equal(notes, " 40755 0 0 - -\na/b 100644 7 0 - -\nempty 100600 0 0 - -\n"
				   "s 120777 0 0 ../../etc -\nh 100000 0 0 - a/b\n"
				   "dev 20600 0 0 - -\nx 40700 0 2 - -\n");
}

static void test_error(void **state)
{
	struct error why = {0}, e = {0};

	(void)error_set(&why, ERROR_LIMIT, EFBIG, "too \033[31mlarge\xff");
	begin();
	end(-EFBIG, &why);
	assert_int_equal(receive(&e), -EFBIG);
	assert_int_equal(e.code, ERROR_LIMIT);
	assert_string_equal(e.message, "too ?[31mlarge?");
	why.code = ERROR_FORBIDDEN; /* not for the writer to claim */
	error_clear(&e);
	begin();
	end(-EFBIG, &why);
	assert_int_equal(receive(&e), -EFBIG);
	assert_int_equal(e.code, ERROR_BAD_IMAGE);
}

static void test_every_cut(void **state)
{
	size_t whole;

	write_all_kinds();
	whole = stream.len;
	for (stream.len = 0; stream.len < whole; stream.len++) {
		struct error e = {0};

		assert_int_equal(receive(&e), -EPROTO);
		assert_int_equal(e.code, ERROR_BAD_IMAGE);
	}
}

/* What a writer that was taken over may say instead of good entries. */
static void test_hostile_writer(void **state)
{
	static char longest[TREE_PATH_MAX + 8];
	const struct tree_entry cases[] = {
		{.path = "../x", .mode = S_IFDIR},
		{.path = "a/../../x", .mode = S_IFDIR},
		{.path = "/etc/x", .mode = S_IFDIR},
		{.path = "a//b", .mode = S_IFDIR},
		{.path = "./a", .mode = S_IFDIR},
		{.path = longest, .mode = S_IFDIR},
		{.path = "h", .mode = S_IFREG, .hardlink = "../../etc/shadow"},
		{.path = "h", .mode = S_IFREG, .hardlink = "/etc/shadow"},
		{.path = "s", .mode = S_IFLNK},
		{.path = "s", .mode = S_IFLNK, .symlink = longest},
		{.path = "d", .mode = S_IFDIR, .symlink = "x"},
		{.path = "k", .mode = 0},
		{.path = "x",
			.mode = S_IFDIR,
			.xattr_count = 1,
			.xattrs = &(struct tree_xattr){"", "", 0}},
		{.path = "x",
			.mode = S_IFDIR,
			.xattr_count = 1,
			.xattrs = &(struct tree_xattr){longest, "", 0}},
		{.path = "x",
			.mode = S_IFDIR,
			.xattr_count = 1,
			.xattrs = &(struct tree_xattr){"a", longest, TREE_XATTR_BYTES_MAX + 1}},
	};

	memset(longest, 'y', sizeof(longest) - 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error e = {0};

		begin();
		put(&cases[i], NULL);
		end(0, NULL);
		if (receive(&e) != -EPROTO || e.code != ERROR_BAD_IMAGE || notes[0])
			fail_msg("case %zu: %s %s", i, e.message, notes);
	}
}

static ssize_t read_much(void *opaque, void *buf, size_t n)
{
	memset(buf, 0, n);
	return *(int *)opaque < 0 ? -EBADMSG : (ssize_t)n;
}

static void test_content_that_lies(void **state)
{
	struct tree_entry t = {.path = "f", .mode = S_IFREG, .size = 100};
	struct error e = {0};
	int way = 0;
	struct tree_data d = {read_much, &way};

	begin();
	way = -1; /* the archive ends within a file */
	assert_int_equal(writer.sink.ops->add(&writer.sink, &t, &d, &e), 0);
	end(0, NULL);
	assert_int_equal(receive(&e), -EBADMSG);
	error_clear(&e);
	begin();
	put(&(struct tree_entry){.path = "f", .mode = 0644}, "twelve bytes");
	end(0, NULL);
	for (uint8_t *p = stream.data; p < stream.data + 64; p++)
		if (*p == 12) {
			*p = 11; /* the size in the head, which comes before the piece's */
			break;
		}
	assert_int_equal(receive(&e), -EPROTO);
}

/* Whatever bytes come, note() gets only what it may. */
static void test_mutations(void **state)
{
	static struct stream good;
	unsigned seed = 1;

	write_all_kinds();
	good = stream;
	for (unsigned i = 0; i < MUTATIONS; i++) {
		struct error e = {0};
		int r;

		memcpy(stream.data, good.data, good.len);
		for (unsigned k = 0; k < 1 + i % 4; k++)
			stream.data[(unsigned)rand_r(&seed) % good.len] = (uint8_t)rand_r(&seed);
		r = receive(&e);
		assert_true(r == 0 || r == -EBADMSG || e.message[0]);
	}
}

/* --- the process --- */

static int after_confinement(void (*f)(void))
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		struct error e = {0};

		if (unpack_confine(&e) < 0)
			_exit(3);
		f();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void just_end(void)
{
}

static void open_file(void)
{
	if (open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 || errno != ENOENT)
		_exit(1);
}

static void make_socket(void)
{
	(void)syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0);
}

static void make_file(void)
{
	(void)syscall(SYS_creat, "/tmp/of-an-unpacker", 0600);
}

static void start_program(void)
{
	(void)syscall(SYS_execve, "/bin/true", NULL, NULL);
}

static void make_process(void)
{
	(void)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static void map_code(void)
{
	(void)syscall(SYS_mmap, NULL, 4096, 4 /* PROT_EXEC */, 0x22, -1, 0);
}

static void look_into_another(void)
{
	(void)syscall(SYS_ptrace, 0, 0, 0, 0);
}

static void kill_another(void)
{
	(void)syscall(SYS_kill, 1, 0);
}

static void test_confinement(void **state)
{
	void (*const forbidden[])(void) = {make_socket, make_file, start_program, make_process,
		map_code, look_into_another, kill_another};

	assert_int_equal(after_confinement(just_end), 0);
	assert_int_equal(after_confinement(open_file), 0);
	for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++) {
		int status = after_confinement(forbidden[i]);

		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
			fail_msg("attempt %zu: status %d", i, status);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_error), cmocka_unit_test(test_every_cut),
		cmocka_unit_test(test_hostile_writer), cmocka_unit_test(test_content_that_lies),
		cmocka_unit_test(test_mutations), cmocka_unit_test(test_confinement)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
