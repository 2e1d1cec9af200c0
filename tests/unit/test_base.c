/* src/base: buffers, strings, the reader, errors, files, descriptors, checksums, logs' limits. */
#include "test.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "base/reader.h"
#include "base/str.h"

/* --- buf --- */

static void buf_keeps_its_maximum(void **state)
{
	struct buf b = BUF_INIT(10);

	assert_int_equal(buf_add(&b, "123456", 6), 0);
	assert_int_equal(buf_add(&b, "12345", 5), -EMSGSIZE);
	assert_int_equal(buf_len(&b), 6);
	assert_int_equal(buf_add(&b, "7890", 4), 0);
	assert_int_equal(buf_add(&b, NULL, 0), 0);
	assert_int_equal(buf_add_u8(&b, 1), -EMSGSIZE);
	assert_memory_equal(buf_head(&b), "1234567890", 10);
	buf_consume(&b, 3);
	assert_int_equal(buf_add(&b, "abc", 3), 0); /* room in front counts */
	assert_memory_equal(buf_head(&b), "4567890abc", 10);
	assert_null(buf_reserve(&b, SIZE_MAX));
	buf_clear(&b);
	assert_int_equal(buf_len(&b), 0);
	buf_done(&b);
	assert_int_equal(buf_add_str(&b, "again"), 0);
	buf_done(&b);
}

static void buf_numbers_are_little_endian(void **state)
{
	static const uint8_t want[] = {1, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0x80};
	struct buf b = BUF_INIT(64);

	assert_int_equal(buf_add_u8(&b, 1), 0);
	assert_int_equal(buf_add_le16(&b, 2), 0);
	assert_int_equal(buf_add_le32(&b, 3), 0);
	assert_int_equal(buf_add_le64(&b, UINT64_C(0x8000000000000004)), 0);
	assert_int_equal(buf_len(&b), sizeof(want));
	assert_memory_equal(buf_head(&b), want, sizeof(want));
	buf_done(&b);
}

static void buf_prints(void **state)
{
	struct buf b = BUF_INIT(16);

	assert_int_equal(buf_printf(&b, "%d-%s", 42, "xyz"), 0);
	assert_int_equal(buf_len(&b), 6);
	assert_memory_equal(buf_head(&b), "42-xyz", 6);
	assert_int_equal(buf_printf(&b, "%0100d", 1), -EMSGSIZE);
	assert_int_equal(buf_len(&b), 6);
	buf_done(&b);
}

/* Random additions and removals give the bytes in order. */
static void buf_is_a_queue(void **state)
{
	struct buf b = BUF_INIT(1000);
	uint8_t in = 0, out = 0;

	srand(1);
	for (unsigned i = 0; i < 20000; i++) {
		size_t n = (size_t)rand() % 50;

		if (rand() % 2) {
			uint8_t *p = buf_reserve(&b, n);

			for (size_t k = 0; p && k < n; k++)
				p[k] = in++;
			if (p)
				buf_commit(&b, n);
		} else {
			if (n > buf_len(&b))
				n = buf_len(&b);
			for (size_t k = 0; k < n; k++)
				assert_int_equal(buf_head(&b)[k], out++);
			buf_consume(&b, n);
		}
		assert_true(buf_len(&b) <= 1000);
		assert_true(b.capacity <= 1000);
	}
	buf_done(&b);
}

/* --- reader --- */

static void reader_reads(void **state)
{
	static const uint8_t data[] = {1, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 'a', 'b'};
	struct reader r = reader_of(data, sizeof(data));
	char s[2];

	assert_int_equal(reader_u8(&r), 1);
	assert_int_equal(reader_le16(&r), 2);
	assert_int_equal(reader_le32(&r), 3);
	assert_int_equal(reader_le64(&r), 4);
	assert_false(reader_finished(&r));
	assert_int_equal(reader_left(&r), 2);
	reader_copy(&r, s, 2);
	assert_memory_equal(s, "ab", 2);
	assert_true(reader_finished(&r));
}

static void reader_past_the_end_is_bad_for_good(void **state)
{
	static const uint8_t data[] = {1, 2, 3};
	struct reader r = reader_of(data, sizeof(data));
	char s[4] = "xxx";

	assert_int_equal(reader_le32(&r), 0);
	assert_true(r.bad);
	assert_int_equal(reader_u8(&r), 0); /* although there is one */
	assert_null(reader_bytes(&r, 0));
	reader_copy(&r, s, 3);
	assert_memory_equal(s, "\0\0\0", 3);
	assert_false(reader_finished(&r));
	r = reader_of(data, sizeof(data));
	assert_null(reader_bytes(&r, SIZE_MAX));
	r = reader_of(NULL, 0);
	assert_true(reader_finished(&r));
}

/* --- str --- */

static void parses_numbers(void **state)
{
	uint64_t v = 7;

	assert_int_equal(str_parse_u64("0", &v), 0);
	assert_int_equal(v, 0);
	assert_int_equal(str_parse_u64("18446744073709551615", &v), 0);
	assert_true(v == UINT64_MAX);
	assert_int_equal(str_parse_u64("18446744073709551616", &v), -ERANGE);
	assert_int_equal(str_parse_u64("99999999999999999999", &v), -ERANGE);
	assert_int_equal(str_parse_u64("", &v), -EINVAL);
	assert_int_equal(str_parse_u64("-1", &v), -EINVAL);
	assert_int_equal(str_parse_u64(" 1", &v), -EINVAL);
	assert_int_equal(str_parse_u64("1 ", &v), -EINVAL);
	assert_int_equal(str_parse_u64("0x10", &v), -EINVAL);
	assert_true(v == UINT64_MAX); /* written on success only */
}

static void parses_sizes(void **state)
{
	static const struct {
		const char *s;
		uint64_t unit, want;
	} good[] = {{"512", 1 << 20, UINT64_C(512) << 20}, {"512M", 1, UINT64_C(512) << 20},
		{"4G", 1, UINT64_C(4) << 30}, {"1.5G", 1, UINT64_C(3) << 29}, {"10KiB", 1, 10240},
		{"10kb", 1, 10240}, {"7B", 1024, 7}, {"0", 5, 0}, {"2T", 1, UINT64_C(2) << 40}};
	static const char *const bad[] = {
		"", "G", "1X", "1.", "1.G", ".5G", "-1", "1GG", "1 G", "1iB"};
	uint64_t v;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		assert_int_equal(str_parse_bytes(good[i].s, good[i].unit, &v), 0);
		assert_true(v == good[i].want);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_true(str_parse_bytes(bad[i], 1, &v) < 0);
	assert_int_equal(str_parse_bytes("18446744073709551615", 1, &v), -ERANGE);
	assert_int_equal(str_parse_bytes("18000000T", 1, &v), -ERANGE);
}

static void parses_durations(void **state)
{
	uint64_t v;

	assert_int_equal(str_parse_duration_ns("90", &v), 0);
	assert_true(v == 90 * NS_PER_S);
	assert_int_equal(str_parse_duration_ns("500ms", &v), 0);
	assert_true(v == 500 * NS_PER_MS);
	assert_int_equal(str_parse_duration_ns("1.5h", &v), 0);
	assert_true(v == 5400 * NS_PER_S);
	assert_int_equal(str_parse_duration_ns("1d", &v), 0);
	assert_true(v == 86400 * NS_PER_S);
	assert_true(str_parse_duration_ns("", &v) < 0);
	assert_true(str_parse_duration_ns("s", &v) < 0);
	assert_true(str_parse_duration_ns("1y", &v) < 0);
	assert_true(str_parse_duration_ns("99999999999d", &v) < 0);
}

static void recognises_names(void **state)
{
	char longest[66];

	memset(longest, 'a', sizeof(longest));
	longest[64] = '\0';
	assert_true(str_is_name(longest));
	longest[64] = 'a';
	longest[65] = '\0';
	assert_false(str_is_name(longest));
	assert_true(str_is_name("python-3.12"));
	assert_true(str_is_name("0_x"));
	assert_false(str_is_name(""));
	assert_false(str_is_name(".."));
	assert_false(str_is_name("-x"));
	assert_false(str_is_name("a/b"));
	assert_false(str_is_name("a b"));
	assert_false(str_is_name("\xc3\xa4"));
	assert_false(str_is_name("web:v1"));
	assert_true(str_is_tagged_name("web"));
	assert_true(str_is_tagged_name("web:v1.0-rc_1"));
	assert_true(str_is_tagged_name("web:.x"));
	assert_false(str_is_tagged_name("web:"));
	assert_false(str_is_tagged_name(":v1"));
	assert_false(str_is_tagged_name(".web:v1"));
	assert_false(str_is_tagged_name("web:v1:v2"));
	assert_false(str_is_tagged_name("web:v/1"));
	assert_false(str_is_tagged_name("web:V1"));
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	longest[8] = ':';
	assert_int_equal(str_is_tagged_name(longest), sizeof(longest) - 1 <= 64);
	longest[64] = '\0';
	assert_true(str_is_tagged_name(longest));
}

static void other_strings(void **state)
{
	char hex[9], id[21], other[21], out[16];
	_cleanup_free_ char *s = str_printf("%s-%d", "x", 3);

	str_hex("\x00\x7f\xff\x0a", 4, hex);
	assert_string_equal(hex, "007fff0a");
	assert_true(str_from_hex("007FfF0a..", 4, out));
	assert_memory_equal(out, "\x00\x7f\xff\x0a", 4);
	assert_false(str_from_hex("007f0", 3, out));
	assert_false(str_from_hex("0g", 1, out));
	assert_int_equal(str_random_id(id, sizeof(id)), 0);
	assert_int_equal(str_random_id(other, sizeof(other)), 0);
	assert_int_equal(strlen(id), 20);
	assert_int_equal(strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789"), 20);
	assert_string_not_equal(id, other);
	assert_string_equal(s, "x-3");
	assert_true(str_starts_with("abc", "ab") && !str_starts_with("a", "ab"));
	assert_true(str_ends_with("abc", "bc") && !str_ends_with("c", "bc"));
	assert_true(str_ends_with("abc", ""));
	assert_string_equal(str_format_bytes(0, out), "0 B");
	assert_string_equal(str_format_bytes(512 << 20, out), "512 MB");
	assert_string_equal(str_format_bytes(UINT64_C(3) << 29, out), "1.5 GB");
	assert_string_equal(str_format_bytes(UINT64_MAX, out), "16 EB");
}

static void uuids_have_version_and_variant(void **state)
{
	uint8_t b[16] = {0, 1, 2, 3, 4, 5, 0xff, 7, 0xff, 9, 10, 11, 12, 13, 14, 15};
	char text[STR_UUID_BYTES];

	str_uuid(b, 4, text);
	assert_string_equal(text, "00010203-0405-4f07-bf09-0a0b0c0d0e0f");
	str_uuid(b, 8, text);
	assert_string_equal(text, "00010203-0405-8f07-bf09-0a0b0c0d0e0f");
	assert_int_equal(b[6], 0x8f);
}

static void hex_digits(void **state)
{
	for (int c = -128; c < 128; c++) {
		const char *all = "0123456789abcdef", *at = c > 0 ? strchr(all, tolower(c)) : NULL;

		assert_int_equal(str_hex_digit((char)c), at ? at - all : -1);
	}
}

/* --- error --- */

static void errors(void **state)
{
	struct error e = {0};
	char huge[1000];

	assert_int_equal(error_set(&e, ERROR_LIMIT, EINVAL, "no %d", 1), -EINVAL);
	assert_string_equal(e.message, "no 1");
	assert_int_equal(error_set(&e, ERROR_HOST, 0, "second"), -EIO);
	assert_int_equal(e.code, ERROR_LIMIT); /* the first one stays */
	error_prefix(&e, "disk %d", 2);
	assert_string_equal(e.message, "disk 2: no 1");
	error_clear(&e);
	error_prefix(&e, "nothing to prefix");
	assert_string_equal(e.message, "");
	assert_int_equal(error_set_errno(&e, ERROR_HOST, ENOENT, "open"), -ENOENT);
	assert_string_equal(e.message, "open: No such file or directory");
	assert_int_equal(error_set(NULL, ERROR_HOST, EPERM, "nobody listens"), -EPERM);
	error_prefix(NULL, "x");
	error_clear(NULL);
	memset(huge, 'x', sizeof(huge) - 1);
	huge[sizeof(huge) - 1] = '\0';
	error_clear(&e);
	(void)error_set_errno(&e, ERROR_HOST, EPERM, "%s", huge);
	assert_int_equal(strlen(e.message), ERROR_MESSAGE_MAX - 1);
	error_prefix(&e, "%s", huge);
	assert_int_equal(strlen(e.message), ERROR_MESSAGE_MAX - 1);
	for (int i = 0; i < ERROR_CODES_; i++) {
		assert_true(strlen(error_code_name((enum error_code)i)) > 0);
		assert_in_range(error_exit_status((enum error_code)i), 0, 127);
	}
	assert_string_equal(error_code_name((enum error_code)999), "unknown");
}

/* --- file, fd --- */

static int temporary_directory(char *path)
{
	int fd;

	assert_non_null(mkdtemp(path));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

/* As a user, to whom modes mean something. */
static int remove_without_rights(int dir)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		if (geteuid() == 0 &&
			(fchown(dir, 65534, 65534) < 0 || fchownat(dir, "x", 65534, 65534, 0) < 0 ||
				fchownat(dir, "x/y", 65534, 65534, 0) < 0 ||
				fchownat(dir, "x/y/z", 65534, 65534, 0) < 0 ||
				setresuid(65534, 65534, 65534) < 0))
			_exit(2);
		if (fchmodat(dir, "x/y", 0500, 0) < 0 || fchmodat(dir, "x", 0, 0) < 0)
			_exit(3);
		if (file_remove_tree(dir, "x") != -EACCES)
			_exit(4);
		_exit(file_remove_own_tree(dir, "x") < 0);
	}
	return waitpid(pid, &status, 0) == pid ? status : -1;
}

static void files(void **state)
{
	char path[] = "/tmp/base-test-XXXXXX", deep[64];
	_cleanup_close_ int dir = temporary_directory(path);
	_cleanup_free_ char *data = NULL;
	struct stat st;
	int unnamed;
	char byte;
	size_t n;

	assert_int_equal(file_write_atomic(dir, "a", "first", 5, 0600), 0);
	assert_int_equal(file_write_atomic(dir, "a", "second", 6, 0600), 0);
	assert_int_equal(file_read(dir, "a", 6, &data, &n), 0);
	assert_int_equal(n, 6);
	assert_string_equal(data, "second");
	free(TAKE_PTR(data));
	assert_int_equal(file_read(dir, "a", 5, &data, &n), -EFBIG);
	assert_int_equal(file_read(dir, "b", 5, &data, &n), -ENOENT);
	assert_null(data);
	assert_true(file_disk_bytes(dir, "a") <= 65536);
	assert_int_equal(file_disk_bytes(dir, "b"), 0);
	(void)snprintf(deep, sizeof(deep), "%s/x/y/z", path);
	assert_int_equal(file_mkdir_p(deep, 0700), 0);
	assert_int_equal(file_mkdir_p(deep, 0700), 0);
	(void)snprintf(deep, sizeof(deep), "%s/a/y", path);
	assert_true(file_mkdir_p(deep, 0700) < 0);
	unnamed = file_open_unnamed(dir, "x/y/z");
	assert_int_equal(write(unnamed, "x", 1), 1);
	assert_int_equal(pread(unnamed, &byte, 1, 0), 1);
	assert_int_equal(unlinkat(dir, "x/y/z", AT_REMOVEDIR), 0); /* nothing is in there */
	assert_int_equal(close(unnamed), 0);
	assert_true(file_open_unnamed(dir, "x/y/z") < 0);
	assert_int_equal(symlinkat("/", dir, "x/root"), 0); /* must not be followed */
	assert_int_equal(file_remove_tree(dir, "x"), 0);
	assert_int_equal(file_remove_tree(dir, "x"), 0);
	assert_int_equal(fstatat(dir, "x", &st, 0), -1);
	assert_int_equal(stat("/", &st), 0);
	(void)snprintf(deep, sizeof(deep), "%s/x/y/z", path);
	assert_int_equal(file_mkdir_p(deep, 0700), 0);
	assert_int_equal(remove_without_rights(dir), 0);
	assert_int_equal(file_remove_tree(AT_FDCWD, path), 0);
	assert_int_equal(stat(path, &st), -1);
}

/* Of a size that is known before, and of none. */
static void whole_files(void **state)
{
	char path[] = "/tmp/base-test-XXXXXX", text[10000];
	_cleanup_close_ int dir = temporary_directory(path);
	_cleanup_close_ int fd = -1, proc = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *data = NULL;
	size_t n;

	memset(text, 'x', sizeof(text));
	assert_int_equal(file_write_atomic(dir, "a", text, sizeof(text), 0600), 0);
	fd = openat(dir, "a", O_RDWR | O_CLOEXEC);
	assert_int_equal(file_read_fd(fd, sizeof(text) - 1, &data, &n), -EFBIG);
	assert_int_equal(file_read_fd(fd, sizeof(text), &data, &n), 0);
	assert_int_equal(n, sizeof(text));
	assert_memory_equal(data, text, n);
	assert_int_equal(data[n], 0);
	free(TAKE_PTR(data));
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(file_read_fd(fd, 0, &data, &n), 0);
	assert_int_equal(n, 0);
	free(TAKE_PTR(data));
	assert_int_equal(file_read_fd(proc, 1 << 16, &data, &n), 0);
	assert_true(n > 100 && strlen(data) == n);
	assert_int_equal(file_remove_tree(AT_FDCWD, path), 0);
}

static void descriptors(void **state)
{
	char path[] = "/tmp/base-test-XXXXXX", b[8];
	_cleanup_close_ int dir = temporary_directory(path), file = -1, listener = -1, a = -1,
			    c = -1;

	file = openat(dir, "f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(fd_write_full(file, "hello", 5), 0);
	assert_int_equal(fd_pwrite_full(file, "J", 1, 0), 0);
	assert_int_equal(fd_pread_full(file, b, 5, 0), 0);
	assert_memory_equal(b, "Jello", 5);
	assert_int_equal(fd_pread_full(file, b, 6, 0), -ENODATA);
	assert_int_equal(fd_read_full(file, b, 1), -ENODATA);
	assert_int_equal(fd_set_nonblock(-1, 1), -EBADF);
	listener = fd_unix_listen(dir, "s", SOCK_STREAM, 4);
	assert_true(listener >= 0);
	assert_int_equal(fd_unix_listen(dir, "s", SOCK_STREAM, 4), -EADDRINUSE);
	assert_int_equal(fd_unix_connect(dir, "t", SOCK_STREAM), -ENOENT);
	a = fd_unix_connect(dir, "s", SOCK_STREAM);
	assert_true(a >= 0);
	assert_true(fcntl(a, F_GETFD) & FD_CLOEXEC);
	c = accept(listener, NULL, NULL);
	assert_int_equal(fd_write_full(a, "ping", 4), 0);
	assert_int_equal(fd_read_full(c, b, 4), 0);
	assert_memory_equal(b, "ping", 4);
	assert_int_equal(fd_send_full(a, "pong", 4), 0);
	assert_int_equal(fd_read_full(c, b, 4), 0);
	assert_memory_equal(b, "pong", 4);
	assert_int_equal(fd_set_nonblock(c, 1), 0);
	assert_int_equal(fd_read_full(c, b, 1), -EAGAIN);
	cleanup_close_p(&c);
	assert_int_equal(fd_send_full(a, "", 1), -EPIPE); /* and no signal */
	assert_int_equal(file_remove_tree(AT_FDCWD, path), 0);
}

/* --- the rest --- */

static void crc32c_known_values(void **state)
{
	uint8_t b[32];
	uint32_t crc;

	/* RFC 3720, B.4 */
	memset(b, 0, sizeof(b));
	assert_int_equal(crc32c(0, b, 32), 0x8a9136aa);
	memset(b, 0xff, sizeof(b));
	assert_int_equal(crc32c(0, b, 32), 0x62a8ab43);
	for (uint8_t i = 0; i < 32; i++)
		b[i] = i;
	assert_int_equal(crc32c(0, b, 32), 0x46dd794e);
	crc = crc32c(0, b, 5);
	assert_int_equal(crc32c(crc, b + 5, 27), 0x46dd794e);
	assert_int_equal(crc32c(0, b, 0), 0);
	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
}

static void log_limit_is_a_token_bucket(void **state)
{
	struct log_limit l = LOG_LIMIT_INIT(3);
	unsigned allowed = 0;

	for (unsigned i = 0; i < 100; i++)
		allowed += log_limited(&l);
	assert_in_range(allowed, 3, 4);
	assert_in_range(l.suppressed, 96, 97);
	l.refill_ns -= NS_PER_S;
	assert_true(log_limited(&l));
	assert_false(log_limited(&l));
}

static void log_files_are_bounded(void **state)
{
	int fd = memfd_create("log", MFD_CLOEXEC), old = dup(STDERR_FILENO);
	struct stat st;
	char text[8192];
	ssize_t n;

	assert_true(old >= 0 && dup2(fd, STDERR_FILENO) >= 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_APPEND), 0);
	log_set_max_bytes(4096);
	for (unsigned i = 0; i < 1000; i++) {
		log_error("line %u", i);
		if (fstat(fd, &st) < 0 || st.st_size > 4096)
			break;
	}
	log_set_max_bytes(0);
	n = pread(fd, text, sizeof(text) - 1, 0);
	(void)dup2(old, STDERR_FILENO);
	(void)close(old);
	(void)close(fd);
	assert_true(st.st_size <= 4096);
	assert_true(n > 0);
	text[n] = '\0';
	assert_non_null(strstr(text, "line 999"));
}

static void bytes_at_any_alignment(void **state)
{
	uint8_t b[16] = {0};

	put_le64(b + 1, UINT64_C(0x0102030405060708));
	assert_int_equal(b[1], 8);
	assert_int_equal(get_le32(b + 3), 0x03040506);
	assert_int_equal(get_le16(b + 7), 0x0102);
	assert_true(get_le64(b + 1) == UINT64_C(0x0102030405060708));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buf_keeps_its_maximum),
		cmocka_unit_test(buf_numbers_are_little_endian),
		cmocka_unit_test(buf_prints),
		cmocka_unit_test(buf_is_a_queue),
		cmocka_unit_test(reader_reads),
		cmocka_unit_test(reader_past_the_end_is_bad_for_good),
		cmocka_unit_test(parses_numbers),
		cmocka_unit_test(parses_sizes),
		cmocka_unit_test(parses_durations),
		cmocka_unit_test(recognises_names),
		cmocka_unit_test(other_strings),
		cmocka_unit_test(uuids_have_version_and_variant),
		cmocka_unit_test(hex_digits),
		cmocka_unit_test(errors),
		cmocka_unit_test(files),
		cmocka_unit_test(whole_files),
		cmocka_unit_test(descriptors),
		cmocka_unit_test(crc32c_known_values),
		cmocka_unit_test(log_limit_is_a_token_bucket),
		cmocka_unit_test(log_files_are_bounded),
		cmocka_unit_test(bytes_at_any_alignment),
	};

	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
