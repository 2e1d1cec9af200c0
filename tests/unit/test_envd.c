/* The translators of envd: JSON to the agent's messages and back, uploads, downloads. */
#include "test.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "envd/envd_download.h"
#include "envd/envd_entry.h"
#include "envd/envd_error.h"
#include "envd/envd_message.h"
#include "envd/envd_page.h"
#include "envd/envd_upload.h"
#include "proto/proto_json.h"

static const char *text_of(struct buf *b)
{
	assert_int_equal(buf_add_u8(b, 0), 0);
	return (const char *)buf_head(b);
}

static json_t *json(const char *text)
{
	const char *reason;
	json_t *o = proto_json_parse(text, strlen(text), &reason);

	assert_non_null(o);
	return o;
}

/* --- entries --- */

static void test_permissions(void **state)
{
	static const struct {
		uint32_t mode;
		const char *text;
	} cases[] = {
		{S_IFREG | 0644, "-rw-r--r--"},
		{S_IFREG | 04755, "urwxr-xr-x"},
		{S_IFREG | 02755, "grwxr-xr-x"},
		{S_IFDIR | 0755, "drwxr-xr-x"},
		{S_IFDIR | 01777, "dtrwxrwxrwx"},
		{S_IFLNK | 0777, "Lrwxrwxrwx"},
		{S_IFIFO | 0600, "prw-------"},
		{S_IFSOCK | 0755, "Srwxr-xr-x"},
		{S_IFCHR | 0666, "Dcrw-rw-rw-"},
		{S_IFBLK | 0660, "Drw-rw----"},
		{UINT32_MAX, "ugtrwxrwxrwx"},
		{0, "----------"},
	};
	char out[ENVD_PERMISSIONS_BYTES];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		envd_permissions(cases[i].mode, out);
		assert_string_equal(out, cases[i].text);
	}
}

static struct agent_entry entry(uint32_t mode)
{
	return (struct agent_entry){.mode = mode,
		.size = 5,
		.mtime_ns = INT64_C(1700000000500000000),
		.path = "/home/user/a \"b\"",
		.owner = "user",
		.group = "1000",
		.target = "",
		.resolved = ""};
}

static void check_entry(const struct agent_entry *e, const char *expected)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(4096);

	assert_int_equal(envd_entry_write(&b, e), 0);
	assert_string_equal(text_of(&b), expected);
}

static void test_entry(void **state)
{
	static const char *const xattrs[] = {"user.e2b.author", "me", "user.other", "x"};
	struct agent_entry e = entry(S_IFREG | 04640);

	check_entry(&e, "{\"name\":\"a \\\"b\\\"\",\"type\":\"FILE_TYPE_FILE\","
			"\"path\":\"/home/user/a \\\"b\\\"\",\"size\":\"5\",\"mode\":416,"
			"\"permissions\":\"urw-r-----\",\"owner\":\"user\",\"group\":\"1000\","
			"\"modifiedTime\":\"2023-11-14T22:13:20.500Z\"}");
	e = entry(S_IFDIR | 0755);
	e.path = "/";
	e.mtime_ns = -1;
	e.xattrs = (struct agent_strings){.array = xattrs, .count = 4};
	check_entry(&e, "{\"name\":\"/\",\"type\":\"FILE_TYPE_DIRECTORY\",\"path\":\"/\","
			"\"size\":\"5\",\"mode\":493,\"permissions\":\"drwxr-xr-x\","
			"\"owner\":\"user\",\"group\":\"1000\","
			"\"modifiedTime\":\"1969-12-31T23:59:59.999999999Z\","
			"\"metadata\":{\"author\":\"me\"}}");
}

static void test_entry_of_links(void **state)
{
	struct agent_entry e = entry(S_IFLNK | 0777);

	e.path = "/l";
	e.target_mode = S_IFDIR | 0700;
	e.resolved = "/d";
	check_entry(&e, "{\"name\":\"l\",\"type\":\"FILE_TYPE_DIRECTORY\",\"path\":\"/l\","
			"\"size\":\"5\",\"mode\":448,\"permissions\":\"Lrwxrwxrwx\","
			"\"owner\":\"user\",\"group\":\"1000\","
			"\"modifiedTime\":\"2023-11-14T22:13:20.500Z\",\"isSymlink\":true,"
			"\"symlinkTarget\":\"/d\"}");
	e.target_mode = 0;
	e.resolved = "";
	check_entry(&e, "{\"name\":\"l\",\"path\":\"/l\",\"size\":\"5\",\"mode\":511,"
			"\"permissions\":\"Lrwxrwxrwx\",\"owner\":\"user\",\"group\":\"1000\","
			"\"modifiedTime\":\"2023-11-14T22:13:20.500Z\",\"isSymlink\":true,"
			"\"symlinkTarget\":\"/l\"}");
}

static void test_entry_without_room(void **state)
{
	struct agent_entry e = entry(S_IFREG | 0644);

	for (size_t max = 0; max < 200; max += 13) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(max);

		assert_int_equal(envd_entry_write(&b, &e), -EMSGSIZE);
	}
}

/* --- requests --- */

static void test_start(void **state)
{
	json_t *o = json("{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"x\"],"
			 "\"envs\":{\"A\":\"1=2\",\"B\":\"\"},\"cwd\":\"/tmp\"},\"tag\":\"t\"}");
	struct envd_start s;
	struct envd_error e;

	assert_int_equal(envd_start_parse(o, "me", 1500, &s, &e), 0);
	assert_int_equal(s.exec.flags, AGENT_EXEC_STDIN); /* absent is true */
	assert_int_equal(s.exec.timeout_ms, 1500);
	assert_string_equal(s.exec.user, "me");
	assert_string_equal(s.exec.cwd, "/tmp");
	assert_string_equal(s.exec.tag, "t");
	assert_int_equal(s.exec.argv.count, 3);
	assert_string_equal(s.exec.argv.array[0], "/bin/sh");
	assert_string_equal(s.exec.argv.array[2], "x");
	assert_int_equal(s.exec.env.count, 2);
	assert_string_equal(s.exec.env.array[0], "A=1=2");
	assert_string_equal(s.exec.env.array[1], "B=");
	envd_start_done(&s);
	json_decref(o);
}

static void test_start_pty(void **state)
{
	json_t *o =
		json("{\"process\":{\"cmd\":\"b\"},\"pty\":{\"size\":{\"cols\":80,\"rows\":24}},"
		     "\"stdin\":false}");
	struct envd_start s;
	struct envd_error e;

	assert_int_equal(envd_start_parse(o, "", UINT64_MAX, &s, &e), 0);
	assert_int_equal(s.exec.flags, AGENT_EXEC_PTY);
	assert_int_equal(s.exec.cols, 80);
	assert_int_equal(s.exec.rows, 24);
	assert_int_equal(s.exec.timeout_ms, 0);
	envd_start_done(&s);
	json_decref(o);
}

static void test_start_refused(void **state)
{
	static const char *const bad[] = {
		"{}",
		"{\"process\":null}",
		"{\"process\":[]}",
		"{\"process\":{}}",
		"{\"process\":{\"cmd\":\"\"}}",
		"{\"process\":{\"cmd\":1}}",
		"{\"process\":{\"cmd\":\"a\",\"args\":{}}}",
		"{\"process\":{\"cmd\":\"a\",\"args\":[1]}}",
		"{\"process\":{\"cmd\":\"a\",\"envs\":[]}}",
		"{\"process\":{\"cmd\":\"a\",\"envs\":{\"A\":1}}}",
		"{\"process\":{\"cmd\":\"a\",\"envs\":{\"A=B\":\"1\"}}}",
		"{\"process\":{\"cmd\":\"a\",\"envs\":{\"\":\"1\"}}}",
		"{\"process\":{\"cmd\":\"a\",\"cwd\":2}}",
		"{\"process\":{\"cmd\":\"a\"},\"stdin\":\"yes\"}",
		"{\"process\":{\"cmd\":\"a\"},\"tag\":7}",
		"{\"process\":{\"cmd\":\"a\"},\"pty\":3}",
		"{\"process\":{\"cmd\":\"a\"},\"pty\":{\"size\":{\"cols\":70000}}}",
		"{\"process\":{\"cmd\":\"a\"},\"pty\":{\"size\":{\"cols\":-1}}}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		json_t *o = json(bad[i]);
		struct envd_start s;
		struct envd_error e;

		assert_int_equal(envd_start_parse(o, "", 0, &s, &e), -EINVAL);
		assert_int_equal(e.code, CONNECT_INVALID_ARGUMENT);
		assert_true(e.message[0]);
		json_decref(o);
	}
}

static void test_selector_signal_input(void **state)
{
	_cleanup_(buf_done) struct buf data = BUF_INIT(100);
	json_t *o = json("{\"process\":{\"tag\":\"x\"},\"signal\":\"SIGNAL_SIGTERM\","
			 "\"input\":{\"pty\":\"aGk=\"}}");
	json_t *empty = json("{\"process\":{},\"signal\":19,\"input\":{}}");
	struct agent_selector selector;
	struct envd_error e;
	uint32_t signo, flags;

	assert_int_equal(envd_selector_parse(o, &selector, &e), 0);
	assert_string_equal(selector.tag, "x");
	assert_int_equal(envd_signal_parse(o, &signo, &e), 0);
	assert_int_equal(signo, SIGTERM);
	assert_int_equal(envd_input_parse(o, &data, &flags, &e), 0);
	assert_int_equal(flags, AGENT_INPUT_PTY);
	assert_int_equal(buf_len(&data), 2);
	assert_int_equal(envd_selector_parse(empty, &selector, &e), -EINVAL);
	assert_int_equal(envd_signal_parse(empty, &signo, &e), -EINVAL);
	assert_int_equal(e.code, CONNECT_UNIMPLEMENTED);
	assert_int_equal(envd_input_parse(empty, &data, &flags, &e), -EINVAL);
	json_decref(empty);
	json_decref(o);
}

static void test_process_written(void **state)
{
	static const char *const argv[] = {"/bin/sh", "-c", "a\nb"}, *const env[] = {"A=1=2"};
	const struct agent_exec x = {.cwd = "/w",
		.tag = "t",
		.argv = {.array = argv, .count = 3},
		.env = {.array = env, .count = 1}};
	_cleanup_(buf_done) struct buf frame = BUF_INIT(4096), out = BUF_INIT(4096);
	struct agent_process p = {.pid = 7};

	assert_int_equal(agent_exec_encode(&frame, &x), 0);
	p.exec = buf_head(&frame) + AGENT_HEADER_BYTES;
	p.exec_bytes = (uint32_t)buf_len(&frame) - AGENT_HEADER_BYTES;
	assert_int_equal(envd_process_write(&out, &p), 0);
	assert_string_equal(text_of(&out),
		"{\"config\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"a\\nb\"],"
		"\"envs\":{\"A\":\"1=2\"},\"cwd\":\"/w\"},\"pid\":7,\"tag\":\"t\"}");
	p.exec_bytes--;
	assert_int_equal(envd_process_write(&out, &p), -EBADMSG);
}

static void test_output_is_cut_into_pieces(void **state)
{
	_cleanup_(buf_done) struct buf out = BUF_INIT(1 << 20);
	static uint8_t data[64 * 1024];
	struct agent_event ev = {.type = AGENT_STDOUT};
	unsigned n = 0;

	ev.data = data;
	ev.length = sizeof(data);
	assert_int_equal(envd_process_output(&out, &ev), 0);
	ev.type = AGENT_PTY;
	assert_int_equal(envd_process_output(&out, &ev), 0);
	while (buf_len(&out)) {
		const uint8_t *p = buf_head(&out);
		size_t length = (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];

		assert_true(length < 44 * 1024);
		buf_consume(&out, CONNECT_ENVELOPE_BYTES + length);
		n++;
	}
	assert_int_equal(n, 2 + 4);
}

static void test_exits(void **state)
{
	static const struct {
		struct agent_exit x;
		const char *json;
	} cases[] = {
		{{.status = 0}, "{\"event\":{\"end\":{\"exitCode\":0,\"exited\":true,"
				"\"status\":\"exit status 0\"}}}"},
		{{.status = 3}, "{\"event\":{\"end\":{\"exitCode\":3,\"exited\":true,"
				"\"status\":\"exit status 3\",\"error\":\"exit status 3\"}}}"},
		{{.flags = AGENT_EXIT_SIGNALED | AGENT_EXIT_CORE, .status = SIGKILL},
			"{\"event\":{\"end\":{\"exitCode\":-1,\"exited\":false,"
			"\"status\":\"signal: killed\",\"error\":\"signal: killed\"}}}"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(buf_done) struct buf out = BUF_INIT(1024);
		struct agent_event ev = {.type = AGENT_EXIT, .exit = cases[i].x};

		assert_int_equal(envd_process_output(&out, &ev), 0);
		assert_string_equal(text_of(&out) + CONNECT_ENVELOPE_BYTES, cases[i].json);
	}
}

static void test_watch_events(void **state)
{
	struct agent_watch_event ev = {.kind = AGENT_WATCH_CREATE, .name = "sub/a"};
	_cleanup_(buf_done) struct buf out = BUF_INIT(1024);

	assert_int_equal(envd_watch_write(&out, &ev), 1);
	assert_string_equal(text_of(&out), "{\"name\":\"sub/a\",\"type\":\"EVENT_TYPE_CREATE\"}");
	ev.kind = AGENT_WATCH_GONE;
	assert_int_equal(envd_watch_write(&out, &ev), 0);
	ev.kind = AGENT_WATCH_WRITE;
	ev.entry = (const uint8_t *)"x";
	ev.entry_bytes = 1;
	assert_int_equal(envd_watch_write(&out, &ev), -EBADMSG);
}

static void test_errors(void **state)
{
	struct agent_error m = {.class = AGENT_ERR_NO_SPACE, .message = "f: no space"};
	_cleanup_(buf_done) struct buf out = BUF_INIT(1024);
	struct envd_error e;

	envd_error_of_agent(&m, &e);
	assert_int_equal(e.status, 507);
	assert_int_equal(envd_error_body(&out, &e), 0);
	assert_string_equal(text_of(&out), "{\"code\":507,\"message\":\"f: no space\"}");
	m.class = AGENT_ERR_BAD_USER;
	envd_error_of_agent(&m, &e);
	assert_int_equal(e.code, CONNECT_UNAUTHENTICATED);
	assert_int_equal(e.status, 401);
	m.class = 999; /* of a newer agent, or a hostile one */
	m.message = "";
	envd_error_of_agent(&m, &e);
	assert_int_equal(e.code, CONNECT_INTERNAL);
	assert_true(e.message[0]);
}

/* The texts of E2B's envd, of which programs look for parts. */
static void test_words(void **state)
{
	static const struct {
		struct agent_error m;
		enum connect_code code;
		unsigned status;
		const char *text;
	} cases[] = {
		{{AGENT_ERR_NOT_FOUND, AGENT_READ, ENOENT, "/a: No such file or directory"},
			CONNECT_NOT_FOUND, 404, "path '/a' does not exist"},
		{{AGENT_ERR_IS_DIRECTORY, AGENT_READ, EISDIR, "/a: b: Is a directory"},
			CONNECT_INVALID_ARGUMENT, 400, "path '/a: b' is a directory"},
		{{AGENT_ERR_NOT_DIRECTORY, AGENT_READ, ENOTDIR, "/a/b: Not a directory"},
			CONNECT_INTERNAL, 500,
			"error checking if path exists '/a/b': stat /a/b: not a directory"},
		{{AGENT_ERR_NOT_DIRECTORY, AGENT_WRITE, ENOTDIR, "/a/b/c: Not a directory"},
			CONNECT_INTERNAL, 500, "error ensuring directories: path is a file: /a/b"},
		{{AGENT_ERR_NO_SPACE, AGENT_WRITE, ENOSPC, "/a: No space left on device"},
			CONNECT_INTERNAL, 507, "not enough disk space available"},
		{{AGENT_ERR_BAD_USER, AGENT_WRITE, ENOENT, "user u: No such file or directory"},
			CONNECT_UNAUTHENTICATED, 401,
			"error looking up user 'u': user: unknown user u"},
		{{AGENT_ERR_BAD_USER, AGENT_EXEC, ENOENT, "user u: No such file or directory"},
			CONNECT_UNAUTHENTICATED, 401, "invalid username: 'u'"},
		{{AGENT_ERR_BAD_CWD, AGENT_EXEC, ENOENT,
			 "working directory /c: No such file or directory"},
			CONNECT_INVALID_ARGUMENT, 400, "cwd '/c' does not exist"},
		{{AGENT_ERR_BAD_CWD, AGENT_EXEC, ENOTDIR, "working directory /c: Not a directory"},
			CONNECT_INVALID_ARGUMENT, 400, "working directory /c: Not a directory"},
		{{AGENT_ERR_NOT_FOUND, AGENT_STAT, ENOENT, "/a: No such file or directory"},
			CONNECT_NOT_FOUND, 404,
			"file not found: lstat /a: no such file or directory"},
		{{AGENT_ERR_PERMISSION, AGENT_STAT, EACCES, "/a: Permission denied"},
			CONNECT_INTERNAL, 500,
			"error getting file info: lstat /a: permission denied"},
		{{AGENT_ERR_NOT_FOUND, AGENT_LIST, ENOENT, "/a"}, CONNECT_NOT_FOUND, 404,
			"path not found: lstat /a: no such file or directory"},
		{{AGENT_ERR_NOT_DIRECTORY, AGENT_LIST, ENOTDIR, "/a"}, CONNECT_INVALID_ARGUMENT,
			400, "path is not a directory: /a"},
		{{AGENT_ERR_LIMIT, AGENT_LIST, 0, "depth 65 is over 64"},
			CONNECT_RESOURCE_EXHAUSTED, 429, "depth 65 is over 64"},
		{{AGENT_ERR_EXISTS, AGENT_MKDIR, EEXIST, "/a: File exists"}, CONNECT_ALREADY_EXISTS,
			409, "directory already exists: /a"},
		{{AGENT_ERR_NOT_FOUND, AGENT_ATTACH, ESRCH, "process 7: No such process"},
			CONNECT_NOT_FOUND, 404, "process with pid 7 not found"},
		{{AGENT_ERR_NOT_FOUND, AGENT_INPUT, ESRCH, "process with tag t: No such process"},
			CONNECT_NOT_FOUND, 404, "process with tag t not found"},
		{{AGENT_ERR_WRONG_KIND, AGENT_INPUT, 0, "the process has no terminal"},
			CONNECT_INTERNAL, 500,
			"error writing to tty: tty not assigned to process — input should be "
			"written to the stdin, not the tty"},
	};
	struct envd_error e;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		envd_error_of_agent(&cases[i].m, &e);
		assert_string_equal(e.message, cases[i].text);
		assert_int_equal(e.code, cases[i].code);
		assert_int_equal(e.status, cases[i].status);
	}
}

/* A text is cut, however long the guest's message is. */
static void test_words_are_cut(void **state)
{
	char path[2 * ERROR_MESSAGE_MAX] = "/";
	struct agent_error m = {AGENT_ERR_NOT_FOUND, AGENT_STAT, ENOENT, path};
	struct envd_error e;

	memset(path + 1, 'x', sizeof(path) - 2);
	envd_error_of_agent(&m, &e);
	assert_int_equal(strlen(e.message), sizeof(e.message) - 1);
	assert_memory_equal(e.message, "file not found: lstat /xxx", 26);
}

/* Messages may be the guest's. */
static void test_page_of_a_hostile_message(void **state)
{
	char much[ERROR_MESSAGE_MAX];
	struct buf b = BUF_INIT(8 * ERROR_MESSAGE_MAX);
	const char *page;

	assert_int_equal(envd_page(&b, "iabc", 0, "</p><script>alert(1)</script>&lt;"), 0);
	page = text_of(&b);
	assert_non_null(strstr(page, "&lt;/p&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;lt;."));
	assert_null(strstr(page, "<script"));
	buf_done(&b);
	memset(much, '"', sizeof(much) - 1);
	much[sizeof(much) - 1] = '\0';
	buf_init(&b, 8 * ERROR_MESSAGE_MAX);
	assert_int_equal(envd_page(&b, "iabc", 80, much), 0); /* it fits */
	buf_done(&b);
}

/* --- uploads --- */

static struct http_headers headers_of(struct http_header *items, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		items[i].name_len = strlen(items[i].name);
		items[i].value_len = strlen(items[i].value);
	}
	return (struct http_headers){items, count};
}

/* Runs a body through the parser in steps of `step` bytes; what happens, as text. */
static void run_upload(struct http_headers headers, const char *path, const void *body, size_t n,
	size_t step, struct buf *out)
{
	const uint8_t *p = body;
	struct envd_upload *u;
	struct envd_error e;
	bool over = false;

	if (envd_upload_new(&headers, path, &u, &e) < 0) {
		assert_int_equal(buf_add_str(out, "refused"), 0);
		return;
	}
	for (size_t at = 0; !over;) {
		size_t part = n - at < step ? n - at : step, used, length;
		enum envd_upload_event event =
			envd_upload_next(u, p + at, part, at + part == n, &used, &e);
		const uint8_t *data;

		assert_true(used <= part);
		at += used;
		switch (event) {
		case ENVD_UPLOAD_MORE:
			assert_int_equal(used, part);
			assert_true(at < n);
			break;
		case ENVD_UPLOAD_FILE:
			assert_int_equal(buf_printf(out, "<%s:", envd_upload_path(u)), 0);
			break;
		case ENVD_UPLOAD_DATA:
			data = envd_upload_data(u, &length);
			assert_true(length > 0);
			assert_int_equal(buf_add(out, data, length), 0);
			break;
		case ENVD_UPLOAD_FILE_END:
			assert_int_equal(buf_add_str(out, ">"), 0);
			break;
		default:
			assert_int_equal(buf_add_str(out, event == ENVD_UPLOAD_END ? "." : "!"), 0);
			over = true;
		}
	}
	envd_upload_free(u);
}

static void check_upload(struct http_headers headers, const char *path, const void *body, size_t n,
	const char *expected)
{
	for (size_t step = 1; step <= n + 1; step = step < 16 ? step + 1 : step * 2) {
		_cleanup_(buf_done) struct buf out = BUF_INIT(1 << 20);

		run_upload(headers, path, body, n, step, &out);
		assert_string_equal(text_of(&out), expected);
	}
}

static const char form[] =
	"--B\r\nContent-Disposition: form-data; name=\"file\"; "
	"filename=\"/a/b.txt\"\r\n\r\nhello\r\n"
	"--B\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\nskipped\r\n"
	"--B\r\nContent-Disposition: form-data; name=\"file\"; "
	"filename=\"c\"\r\n\r\n\r\n--B--\r\nepilogue";

static void test_upload_multipart(void **state)
{
	struct http_header items[] = {{"Content-Type", "multipart/form-data; boundary=B", 0, 0}};
	struct http_headers h = headers_of(items, 1);

	check_upload(h, NULL, form, strlen(form), "</a/b.txt:hello><c:>.");
	/* the query's path wins, so both parts are for one file */
	check_upload(h, "/q", form, strlen(form), "</q:hello>!");
	check_upload(h, NULL, form, strlen(form) - 40, "</a/b.txt:hello>!");
}

static void test_upload_raw(void **state)
{
	struct http_header items[] = {{"Content-Type", "application/octet-stream", 0, 0}};
	struct http_headers h = headers_of(items, 1);

	check_upload(h, "/p", "some bytes", 10, "</p:some bytes>.");
	check_upload(h, "/p", "", 0, "</p:>.");
	check_upload(h, NULL, "x", 1, "refused");
	check_upload(h, "", "x", 1, "refused");
	items[0].value = "text/plain";
	check_upload(headers_of(items, 1), "/p", "x", 1, "refused");
}

static size_t gzip(const void *data, size_t n, uint8_t *out, size_t cap)
{
	z_stream z = {.next_in = (uint8_t *)(uintptr_t)data,
		.avail_in = (uInt)n,
		.next_out = out,
		.avail_out = (uInt)cap};

	assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, 0), Z_OK);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	(void)deflateEnd(&z);
	return cap - z.avail_out;
}

static void test_upload_gzip(void **state)
{
	struct http_header items[] = {{"Content-Type", "multipart/form-data; boundary=B", 0, 0},
		{"Content-Encoding", "gzip", 0, 0}};
	struct http_headers h = headers_of(items, 2);
	uint8_t packed[4096];
	size_t n = gzip(form, strlen(form), packed, sizeof(packed));

	check_upload(h, NULL, packed, n, "</a/b.txt:hello><c:>.");
	items[0].value = "application/octet-stream";
	h = headers_of(items, 2);
	n = gzip("one", 3, packed, sizeof(packed));
	n += gzip("two", 3, packed + n, sizeof(packed) - n); /* two members */
	check_upload(h, "/p", packed, n, "</p:onetwo>.");
	check_upload(h, "/p", packed, n - 1, "</p:onetwo!");
	check_upload(h, "/p", "no gzip at all", 14, "!");
	items[1].value = "br";
	check_upload(headers_of(items, 2), "/p", packed, n, "refused");
}

/* A small body that becomes a large one is handed out in bounded pieces. */
static void test_upload_bomb(void **state)
{
	struct http_header items[] = {{"Content-Type", "application/octet-stream", 0, 0},
		{"Content-Encoding", "gzip", 0, 0}};
	struct http_headers h = headers_of(items, 2);
	enum { PLAIN = 20 << 20 };
	uint8_t *plain = calloc(1, PLAIN), *packed = malloc(1 << 20);
	size_t n = gzip(plain, PLAIN, packed, 1 << 20), at = 0, total = 0;
	enum envd_upload_event event;
	struct envd_upload *u;
	struct envd_error e;

	assert_int_equal(envd_upload_new(&h, "/p", &u, &e), 0);
	do {
		size_t used, length;

		event = envd_upload_next(u, packed + at, n - at, true, &used, &e);
		at += used;
		if (event == ENVD_UPLOAD_DATA) {
			(void)envd_upload_data(u, &length);
			assert_true(length <= 64 * 1024);
			total += length;
		}
	} while (event != ENVD_UPLOAD_END && event != ENVD_UPLOAD_ERROR);
	assert_int_equal(event, ENVD_UPLOAD_END);
	assert_int_equal(total, PLAIN);
	envd_upload_free(u);
	free(packed);
	free(plain);
}

static void test_metadata(void **state)
{
	static char long_key[300], long_value[5000];
	struct http_header items[] = {{"X-Metadata-Author", "me", 0, 0},
		{"x-metadata-author", "not me", 0, 0}, {"X-Metadata-n", "", 0, 0},
		{"Other", "x", 0, 0}};
	struct http_headers h = headers_of(items, 4);
	struct envd_metadata m;
	struct envd_error e;

	assert_int_equal(envd_metadata_parse(&h, &m, &e), 0);
	assert_int_equal(m.count, 4);
	assert_string_equal(m.strings[0], "user.e2b.author");
	assert_string_equal(m.strings[1], "me");
	assert_string_equal(m.strings[2], "user.e2b.n");
	assert_string_equal(m.strings[3], "");
	memset(long_value, 'v', sizeof(long_value) - 1);
	items[2].value = long_value;
	h = headers_of(items, 4);
	assert_int_equal(envd_metadata_parse(&h, &m, &e), -EINVAL);
	items[2].value = "t\tab";
	h = headers_of(items, 4);
	assert_int_equal(envd_metadata_parse(&h, &m, &e), -EINVAL);
	strcpy(long_key, "x-metadata-");
	memset(long_key + 11, 'k', 247);
	items[2] = (struct http_header){long_key, "", 0, 0};
	h = headers_of(items, 4);
	assert_int_equal(envd_metadata_parse(&h, &m, &e), -EINVAL);
	long_key[11 + 246] = '\0';
	h = headers_of(items, 4);
	assert_int_equal(envd_metadata_parse(&h, &m, &e), 0);
}

/* --- downloads --- */

static struct envd_download plan;

static void plan_with(const char *name, const char *value)
{
	struct http_header items[] = {{name, value, 0, 0}};
	const struct http_head head = {.method = "GET", .headers = headers_of(items, 1)};
	struct agent_entry e = entry(S_IFREG | 0644);

	e.path = "/x/data.json";
	e.size = 100;
	envd_download_plan(&head, &e, &plan);
}

static const char *field(const char *name)
{
	for (unsigned i = 0; i < plan.field_count; i++)
		if (strcmp(plan.fields[i].name, name) == 0)
			return plan.fields[i].value;
	return NULL;
}

static void test_download(void **state)
{
	plan_with("accept-encoding", "gzip, deflate");
	assert_int_equal(plan.status, 200);
	assert_int_equal(plan.length, 100);
	assert_string_equal(plan.content_type, "application/json");
	assert_string_equal(field("Content-Disposition"), "inline; filename=data.json");
	assert_string_equal(field("Vary"), "Accept-Encoding");
	assert_string_equal(field("Last-Modified"), "Tue, 14 Nov 2023 22:13:20 GMT");
	plan_with("accept-encoding", "gzip, *;q=0");
	assert_int_equal(plan.status, 406);
}

static void test_download_ranges(void **state)
{
	plan_with("range", "bytes=10-19");
	assert_int_equal(plan.status, 206);
	assert_int_equal(plan.offset, 10);
	assert_int_equal(plan.length, 10);
	assert_string_equal(field("Content-Range"), "bytes 10-19/100");
	plan_with("range", "bytes=-5");
	assert_int_equal(plan.offset, 95);
	plan_with("range", "bytes=100-");
	assert_int_equal(plan.status, 416);
	assert_string_equal(field("Content-Range"), "bytes */100");
	plan_with("range", "lines=1-2");
	assert_int_equal(plan.status, 200);
}

static void test_download_conditions(void **state)
{
	static const struct {
		const char *name, *value;
		unsigned status;
	} cases[] = {
		{"if-modified-since", "Tue, 14 Nov 2023 22:13:20 GMT", 304},
		{"if-modified-since", "Tue, 14 Nov 2023 22:13:19 GMT", 200},
		{"if-modified-since", "yesterday", 200},
		{"if-unmodified-since", "Tue, 14 Nov 2023 22:13:20 GMT", 200},
		{"if-unmodified-since", "Tue, 14 Nov 2023 22:13:19 GMT", 412},
		{"if-none-match", "*", 304},
		{"if-none-match", "\"a\", \"b\"", 200},
		{"if-match", "*", 200},
		{"if-match", "\"a\"", 412},
	};
	char etag[64];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		plan_with(cases[i].name, cases[i].value);
		assert_int_equal(plan.status, cases[i].status);
	}
	(void)snprintf(etag, sizeof(etag), "\"q\", W/%s", plan.etag);
	plan_with("if-none-match", etag);
	assert_int_equal(plan.status, 304);
}

static void test_dispositions(void **state)
{
	char out[ENVD_DISPOSITION_BYTES], name[256];

	envd_disposition("a b\"c.txt", out);
	assert_string_equal(out, "inline; filename=\"a b\\\"c.txt\"");
	envd_disposition("\xc3\xa9.txt", out);
	assert_string_equal(out, "inline; filename*=utf-8''%C3%A9.txt");
	memset(name, '"', 255);
	name[255] = '\0';
	envd_disposition(name, out);
	assert_true(strlen(out) == strlen("inline; filename=\"\"") + 510);
	memset(name, '\xff', 255);
	envd_disposition(name, out);
	assert_true(strlen(out) < sizeof(out));
	assert_string_equal(envd_media_type("x.PNG"), "image/png");
	assert_string_equal(envd_media_type("noextension"), "application/octet-stream");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_permissions),
		cmocka_unit_test(test_entry),
		cmocka_unit_test(test_entry_of_links),
		cmocka_unit_test(test_entry_without_room),
		cmocka_unit_test(test_start),
		cmocka_unit_test(test_start_pty),
		cmocka_unit_test(test_start_refused),
		cmocka_unit_test(test_selector_signal_input),
		cmocka_unit_test(test_process_written),
		cmocka_unit_test(test_output_is_cut_into_pieces),
		cmocka_unit_test(test_exits),
		cmocka_unit_test(test_watch_events),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_words_are_cut),
		cmocka_unit_test(test_page_of_a_hostile_message),
		cmocka_unit_test(test_upload_multipart),
		cmocka_unit_test(test_upload_raw),
		cmocka_unit_test(test_upload_gzip),
		cmocka_unit_test(test_upload_bomb),
		cmocka_unit_test(test_metadata),
		cmocka_unit_test(test_download),
		cmocka_unit_test(test_download_ranges),
		cmocka_unit_test(test_download_conditions),
		cmocka_unit_test(test_dispositions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
