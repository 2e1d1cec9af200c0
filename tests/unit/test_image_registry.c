/* What clients of registries say, and archives that they leave. */
#include "test.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "image/registry.h"

static char dir[64], archive_path[96], to[96];

static int set_up(void **state)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/test-registry-XXXXXX");
	assert_non_null(mkdtemp(dir));
	(void)snprintf(archive_path, sizeof(archive_path), "%s/a.jar", dir);
	(void)snprintf(to, sizeof(to), "%s/tree", dir);
	return 0;
}

static int tear_down(void **state)
{
	return file_remove_tree(AT_FDCWD, dir);
}

static void test_reasons(void **state)
{
	static const struct {
		const char *output, *reason;
	} cases[] = {
		{"npm error code ECONNREFUSED\nnpm error syscall connect\n"
		 "npm error FetchError: request to http://x/y failed, reason: refused\nnpm error "
		 "}\n",
			"request to http://x/y failed, reason: refused"},
		{"npm error code E404\nnpm error 404 Not Found - GET http://x/y - Not found\n",
			"404 Not Found - GET http://x/y - Not found"},
		{"npm ERR! code ETARGET\nnpm ERR! notarget No matching version found for a@9.\n",
			"No matching version found for a@9."},
		{"\n[ERROR] Failed to execute goal g:p:copy on project x: Unable to find artifact. "
		 "Could not find artifact g:a:jar:1 in central (http://x) -> [Help 1]\n[ERROR] \n",
			"Could not find artifact g:a:jar:1 in central (http://x)"},
		{"[ERROR] Plugin g:p or one of its dependencies: Could not transfer artifact g:p "
		 "from/to none (http://x): refused -> [Help 1]\n",
			"Could not transfer artifact g:p from/to none (http://x): refused"},
		{"one\r\ntwo\n", "one"},
		{"", ""},
	};
	char reason[REGISTRY_REASON_MAX], *longer = malloc(5000);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		registry_reason(cases[i].output, reason);
		assert_string_equal(reason, cases[i].reason);
	}
	memset(longer, 'x', 4999);
	longer[4999] = '\0';
	registry_reason(longer, reason);
	assert_int_equal(strlen(reason), REGISTRY_REASON_MAX - 1);
	free(longer);
}

struct file {
	const char *path, *content, *link;
};

/* A zip of files that ends with a NULL path. */
static void make_archive(const struct file *files)
{
	struct archive *a = archive_write_new();

	assert_int_equal(archive_write_set_format_zip(a), ARCHIVE_OK);
	assert_int_equal(archive_write_open_filename(a, archive_path), ARCHIVE_OK);
	for (; files->path; files++) {
		struct archive_entry *entry = archive_entry_new();
		size_t n = files->link ? 0 : strlen(files->content);

		archive_entry_set_pathname(entry, files->path);
		archive_entry_set_mtime(entry, 1000000000, 0);
		archive_entry_set_perm(entry, 0644);
		archive_entry_set_filetype(entry, files->link ? AE_IFLNK : AE_IFREG);
		if (files->link)
			archive_entry_set_symlink(entry, files->link);
		else
			archive_entry_set_size(entry, (la_int64_t)n);
		assert_int_equal(archive_write_header(a, entry), ARCHIVE_OK);
		if (n)
			assert_int_equal(archive_write_data(a, files->content, n), n);
		archive_entry_free(entry);
	}
	assert_int_equal(archive_write_free(a), ARCHIVE_OK);
}

static void assert_content(const char *name, const char *wanted)
{
	char path[160], *text = NULL;

	(void)snprintf(path, sizeof(path), "%s/%s", to, name);
	assert_int_equal(file_read(AT_FDCWD, path, 4096, &text, NULL), 0);
	assert_string_equal(text, wanted);
	free(text);
}

static void test_unpack(void **state)
{
	static const struct file files[] = {{"META-INF/x", "x", NULL},
		{"a/b/bin/p", "program", NULL}, {"./a/b/lib/deep/er/f", "", NULL},
		{"a/bc/other", "no", NULL}, {"a/b/link", NULL, "/etc/passwd"}, {NULL, NULL, NULL}};
	struct error e = {0};
	char path[160];

	make_archive(files);
	assert_int_equal(registry_unpack(parse, archive_path, "a/b", to, &e), 0);
	assert_content("bin/p", "program");
	assert_content("lib/deep/er/f", "");
	for (const char *const *p = (const char *const[]){"link", "x", "other", "c/other", NULL};
		*p; p++) {
		(void)snprintf(path, sizeof(path), "%s/%s", to, *p);
		assert_true(access(path, F_OK) < 0);
	}
}

static void check_refused(const struct file *files, const char *message)
{
	struct error e = {0};

	make_archive(files);
	assert_true(registry_unpack(parse, archive_path, "a", to, &e) < 0);
	assert_int_equal(e.code, ERROR_BAD_IMAGE);
	if (!strstr(e.message, message))
		fail_msg("'%s' lacks '%s'", e.message, message);
}

static void test_bad_archives(void **state)
{
	static const struct file out[] = {{"a/../../../out", "x", NULL}, {NULL, NULL, NULL}};
	static const struct file absolute[] = {{"a//etc/out", "x", NULL}, {NULL, NULL, NULL}};
	static const struct file twice[] = {
		{"a/f", "1", NULL}, {"a/f", "2", NULL}, {NULL, NULL, NULL}};
	static const struct file nothing[] = {
		{"b/f", "1", NULL}, {"a", "2", NULL}, {NULL, NULL, NULL}};
	struct error e = {0};

	check_refused(out, "damaged");
	check_refused(absolute, "damaged");
	check_refused(twice, "damaged");
	check_refused(nothing, "has nothing below a");
	assert_int_equal(file_write_atomic(AT_FDCWD, archive_path, "PK\3\4junk", 8, 0644), 0);
	assert_true(registry_unpack(parse, archive_path, "a", to, &e) < 0);
	assert_int_equal(e.code, ERROR_BAD_IMAGE);
	error_clear(&e);
	assert_true(registry_unpack(parse, "/does/not/exist", "a", to, &e) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reasons),
		cmocka_unit_test_setup_teardown(test_unpack, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_bad_archives, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
