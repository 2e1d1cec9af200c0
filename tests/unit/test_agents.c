/* src/agents/agents: what a name, an alias or a version leads to, and uses that hold versions. */
#include "test.h"

#include "agents/agents.h"
#include "agents/agents_internal.h"
#include "agents/move.h"
#include "fleet/fleet.h"
#include "test_store_fixture.h"

struct hosted {
	struct fixture *f;
	struct fleet fleet;
	struct agents agents;
	struct store_agent agent;
};

/* An agent with versions 1 to 3, of which 3 builds; 2 is current. */
static int setup(void **state)
{
	struct hosted *h = calloc(1, sizeof(*h));
	struct store_agent_version *v = calloc(1, sizeof(*v));
	void *f;

	assert_non_null(h);
	assert_non_null(v);
	assert_int_equal(fixture_setup(&f), 0);
	h->f = f;
	h->fleet.store = h->f->s;
	h->fleet.agents = &h->agents;
	ok(h->f, store_agent_put(h->f->s, h->f->key, "echo", T0, &h->agent, &h->f->e));
	for (unsigned i = 0; i < 3; i++) {
		strcpy(v->agent_id, h->agent.id);
		assert_int_equal(str_random_uuid(v->build_id), 0);
		strcpy(v->env_json, "{}");
		strcpy(v->secrets_json, "{}");
		ok(h->f, store_agent_version_add(h->f->s, v, &v->number, &h->f->e));
		if (i < 2)
			ok(h->f, store_agent_version_ready(h->f->s, v, &h->f->e));
	}
	ok(h->f, store_agent_set_current(h->f->s, h->agent.id, 2, T0, &h->f->e));
	ok(h->f, store_agent_get(h->f->s, h->agent.id, &h->agent, &h->f->e));
	free(v);
	*state = h;
	return 0;
}

static int teardown(void **state)
{
	struct hosted *h = *state;
	void *f = h->f;

	(void)fixture_teardown(&f); /* 0 */
	free(h);
	return 0;
}

/* The version that a word leads to; 0: none, with the error. */
static uint32_t find(struct hosted *h, const char *word)
{
	static struct store_agent_version v;
	struct store_agent a;
	struct agent_ref ref;
	const char *reason;

	error_clear(&h->f->e);
	assert_int_equal(agent_ref_parse(word, &ref, &reason), 0);
	return agents_find(&h->fleet, h->f->key, &ref, NULL, &a, &v, &h->f->e) == 0 ? v.number : 0;
}

static void test_words(void **state)
{
	static const char *const bad[] = {"", ":x", "a b", "team/a", "a:", "a:B", "a:b c", "a@",
		"a@0", "a@x", "a@-1", "a@4294967296", "a:b@1"};
	struct agent_ref ref;
	const char *reason;

	assert_int_equal(agent_ref_parse("a b", &ref, &reason), -EINVAL);
	assert_string_equal(reason, "an agent's name must be of a-z 0-9 _ -");
	assert_int_equal(agent_ref_parse("Echo", &ref, &reason), 0);
	assert_string_equal(ref.name, "echo");
	assert_int_equal(agent_ref_parse("echo:canary", &ref, &reason), 0);
	assert_string_equal(ref.alias, "canary");
	assert_int_equal(agent_ref_parse("echo@31", &ref, &reason), 0);
	assert_int_equal(ref.version, 31);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		reason = NULL;
		if (agent_ref_parse(bad[i], &ref, &reason) != -EINVAL || !reason)
			fail_msg("'%s' is taken", bad[i]);
	}
}

static void test_what_is_named(void **state)
{
	struct hosted *h = *state;

	assert_int_equal(find(h, "echo"), 2);
	assert_int_equal(find(h, "echo@1"), 1);
	assert_int_equal(find(h, "echo@3"), 0);
	assert_non_null(strstr(h->f->e.message, "builds"));
	assert_int_equal(find(h, "echo@4"), 0);
	assert_int_equal(h->f->e.code, ERROR_NOT_FOUND);
	assert_int_equal(find(h, "echo:none"), 0);
	assert_int_equal(find(h, "other"), 0);
	assert_non_null(strstr(h->f->e.message, "'other'"));
	ok(h->f, store_agent_set_current(h->f->s, h->agent.id, 0, T0, &h->f->e));
	assert_int_equal(find(h, "echo"), 0);
	assert_non_null(strstr(h->f->e.message, "first one is being built"));
}

/* Each version of an alias comes as often as its weight says. */
static void test_weights(void **state)
{
	struct hosted *h = *state;
	json_t *weights = json_pack("{s:i, s:i}", "1", 3, "2", 1);
	unsigned first = 0, n = 2000;

	ok(h->f, agents_set_alias(&h->fleet, &h->agent, "canary", weights, &h->f->e));
	for (unsigned i = 0; i < n; i++) {
		uint32_t v = find(h, "echo:canary");

		assert_true(v == 1 || v == 2);
		first += v == 1;
	}
	assert_in_range(first, n * 65 / 100, n * 85 / 100);
	json_decref(weights);
	weights = json_pack("{s:i, s:i}", "1", 0, "2", 7);
	ok(h->f, agents_set_alias(&h->fleet, &h->agent, "canary", weights, &h->f->e));
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(find(h, "echo:canary"), 2);
	json_decref(weights);
	weights = json_pack("{s:i}", "3", 1); /* it builds */
	assert_true(agents_set_alias(&h->fleet, &h->agent, "canary", weights, &h->f->e) < 0);
	json_decref(weights);
}

static void test_holds(void **state)
{
	struct hosted *h = *state;
	static struct store_agent_version v;

	ok(h->f, store_agent_version_get(h->f->s, h->agent.id, 1, &v, &h->f->e));
	assert_false(agents_is_held(&h->fleet, v.build_id));
	assert_int_equal(agents_hold(&h->fleet, v.build_id), 0);
	assert_int_equal(agents_hold(&h->fleet, v.build_id), 0);
	assert_int_equal(agents_hold(&h->fleet, "another"), 0);
	agents_release(&h->fleet, v.build_id);
	assert_true(agents_is_held(&h->fleet, v.build_id));
	agents_release(&h->fleet, v.build_id);
	assert_false(agents_is_held(&h->fleet, v.build_id));
	assert_true(agents_is_held(&h->fleet, "another"));
	agents_release(&h->fleet, "none"); /* does nothing */
	while (h->agents.holds) {
		struct version_use *next = h->agents.holds->next;

		free(h->agents.holds);
		h->agents.holds = next;
	}
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		T(test_what_is_named),
		T(test_weights),
		T(test_holds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
