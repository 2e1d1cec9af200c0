/* src/store/snapshots: rows of kept states, their names, their pages. */
#include "test.h"

#include "store/snapshots.h"
#include "test_store_fixture.h"

static struct store_snapshot snapshot(
	const struct fixture *f, char last, const char *name, const char *tag)
{
	struct store_snapshot sn = {
		.sandbox_id = "i1",
		.template_id = "tmplbase",
		.template_alias = "base",
		.created_ns = T0 + (uint64_t)last,
		.cpus = 2,
		.memory_bytes = UINT64_C(512) << 20,
		.disk_bytes = UINT64_C(1) << 30,
		.own_bytes = 4711,
	};

	(void)snprintf(sn.id, sizeof(sn.id), "aaaaaaaaaaaaaaaaaaa%c", last);
	memcpy(sn.key_id, f->key, sizeof(sn.key_id));
	(void)snprintf(sn.name, sizeof(sn.name), "%s", name);
	(void)snprintf(sn.tag, sizeof(sn.tag), "%s", tag);
	return sn;
}

/* Not all bytes at once: what lies between members may differ. */
static void equal(const struct store_snapshot *a, const struct store_snapshot *b)
{
	assert_memory_equal(
		a, b, offsetof(struct store_snapshot, template_alias) + sizeof(a->template_alias));
	assert_int_equal(a->created_ns, b->created_ns);
	assert_int_equal(a->cpus, b->cpus);
	assert_int_equal(a->memory_bytes, b->memory_bytes);
	assert_int_equal(a->disk_bytes, b->disk_bytes);
	assert_int_equal(a->own_bytes, b->own_bytes);
}

static void add(struct fixture *f, char last, const char *name, const char *tag)
{
	struct store_snapshot sn = snapshot(f, last, name, tag);

	ok(f, store_snapshot_insert(f->s, &sn, &f->e));
}

static void test_found_by_id_and_name(void **state)
{
	struct fixture *f = *state;
	struct store_snapshot want = snapshot(f, 'a', "work", "v1"), sn = {0};

	ok(f, store_snapshot_insert(f->s, &want, &f->e));
	ok(f, store_snapshot_find(f->s, f->key, want.id, "default", &sn, &f->e));
	equal(&sn, &want);
	fixture_reopen(f);
	memset(&sn, 0, sizeof(sn));
	ok(f, store_snapshot_find(f->s, f->key, "work", "v1", &sn, &f->e));
	equal(&sn, &want);
	ok(f, store_snapshot_find(f->s, NULL, "work", "v1", &sn, &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_snapshot_find(f->s, f->key, "work", "v2", &sn, &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_snapshot_find(f->s, "another-key", want.id, "v1", &sn, &f->e));
	refused(f, EEXIST, ERROR_EXISTS, store_snapshot_insert(f->s, &want, &f->e));
}

static void test_the_newest_has_the_name(void **state)
{
	struct fixture *f = *state;
	struct store_snapshot sn = {0};

	add(f, 'a', "work", "v1");
	add(f, 'b', "work", "v1");
	ok(f, store_snapshot_find(f->s, f->key, "work", "v1", &sn, &f->e));
	assert_int_equal(sn.id[19], 'b');
	ok(f, store_snapshot_find(f->s, f->key, "aaaaaaaaaaaaaaaaaaaa", "", &sn, &f->e));
	assert_string_equal(sn.name, "");
	assert_string_equal(sn.tag, "");
}

static void test_a_name_is_taken_away(void **state)
{
	struct fixture *f = *state;
	struct store_snapshot sn = {0};

	add(f, 'a', "work", "v1");
	add(f, 'b', "work", "v2");
	ok(f, store_snapshot_unname(f->s, "another-key", "work", "v1", &f->e));
	ok(f, store_snapshot_unname(f->s, f->key, "work", "v3", &f->e));
	ok(f, store_snapshot_find(f->s, f->key, "work", "v1", &sn, &f->e));
	ok(f, store_snapshot_unname(f->s, f->key, "work", "v1", &f->e));
	fixture_reopen(f);
	ok(f, store_snapshot_find(f->s, f->key, "aaaaaaaaaaaaaaaaaaaa", "", &sn, &f->e));
	assert_string_equal(sn.name, "");
	assert_string_equal(sn.tag, "");
	ok(f, store_snapshot_find(f->s, f->key, "work", "v2", &sn, &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_snapshot_find(f->s, f->key, "work", "v1", &sn, &f->e));
}

static void test_malformed_is_refused(void **state)
{
	struct fixture *f = *state;
	struct store_snapshot sn = snapshot(f, 'a', "Work", "v1");

	refused(f, EINVAL, ERROR_USAGE, store_snapshot_insert(f->s, &sn, &f->e));
	sn = snapshot(f, 'a', "work", "");
	refused(f, EINVAL, ERROR_USAGE, store_snapshot_insert(f->s, &sn, &f->e));
	sn = snapshot(f, 'a', "work", "a/b");
	refused(f, EINVAL, ERROR_USAGE, store_snapshot_insert(f->s, &sn, &f->e));
	sn = snapshot(f, '/', "", "");
	refused(f, EINVAL, ERROR_USAGE, store_snapshot_insert(f->s, &sn, &f->e));
	sn = snapshot(f, 'a', "", "");
	strcpy(sn.key_id, "nobody");
	refused(f, ENOENT, ERROR_NOT_FOUND, store_snapshot_insert(f->s, &sn, &f->e));
}

static int note(void *arg, const struct store_snapshot *sn)
{
	char *seen = arg;

	seen[strlen(seen)] = sn->id[19];
	return 0;
}

static void assert_page(struct fixture *f, struct store_snapshot_filter *filter, const char *want,
	char next[STORE_PAGE_TOKEN_BYTES])
{
	char seen[32] = "";

	ok(f, store_snapshot_list(f->s, filter, note, seen, next, &f->e));
	assert_string_equal(seen, want);
}

static void test_pages(void **state)
{
	struct fixture *f = *state;
	struct store_snapshot_filter filter = {.key_id = f->key, .limit = 2};
	char next[STORE_PAGE_TOKEN_BYTES], token[STORE_PAGE_TOKEN_BYTES];

	for (char c = 'a'; c <= 'e'; c++)
		add(f, c, c == 'c' ? "work" : "", c == 'c' ? "v1" : "");
	assert_page(f, &filter, "ed", next);
	assert_true(*next);
	memcpy(token, next, sizeof(token));
	filter.token = token;
	assert_page(f, &filter, "cb", next);
	memcpy(token, next, sizeof(token));
	assert_page(f, &filter, "a", next);
	assert_string_equal(next, "");
	filter = (struct store_snapshot_filter){.name = "work", .limit = 9};
	assert_page(f, &filter, "c", next);
	filter = (struct store_snapshot_filter){.sandbox_id = "i2", .limit = 9};
	assert_page(f, &filter, "", next);
	filter.token = "rubbish";
	refused(f, EINVAL, ERROR_USAGE,
		store_snapshot_list(f->s, &filter, note, token, next, &f->e));
}

static void test_deletion(void **state)
{
	struct fixture *f = *state;
	struct store_snapshot sn;

	add(f, 'a', "work", "v1");
	ok(f, store_snapshot_delete(f->s, "aaaaaaaaaaaaaaaaaaaa", &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_snapshot_delete(f->s, "aaaaaaaaaaaaaaaaaaaa", &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_snapshot_find(f->s, f->key, "work", "v1", &sn, &f->e));
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_found_by_id_and_name),
		T(test_the_newest_has_the_name),
		T(test_a_name_is_taken_away),
		T(test_malformed_is_refused),
		T(test_pages),
		T(test_deletion),
	};

	return cmocka_run_group_tests_name("store_snapshots", tests, NULL, NULL);
}
