/* src/agent/env_files: the variables that name the sandbox, as files. */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/env_files.h"
#include "base/cleanup.h"
#include "base/file.h"

static const char *const names[] = {".E2B_SANDBOX", ".E2B_SANDBOX_ID", ".E2B_TEMPLATE_ID"};

struct place {
	char top[32], dir[40];
};

static void place_init(struct place *p)
{
	strcpy(p->top, "/tmp/test-env-files.XXXXXX");
	assert_non_null(mkdtemp(p->top));
	(void)snprintf(p->dir, sizeof(p->dir), "%s/e2b", p->top);
}

static void place_done(struct place *p)
{
	assert_int_equal(file_remove_tree(AT_FDCWD, p->top), 0);
}

static int write_env(const struct place *p, const char *const *env, uint32_t count)
{
	const struct agent_strings s = {.array = env, .count = count};

	return env_files_write(p->dir, &s);
}

/* Returns the inode of a file with this text, 0 if there is none. */
static ino_t holds(const struct place *p, const char *name, const char *want)
{
	char path[80], text[64] = "";
	struct stat st;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", p->dir, name);
	f = fopen(path, "re");
	if (!f)
		return 0;
	assert_true(fread(text, 1, sizeof(text) - 1, f) < sizeof(text) - 1);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(text, want);
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0444);
	return st.st_ino;
}

static void test_files(void **state)
{
	static const char *const first[] = {"A=b", "E2B_SANDBOX=true", "E2B_SANDBOX_ID=i1",
		"E2B_TEMPLATE_ID=base", "E2B_SANDBOX_IDS=x", "E2B_SANDBOX"};
	static const char *const fork[] = {
		"E2B_SANDBOX=true", "E2B_SANDBOX_ID=i2", "E2B_TEMPLATE_ID=base"};
	struct place p;
	ino_t was[3];

	place_init(&p);
	assert_int_equal(write_env(&p, first, ARRAY_SIZE(first)), 0);
	was[0] = holds(&p, names[0], "true");
	was[1] = holds(&p, names[1], "i1");
	was[2] = holds(&p, names[2], "base");
	assert_true(was[0] && was[1] && was[2]);
	assert_int_equal(write_env(&p, first, ARRAY_SIZE(first)), 0);
	assert_true(holds(&p, names[1], "i1") == was[1]); /* as it was */
	assert_int_equal(write_env(&p, fork, ARRAY_SIZE(fork)), 0);
	assert_true(holds(&p, names[0], "true") == was[0]);
	assert_true(holds(&p, names[1], "i2") != 0);
	place_done(&p);
}

/* Nothing is written through links, and without variables there is nothing but the directory. */
static void test_links(void **state)
{
	static const char *const env[] = {"E2B_SANDBOX=true"};
	char link[80], target[64];
	struct place p;

	place_init(&p);
	assert_int_equal(write_env(&p, NULL, 0), 0);
	assert_int_equal(holds(&p, names[0], ""), 0);
	(void)snprintf(link, sizeof(link), "%s/%s", p.dir, names[0]);
	(void)snprintf(target, sizeof(target), "%s/target", p.top);
	assert_int_equal(symlink(target, link), 0);
	assert_int_equal(write_env(&p, env, 1), 0);
	assert_true(holds(&p, names[0], "true") != 0);
	assert_int_equal(access(target, F_OK), -1);
	place_done(&p);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_links),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
