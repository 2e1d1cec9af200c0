/* The interpreter's own formats: Jupyter messages and their signatures, lines of an execution,
 * kernelspecs, code around cells, the sandbox's variables. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "interpreter/lines.h"
#include "interpreter/message.h"
#include "interpreter/prelude.h"
#include "interpreter/sandbox_env.h"
#include "interpreter/spec.h"

static const char key[] = "0123456789abcdef0123456789abcdef";

/* --- messages --- */

static void encode(struct message_out *out, const char *content)
{
	assert_int_equal(
		message_encode(out, "execute_request", "s_1", "s", content, strlen(content), key),
		0);
}

static void test_message_round(void **state)
{
	struct frame frames[MESSAGE_FRAMES_SENT + 3] = {{"identity", 8}};
	struct message_out out;
	struct message m;
	json_t *content;

	encode(&out, "{\"code\":\"1\"}");
	memcpy(frames + 1, out.frames, sizeof(out.frames));
	frames[MESSAGE_FRAMES_SENT + 1] = (struct frame){"buffer", 6};
	assert_int_equal(message_decode(frames, MESSAGE_FRAMES_SENT + 2, key, &m), 0);
	assert_string_equal(m.type, "execute_request");
	assert_string_equal(m.parent_id, "");
	content = message_content(&m);
	assert_string_equal(json_string_value(json_object_get(content, "code")), "1");
	json_decref(content);
	message_out_done(&out);
}

/* RFC 4231, test case 2, over the frames. */
static void test_message_known_signature(void **state)
{
	const struct frame frames[] = {{"<IDS|MSG>", 9},
		{"5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843", 64},
		{"what do ya", 10}, {" want ", 6}, {"for ", 4}, {"nothing?", 8}};
	struct frame other[6];
	struct message m;

	/* rightly signed, and no JSON: not the format */
	assert_int_equal(message_decode(frames, 6, "Jefe", &m), -EBADMSG);
	assert_int_equal(message_decode(frames, 6, "jefe", &m), -EPERM);
	memcpy(other, frames, sizeof(other));
	other[1].n = 63;
	assert_int_equal(message_decode(other, 6, "Jefe", &m), -EPERM);
	other[1] = (struct frame){
		"5BDCC146BF60754E6A042426089575C75A003F089D2739839DEC58B964EC3843", 64};
	assert_int_equal(message_decode(other, 6, "Jefe", &m), -EPERM);
}

static void test_message_every_bit(void **state)
{
	struct message_out out;
	struct message m;

	encode(&out, "{}");
	for (size_t f = 1; f < MESSAGE_FRAMES_SENT; f++)
		for (size_t bit = 0; bit < out.frames[f].n * 8; bit++) {
			char copy[512];
			struct frame frames[MESSAGE_FRAMES_SENT];

			memcpy(frames, out.frames, sizeof(frames));
			memcpy(copy, frames[f].data, frames[f].n);
			copy[bit / 8] = (char)(copy[bit / 8] ^ 1 << bit % 8);
			frames[f].data = copy;
			assert_int_equal(
				message_decode(frames, MESSAGE_FRAMES_SENT, key, &m), -EPERM);
		}
	message_out_done(&out);
}

static void test_message_too_few_frames(void **state)
{
	struct message_out out;
	struct message m;

	encode(&out, "{}");
	for (size_t n = 0; n < MESSAGE_FRAMES_SENT; n++)
		assert_int_equal(message_decode(out.frames, n, key, &m), -EBADMSG);
	assert_int_equal(
		message_decode(out.frames + 1, MESSAGE_FRAMES_SENT - 1, key, &m), -EBADMSG);
	message_out_done(&out);
}

static json_t *content_of(const char *text, size_t n)
{
	const struct message m = {.content = {text, n}};

	return message_content(&m);
}

static void test_message_content_repaired(void **state)
{
	json_t *j = content_of("{\"a\":\"x\xed\xa0\x80\xc3\xa9\xff\"}", 15);

	assert_non_null(j);
	assert_string_equal(json_string_value(json_object_get(j, "a")), "x???\xc3\xa9?");
	json_decref(j);
	assert_null(content_of("", 0));
	assert_null(content_of("[]", 2));
	assert_null(content_of("{", 1));
	assert_null(content_of("\xff", 1));
}

/* --- lines --- */

static json_t *line(struct buf *b)
{
	json_t *j;

	assert_int_equal(buf_head(b)[buf_len(b) - 1], '\n');
	for (size_t i = 0; i + 1 < buf_len(b); i++)
		assert_true(buf_head(b)[i] >= ' ' && buf_head(b)[i] < 127);
	j = json_loadb((const char *)buf_head(b), buf_len(b), JSON_ALLOW_NUL, NULL);
	assert_non_null(j);
	buf_done(b);
	return j;
}

static const char *member(const json_t *j, const char *name)
{
	return json_string_value(json_object_get(j, name));
}

static void test_lines_result(void **state)
{
	static const struct {
		const char *in, *out;
	} texts[] = {{"'a'", "a"}, {"\"a\"", "a"}, {"'a\"", "'a\""}, {"'", "'"}, {"''", ""},
		{"a", "a"}, {"'a', 'b'", "a', 'b"}};
	struct buf b = BUF_INIT(4096);

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		json_t *data = json_pack("{s:s}", "text/plain", texts[i].in), *j;

		assert_int_equal(lines_add_result(&b, data, true), 0);
		j = line(&b);
		assert_string_equal(member(j, "text"), texts[i].out);
		assert_true(json_is_true(json_object_get(j, "is_main_result")));
		assert_int_equal(json_object_size(j), 3);
		json_decref(j);
		json_decref(data);
	}
}

static void test_lines_extra(void **state)
{
	struct buf b = BUF_INIT(4096);
	json_t *data =
		json_pack("{s:s, s:{s:i}, s:n}", "a/b", "\xc3\xa9\"", "c/d", "x", 1, "text/plain");
	json_t *j, *extra;

	assert_int_equal(lines_add_result(&b, data, false), 0);
	j = line(&b);
	extra = json_object_get(j, "extra");
	assert_null(json_object_get(j, "text"));
	assert_string_equal(member(extra, "a/b"), "\xc3\xa9\"");
	assert_int_equal(json_object_size(extra), 2);
	json_decref(j);
	json_decref(data);
}

static void test_lines_error(void **state)
{
	struct buf b = BUF_INIT(4096), tiny = BUF_INIT(20);
	json_t *content = json_pack("{s:s, s:i, s:[s, i, s]}", "ename", "E", "evalue", 5,
		"traceback", "one", 2, "three");
	json_t *j;

	assert_int_equal(lines_add_kernel_error(&b, content), 0);
	j = line(&b);
	assert_string_equal(member(j, "name"), "E");
	assert_string_equal(member(j, "value"), ""); /* was no text */
	assert_string_equal(member(j, "traceback"), "one\n\nthree");
	json_decref(j);
	json_decref(content);
	assert_int_equal(lines_add_error(&tiny, "name", "value", ""), -EMSGSIZE);
	buf_done(&tiny);
}

/* --- kernelspecs --- */

static char *make_specs(void)
{
	static const char *const files[][2] = {{"a", "{\"argv\":[\"x\"],\"language\":\"Thing\"}"},
		{"b", "{\"argv\":[\"y\"],\"language\":\"thing\",\"metadata\":{\"mayfly\":{"
		      "\"languages\":[\"thing\",\"TS\"],\"quote\":\"shell\","
		      "\"set_env\":\"{name}={value}{x}\",\"unset_env\":\"no {name}\"}}}"},
		{"c", "{\"argv\":[],\"language\":\"empty\"}"}, {"d", "no json"},
		{"e", "{\"argv\":[5],\"language\":\"number\"}"}, {"f", "{\"argv\":[\"x\"]}"},
		{"g", "{\"argv\":[\"x\"],\"language\":\"half\",\"metadata\":{\"mayfly\":{"
		      "\"set_env\":\"x\"}}}"}};
	char *directory = strdup("/tmp/mayfly-specs-XXXXXX");

	assert_non_null(mkdtemp(directory));
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_free_ char *d = str_printf("%s/%s", directory, files[i][0]);
		_cleanup_free_ char *f = str_printf("%s/kernel.json", d);
		FILE *file;

		assert_int_equal(mkdir(d, 0700), 0);
		file = fopen(f, "w");
		assert_non_null(file);
		fputs(files[i][1], file);
		assert_int_equal(fclose(file), 0);
	}
	return directory;
}

static void test_specs(void **state)
{
	_cleanup_free_ char *directory = make_specs();
	char language[SPEC_LANGUAGE_MAX];
	struct specs specs = {.count = 0};
	struct buf names = BUF_INIT(256), code = BUF_INIT(256);
	const struct spec *b;

	specs_add_directory(&specs, "/does/not/exist");
	specs_add_directory(&specs, directory);
	assert_int_equal(specs.count, 2);
	assert_ptr_equal(specs_find(&specs, "thing"), &specs.items[0]);
	b = specs_find(&specs, spec_language("ts", language));
	assert_ptr_equal(b, &specs.items[1]);
	assert_null(specs_find(&specs, "half"));
	assert_int_equal(specs_list(&specs, &names), 0);
	assert_int_equal(buf_add(&names, "", 1), 0);
	assert_string_equal((const char *)buf_head(&names), "thing, typescript");
	assert_int_equal(spec_add_code(b, b->set_env, "N", "it's", &code), 0);
	assert_int_equal(spec_add_code(b, b->unset_env, "N", NULL, &code), 0);
	assert_int_equal(buf_add(&code, "", 1), 0);
	assert_string_equal((const char *)buf_head(&code), "'N'='it'\\''s'{x}\nno 'N'\n");
	buf_done(&names);
	buf_done(&code);
	specs_done(&specs);
	assert_int_equal(file_remove_tree(AT_FDCWD, directory), 0);
}

static void test_take_back(void **state)
{
	struct specs specs = {.count = 0};
	char *items[] = {(char[]){"OURS=sandbox"}, NULL};
	const struct sandbox_env env = {.items = items, .count = 1};
	json_t *vars = json_pack("{s:s, s:s, s:s}", "OURS", "1", "PROCESS", "2", "NOBODYS", "3");
	struct spec spec = {.set_env = "{name}={value}", .unset_env = "unset {name}"};
	struct buf code = BUF_INIT(256);

	assert_int_equal(setenv("PROCESS", "p\"", 1), 0);
	assert_int_equal(prelude_take_back(&spec, &env, vars, &code), 0);
	assert_int_equal(buf_add(&code, "", 1), 0);
	assert_string_equal((const char *)buf_head(&code),
		"\"OURS\"=\"sandbox\"\n\"PROCESS\"=\"p\\\"\"\nunset \"NOBODYS\"\n");
	buf_done(&code);
	json_decref(vars);
	specs_done(&specs);
}

/* --- the sandbox's variables --- */

static void replace(const char *path, const char *data, size_t n)
{
	char temporary[64];
	int fd;

	snprintf(temporary, sizeof(temporary), "%s.new", path);
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_int_equal(write(fd, data, n), n);
	close(fd);
	assert_int_equal(rename(temporary, path), 0);
}

static void test_sandbox_env(void **state)
{
	char path[] = "/tmp/mayfly-env-XXXXXX";
	struct sandbox_env e = {.path = path};

	assert_true(mkstemp(path) >= 0);
	replace(path, "A=1\0B=x=y\0junk\0=z\0C=", 21);
	sandbox_env_refresh(&e);
	assert_int_equal(e.generation, 1);
	assert_int_equal(e.count, 3);
	assert_string_equal(sandbox_env_get(&e, "A"), "1");
	assert_string_equal(sandbox_env_get(&e, "B"), "x=y");
	assert_string_equal(sandbox_env_get(&e, "C"), "");
	assert_null(sandbox_env_get(&e, "junk"));
	sandbox_env_refresh(&e);
	assert_int_equal(e.generation, 1);
	replace(path, "A=1\0", 4); /* equal or not, it is another file */
	sandbox_env_refresh(&e);
	assert_int_equal(e.generation, 2);
	assert_int_equal(e.count, 1);
	assert_int_equal(unlink(path), 0);
	sandbox_env_refresh(&e);
	assert_int_equal(e.generation, 2);
	sandbox_env_done(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_message_round),
		cmocka_unit_test(test_message_known_signature),
		cmocka_unit_test(test_message_every_bit),
		cmocka_unit_test(test_message_too_few_frames),
		cmocka_unit_test(test_message_content_repaired),
		cmocka_unit_test(test_lines_result),
		cmocka_unit_test(test_lines_extra),
		cmocka_unit_test(test_lines_error),
		cmocka_unit_test(test_specs),
		cmocka_unit_test(test_take_back),
		cmocka_unit_test(test_sandbox_env),
	};

	return cmocka_run_group_tests_name("interpreter", tests, NULL, NULL);
}
