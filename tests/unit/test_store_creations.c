/* src/store/creations: found again for a day, replaced, and bounded per key. */
#include "test.h"

#include "store/creations.h"
#include "store/db.h"
#include "test_store_fixture.h"

static struct store_creation creation(const char *word, uint8_t hash)
{
	struct store_creation c = {0};

	(void)snprintf(c.word, sizeof(c.word), "%s", word);
	memset(c.hash, hash, sizeof(c.hash));
	return c;
}

static void add(struct fixture *f, const char *word, uint8_t hash, const char *id, uint64_t ns)
{
	struct store_creation c = creation(word, hash);

	ok(f, store_creation_add(f->s, f->key, &c, id, ns, &f->e));
}

static void found(struct fixture *f, const char *word, uint8_t hash, const char *id, uint64_t ns)
{
	struct store_creation want = creation(word, hash), got = {0};
	char sandbox_id[STORE_ID_MAX + 1];

	ok(f, store_creation_find(f->s, f->key, word, ns, got.hash, sandbox_id, &f->e));
	assert_memory_equal(want.hash, got.hash, sizeof(got.hash));
	assert_string_equal(sandbox_id, id);
}

static void missing(struct fixture *f, const char *key_id, const char *word, uint64_t ns)
{
	struct store_creation got;
	char id[STORE_ID_MAX + 1];

	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_creation_find(f->s, key_id, word, ns, got.hash, id, &f->e));
}

static void test_found_for_its_life(void **state)
{
	struct fixture *f = *state;

	missing(f, f->key, "one", T0);
	add(f, "one", 1, "i1", T0);
	fixture_reopen(f);
	found(f, "one", 1, "i1", T0 + 1);
	found(f, "one", 1, "i1", T0 + STORE_CREATION_LIFE_NS - 1);
	missing(f, f->key, "one", T0 + STORE_CREATION_LIFE_NS);
	missing(f, "another-key", "one", T0 + 1);
	missing(f, f->key, "two", T0 + 1);
	add(f, "one", 2, "i2", T0 + STORE_CREATION_LIFE_NS);
	found(f, "one", 2, "i2", T0 + STORE_CREATION_LIFE_NS + 1);
}

static uint64_t count(struct fixture *f)
{
	uint64_t n = 0;
	struct query q = db_query_once(f->s, "SELECT count(*) FROM creations");

	ok(f, query_number(&q, &n, &f->e));
	return n;
}

static void test_old_ones_go(void **state)
{
	struct fixture *f = *state;
	bool more = true;

	for (unsigned i = 0; i < 500; i++) {
		char word[16];

		(void)snprintf(word, sizeof(word), "w-%u", i);
		add(f, word, 1, "i1", T0 + i);
	}
	while (more)
		ok(f, store_maintain(f->s, T0 + 250 + STORE_CREATION_LIFE_NS, NULL, &more, &f->e));
	assert_int_equal(count(f), 250);
}

static void test_bounded(void **state)
{
	struct fixture *f = *state;

	ok(f, store_begin(f->s, &f->e));
	for (unsigned i = 0; i < STORE_CREATIONS_MAX + 5; i++) {
		char word[16];

		(void)snprintf(word, sizeof(word), "w-%u", i);
		add(f, word, 1, "i1", T0);
	}
	ok(f, store_commit(f->s, &f->e));
	assert_int_equal(count(f), STORE_CREATIONS_MAX);
	missing(f, f->key, "w-4", T0 + 1);
	found(f, "w-5", 1, "i1", T0 + 1);
}

static void test_with_the_batch(void **state)
{
	struct fixture *f = *state;

	ok(f, store_begin(f->s, &f->e));
	add(f, "one", 1, "i1", T0);
	store_rollback(f->s);
	missing(f, f->key, "one", T0 + 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_found_for_its_life),
		T(test_old_ones_go),
		T(test_bounded),
		T(test_with_the_batch),
	};

	return cmocka_run_group_tests_name("store_creations", tests, NULL, NULL);
}
