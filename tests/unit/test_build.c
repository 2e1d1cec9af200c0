/* Building from Dockerfiles without a microVM: variables, settings, paths, the build's
 * directory. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "build/base.h"
#include "build/copy.h"
#include "build/files.h"
#include "build/stage.h"
#include "dockerfile/path.h"
#include "dockerfile/vars.h"
#include "image/template.h"
#include "home_fixture.h"

/* --- variables --- */

static void test_vars(void **state)
{
	struct vars v = {NULL, 0}, copy = {NULL, 0};
	char name[16];

	assert_int_equal(vars_set(&v, "A", "1"), 0);
	assert_int_equal(vars_set(&v, "AB", ""), 0);
	assert_int_equal(vars_set_entry(&v, "A=x=y"), 0);
	assert_int_equal(v.count, 2);
	assert_string_equal(vars_get(&v, "A"), "x=y");
	assert_string_equal(vars_get(&v, "AB"), "");
	assert_null(vars_get(&v, "B"));
	for (int i = 2; i < VARS_MAX; i++) {
		(void)snprintf(name, sizeof(name), "N%d", i);
		assert_int_equal(vars_set(&v, name, "v"), 0);
	}
	assert_int_equal(vars_set(&v, "more", "v"), -E2BIG);
	assert_int_equal(vars_set(&v, "A", "still"), 0);
	assert_int_equal(vars_copy(&v, &copy), 0);
	assert_string_equal(vars_get(&copy, "A"), "still");
	vars_done(&v);
	vars_done(&copy);
}

/* --- settings --- */

static void note(void *opaque, unsigned line, const char *text)
{
	(*(unsigned *)opaque)++;
}

/* The stage after all steps of a Dockerfile's first one. */
static void run(const char *text, struct dockerfile *d, struct stage *s, struct vars *args)
{
	static const struct vars none = {NULL, 0};
	struct error e = {0};

	assert_int_equal(dockerfile_parse(text, strlen(text), d, NULL), 0);
	s->file = d;
	s->global = &none;
	s->build_args = args;
	assert_int_equal(stage_state_init(&s->state), 0);
	for (size_t i = 0; i < d->stages[0].steps.count; i++)
		if (stage_step(s, &d->stages[0].steps.items[i], &e) < 0)
			fail_msg("%s: %s", d->stages[0].steps.items[i].text, e.message);
}

static void end(struct dockerfile *d, struct stage *s)
{
	stage_state_done(&s->state);
	vars_done(&s->args);
	dockerfile_done(d);
}

static void test_settings(void **state)
{
	static const char text[] = "FROM a\nARG A=1\nARG B=2 C\nENV X=$A Y=\"$X-$B\" Z=${C:-c}\n"
				   "ENV A=env X2=$A\nUSER ${A}\nCMD [\"a b\", \"c\"]\n"
				   "LABEL x=y\nSHELL [\"/bin/bash\", \"-c\"]\nENTRYPOINT echo $A";
	struct vars args = {NULL, 0};
	struct dockerfile d;
	unsigned notes = 0;
	struct stage s = {.ops = {.note = note, .opaque = &notes}};

	assert_int_equal(vars_set(&args, "B", "given"), 0);
	assert_int_equal(vars_set(&args, "D", "not declared"), 0);
	run(text, &d, &s, &args);
	assert_string_equal(vars_get(&s.state.env, "X"), "1");
	assert_string_equal(vars_get(&s.state.env, "Y"), "-given"); /* X was not set before */
	assert_string_equal(vars_get(&s.state.env, "Z"), "c");
	assert_string_equal(vars_get(&s.state.env, "X2"), "1");
	assert_null(vars_get(&s.args, "D"));
	assert_string_equal(s.state.user, "env");
	assert_string_equal(s.state.command, "'a b' c");
	assert_string_equal(s.state.entry, "/bin/bash -c 'echo $A'");
	assert_true(s.state.entry_is_shell);
	assert_int_equal(notes, 1);
	end(&d, &s);
	vars_done(&args);
}

static void test_state_is_handed_on(void **state)
{
	struct stage_state from, to;

	assert_int_equal(stage_state_init(&from), 0);
	assert_string_equal(from.network, "");
	free(from.network);
	from.network = strdup("a.example");
	from.image_fd = open("/", O_PATH | O_CLOEXEC);
	assert_int_equal(stage_state_copy(&from, &to), 0);
	assert_string_equal(to.network, "a.example");
	stage_state_done(&from);
	stage_state_done(&to);
}

/* What a template's sandboxes may reach is also what those of one built on it may. */
static void test_base_has_a_network(void **state)
{
	struct template_build b = TEMPLATE_BUILD_INIT;
	struct template t = {.kernel_release = (char *)"6.1.0",
		.agent_version = (char *)"0.1",
		.image_digest = (char *)"00"};
	const struct base_options o = {.home = &home, .work = &home};
	struct stage_state s;

	assert_int_equal(config_init(&t.config), 0);
	assert_int_equal(config_set_text(&t.config.network, "a.example"), 0);
	assert_int_equal(template_begin(&home, "t", &b, NULL), 0);
	assert_int_equal(template_commit(&b, &t, NULL), 0);
	config_done(&t.config);
	assert_int_equal(stage_state_init(&s), 0);
	assert_int_equal(base_find(&o, "t", 0, &s, NULL), 0);
	assert_string_equal(s.network, "a.example");
	stage_state_done(&s);
}

/* An entry point takes the base's command away, and not the stage's own. */
static void test_entrypoint(void **state)
{
	static const struct {
		const char *text, *command;
	} cases[] = {{"FROM a\nENTRYPOINT [\"x\"]", ""}, {"FROM a\nENTRYPOINT []", ""},
		{"FROM a\nCMD []", ""}, {"FROM a\nCMD []\nENTRYPOINT [\"x\"]", ""},
		{"FROM a\nUSER u", "base"}, {"FROM a\nCMD [\"own\"]\nENTRYPOINT [\"x\"]", "own"}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct vars none = {NULL, 0};
		struct dockerfile d;
		struct stage s = {.args = {NULL, 0}};
		struct stage_state base;
		size_t n = strlen(cases[i].text);

		assert_int_equal(dockerfile_parse(cases[i].text, n, &d, NULL), 0);
		assert_int_equal(stage_state_init(&base), 0);
		free(base.command);
		base.command = strdup("base");
		s.file = &d;
		s.build_args = s.global = &none;
		s.state = base;
		for (size_t k = 0; k < d.stages[0].steps.count; k++)
			assert_int_equal(stage_step(&s, &d.stages[0].steps.items[k], NULL), 0);
		assert_string_equal(s.state.command, cases[i].command);
		end(&d, &s);
	}
}

/* --- paths --- */

static void test_paths(void **state)
{
	static const struct {
		const char *base, *path, *out;
	} cases[] = {{"/", "x", "/x"}, {"/a/b", "x/", "/a/b/x"}, {"/a", "/x//y/.", "/x/y"},
		{"/a/b", "..", "/a"}, {"/a", "../../..", "/"}, {"/a", ".", "/a"}, {"/", "", "/"},
		{"/a", "../b/../c", "/c"}};
	char out[BUILD_PATH_MAX], long_path[BUILD_PATH_MAX + 1];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_true(path_resolve(cases[i].base, cases[i].path, out));
		assert_string_equal(out, cases[i].out);
	}
	memset(long_path, 'x', BUILD_PATH_MAX);
	long_path[BUILD_PATH_MAX] = '\0';
	assert_false(path_resolve("/", long_path, out));
}

/* --- the build's directory --- */

static void put(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0640);

	assert_true(fd >= 0 && write(fd, name, strlen(name)) > 0);
	(void)close(fd);
}

static int list_name(void *opaque, const struct files_entry *f, struct error *e)
{
	strcat(opaque, f->path);
	strcat(opaque, *f->target ? "@ " : S_ISDIR(f->mode) ? "/ " : " ");
	return 0;
}

/* Of several archives, each is a top of its own. */
static void test_context_parts(void **state)
{
	char dir[] = "/tmp/mayfly-parts-XXXXXX";
	struct files_context c;
	struct files_entry f;
	struct ignore g = {.count = 0};
	struct error e = {0};
	int fd;

	assert_non_null(mkdtemp(dir));
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(fd, "1", 0755) | mkdirat(fd, "2", 0755), 0);
	put(fd, "1/a.txt");
	put(fd, "2/b.txt");
	put(fd, "b.txt");
	assert_int_equal(symlinkat("/a.txt", fd, "1/in"), 0);
	assert_int_equal(symlinkat("/b.txt", fd, "1/above"), 0);
	assert_int_equal(symlinkat("../2/b.txt", fd, "1/beside"), 0);
	assert_int_equal(symlinkat("1", fd, "3"), 0);
	files_context_init(&c, fd, true, &g);
	assert_int_equal(c.files.stat(&c.files, "1/in", &f, NULL), 0);
	assert_true(S_ISREG(f.mode) && f.size == strlen("1/a.txt"));
	assert_int_equal(c.files.stat(&c.files, "1", &f, NULL), 0);
	assert_true(c.files.stat(&c.files, "1/above", &f, &e) < 0);
	assert_non_null(strstr(e.message, "1/above is a link to /b.txt, which is not in"));
	assert_true(c.files.stat(&c.files, "1/beside", &f, NULL) < 0);
	assert_true(c.files.stat(&c.files, "3/a.txt", &f, NULL) < 0); /* a part is no link */
	files_context_done(&c);
	(void)close(fd);
	assert_int_equal(file_remove_tree(AT_FDCWD, dir), 0);
}

static void test_context(void **state)
{
	static const char patterns[] = "*.log\nsub\n!sub/kept\n";
	char dir[] = "/tmp/test-build-XXXXXX", names[256] = "", text[16];
	struct files_context c;
	struct files_entry f;
	struct ignore g;
	struct error e = {0};
	size_t n;
	int fd, out;

	assert_non_null(mkdtemp(dir));
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(fd, "sub", 0755) | mkdirat(fd, "z", 0755), 0);
	put(fd, "a.txt");
	put(fd, "b.log");
	put(fd, "sub/kept");
	put(fd, "sub/lost");
	assert_int_equal(symlinkat("../../../../etc/passwd", fd, "z/out"), 0);
	assert_int_equal(symlinkat("/a.txt", fd, "z/in"), 0);
	assert_int_equal(ignore_parse(patterns, strlen(patterns), &g, NULL), 0);
	files_context_init(&c, fd, false, &g);
	assert_int_equal(c.files.list(&c.files, "", list_name, names, NULL), 0);
	assert_string_equal(names, "a.txt sub/kept z/ z/in@ z/out@ ");
	assert_int_equal(c.files.stat(&c.files, "a.txt", &f, NULL), 0);
	assert_true(S_ISREG(f.mode) && (f.mode & 0777) == 0640 && f.uid == 0 && f.size == 5);
	assert_int_equal(c.files.read(&c.files, "z/in", 2, text, sizeof(text), &n, NULL), 0);
	assert_true(n == 3 && memcmp(text, "txt", 3) == 0); /* a link to the directory's top */
	assert_true(c.files.stat(&c.files, "z/out", &f, NULL) < 0); /* not this host's */
	assert_true(c.files.open(&c.files, "z/out", NULL) < 0);
	assert_true(c.files.open(&c.files, "z", NULL) < 0);
	out = c.files.open(&c.files, "z/in", NULL);
	assert_true(read(out, text, sizeof(text)) == 5 && memcmp(text, "a.txt", 5) == 0);
	assert_int_equal(close(out), 0);
	assert_true(c.files.stat(&c.files, "b.log", &f, &e) < 0);
	assert_non_null(strstr(e.message, "left out by .dockerignore"));
	files_context_done(&c);
	ignore_done(&g);
	(void)close(fd);
	assert_int_equal(file_remove_tree(AT_FDCWD, dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_vars),
		cmocka_unit_test(test_settings), cmocka_unit_test(test_state_is_handed_on),
		cmocka_unit_test(test_entrypoint), cmocka_unit_test(test_paths),
		cmocka_unit_test(test_context), cmocka_unit_test(test_context_parts),
		cmocka_unit_test_setup_teardown(
			test_base_has_a_network, home_setup, home_teardown)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
