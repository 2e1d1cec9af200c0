/* src/store/snapshots: rows of kept states, their names, their pages. */
#include "test.h"

#include "store/db.h"
#include "store/snapshots.h"
#include "store/tags.h"
#include "test_store_fixture.h"

static struct store_snapshot snapshot(const struct fixture *f, char last, const char *name)
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
	struct store_snapshot sn = snapshot(f, last, name);

	ok(f, store_snapshot_insert(f->s, &sn, tag, &f->e));
}

static void test_found_by_id_and_name(void **state)
{
	struct fixture *f = *state;
	struct store_snapshot want = snapshot(f, 'a', "work"), sn = {0};

	ok(f, store_snapshot_insert(f->s, &want, "v1", &f->e));
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
	refused(f, EEXIST, ERROR_EXISTS, store_snapshot_insert(f->s, &want, "v1", &f->e));
}

static int note_tag(void *arg, const struct store_tag *t)
{
	char *seen = arg;

	(void)snprintf(seen + strlen(seen), 64 - strlen(seen), "%s ", t->tag);
	return 0;
}

/* want: the tags of the snapshot of that last character, in the order in which it got them. */
static void assert_tags(struct fixture *f, char last, const char *name, const char *want)
{
	struct store_snapshot sn = snapshot(f, last, name);
	char template[STORE_SNAPSHOT_TEMPLATE_BYTES], seen[64] = "";

	store_snapshot_template(&sn, template);
	ok(f, store_tag_list_of(f->s, template, sn.id, note_tag, seen, &f->e));
	assert_string_equal(seen, want);
}

static void assign(struct fixture *f, char last, const char *name, const char *tag)
{
	struct store_snapshot sn = snapshot(f, last, name);
	char template[STORE_SNAPSHOT_TEMPLATE_BYTES];

	store_snapshot_template(&sn, template);
	ok(f, store_tag_assign(f->s, template, tag, sn.id, T0, &f->e));
}

static void test_the_newest_has_the_tag(void **state)
{
	struct fixture *f = *state;
	struct store_snapshot sn = {0};

	add(f, 'a', "work", "v1");
	add(f, 'b', "work", "v1");
	for (unsigned i = 0; i < 2; i++) { /* of the key, and of any */
		ok(f, store_snapshot_find(f->s, i ? NULL : f->key, "work", "v1", &sn, &f->e));
		assert_int_equal(sn.id[19], 'b');
	}
	ok(f, store_snapshot_find(f->s, f->key, "aaaaaaaaaaaaaaaaaaaa", "", &sn, &f->e));
	assert_string_equal(sn.name, "work");
	assert_tags(f, 'a', "work", "");
	assert_tags(f, 'b', "work", "v1 ");
}

static void test_several_tags(void **state)
{
	struct fixture *f = *state;
	struct store_snapshot sn = {0};
	struct store_tag t;
	char template[STORE_SNAPSHOT_TEMPLATE_BYTES];

	add(f, 'a', "work", "v2");
	add(f, 'b', "work", "default");
	add(f, 'c', "", "default");
	assign(f, 'a', "work", "v1");
	assign(f, 'c', "", "v1");
	fixture_reopen(f);
	assert_tags(f, 'a', "work", "v2 v1 ");
	assert_tags(f, 'b', "work", "default ");
	assert_tags(f, 'c', "", "default v1 ");
	assign(f, 'b', "work", "v2"); /* moves */
	assert_tags(f, 'a', "work", "v1 ");
	ok(f, store_snapshot_find(f->s, f->key, "work", "v2", &sn, &f->e));
	assert_int_equal(sn.id[19], 'b');
	store_snapshot_template(&sn, template);
	ok(f, store_tag_get(f->s, template, "v2", &t, &f->e));
	assert_int_equal(t.build_created_ns, sn.created_ns);
	assert_int_equal(t.build_finished_ns, sn.created_ns);
	ok(f, store_tag_remove(f->s, template, "v2", &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_snapshot_find(f->s, f->key, "work", "v2", &sn, &f->e));
}

static void test_tags_are_bounded(void **state)
{
	struct fixture *f = *state;
	struct store_snapshot sn = snapshot(f, 'b', "work");
	char tag[16];

	add(f, 'a', "work", "default");
	for (unsigned i = 1; i < STORE_TAGS_MAX; i++) {
		(void)snprintf(tag, sizeof(tag), "t%u", i);
		assign(f, 'a', "work", tag);
	}
	refused(f, ENOBUFS, ERROR_TOO_MANY, store_snapshot_insert(f->s, &sn, "more", &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_snapshot_find(f->s, f->key, sn.id, "", &sn, &f->e));
	add(f, 'b', "work", "t1");
}

static void test_malformed_is_refused(void **state)
{
	struct fixture *f = *state;
	struct store_snapshot sn = snapshot(f, 'a', "Work");

	refused(f, EINVAL, ERROR_USAGE, store_snapshot_insert(f->s, &sn, "v1", &f->e));
	sn = snapshot(f, 'a', "work");
	refused(f, EINVAL, ERROR_USAGE, store_snapshot_insert(f->s, &sn, "", &f->e));
	refused(f, EINVAL, ERROR_USAGE, store_snapshot_insert(f->s, &sn, "a/b", &f->e));
	sn = snapshot(f, '/', "");
	refused(f, EINVAL, ERROR_USAGE, store_snapshot_insert(f->s, &sn, "default", &f->e));
	sn = snapshot(f, 'a', "");
	strcpy(sn.key_id, "nobody");
	refused(f, ENOENT, ERROR_NOT_FOUND, store_snapshot_insert(f->s, &sn, "default", &f->e));
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
		add(f, c, c == 'c' ? "work" : "", c == 'c' ? "v1" : "default");
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
	assign(f, 'c', "work", "v2");
	for (unsigned i = 0; i < 3; i++) {
		filter.tag = i == 0 ? "v1" : i == 1 ? "v2" : "v3";
		assert_page(f, &filter, i < 2 ? "c" : "", next);
	}
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
	add(f, 'b', "work", "v1"); /* so the first one is history */
	assign(f, 'b', "work", "v2");
	add(f, 'c', "work", "v3");
	for (unsigned i = 0; i < 2; i++)
		ok(f, store_snapshot_delete(
			      f->s, i ? "aaaaaaaaaaaaaaaaaaab" : "aaaaaaaaaaaaaaaaaaaa", &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_snapshot_delete(f->s, "aaaaaaaaaaaaaaaaaaaa", &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_snapshot_find(f->s, f->key, "work", "v1", &sn, &f->e));
	assert_int_equal(number(f, "SELECT count(*) FROM tags"), 1); /* v3 */
}

/* Before version 25 a snapshot had at most one tag, in its row. */
static void test_old_tags(void **state)
{
	struct fixture *f = *state;
	struct store_snapshot sn;
	char sql[1024];

	(void)snprintf(sql, sizeof(sql),
		"DROP TABLE lockdown; DROP TABLE vault; DROP INDEX keys_maker; ALTER TABLE keys "
		"DROP COLUMN made_by; "
		"DROP INDEX snapshots_name; DROP INDEX tags_build; "
		"ALTER TABLE snapshots ADD COLUMN tag TEXT; "
		"CREATE UNIQUE INDEX snapshots_name ON snapshots (name, tag, key_id) "
		"WHERE name IS NOT NULL;"
		"INSERT INTO snapshots (id, key_id, name, tag, sandbox_id, template_id, "
		"template_alias, created_ns, cpus, memory_bytes, disk_bytes, own_bytes) VALUES "
		"('aaaaaaaaaaaaaaaaaaaa', '%1$s', 'work', 'v1', 'i1', 't', 't', 5, 1, 1, 1, 1), "
		"('aaaaaaaaaaaaaaaaaaab', '%1$s', NULL, NULL, 'i1', 't', 't', 4, 1, 1, 1, 1);"
		"PRAGMA user_version = 24",
		f->key);
	ok(f, db_exec(f->s, sql, &f->e));
	fixture_reopen(f);
	ok(f, store_snapshot_find(f->s, f->key, "work", "v1", &sn, &f->e));
	assert_int_equal(sn.id[19], 'a');
	assert_tags(f, 'a', "work", "v1 ");
	assert_tags(f, 'b', "", "default ");
	assert_int_equal(number(f, "SELECT count(DISTINCT id) FROM tags WHERE id LIKE "
				   "'________-____-4___-8___-____________'"),
		2);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_found_by_id_and_name),
		T(test_the_newest_has_the_tag),
		T(test_several_tags),
		T(test_tags_are_bounded),
		T(test_malformed_is_refused),
		T(test_pages),
		T(test_deletion),
		T(test_old_tags),
	};

	return cmocka_run_group_tests_name("store_snapshots", tests, NULL, NULL);
}
