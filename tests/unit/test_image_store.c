/* Recipes, settings, the directories that appear whole, templates, checksums. */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"
#include "image/debian.h"
#include "image/recipe.h"
#include "image/template.h"
#include "image/verify.h"
#include "io/child.h"
#include "io/subordinate.h"
#include "home_fixture.h"

static int parse(const char *text, struct recipe *r, struct error *e)
{
	*e = (struct error){0};
	return recipe_parse(text, strlen(text), "x.recipe", r, e);
}

static void test_recipe(void **state)
{
	struct recipe r;
	struct error e;

	assert_int_equal(parse("# hello\n\nname = base\nsource=debian\n  suite =  bookworm \r\n"
			       "packages = git curl\npackages = g++\nenv = A=1\nenv = B=x y = z\n"
			       "env = A=2\nmemory = 1G\ndisk = 4096\ncpus=3\nworkdir = /srv\n"
			       "start = sleep 1 && x = 2",
				 &r, &e),
		0);
	assert_string_equal(r.name, "base");
	assert_string_equal(r.suite, "bookworm");
	assert_int_equal(r.package_count, 3);
	assert_string_equal(r.packages[2], "g++");
	assert_int_equal(r.config.env_count, 2);
	assert_string_equal(r.config.env[0], "A=2");
	assert_string_equal(r.config.env[1], "B=x y = z");
	assert_int_equal(r.config.memory_mb, 1024);
	assert_int_equal(r.config.disk_mb, 4096);
	assert_int_equal(r.config.cpus, 3);
	assert_string_equal(r.config.start_command, "sleep 1 && x = 2");
	recipe_done(&r);
}

static void test_recipe_steps(void **state)
{
	struct recipe r;
	struct error e;

	assert_int_equal(parse("name = a\nsource = debian\nsuite = bookworm\n"
			       "maven = g.h:a:1.0-2:jar:linux-x86_64 a/b /usr/local\n"
			       "maven = g:b:1 c /opt\nrun = echo 'x = 1' && ls\nrun = true\n",
				 &r, &e),
		0);
	assert_int_equal(r.maven_count, 2);
	assert_string_equal(r.maven[0].artifact, "g.h:a:1.0-2:jar:linux-x86_64");
	assert_string_equal(r.maven[0].folder, "a/b");
	assert_string_equal(r.maven[1].directory, "/opt");
	assert_int_equal(r.run.count, 2);
	assert_string_equal(r.run.items[0], "echo 'x = 1' && ls");
	recipe_done(&r);
}

static void test_added_packages(void **state)
{
	struct recipe r;
	struct error e;

	assert_int_equal(
		parse("name = a\nsource = debian\nsuite = bookworm\npackages = git", &r, &e), 0);
	assert_int_equal(recipe_add_packages(&r, "g++, make  jq", &e), 0);
	assert_int_equal(r.package_count, 4);
	assert_string_equal(r.packages[1], "g++");
	assert_int_equal(recipe_add_packages(&r, "--option", &e), -EINVAL);
	assert_non_null(strstr(e.message, "expected package names"));
	recipe_done(&r);
	assert_int_equal(parse("name = a\nsource = busybox", &r, &e), 0);
	assert_int_equal(recipe_add_packages(&r, "git", &e), -EINVAL);
	recipe_done(&r);
}

static void test_bad_recipes(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{"name = a\nname = b\n", "x.recipe:2: `name` is given twice"},
		{"hello\n", "x.recipe:1: expected"},
		{"\n\nfoo = 1\n", "x.recipe:3: unknown key `foo`"},
		{"name = ../etc\n", "x.recipe:1: `name = ../etc`"},
		{"name =\n", "x.recipe:1: `name = `"},
		{"cpus = 0\n", "expected 1 to 32"},
		{"cpus = 99\n", "expected 1 to 32"},
		{"memory = 1\n", "expected a size"},
		{"memory = 99999999999999999999G\n", "expected a size"},
		{"memory = x\n", "expected a size"},
		{"env = 1A=x\n", "expected NAME=VALUE"},
		{"env = A\n", "expected NAME=VALUE"},
		{"packages = git --option\n", "expected package names"},
		{"packages = ;rm\n", "expected package names"},
		{"npm = --global\n", "expected npm packages"},
		{"npm = a'b\n", "expected npm packages"},
		{"programs = ../../bin/sh\n", "expected programs"},
		{"files = one\n", "expected a path and"},
		{"files = one two\n", "expected a path and"},
		{"files = one /two /three\n", "expected a path and"},
		{"files = $(x) /two\n", "expected a path and"},
		{"maven = g:a:1 b\n", "expected an artifact, a folder"},
		{"maven = g:a:1 b c\n", "expected an artifact, a folder"},
		{"maven = g:a:1 b /c d\n", "expected an artifact, a folder"},
		{"maven = -Dx b /c\n", "expected an artifact, a folder"},
		{"maven = g:a:1 $(x) /c\n", "expected an artifact, a folder"},
		{"run =\n", "expected a shell command"},
		{"workdir = home\n", "an absolute path"},
		{"source = ftp\n", "debian, busybox"},
		{"source = busybox\n", "x.recipe: `name` is missing"},
		{"name = a\n", "`source` is missing"},
		{"name = a\nsource = tar\n", "`path` is missing"},
		{"name = a\nsource = busybox\npath = x\n", "`path` is for"},
		{"name = a\nsource = busybox\nsuite = x\n", "are for the source debian"},
		{"name = a\nsource = busybox\nrun = true\n", "are for the source debian"},
		{"name = a\nsource = tar\npath = x\nmaven = g:a:1 b /c\n",
			"are for the source debian"},
		{"name = a\nsource = debian\n", "`suite` is missing"},
		{"name = a\nsource = busybox\nuser = Root\n", "`user` must be"},
		{"name = a\nsource = busybox\nuser = a:b\n", "`user` must be"},
		{"name = a\ndescription = \x01\n", "a line of text"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct recipe r;
		struct error e;

		assert_true(parse(cases[i].text, &r, &e) < 0);
		if (!strstr(e.message, cases[i].message))
			fail_msg("case %zu: '%s' lacks '%s'", i, e.message, cases[i].message);
	}
}

/* One line too many of a key that repeats. */
static void check_maximum(const char *line, int max)
{
	struct buf b = BUF_INIT(1 << 20);
	struct recipe r;
	struct error e = {0};

	for (int i = 0; i < max + 1; i++)
		assert_int_equal(buf_add_str(&b, line), 0);
	assert_true(recipe_parse((const char *)buf_head(&b), buf_len(&b), "x", &r, &e) < 0);
	assert_non_null(strstr(e.message, "too many"));
	buf_done(&b);
}

static void test_recipe_limits(void **state)
{
	struct buf b = BUF_INIT(1 << 20);
	struct recipe r;
	struct error e = {0};

	assert_true(recipe_parse("name = a\0b", 10, "x", &r, &e) < 0);
	check_maximum("maven = g:a:1 b /c\n", RECIPE_ARTIFACTS_MAX);
	check_maximum("run = true\n", RECIPE_LIST_MAX);
	for (int i = 0; i < RECIPE_PACKAGES_MAX + 1; i++)
		assert_int_equal(buf_printf(&b, "packages = p%d\n", i), 0);
	error_clear(&e);
	assert_true(recipe_parse((const char *)buf_head(&b), buf_len(&b), "x", &r, &e) < 0);
	assert_non_null(strstr(e.message, "too many"));
	while (buf_len(&b) <= RECIPE_BYTES_MAX)
		assert_int_equal(buf_add_str(&b, "# comment\n"), 0);
	error_clear(&e);
	assert_true(recipe_parse((const char *)buf_head(&b), buf_len(&b), "x", &r, &e) < 0);
	assert_non_null(strstr(e.message, "not a recipe"));
	buf_done(&b);
}

static void test_sources(void **state)
{
	static const char deb822[] =
		"Types: deb\nURIs: http://mirror/debian\nSuites: bookworm bookworm-updates\n"
		"Components: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n"
		"Types: deb\nURIs: https://other\nSuites: bookworm\nSigned-By: /x/other.gpg\n\n"
		"Types: deb\nEnabled: no\nSuites: bookworm\n"
		"Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n"
		"Types: deb\nSuites:\n trixie\n"
		"Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n";
	static const char lines[] =
		"# comment\ndeb http://mirror/debian bookworm main\n"
		"deb https://cloud/apt sdk-bookworm main\n"
		"deb [signed-by=/x/other.gpg] http://other/debian bookworm main\n"
		"deb http://mirror/debian bookworm-updates main\ndeb-src http://m/debian bookworm "
		"x";
	struct buf out = BUF_INIT(4096);

	assert_int_equal(debian_filter_sources(deb822, true, "bookworm", &out), 0);
	assert_int_equal(buf_add_u8(&out, 0), 0);
	assert_non_null(strstr((const char *)buf_head(&out), "http://mirror/debian"));
	assert_null(strstr((const char *)buf_head(&out), "other"));
	assert_null(strstr((const char *)buf_head(&out), "Enabled"));
	assert_null(strstr((const char *)buf_head(&out), "trixie"));
	buf_clear(&out);
	assert_int_equal(debian_filter_sources(lines, false, "bookworm", &out), 0);
	assert_int_equal(buf_add_u8(&out, 0), 0);
	assert_string_equal((const char *)buf_head(&out),
		"deb http://mirror/debian bookworm main\n"
		"deb http://mirror/debian bookworm-updates main\n");
	buf_done(&out);
}

static void test_home(void **state)
{
	struct home h = HOME_INIT;
	struct error e = {0};
	char *path = home_path(&home, HOME_IMAGES, "a", "b"),
	     *file = str_printf("%s/file", home_dir);
	struct stat st;

	assert_true(str_ends_with(path, "/images/a/b"));
	assert_int_equal(stat(home_dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(file_write_atomic(AT_FDCWD, file, "", 0, 0600), 0);
	assert_true(home_open(file, &h, &e) < 0);
	assert_int_equal(e.code, ERROR_HOST);
	assert_non_null(strstr(e.message, "MAYFLY_HOME"));
	free(path);
	free(file);
	assert_int_equal(setenv("MAYFLY_HOME", "/some/where", 1), 0);
	path = home_default_path();
	assert_string_equal(path, "/some/where");
	free(path);
}

static bool exists(const char *name)
{
	return faccessat(home.area_fd[HOME_IMAGES], name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void test_workdir(void **state)
{
	int area = home.area_fd[HOME_IMAGES], kept;
	struct workdir a = WORKDIR_INIT, b = WORKDIR_INIT;
	struct error e = {0};
	char **names, text[4] = "";

	assert_true(workdir_begin(area, "../x", "image", &a, &e) < 0);
	assert_int_equal(e.code, ERROR_USAGE);
	error_clear(&e);
	assert_int_equal(workdir_begin(area, "one", "image", &a, &e), 0);
	assert_true(exists(".tmp-one"));
	assert_int_equal(file_write_atomic(a.fd, "f", "1", 1, 0600), 0);
	assert_true(workdir_begin(area, "one", "image", &b, &e) < 0);
	assert_int_equal(e.code, ERROR_EXISTS);
	assert_int_equal(workdir_commit(&a, NULL), 0);
	assert_true(exists("one/f"));
	assert_false(exists(".tmp-one"));
	workdir_abort(&a); /* nothing is left to abort */
	assert_true(exists("one/f"));

	kept = openat(area, "one/f", O_RDONLY | O_CLOEXEC);
	assert_int_equal(workdir_begin(area, "one", "image", &a, NULL), 0);
	assert_int_equal(file_write_atomic(a.fd, "g", "2", 1, 0600), 0);
	assert_int_equal(workdir_commit(&a, NULL), 0);
	assert_true(exists("one/g"));
	assert_false(exists("one/f"));
	assert_false(exists(".tmp-one"));
	assert_int_equal(read(kept, text, 1), 1); /* open files survive */
	(void)close(kept);

	assert_int_equal(workdir_begin(area, "two", "image", &a, NULL), 0);
	workdir_abort(&a);
	assert_false(exists(".tmp-two"));
	assert_int_equal(workdir_list(area, &names), 0);
	assert_string_equal(names[0], "one");
	assert_null(names[1]);
	workdir_list_free(names);
	assert_int_equal(workdir_remove(area, "one"), 0);
	assert_int_equal(workdir_remove(area, "one"), -ENOENT);
	assert_int_equal(workdir_remove(area, ".."), -ENOENT);
}

static void test_sweep(void **state)
{
	int area = home.area_fd[HOME_IMAGES];
	struct workdir a = WORKDIR_INIT;

	assert_int_equal(mkdirat(area, ".tmp-dead", 0700), 0);
	assert_int_equal(mkdirat(area, ".tmp-dead/sub", 0700), 0);
	assert_int_equal(workdir_begin(area, "alive", "image", &a, NULL), 0);
	assert_false(exists(".tmp-dead"));
	workdir_sweep(area);
	assert_true(exists(".tmp-alive"));
	workdir_abort(&a);
}

static unsigned leftovers(int area)
{
	DIR *d = fdopendir(openat(area, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *de;
	unsigned n = 0;

	assert_non_null(d);
	while ((de = readdir(d)))
		n += strncmp(de->d_name, ".tmp-", 5) == 0;
	(void)closedir(d); /* read-only */
	return n;
}

/* Whoever reads it sees all of its files or none. */
static void test_hold(void **state)
{
	int area = home.area_fd[HOME_IMAGES], fd, late;
	struct workdir a = WORKDIR_INIT;

	assert_int_equal(workdir_begin(area, "held", "image", &a, NULL), 0);
	assert_int_equal(file_write_atomic(a.fd, "f", "1", 1, 0600), 0);
	assert_int_equal(workdir_commit(&a, NULL), 0);
	fd = openat(area, "held", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	late = openat(area, "held", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(workdir_hold(fd, "image", NULL), 0);
	assert_int_equal(workdir_remove(area, "held"), 0);
	assert_false(exists("held"));
	workdir_sweep(area);
	assert_int_equal(faccessat(fd, "f", F_OK, 0), 0);
	assert_int_equal(leftovers(area), 1);
	(void)close(fd); /* read-only */
	workdir_sweep(area);
	assert_int_equal(leftovers(area), 0);
	assert_int_equal(workdir_hold(late, "image", NULL), -ENOENT);
	(void)close(late); /* as above */
}

static void put_held(int area, const char *content)
{
	struct workdir a = WORKDIR_INIT;
	struct error e = {0};

	if (workdir_begin(area, "held", "image", &a, &e) < 0)
		fail_msg("%s", e.message);
	assert_int_equal(file_write_atomic(a.fd, "f", content, 1, 0600), 0);
	assert_int_equal(workdir_commit(&a, NULL), 0);
}

/* Nor does whoever holds it lose it to a newer one, or stand in the way of one. */
static void test_hold_of_what_is_replaced(void **state)
{
	int area = home.area_fd[HOME_IMAGES], fd;

	put_held(area, "1");
	fd = openat(area, "held", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(workdir_hold(fd, "image", NULL), 0);
	put_held(area, "2");
	put_held(area, "3");
	workdir_sweep(area);
	assert_int_equal(faccessat(fd, "f", F_OK, 0), 0);
	assert_int_equal(leftovers(area), 1);
	(void)close(fd); /* read-only */
	workdir_sweep(area);
	assert_int_equal(leftovers(area), 0);
	assert_int_equal(workdir_remove(area, "held"), 0);
}

static void make_template(const char *name)
{
	struct template_build b = TEMPLATE_BUILD_INIT;
	struct template t = {.kernel_release = (char *)"6.1.0",
		.agent_version = (char *)"0.1",
		.image_digest = (char *)"00",
		.created_s = 1700000000};
	struct error e = {0};

	assert_int_equal(config_init(&t.config), 0);
	assert_int_equal(config_add_env(&t.config, "LANG=C.UTF-8"), 0);
	assert_int_equal(template_begin(&home, name, &b, &e), 0);
	assert_int_equal(file_write_atomic(template_build_fd(&b), "rootfs.ext4", "x", 1, 0600), 0);
	(void)close(template_snapshot_dir(template_build_fd(&b), 2, 512, true));
	assert_int_equal(template_commit(&b, &t, &e), 0);
	config_done(&t.config);
}

static int count_one(void *opaque, const struct template *t, const struct error *damage)
{
	unsigned *n = opaque;

	n[damage != NULL]++;
	return 0;
}

static void test_template(void **state)
{
	struct template t;
	struct error e = {0};
	unsigned n[2] = {0, 0};
	int fd;

	make_template("alpha");
	make_template("beta");
	assert_int_equal(template_load(&home, "alpha", &t, &e), 0);
	assert_string_equal(t.name, "alpha");
	assert_string_equal(t.kernel_release, "6.1.0");
	assert_int_equal(t.created_s, 1700000000);
	assert_string_equal(t.config.env[0], "LANG=C.UTF-8");
	assert_true(t.rootfs_disk_bytes > 0);
	template_done(&t);
	fd = template_open(&home, "alpha", &e);
	assert_true(fd >= 0);
	assert_int_equal(template_snapshot_dir(fd, 1, 512, false), -ENOENT);
	assert_true(template_snapshot_dir(fd, 2, 512, false) >= 0);
	assert_int_equal(template_each(&home, count_one, n, &e), 0);
	assert_int_equal(n[0], 2);
	assert_int_equal(template_remove(&home, "alpha", &e), 0);
	assert_true(template_load(&home, "alpha", &t, &e) < 0);
	assert_int_equal(e.code, ERROR_NOT_FOUND);
	assert_non_null(strstr(e.message, "mayfly template build alpha"));
	error_clear(&e);
	assert_true(template_open(&home, "../images", &e) < 0);
	assert_int_equal(e.code, ERROR_NOT_FOUND);
	(void)close(fd);
}

static void test_bad_json(void **state)
{
	static const char *const replacements[][2] = {
		{"\"format\": 1", "\"format\": 2"},
		{"\"format\": 1", "\"format\": \"1\""},
		{"\"kind\": \"ext4\"", "\"kind\": \"ntfs\""},
		{"\"kind\": \"ext4\"", "\"kind\": 4"},
		{"\"6.1.0\"", "\"../../etc\""},
		{"\"cpus\": 2", "\"cpus\": 0"},
		{"\"cpus\": 2", "\"cpus\": -1"},
		{"\"cpus\": 2", "\"cpus\": 99999999999"},
		{"\"cpus\": 2", "\"cpus\": 1.5"},
		{"\"cpus\": 2", "\"cpus\": 2, \"cpus\": 1"},
		{"\"cpus\": 2", "\"cpus\": 2, \"surprise\": 2"},
		{"\"LANG=C.UTF-8\"", "\"1=2\""},
		{"\"LANG=C.UTF-8\"", "3"},
		{"\"user\": \"user\"", "\"user\": \"a b\""},
		{"\"user\": \"user\"", "\"user\": \"a\\u0000b\""},
		{"}", ""},
		{"{", "[{"},
	};
	char *good;
	size_t len;
	int fd;

	make_template("t");
	fd = template_open(&home, "t", NULL);
	assert_int_equal(file_read(fd, "template.json", 1 << 20, &good, &len), 0);
	for (size_t i = 0; i < sizeof(replacements) / sizeof(replacements[0]); i++) {
		const char *at = strstr(good, replacements[i][0]);
		struct template t;
		struct error e = {0};
		char *bad;

		if (!at)
			fail_msg("case %zu does not apply to %s", i, good);
		bad = str_printf("%.*s%s%s", (int)(at - good), good, replacements[i][1],
			at + strlen(replacements[i][0]));
		assert_int_equal(file_write_atomic(fd, "template.json", bad, strlen(bad), 0600), 0);
		if (template_load(&home, "t", &t, &e) == 0)
			fail_msg("case %zu was accepted", i);
		free(bad);
		if (e.code == ERROR_NOT_FOUND || e.code == ERROR_INTERNAL)
			fail_msg("case %zu: %s", i, e.message);
		assert_non_null(strstr(e.message, "template 't' is damaged"));
	}
	free(good);
	(void)close(fd);
}

static int check(int area, const char *name, struct error *e)
{
	*e = (struct error){0};
	return verify_check(area, name, "template 't'", "rebuild it", NULL, e);
}

static void test_verify(void **state)
{
	int area = home.fd, fd = openat(area, "memory", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct timespec pause = {.tv_nsec = 20000000};
	struct error e;
	uint32_t a, b;

	assert_int_equal(ftruncate(fd, 64 << 20), 0);
	assert_int_equal(pwrite(fd, "hello", 5, 1 << 20), 5);
	assert_int_equal(pwrite(fd, "x", 1, (64 << 20) - 1), 1);
	assert_true(check(area, "memory", &e) < 0);
	assert_non_null(strstr(e.message, "no checksum"));
	assert_int_equal(verify_record(area, "memory", &e), 0);
	assert_int_equal(verify_record(area, "memory", NULL), 0);  /* replaces the note */
	assert_int_equal(faccessat(area, "verified", F_OK, 0), 0); /* it is not read again */
	assert_int_equal(check(area, "memory", &e), 0);
	assert_int_equal(unlinkat(area, "verified", 0), 0);
	assert_int_equal(check(area, "memory", &e), 0);
	assert_int_equal(faccessat(area, "verified", F_OK, 0), 0);
	assert_int_equal(check(area, "memory", &e), 0);

	/* Zeros in place of a hole are no damage. */
	assert_int_equal(verify_sum(fd, NULL, &a), 0);
	assert_int_equal(pwrite(fd, "\0\0\0", 3, 5 << 20), 3);
	assert_int_equal(verify_sum(fd, NULL, &b), 0);
	assert_int_equal(a, b);

	(void)nanosleep(&pause, NULL); /* more than a tick of the file system's clock */
	assert_int_equal(pwrite(fd, "j", 1, 1 << 20), 1);
	assert_true(check(area, "memory", &e) < 0);
	assert_int_equal(e.code, ERROR_BAD_SNAPSHOT);
	assert_non_null(strstr(e.message, "rebuild it"));
	assert_int_equal(pwrite(fd, "h", 1, 1 << 20), 1);
	assert_int_equal(check(area, "memory", &e), 0);
	assert_int_equal(ftruncate(fd, (64 << 20) - 1), 0);
	assert_true(check(area, "memory", &e) < 0);
	assert_int_equal(unlinkat(area, "memory", 0), 0);
	assert_true(check(area, "memory", &e) < 0);
	assert_non_null(strstr(e.message, "is missing"));
	(void)close(fd);
}

/* A directory that links a file takes its notes, and one that has another file does not. */
static void test_verify_share(void **state)
{
	int to;

	assert_int_equal(mkdirat(home.fd, "to", 0700), 0);
	to = openat(home.fd, "to", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(file_write_atomic(home.fd, "one", "data", 4, 0600), 0);
	assert_int_equal(linkat(home.fd, "one", to, "one", 0), 0);
	verify_share(to, home.fd, "one"); /* there is nothing yet */
	assert_false(verify_is_current(to, "one"));
	assert_int_equal(verify_record(home.fd, "one", NULL), 0);
	assert_true(verify_is_current(home.fd, "one"));
	verify_share(to, home.fd, "one");
	assert_true(verify_is_current(to, "one"));

	assert_int_equal(file_write_atomic(home.fd, "two", "data", 4, 0600), 0);
	assert_int_equal(verify_record(home.fd, "two", NULL), 0);
	assert_int_equal(file_write_atomic(to, "two", "data", 4, 0600), 0);
	verify_share(to, home.fd, "two");
	assert_false(verify_is_recorded(to, "two"));
	assert_int_equal(unlinkat(to, "one", 0), 0);
	assert_false(verify_is_current(to, "one"));
	assert_int_equal(file_write_atomic(to, "one", "dat", 3, 0600), 0);
	assert_false(verify_is_current(to, "one")); /* but for the notes it would be */
	(void)close(to);			    /* a directory */
}

/* The same bytes at another place are another file. */
static void test_verify_position(void **state)
{
	int fd = openat(home.fd, "m", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	uint32_t a, b;

	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	assert_int_equal(pwrite(fd, "x", 1, 0), 1);
	assert_int_equal(verify_sum(fd, NULL, &a), 0);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	assert_int_equal(pwrite(fd, "x", 1, 1 << 16), 1);
	assert_int_equal(verify_sum(fd, NULL, &b), 0);
	assert_int_not_equal(a, b);
	(void)close(fd);
}

static void test_bad_checksums(void **state)
{
	static const char *const notes[] = {"", "m", "m \n", "m 1\n", "m x y\n", "mm 4 0\n",
		"m 99999999999999999999 00000000\n", "\n\n\nm", "m 4 zz\n"};
	struct error e;

	assert_int_equal(file_write_atomic(home.fd, "m", "data", 4, 0600), 0);
	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
		assert_int_equal(
			file_write_atomic(home.fd, "checksums", notes[i], strlen(notes[i]), 0600),
			0);
		assert_true(check(home.fd, "m", &e) < 0);
		assert_int_equal(e.code, ERROR_BAD_SNAPSHOT);
	}
}

static void test_child(void **state)
{
	const char *echo[] = {"sh", "-c", "printf out; printf 'one\\ntwo\\n' >&2", NULL};
	const char *bad[] = {"sh", "-c", "echo reason >&2; exit 3", NULL};
	const char *full[] = {"sh", "-c", "echo 'x: No space left on device' >&2; exit 1", NULL};
	const char *slow[] = {"sleep", "100", NULL};
	const char *loud[] = {
		"sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x >&2; echo end", NULL};
	const char *none[] = {"no-such-program", NULL};
	const char *env[] = {"sh", "-c", "printf %s \"$MARK\"", NULL};
	const char *extra[] = {"MARK=here", NULL};
	struct child_options o = {.argv = echo};
	struct buf out = BUF_INIT(1 << 20);
	struct error e = {0};
	uint64_t start;

	assert_int_equal(child_run(&o, &out, &e), 0);
	assert_int_equal(buf_len(&out), 3);
	buf_clear(&out);
	o.argv = bad;
	assert_true(child_run(&o, NULL, &e) < 0);
	assert_string_equal(e.message, "sh failed with exit status 3: reason");
	error_clear(&e);
	o.argv = full;
	assert_true(child_run(&o, NULL, &e) < 0);
	assert_int_equal(e.code, ERROR_NO_SPACE);
	error_clear(&e);
	o.argv = none;
	o.remedy = "install it";
	assert_true(child_run(&o, NULL, &e) < 0);
	assert_string_equal(e.message, "the program no-such-program is not installed: install it");
	error_clear(&e);
	o.argv = loud; /* neither pipe may block the other */
	assert_int_equal(child_run(&o, &out, &e), 0);
	assert_int_equal(buf_len(&out), 4);
	buf_clear(&out);
	o.argv = env;
	o.env = extra;
	assert_int_equal(child_run(&o, &out, &e), 0);
	assert_memory_equal(buf_head(&out), "here", 4);
	o.argv = slow;
	o.timeout_ns = 50 * NS_PER_MS;
	start = clock_monotonic_ns();
	assert_true(child_run(&o, NULL, &e) < 0);
	assert_int_equal(e.code, ERROR_TIMEOUT);
	assert_true(clock_monotonic_ns() - start < 5 * NS_PER_S);
	buf_done(&out);
}

static int refuse(void *opaque, const char *line)
{
	return -ECANCELED;
}

static void test_child_cancel(void **state)
{
	const char *argv[] = {"sh", "-c", "echo line >&2; sleep 100", NULL};
	struct child_options o = {.argv = argv, .on_line = refuse};
	struct error e = {0};

	assert_true(child_run(&o, NULL, &e) < 0);
	assert_int_equal(e.err, ECANCELED);
}

static void test_subordinate_ids(void **state)
{
	static const char text[] = "amy:100000:65536\nbob:1:1000\nbob:165536:65536\n"
				   "1002:231072:65536\n\nbobby:5:70000\ncarl:7:65535\n";
	static const char *const bad[] = {"", "bob", "bob:", "bob:5", "bob:5:", "bob::65536",
		"bob:5:x", "bob:5:65536x", "bob:x5:65536", "bob:-5:65536", "bob:0:65536",
		"bob:4294901761:65536", "bob:99999999999999999999:65536", "#bob:5:65536",
		" bob:5:65536", "bob:5\n:65536"};
	unsigned first = 0;

	assert_true(subordinate_range(text, "amy", 1000, 65536, &first));
	assert_int_equal(first, 100000);
	assert_true(subordinate_range(text, "bob", 1001, 65536, &first));
	assert_int_equal(first, 165536); /* the first that is large enough */
	assert_true(subordinate_range(text, "dora", 1002, 65536, &first));
	assert_int_equal(first, 231072); /* by number */
	assert_false(subordinate_range(text, "carl", 1003, 65536, &first));
	assert_true(subordinate_range("bob:4294901759:65536", "bob", 1, 65536, &first));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(subordinate_range(bad[i], "bob", 1001, 65536, &first));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, home_setup, home_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recipe),
		cmocka_unit_test(test_recipe_steps),
		cmocka_unit_test(test_added_packages),
		cmocka_unit_test(test_bad_recipes),
		cmocka_unit_test(test_recipe_limits),
		cmocka_unit_test(test_sources),
		TEST(test_home),
		TEST(test_workdir),
		TEST(test_hold_of_what_is_replaced),
		TEST(test_sweep),
		TEST(test_hold),
		TEST(test_template),
		TEST(test_bad_json),
		TEST(test_verify),
		TEST(test_verify_share),
		TEST(test_verify_position),
		TEST(test_bad_checksums),
		cmocka_unit_test(test_child),
		cmocka_unit_test(test_child_cancel),
		cmocka_unit_test(test_subordinate_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
