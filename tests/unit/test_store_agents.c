/* src/store/agents, src/store/agent_versions: names and numbers, versions that never change,
 * aliases, and what is bounded. */
#include "test.h"

#include "store/agent_versions.h"
#include "store/agents.h"
#include "store/builds.h"
#include "store/db.h"
#include "store/tags.h"
#include "test_store_fixture.h"

static struct store_agent put(struct fixture *f, const char *name)
{
	struct store_agent a = {0};

	ok(f, store_agent_put(f->s, f->key, name, T0, &a, &f->e));
	return a;
}

/* A version of a build of its own. */
static uint32_t add(struct fixture *f, const struct store_agent *a)
{
	struct store_agent_version *v = calloc(1, sizeof(*v));
	uint32_t number = 0;

	assert_non_null(v);
	strcpy(v->agent_id, a->id);
	assert_int_equal(str_random_uuid(v->build_id), 0);
	strcpy(v->env_json, "{\"A\":\"1\"}");
	strcpy(v->secrets_json, "{}");
	v->cpus = 2;
	v->memory_mb = 2048;
	v->disk_mb = 10240;
	v->timeout_s = 120;
	v->concurrency = 3;
	v->created_ns = T0 + 1;
	ok(f, store_agent_version_add(f->s, v, &number, &f->e));
	free(v);
	return number;
}

/* Valid until the next call. */
static struct store_agent_version *get(struct fixture *f, const struct store_agent *a, uint32_t n)
{
	static struct store_agent_version v;

	ok(f, store_agent_version_get(f->s, a->id, n, &v, &f->e));
	return &v;
}

static void finish(struct fixture *f, const struct store_agent *a, uint32_t n)
{
	struct store_agent_version *v = get(f, a, n);

	v->finished_ns = T0 + 2;
	v->timeout_s = 60;
	v->concurrency++;
	v->protocol = STORE_AGENT_HTTP;
	strcpy(v->kind, "node");
	strcpy(v->entry, "exec node main.js");
	strcpy(v->dir, "/app");
	strcpy(v->user, "user");
	ok(f, store_agent_version_ready(f->s, v, &f->e));
}

static void test_names(void **state)
{
	struct fixture *f = *state;
	struct store_agent a = put(f, "echo"), again = put(f, "echo"), found = {0};
	unsigned n = 0;

	assert_string_equal(a.id, again.id);
	assert_int_equal(a.current, 0);
	(void)put(f, "another");
	fixture_reopen(f);
	ok(f, store_agent_find(f->s, f->key, "echo", &found, &f->e));
	assert_string_equal(found.id, a.id);
	refused(f, ENOENT, ERROR_NOT_FOUND, store_agent_find(f->s, "x", "echo", &found, &f->e));
	ok(f, store_agent_list(f->s, f->key,
		      (int (*)(void *, const struct store_agent *))fixture_count, &n, &f->e));
	assert_int_equal(n, 2);
}

static void test_versions(void **state)
{
	struct fixture *f = *state;
	struct store_agent a = put(f, "echo");
	struct store_agent_version *v, of = {0};
	uint64_t n = 0;

	assert_int_equal(add(f, &a), 1);
	assert_int_equal(add(f, &a), 2);
	v = get(f, &a, 1);
	assert_int_equal(v->state, STORE_AGENT_BUILDING);
	assert_string_equal(v->env_json, "{\"A\":\"1\"}");
	assert_int_equal(v->memory_mb, 2048);
	assert_int_equal(v->concurrency, 3);
	finish(f, &a, 1);
	fixture_reopen(f);
	v = get(f, &a, 1);
	assert_int_equal(v->state, STORE_AGENT_READY);
	assert_int_equal(v->protocol, STORE_AGENT_HTTP);
	assert_string_equal(v->entry, "exec node main.js");
	assert_string_equal(v->dir, "/app");
	assert_int_equal(v->timeout_s, 60);
	assert_int_equal(v->concurrency, 4);
	ok(f, store_agent_version_of_build(f->s, v->build_id, &of, &f->e));
	assert_int_equal(of.number, 1);
	/* what is ready does not change */
	refused(f, ENOENT, ERROR_NOT_FOUND, store_agent_version_ready(f->s, v, &f->e));
	ok(f, store_agent_version_count(f->s, a.id, STORE_AGENT_READY, &n, &f->e));
	assert_int_equal(n, 1);
	ok(f, store_agent_set_current(f->s, a.id, 1, T0 + 3, &f->e));
	ok(f, store_agent_get(f->s, a.id, &a, &f->e));
	assert_int_equal(a.current, 1);
	assert_int_equal(a.last, 2);
}

static void test_restart_fails_what_builds(void **state)
{
	struct fixture *f = *state;
	struct store_agent a = put(f, "echo");

	(void)add(f, &a);
	(void)add(f, &a);
	finish(f, &a, 1);
	ok(f, store_agent_fail_open(f->s, T0 + 9, "restarted", &f->e));
	assert_int_equal(get(f, &a, 1)->state, STORE_AGENT_READY);
	assert_int_equal(get(f, &a, 2)->state, STORE_AGENT_FAILED);
	assert_string_equal(get(f, &a, 2)->reason, "restarted");
	assert_string_equal(get(f, &a, 2)->env_json, "{}");
	assert_string_equal(get(f, &a, 1)->env_json, "{\"A\":\"1\"}");
	ok(f, store_agent_version_end(
		      f->s, a.id, 1, STORE_AGENT_RETIRED, T0 + 9, "old", "", &f->e));
	assert_string_equal(get(f, &a, 1)->env_json, "{}");
	assert_string_equal(get(f, &a, 1)->secrets_json, "{}");
}

/* What a snapshot has is kept with its version, and goes with it. */
static void test_warm(void **state)
{
	struct fixture *f = *state;
	struct store_agent a = put(f, "echo");
	char placeholders[] = "{\"KEY\":\"sk-1\"}", authority[] = "sealed", none[] = "[]";
	char network[] = "{\"network\":{\"allowOut\":[]}}";
	struct store_agent_warm w = {placeholders, authority, network}, bad = {none}, got = {0};

	assert_int_equal(add(f, &a), 1);
	ok(f, store_agent_warm_get(f->s, a.id, 1, &got, &f->e));
	assert_null(got.placeholders_json);
	assert_null(got.authority);
	assert_null(got.network_json);
	refused(f, EINVAL, ERROR_USAGE,
		store_agent_warm_set(f->s, get(f, &a, 1)->build_id, &bad, &f->e));
	ok(f, store_agent_warm_set(f->s, get(f, &a, 1)->build_id, &w, &f->e));
	finish(f, &a, 1);
	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_agent_warm_set(f->s, get(f, &a, 1)->build_id, &w, &f->e));
	ok(f, store_agent_warm_get(f->s, a.id, 1, &got, &f->e));
	assert_string_equal(got.placeholders_json, placeholders);
	assert_string_equal(got.authority, authority);
	assert_string_equal(got.network_json, network);
	store_agent_warm_done(&got);
	ok(f, store_agent_version_end(
		      f->s, a.id, 1, STORE_AGENT_RETIRED, T0 + 9, "old", "", &f->e));
	ok(f, store_agent_warm_get(f->s, a.id, 1, &got, &f->e));
	assert_null(got.placeholders_json);
	assert_null(got.authority);
	assert_null(got.network_json);
	refused(f, ENOENT, ERROR_NOT_FOUND, store_agent_warm_get(f->s, a.id, 2, &got, &f->e));
}

static int newest(void *arg, const struct store_agent_version *v)
{
	uint32_t *numbers = arg;

	numbers[++numbers[0]] = v->number;
	return 0;
}

/* Old ones that ended go; one that is ready stays whatever its age. */
static void test_versions_are_bounded(void **state)
{
	struct fixture *f = *state;
	struct store_agent a = put(f, "echo");
	struct store_agent_version v = {0};
	uint32_t numbers[4] = {0};

	(void)add(f, &a);
	finish(f, &a, 1);
	for (unsigned i = 0; i < STORE_AGENT_VERSIONS_KEPT + 5; i++) {
		uint32_t n = add(f, &a);

		ok(f, store_agent_version_end(
			      f->s, a.id, n, STORE_AGENT_FAILED, T0 + 5, "why", "npm ci", &f->e));
	}
	assert_int_equal(get(f, &a, 1)->state, STORE_AGENT_READY);
	refused(f, ENOENT, ERROR_NOT_FOUND, store_agent_version_get(f->s, a.id, 2, &v, &f->e));
	ok(f, store_agent_version_list(f->s, a.id, 50, 2, newest, numbers, &f->e));
	assert_int_equal(numbers[1], 49);
	assert_int_equal(numbers[2], 48);
}

static void test_agents_are_bounded(void **state)
{
	struct fixture *f = *state;
	struct store_agent a;

	ok(f, store_begin(f->s, &f->e));
	for (unsigned i = 0; i < STORE_AGENTS_MAX; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "a-%u", i);
		(void)put(f, name);
	}
	refused(f, ENOBUFS, ERROR_TOO_MANY, store_agent_put(f->s, f->key, "more", T0, &a, &f->e));
	(void)put(f, "a-1");
	ok(f, store_commit(f->s, &f->e));
}

static void test_aliases(void **state)
{
	struct fixture *f = *state;
	struct store_agent a = put(f, "echo");
	char weights[STORE_AGENT_WEIGHTS_MAX + 1], name[16];

	ok(f, store_agent_alias_put(f->s, a.id, "canary", "{\"1\":90,\"2\":10}", &f->e));
	ok(f, store_agent_alias_put(f->s, a.id, "canary", "{\"2\":100}", &f->e));
	ok(f, store_agent_alias_get(f->s, a.id, "canary", weights, &f->e));
	assert_string_equal(weights, "{\"2\":100}");
	refused(f, EINVAL, ERROR_USAGE, store_agent_alias_put(f->s, a.id, "canary", "[]", &f->e));
	for (unsigned i = 1; i < STORE_AGENT_ALIASES_MAX; i++) {
		(void)snprintf(name, sizeof(name), "a-%u", i);
		ok(f, store_agent_alias_put(f->s, a.id, name, "{\"1\":1}", &f->e));
	}
	refused(f, ENOBUFS, ERROR_TOO_MANY,
		store_agent_alias_put(f->s, a.id, "more", "{\"1\":1}", &f->e));
	ok(f, store_agent_alias_remove(f->s, a.id, "canary", &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_agent_alias_get(f->s, a.id, "canary", weights, &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND, store_agent_alias_remove(f->s, a.id, "canary", &f->e));
}

static uint64_t rows(struct fixture *f, const char *sql)
{
	uint64_t n = 0;
	struct query q = db_query_once(f->s, sql);

	ok(f, query_number(&q, &n, &f->e));
	query_done(&q);
	return n;
}

/* Nothing of it stays, nothing of others goes. */
static void test_remove(void **state)
{
	struct fixture *f = *state;
	struct store_agent a = put(f, "echo"), other = put(f, "other");
	struct store_build b = {.cpus = 2, .memory_mb = 512, .created_ns = T0};

	strcpy(b.template_id, a.id);
	strcpy(b.key_id, f->key);
	strcpy(b.tags_json, "[\"v1\"]");
	ok(f, store_build_add(f->s, &b, b.id, &f->e));
	ok(f, store_tag_assign(f->s, a.id, "v1", b.id, T0, &f->e));
	(void)add(f, &a);
	(void)add(f, &other);
	ok(f, store_agent_alias_put(f->s, a.id, "prod", "{\"1\":1}", &f->e));
	ok(f, store_agent_remove(f->s, a.id, &f->e));
	assert_int_equal(rows(f, "SELECT count(*) FROM agents"), 1);
	assert_int_equal(rows(f, "SELECT count(*) FROM agent_versions"), 1);
	assert_int_equal(rows(f, "SELECT count(*) FROM agent_aliases"), 0);
	assert_int_equal(rows(f, "SELECT count(*) FROM builds"), 0);
	assert_int_equal(rows(f, "SELECT count(*) FROM tags"), 0);
	assert_int_equal(get(f, &other, 1)->number, 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_names),
		T(test_versions),
		T(test_restart_fails_what_builds),
		T(test_warm),
		T(test_versions_are_bounded),
		T(test_agents_are_bounded),
		T(test_aliases),
		T(test_remove),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
