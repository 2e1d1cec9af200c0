/* src/store at 100,000 sandboxes: every statement finds its rows through an index, and what a call
 * costs (the table in docs/store.md is what this prints). */
#include "test.h"

#include <sys/stat.h>

#include "store/activity.h"
#include "store/approvals.h"
#include "store/builds.h"
#include "store/agent_versions.h"
#include "store/budgets.h"
#include "store/agents.h"
#include "store/invocations.h"
#include "store/catalog.h"
#include "store/creations.h"
#include "store/db.h"
#include "store/events.h"
#include "store/kept.h"
#include "store/lockdown.h"
#include "store/samples.h"
#include "store/secrets.h"
#include "store/signers.h"
#include "store/snapshots.h"
#include "store/tags.h"
#include "store/templates.h"
#include "store/tiers.h"
#include "store/usage.h"
#include "store/webhooks.h"
#include "test_store_fixture.h"

enum { SANDBOXES = 100000, CALLS = 2000, PAGES = 200, STATEMENTS_MAX = 512 };

/* ---- every statement that the calls below run ---- */

struct statements {
	char *sql[STATEMENTS_MAX];
	unsigned count;
};

static int collect(unsigned type, void *arg, void *stmt, void *text)
{
	struct statements *all = arg;
	const char *sql = sqlite3_sql(stmt);

	if (((const char *)text)[0] == '-') /* a trigger or a part of a statement */
		return 0;
	for (unsigned i = 0; i < all->count; i++)
		if (strcmp(all->sql[i], sql) == 0)
			return 0;
	assert_true(all->count < STATEMENTS_MAX);
	all->sql[all->count++] = strdup(sql);
	return 0;
}

static int ignore_row(void *arg, const void *row)
{
	return 0;
}

static int ignore_key(void *arg, const struct store_key *k)
{
	return ignore_row(arg, k);
}

static int ignore_team(void *arg, const struct store_team *t)
{
	return ignore_row(arg, t);
}

static int ignore_tier(void *arg, const struct store_tier *t)
{
	return ignore_row(arg, t);
}

static int ignore_sandbox(void *arg, const struct store_sandbox *sb)
{
	return ignore_row(arg, sb);
}

static int ignore_event(void *arg, const struct store_event *ev)
{
	return ignore_row(arg, ev);
}

static int ignore_activity(void *arg, const struct store_activity *a)
{
	return ignore_row(arg, a);
}

static int ignore_sample(void *arg, const struct store_sample *m)
{
	return ignore_row(arg, m);
}

static int ignore_account(void *arg, const struct store_sandbox_usage *u)
{
	return ignore_row(arg, u);
}

static int ignore_usage(void *arg, const struct store_key_usage *u)
{
	return ignore_row(arg, u);
}

static int ignore_secret(void *arg, const struct store_secret *secret)
{
	return ignore_row(arg, secret);
}

static int ignore_webhook(void *arg, const struct store_webhook *w)
{
	return ignore_row(arg, w);
}

static int ignore_expired(void *arg, const char *id, uint64_t end_ns)
{
	return ignore_row(arg, id);
}

static int ignore_id(void *arg, const char *id)
{
	return ignore_row(arg, id);
}

static void use_keys(struct fixture *f)
{
	struct store_lockdown lockdown;
	const struct store_limits limits = {.tier = "pro"};
	const struct store_tier tier = {.name = "pro"};
	struct store_key *k = NULL;
	struct store_bill b;
	char id[STORE_UUID_BYTES], secret[STORE_KEY_SECRET_BYTES];

	ok(f, store_team_create(f->s, "t", T0, id, &f->e));
	ok(f, store_team_list(f->s, ignore_team, NULL, &f->e));
	assert_true(store_team_is(f->s, id, "t"));
	ok(f, store_lockdown_get(f->s, &lockdown, &f->e));
	ok(f, store_lockdown_set(f->s, &lockdown, &f->e));
	ok(f, store_tier_put(f->s, &tier, &f->e));
	ok(f, store_tier_list(f->s, ignore_tier, NULL, &f->e));
	ok(f, store_tier_stopping_keys(f->s, ignore_id, NULL, &f->e));
	ok(f, store_key_create(f->s, &(struct store_key_spec){.name = "k"}, T0, id, secret, &f->e));
	ok(f, store_key_authenticate(f->s, f->secret, T0, &k, &f->e));
	store_key_free(k);
	ok(f, store_key_get(f->s, f->key, &k, &f->e));
	store_key_free(k);
	ok(f, store_key_list(f->s, NULL, ignore_key, NULL, &f->e));
	assert_false(store_key_descends(f->s, id, f->key));
	ok(f, store_key_rename(f->s, id, "x", &f->e));
	ok(f, store_key_set_limits(f->s, id, &limits, &f->e));
	ok(f, store_usage_bill(f->s, id, T0, &b, &f->e));
	refused(f, EBUSY, ERROR_EXISTS, store_tier_remove(f->s, "pro", &f->e));
	ok(f, store_key_revoke(f->s, id, T0, &f->e));
}

static void use_creations(struct fixture *f)
{
	const struct store_creation c = {.word = "word"};
	uint8_t hash[STORE_CREATION_HASH_BYTES];
	char id[STORE_ID_MAX + 1];

	ok(f, store_creation_add(f->s, f->key, &c, "i1", T0, &f->e));
	ok(f, store_creation_find(f->s, f->key, "word", T0, hash, id, &f->e));
}

static void list_every_way(struct fixture *f)
{
	const struct store_pair pairs[] = {{"a", "b"}, {"c", "d"}};
	char next[STORE_PAGE_TOKEN_BYTES], token[2][STORE_PAGE_TOKEN_BYTES] = {"", ""};
	uint64_t n;

	for (unsigned i = 0; i < 128; i++) {
		struct store_sandbox_filter filter = {.limit = 1,
			.ascending = i & 1,
			.key_id = i & 2 ? f->key : NULL,
			.states = i & 4 ? 1 : 0,
			.template = i & 8 ? "base" : NULL,
			.started_after_ns = i & 16 ? T0 : 0,
			.metadata = pairs,
			.metadata_count = i & 32 ? 2 : 0,
			.token = i & 64 ? token[i & 1] : NULL};

		ok(f, store_sandbox_list(f->s, &filter, ignore_sandbox, NULL, next, &f->e));
		if (*next)
			memcpy(token[i & 1], next, sizeof(next));
		ok(f, store_sandbox_count_running(f->s, &filter, &n, &f->e));
	}
	assert_true(*token[0] && *token[1]);
}

static void use_sandboxes(struct fixture *f)
{
	struct store_sandbox sb = fixture_sandbox(f, "i1"), *got = NULL;
	const struct store_sample m = {.at_ns = T0};
	struct store_sample last;
	struct store_kept kept;
	uint64_t n;
	bool more;

	sb.metadata_json = "{\"a\":\"b\",\"c\":\"d\"}";
	ok(f, store_sandbox_insert(f->s, &sb, &f->e));
	sb.id = "i2";
	ok(f, store_sandbox_insert(f->s, &sb, &f->e));
	ok(f, store_sandbox_get(f->s, "i1", &got, &f->e));
	store_sandbox_free(got);
	list_every_way(f);
	ok(f, store_sandbox_update(f->s, "i1", STORE_ANY_STATE, STORE_SET_END, &sb, NULL, &f->e));
	ok(f, store_sandboxes_renew(f->s, f->key, "i1", "t", &f->e));
	ok(f, store_sandbox_set_end(f->s, "i1", T0, &f->e));
	ok(f, store_sandbox_each(f->s, true, ignore_sandbox, NULL, &f->e));
	ok(f, store_sandbox_count(f->s, f->key, 1, &n, &f->e));
	ok(f, store_sandbox_count(f->s, NULL, 1, &n, &f->e));
	ok(f, store_kept_count(f->s, f->key, &kept, &f->e));
	ok(f, store_kept_count(f->s, NULL, &kept, &f->e));
	ok(f, store_kept_note_paused(f->s, "i1", 1, &f->e));
	ok(f, store_sandbox_next_end(f->s, &n, &f->e));
	ok(f, store_sandbox_expired(f->s, T0, ignore_expired, NULL, &more, &f->e));
	ok(f, store_sample_add(f->s, "i1", &m, &f->e));
	ok(f, store_sample_list(f->s, "i1", 0, UINT64_MAX, ignore_sample, NULL, &f->e));
	ok(f, store_sample_last(f->s, "i1", &last, &f->e));
	ok(f, store_sandbox_delete(f->s, "i1", &f->e));
	ok(f, store_maintain(f->s, T0, NULL, &more, &f->e));
}

static void use_templates(struct fixture *f)
{
	char name[STORE_NAME_MAX + 1];
	struct store_template t;

	ok(f, store_template_see(f->s, "base", 1, &t, &f->e));
	ok(f, store_template_spawned(f->s, t.id, T0, &f->e));
	ok(f, store_template_name(f->s, t.id, name, &f->e));
}

static void use_usage(struct fixture *f)
{
	struct store_counters c = {.uptime_us = 1};
	struct store_event ev = {.sandbox_id = "i1", .key_id = f->key};

	ok(f, store_usage_record(f->s, "i1", f->key, 1, &c, T0, &f->e));
	ok(f, store_usage_of_run(f->s, "i1", 1, &c, &f->e));
	ok(f, store_usage_sandboxes(f->s, f->key, 0, 9, ignore_account, NULL, &f->e));
	ok(f, store_usage_sandboxes(f->s, NULL, 0, 9, ignore_account, NULL, &f->e));
	ok(f, store_usage_keys(f->s, f->key, 0, T0, ignore_usage, NULL, &f->e));
	ok(f, store_usage_keys(f->s, NULL, 0, T0, ignore_usage, NULL, &f->e));
	ok(f, store_usage_days(f->s, f->key, 0, T0, ignore_usage, NULL, &f->e));
	ok(f, store_event_add(f->s, &ev, NULL, &f->e));
	for (unsigned i = 0; i < 8; i++) {
		const struct store_event_filter filter = {.limit = 1,
			.ascending = i & 1,
			.key_id = i & 2 ? f->key : NULL,
			.sandbox_id = i & 4 ? "i1" : NULL};

		ok(f, store_event_list(f->s, &filter, ignore_event, NULL, &f->e));
	}
}

static void use_activity(struct fixture *f)
{
	const struct store_activity_bounds b = {1, 1, 1};
	const struct store_activity a = {.record = "{}"};
	struct store_activity_log log;
	bool more;

	ok(f, store_activity_add(f->s, "i1", f->key, &a, 1, 0, T0, NULL, &f->e));
	ok(f, store_activity_get(f->s, "i1", f->key, &log, &f->e));
	ok(f, store_activity_list(f->s, "i1", 0, 0, 1, ignore_activity, NULL, &f->e));
	store_activity_bound(f->s, &b);
	ok(f, store_activity_add(f->s, "i1", f->key, &a, 1, 0, T0, NULL, &f->e));
	ok(f, store_maintain(f->s, T0 * 2, NULL, &more, &f->e)); /* it has ended */
}

static int finish_delivery(void *arg, const struct store_delivery *d)
{
	struct fixture *f = arg;

	ok(f, store_delivery_claim(f->s, d->id, T0, &f->e));
	ok(f, store_delivery_failed(f->s, d->id, T0, "no", &f->e));
	ok(f, store_delivery_done(f->s, d->id, &f->e));
	return 0;
}

static void use_webhooks(struct fixture *f)
{
	struct store_webhook w = {.url = "http://x", .secret = "s", .enabled = true};
	const struct store_event ev = {.sandbox_id = "i1", .key_id = f->key};
	char id[STORE_UUID_BYTES];
	uint64_t at;

	ok(f, store_webhook_add(f->s, &w, id, &f->e));
	ok(f, store_delivery_queue(f->s, &ev, "{}", T0, NULL, &f->e));
	ok(f, store_delivery_queue_for(f->s, id, "{}", T0, &f->e));
	ok(f, store_delivery_next(f->s, &at, &f->e));
	ok(f, store_delivery_due(f->s, T0, 1, finish_delivery, f, &f->e));
	ok(f, store_webhook_list(f->s, NULL, ignore_webhook, NULL, &f->e));
	w.enabled = false;
	ok(f, store_webhook_update(f->s, id, &w, &f->e));
	w.enabled = true;
	ok(f, store_webhook_update(f->s, id, &w, &f->e));
	ok(f, store_webhook_remove(f->s, id, &f->e));
}

static int ignore_approval(void *arg, const struct store_approval *a)
{
	return ignore_row(arg, a);
}

static void use_approvals(struct fixture *f)
{
	struct store_approval a = {.key_id = f->key,
		.sandbox_id = "i1",
		.template_id = "t",
		.rule = "r",
		.question_json = "{}",
		.asked_ns = T0,
		.expires_ns = T0 + 2};
	struct store_approval_filter all = {.limit = 1}, of = {.limit = 1, .key_id = f->key};
	char id[STORE_APPROVAL_ID_BYTES];
	uint64_t n;
	bool fresh;

	ok(f, store_approval_ask(f->s, &a, id, &fresh, &f->e));
	ok(f, store_approval_next(f->s, &n, &f->e));
	ok(f, store_approval_late(f->s, T0 + 2, 1, ignore_approval, NULL, &f->e));
	ok(f, store_approval_list(f->s, &all, ignore_approval, NULL, &f->e));
	ok(f, store_approval_list(f->s, &of, ignore_approval, NULL, &f->e));
	of.sandbox_id = "i1";
	ok(f, store_approval_list(f->s, &of, ignore_approval, NULL, &f->e));
	a.state = STORE_APPROVAL_DENIED;
	a.until_ns = STORE_NEVER_NS;
	ok(f, store_approval_decide(f->s, id, f->key, &a, true, &f->e));
	ok(f, store_approval_get(f->s, id, f->key, ignore_approval, NULL, &f->e));
	ok(f, store_approval_given(f->s,
		      &(struct store_sandbox){.id = "a", .key_id = f->key, .template_id = "t"}, T0,
		      ignore_approval, NULL, &f->e));
	(void)store_approval_end(f->s, id, f->key, T0, NULL); /* it was once */
	ok(f, store_approval_take(f->s, &a, T0, ignore_approval, NULL, &f->e));
	assert_int_equal(store_approval_take(f->s, &a, T0, ignore_approval, NULL, &f->e), -ENOENT);
}

static void use_secrets(struct fixture *f)
{
	struct store_secret s = {.key_id = f->key, .name = "n", .sealed = "x", .sealed_bytes = 1};
	char id[STORE_SECRET_ID_BYTES];

	ok(f, store_secret_add(f->s, &s, id, &f->e));
	ok(f, store_secret_update(f->s, f->key, id, &s, &f->e));
	ok(f, store_secret_get(f->s, f->key, id, ignore_secret, NULL, &f->e));
	ok(f, store_secret_get(f->s, f->key, "n", ignore_secret, NULL, &f->e));
	ok(f, store_secret_list(f->s, f->key, "", 1, ignore_secret, NULL, &f->e));
	ok(f, store_secret_remove(f->s, f->key, id, &f->e));
}

static int ignore_signer(void *arg, const struct store_signer *s)
{
	return 0;
}

static void use_signers(struct fixture *f)
{
	struct store_signer s = {
		.id = "k", .created_ns = 1, .public_json = "{}", .sealed = "x", .sealed_bytes = 1};
	uint64_t n;

	ok(f, store_signer_add(f->s, &s, 0, &f->e));
	ok(f, store_signer_list(f->s, ignore_signer, NULL, &f->e));
	ok(f, store_signer_count(f->s, &n, &f->e));
	assert_int_equal(n, 1);
	s.id = "l";
	s.created_ns = 3;
	ok(f, store_signer_add(f->s, &s, 2, &f->e)); /* which forgets the first one */
	ok(f, store_signer_count(f->s, &n, &f->e));
	assert_int_equal(n, 1);
}

static int ignore_catalog(void *arg, const struct store_catalog *c)
{
	return ignore_row(arg, c);
}

static int ignore_build(void *arg, const struct store_build *b)
{
	return ignore_row(arg, b);
}

static int ignore_log(void *arg, const struct store_build_log *l)
{
	return ignore_row(arg, l);
}

static int ignore_tag(void *arg, const struct store_tag *t)
{
	return ignore_row(arg, t);
}

static void use_tags(struct fixture *f, const char *template_id, const char *build_id)
{
	struct store_tag t;
	uint64_t n;

	ok(f, store_tag_assign(f->s, template_id, "default", build_id, T0, &f->e));
	ok(f, store_tag_get(f->s, template_id, "default", &t, &f->e));
	ok(f, store_tag_list(f->s, template_id, ignore_tag, NULL, &f->e));
	ok(f, store_tag_history(f->s, template_id, "default", 0, 1, ignore_tag, NULL, &f->e));
	ok(f, store_tag_count_of(f->s, template_id, build_id, &n, &f->e));
	ok(f, store_tag_list_of(f->s, template_id, build_id, ignore_tag, NULL, &f->e));
	ok(f, store_tag_remove(f->s, template_id, "default", &f->e));
}

static void use_snapshots(struct fixture *f)
{
	struct store_snapshot sn = {.id = "aaaaaaaaaaaaaaaaaaaa", .name = "work"};

	memcpy(sn.key_id, f->key, sizeof(sn.key_id));
	ok(f, store_snapshot_insert(f->s, &sn, "default", &f->e));
	for (unsigned i = 0; i < 2; i++) {
		const char *key = i ? NULL : f->key;

		ok(f, store_snapshot_find(f->s, key, sn.id, "", &sn, &f->e));
		ok(f, store_snapshot_find(f->s, key, "work", "default", &sn, &f->e));
	}
	ok(f, store_kept_note_snapshot(f->s, sn.id, 1, &f->e));
	ok(f, store_snapshot_delete(f->s, sn.id, &f->e));
}

static int no_log(void *arg, const struct store_build_log *l)
{
	fail_msg("there is still '%s'", l->message);
	return 0;
}

static void use_builds(struct fixture *f, const char *template_id)
{
	struct store_build more;
	char sql[128];
	struct store_build b = {.tags_json = "[]", .created_ns = T0, .cpus = 1, .memory_mb = 512};
	const struct store_build_log log = {.at_ns = T0, .step = "1", .message = "m"};
	struct store_build_log_filter filter = {.limit = 1};
	struct store_template t;

	(void)snprintf(b.template_id, sizeof(b.template_id), "%s", template_id);
	(void)snprintf(b.key_id, sizeof(b.key_id), "%s", f->key);
	ok(f, store_build_add(f->s, &b, b.id, &f->e));
	ok(f, store_build_get(f->s, b.id, &b, &f->e));
	ok(f, store_build_list(f->s, template_id, 0, 1, ignore_build, NULL, &f->e));
	ok(f, store_build_last(f->s, template_id, STORE_BUILD_STATUSES_, &b, &f->e));
	ok(f, store_build_set_status(f->s, b.id, STORE_BUILD_WAITING, T0, &f->e));
	ok(f, store_build_log(f->s, b.id, &log, &f->e));
	filter.build_seq = b.seq;
	ok(f, store_build_log_list(f->s, &filter, ignore_log, NULL, &f->e));
	filter.backward = true;
	ok(f, store_build_log_list(f->s, &filter, ignore_log, NULL, &f->e));
	ok(f, store_build_fail_open(f->s, T0, "why", &f->e));
	ok(f, store_build_finish(f->s, b.id, STORE_BUILD_READY, T0, 1, "", "", &f->e));
	ok(f, store_template_see(f->s, b.id, 0, &t, &f->e));
	assert_string_equal(t.id, template_id);
	ok(f, store_template_spawned(f->s, template_id, T0, &f->e));
	use_tags(f, template_id, b.id);
	/* the log of a build makes room when the key has too much of them */
	more = b;
	ok(f, store_build_add(f->s, &more, more.id, &f->e));
	ok(f, store_build_get(f->s, b.id, &b, &f->e));
	assert_int_equal(b.log_count, 1);
	(void)snprintf(
		sql, sizeof(sql), "UPDATE builds SET log_bytes = 1 << 40 WHERE id = '%s'", b.id);
	ok(f, db_exec(f->s, sql, &f->e));
	ok(f, store_build_add(f->s, &more, more.id, &f->e));
	ok(f, store_build_get(f->s, b.id, &b, &f->e));
	assert_int_equal(b.log_count + b.log_bytes, 0);
	ok(f, store_build_log_list(f->s, &filter, no_log, NULL, &f->e));
}

static void use_catalog(struct fixture *f)
{
	struct store_catalog c;
	uint64_t running, paused;

	ok(f, store_catalog_put(f->s, f->key, "web", T0, &c, &f->e));
	ok(f, store_catalog_find(f->s, f->key, "web", &c, &f->e));
	ok(f, store_catalog_find_in_team(f->s, "default", "web", f->key, false, &c, &f->e));
	ok(f, store_catalog_set_public(f->s, c.id, true, T0, &f->e));
	ok(f, store_catalog_list(f->s, f->key, ignore_catalog, NULL, &f->e));
	ok(f, store_catalog_list(f->s, NULL, ignore_catalog, NULL, &f->e));
	ok(f, store_catalog_count_sandboxes(f->s, c.id, &running, &paused, &f->e));
	use_builds(f, c.id);
	use_snapshots(f);
	ok(f, store_catalog_get(f->s, c.id, &c, &f->e));
	assert_int_equal(c.spawn_count, 1);
	ok(f, store_catalog_remove(f->s, c.id, &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND, store_catalog_remove(f->s, c.id, &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND, store_catalog_get(f->s, c.id, &c, &f->e));
}

static int ignore_agent(void *arg, const struct store_agent *a)
{
	return 0;
}

static int ignore_version(void *arg, const struct store_agent_version *v)
{
	return 0;
}

static int ignore_alias(void *arg, const char *alias, const char *weights_json)
{
	return 0;
}

static void use_agent_version(struct fixture *f, const char *agent_id)
{
	static struct store_agent_version v;
	struct store_agent_warm w = {NULL, NULL};
	uint32_t number;
	uint64_t n;

	strcpy(v.agent_id, agent_id);
	strcpy(v.build_id, "a build");
	strcpy(v.env_json, "{}");
	strcpy(v.secrets_json, "{}");
	ok(f, store_agent_version_add(f->s, &v, &number, &f->e));
	ok(f, store_agent_version_get(f->s, agent_id, number, &v, &f->e));
	ok(f, store_agent_version_of_build(f->s, "a build", &v, &f->e));
	ok(f, store_agent_version_list(f->s, agent_id, 0, 1, ignore_version, NULL, &f->e));
	ok(f, store_agent_version_count(f->s, agent_id, STORE_AGENT_READY, &n, &f->e));
	ok(f, store_agent_warm_set(f->s, v.build_id, &w, &f->e));
	ok(f, store_agent_warm_get(f->s, agent_id, number, &w, &f->e));
	ok(f, store_agent_version_ready(f->s, &v, &f->e));
	ok(f, store_agent_version_end(
		      f->s, agent_id, number, STORE_AGENT_RETIRED, T0, "old", "", &f->e));
	ok(f, store_agent_fail_open(f->s, T0, "restarted", &f->e));
}

static int ignore_invocation(void *arg, const struct store_invocation *v)
{
	return 0;
}

static void use_invocations(struct fixture *f)
{
	struct store_invocation v = {.id = "inv_1",
		.key_id = f->key,
		.agent_id = "a",
		.agent = "echo",
		.version = 1,
		.asked_ns = T0,
		.ended_ns = T0 + 1,
		.code = "ok"};
	struct store_invocation_filter up = {.agent_id = "a", .limit = 1, .ascending = true},
				       down = {.agent_id = "a", .limit = 1};

	ok(f, store_invocation_add(f->s, &v, &f->e));
	ok(f, store_invocation_run(f->s, "inv_1", "i1", T0, &f->e));
	ok(f, store_invocation_get(f->s, "inv_1", f->key, ignore_invocation, NULL, &f->e));
	ok(f, store_invocation_list(f->s, &up, ignore_invocation, NULL, &f->e));
	ok(f, store_invocation_list(f->s, &down, ignore_invocation, NULL, &f->e));
	ok(f, store_invocation_finish(f->s, &v, &f->e));
	ok(f, store_invocation_fail_open(f->s, T0, "interrupted", "again", NULL, &f->e));
}

static void use_budgets(struct fixture *f)
{
	struct store_budget of_sandbox = {.key_id = f->key,
				    .sandbox_id = "i1",
				    .id = "a",
				    .day = 1},
			    of_key = {.key_id = f->key, .id = "a"};
	const struct store_amounts more = {1, 2, 3};

	ok(f, store_budget_charge(f->s, &of_sandbox, &more, &f->e));
	ok(f, store_budget_charge(f->s, &of_key, &more, &f->e));
	ok(f, store_budget_settle(f->s, &of_key, -1, 1, &f->e));
}

static void use_agents(struct fixture *f)
{
	char weights[STORE_AGENT_WEIGHTS_MAX + 1];
	struct store_agent a;

	ok(f, store_agent_put(f->s, f->key, "echo", T0, &a, &f->e));
	ok(f, store_agent_find(f->s, f->key, "echo", &a, &f->e));
	ok(f, store_agent_list(f->s, f->key, ignore_agent, NULL, &f->e));
	ok(f, store_agent_list(f->s, NULL, ignore_agent, NULL, &f->e));
	ok(f, store_agent_set_current(f->s, a.id, 1, T0, &f->e));
	use_agent_version(f, a.id);
	ok(f, store_agent_alias_put(f->s, a.id, "prod", "{}", &f->e));
	ok(f, store_agent_alias_get(f->s, a.id, "prod", weights, &f->e));
	ok(f, store_agent_alias_list(f->s, a.id, ignore_alias, NULL, &f->e));
	ok(f, store_agent_alias_remove(f->s, a.id, "prod", &f->e));
	ok(f, store_agent_remove(f->s, a.id, &f->e));
}

/* Tables that stay small, or that a statement is meant to walk in order up to its LIMIT. */
static bool scan_is_meant(const char *sql, const char *step)
{
	const char *const small[] = {"keys", "k", "teams", "tiers", "webhooks", "w", "signers",
		"sample_garbage", "(subquery-1)", "(subquery-2)", "CONSTANT ROW"};
	const char *const ordered[] = {
		"s USING INDEX sandboxes_started",
		"sandboxes USING INDEX sandboxes_end",
		"deliveries USING COVERING INDEX deliveries_next",
	};
	const char *what = step + strlen("SCAN ");

	for (size_t i = 0; i < ARRAY_SIZE(small); i++)
		if (strncmp(what, small[i], strlen(small[i])) == 0 &&
			(what[strlen(small[i])] == '\0' || what[strlen(small[i])] == ' '))
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(ordered); i++)
		if (strcmp(what, ordered[i]) == 0 && strstr(sql, "LIMIT"))
			return true;
	/* At most 10,000 (fleet/kept.h), and never the table itself. */
	if (strcmp(what, "snapshots USING COVERING INDEX snapshots_kept") == 0)
		return true;
	/* The builds that wait or run: a few (catalog/jobs.h). */
	if (strcmp(what, "builds USING INDEX builds_open") == 0 ||
		strcmp(what, "agent_versions USING INDEX agent_versions_open") == 0)
		return true;
	/* The oldest events and records: the first rows of their table. */
	/* Bounded, as they wait. */
	if (strcmp(what, "invocations USING INDEX invocations_open") == 0)
		return true; /* those that are not over: at the start, all of them */
	if (strcmp(what, "approvals USING INDEX approvals_late") == 0)
		return true;
	if (strcmp(what, "approvals") == 0)
		return strstr(sql, "ORDER BY seq LIMIT");
	return (strcmp(what, "events") == 0 || strcmp(what, "activity") == 0) &&
	       strstr(sql, "ORDER BY id LIMIT");
}

static bool sort_is_meant(const char *sql)
{
	return strstr(sql, "FROM samples") || strstr(sql, "FROM keys") ||
	       strstr(sql, "FROM teams") || strstr(sql, "FROM webhooks") ||
	       strstr(sql, "FROM signers");
}

static unsigned check_plan(struct fixture *f, const char *sql)
{
	char explain[16384];
	struct query q;
	unsigned bad = 0;

	(void)snprintf(explain, sizeof(explain), "EXPLAIN QUERY PLAN %s", sql);
	q = db_query_once(f->s, explain);
	while (query_step(&q, NULL) > 0) {
		const char *step = (const char *)sqlite3_column_text(q.stmt, 3);

		if ((strncmp(step, "SCAN ", 5) == 0 && !scan_is_meant(sql, step)) ||
			(strstr(step, "TEMP B-TREE") && !sort_is_meant(sql)) ||
			strstr(step, "AUTOMATIC")) {
			print_message("%s\n\tin %s\n", step, sql);
			bad++;
		}
	}
	query_done(&q);
	return bad;
}

static void test_no_statement_scans(void **state)
{
	struct fixture *f = *state;
	static struct statements all;
	unsigned bad = 0;

	fixture_reopen(f);
	assert_int_equal(sqlite3_trace_v2(f->s->db, SQLITE_TRACE_STMT, collect, &all), SQLITE_OK);
	use_keys(f);
	use_creations(f);
	use_sandboxes(f);
	use_templates(f);
	use_usage(f);
	use_activity(f);
	use_webhooks(f);
	use_secrets(f);
	use_signers(f);
	use_approvals(f);
	use_catalog(f);
	use_agents(f);
	use_invocations(f);
	use_budgets(f);
	(void)sqlite3_trace_v2(f->s->db, 0, NULL, NULL);
	for (unsigned i = 0; i < all.count; i++) {
		bad += check_plan(f, all.sql[i]);
		free(all.sql[i]);
	}
	print_message("%u statements\n", all.count);
	assert_true(all.count > 100);
	assert_int_equal(bad, 0);
}

/* ---- costs ---- */

static void fill(struct fixture *f)
{
	char id[24], metadata[96];

	for (unsigned i = 0; i < SANDBOXES; i++) {
		struct store_sandbox sb = fixture_sandbox(f, id);

		if (i % 1000 == 0)
			ok(f, store_begin(f->s, &f->e));
		(void)snprintf(id, sizeof(id), "i%020u", i);
		(void)snprintf(
			metadata, sizeof(metadata), "{\"env\":\"prod\",\"user\":\"u%u\"}", i);
		sb.metadata_json = metadata;
		sb.envd_token = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
		sb.started_ns = T0 + i * NS_PER_MS;
		sb.end_ns = T0 + (SANDBOXES - i) * NS_PER_S;
		sb.state = i % 100 ? STORE_PAUSED : STORE_RUNNING;
		ok(f, store_sandbox_insert(f->s, &sb, &f->e));
		if (i % 1000 == 999)
			ok(f, store_commit(f->s, &f->e));
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Prints a line of the table. The mean CPU time must be under limit_us, which is generous: it is to
 * catch a lost index, not a slow or busy machine. */
static void report(const char *name, uint64_t *ns, unsigned n, uint64_t used_ns, unsigned limit_us)
{
	qsort(ns, n, sizeof(ns[0]), compare);
	print_message("| %s | %.1f | %.1f |\n", name, (double)ns[n / 2] / 1000,
		(double)ns[n * 99 / 100] / 1000);
	assert_true(used_ns / n < limit_us * NS_PER_US);
}

#define MEASURE(name, n, limit_us, call)                                                           \
	do {                                                                                       \
		static uint64_t ns_[CALLS];                                                        \
		uint64_t used_ = cpu_ns();                                                         \
		for (unsigned i = 0; i < (n); i++) {                                               \
			uint64_t from_ = clock_monotonic_ns();                                     \
			ok(f, call);                                                               \
			ns_[i] = clock_monotonic_ns() - from_;                                     \
		}                                                                                  \
		report(name, ns_, n, cpu_ns() - used_, limit_us);                                  \
	} while (0)

static const char *nth_id(unsigned i)
{
	static char id[24];

	(void)snprintf(id, sizeof(id), "i%020u", i * 7919 % SANDBOXES);
	return id;
}

static int get_one(struct fixture *f, unsigned i)
{
	_cleanup_(store_sandbox_freep) struct store_sandbox *sb = NULL;

	return store_sandbox_get(f->s, nth_id(i), &sb, &f->e);
}

static int authenticate(struct fixture *f)
{
	_cleanup_(store_key_freep) struct store_key *k = NULL;

	return store_key_authenticate(f->s, f->secret, T0, &k, &f->e);
}

static int insert_new(struct fixture *f, unsigned i)
{
	char id[24];
	struct store_sandbox sb = fixture_sandbox(f, id);

	(void)snprintf(id, sizeof(id), "inew%u", i);
	sb.metadata_json = "{\"env\":\"prod\",\"user\":\"7\"}";
	return store_sandbox_insert(f->s, &sb, &f->e);
}

static int delete_new(struct fixture *f, unsigned i)
{
	char id[24];

	(void)snprintf(id, sizeof(id), "inew%u", i);
	return store_sandbox_delete(f->s, id, &f->e);
}

static int set_state(struct fixture *f, unsigned i)
{
	struct store_sandbox sb = {.state = i & 1 ? STORE_RUNNING : STORE_SNAPSHOTTING};

	return store_sandbox_update(
		f->s, "inew0", STORE_ANY_STATE, STORE_SET_STATE, &sb, NULL, &f->e);
}

static int pause_resume(struct fixture *f, unsigned i)
{
	struct store_sandbox sb = {.state = i & 1 ? STORE_RUNNING : STORE_PAUSED};

	return store_sandbox_update(
		f->s, "inew0", STORE_ANY_STATE, STORE_SET_STATE, &sb, NULL, &f->e);
}

static int list_page(struct fixture *f, const struct store_pair *pair, uint32_t states,
	uint64_t after_ns, char token[STORE_PAGE_TOKEN_BYTES])
{
	struct store_sandbox_filter filter = {.key_id = f->key,
		.limit = 100,
		.states = states,
		.metadata = pair,
		.metadata_count = pair != NULL,
		.started_after_ns = after_ns,
		.token = token};
	char next[STORE_PAGE_TOKEN_BYTES];
	int r = store_sandbox_list(f->s, &filter, ignore_sandbox, NULL, next, &f->e);

	memcpy(token, next, sizeof(next));
	return r;
}

static int count_with(struct fixture *f, const struct store_pair *pair)
{
	const struct store_sandbox_filter filter = {
		.key_id = f->key, .limit = 100, .metadata = pair, .metadata_count = 1};
	uint64_t n;

	return store_sandbox_count_running(f->s, &filter, &n, &f->e);
}

static int record_usage(struct fixture *f, unsigned i)
{
	struct store_counters c = {.uptime_us = i, .cpu_us = i};

	return store_usage_record(f->s, nth_id(i % 500), f->key, 1, &c, T0 + i, &f->e);
}

static int record_batch(struct fixture *f, unsigned i)
{
	int r = store_begin(f->s, &f->e);

	for (unsigned j = 0; r == 0 && j < 100; j++)
		r = record_usage(f, i * 100 + j);
	return r == 0 ? store_commit(f->s, &f->e) : r;
}

static int add_sample(struct fixture *f, unsigned i)
{
	const struct store_sample m = {.at_ns = T0 + i * 5 * NS_PER_S, .mem_used_bytes = i};

	return store_sample_add(f->s, "inew0", &m, &f->e);
}

static int sample_batch(struct fixture *f, unsigned i)
{
	const struct store_sample m = {.at_ns = T0 + i * 5 * NS_PER_S, .mem_used_bytes = i};
	int r = store_begin(f->s, &f->e);

	for (unsigned j = 0; r == 0 && j < 100; j++)
		r = store_sample_add(f->s, nth_id(j), &m, &f->e);
	return r == 0 ? store_commit(f->s, &f->e) : r;
}

static int add_event(struct fixture *f, unsigned i)
{
	const struct store_event ev = {.type = STORE_EVENT_PAUSED,
		.at_ns = T0,
		.key_id = f->key,
		.sandbox_id = "inew0",
		.details_json = "{\"reason\":\"request\"}"};

	return store_event_add(f->s, &ev, NULL, &f->e);
}

static int list_events(struct fixture *f)
{
	const struct store_event_filter filter = {.sandbox_id = "inew0", .limit = 100};

	return store_event_list(f->s, &filter, ignore_event, NULL, &f->e);
}

/* As a flood of one sandbox: every record is one too many. */
static int add_activity(struct fixture *f, unsigned i)
{
	static struct store_activity list[100];
	const struct store_activity_bounds b = {.sandbox_bytes = 1 << 20};

	store_activity_bound(f->s, &b);
	for (unsigned j = 0; j < 100; j++)
		list[j] = (struct store_activity){.at_ns = T0 + i,
			.record = "{\"time\":\"2027-01-15T08:00:00.000Z\",\"durationMs\":12,"
				  "\"generation\":1,\"protocol\":\"tcp\",\"name\":"
				  "\"api.example.com\",\"address\":\"203.0.113.7\",\"port\":443,"
				  "\"bytesOut\":1234,\"bytesIn\":56789,\"verdict\":\"allowed\","
				  "\"rule\":\"allowOut[0]\",\"program\":\"curl\",\"pid\":1234}"};
	return store_activity_add(f->s, "inew0", f->key, list, 100, 0, T0, NULL, &f->e);
}

static void measure_lists(struct fixture *f)
{
	const struct store_pair common = {"env", "prod"}, rare = {"user", "u4711"};
	char token[STORE_PAGE_TOKEN_BYTES] = "";

	MEASURE("page of 100, any depth", PAGES, 20000, list_page(f, NULL, 0, 0, token));
	*token = '\0';
	MEASURE("page of 100, metadata that all have", PAGES, 20000,
		list_page(f, &common, 0, 0, token));
	MEASURE("page, metadata that one has", PAGES, 5000,
		(*token = '\0', list_page(f, &rare, 0, 0, token)));
	*token = '\0';
	MEASURE("page of 100, state 1 in 100 have", 10, 200000,
		list_page(f, NULL, STORE_STATE_BIT(STORE_RUNNING), 0, token));
	MEASURE("count running of a key, metadata that all have", PAGES, 50000,
		count_with(f, &common));
}

static void measure_sandboxes(struct fixture *f)
{
	uint64_t v;
	bool more;

	MEASURE("authenticate a key", CALLS, 2000, authenticate(f));
	MEASURE("get sandbox", CALLS, 2000, get_one(f, i));
	MEASURE("insert sandbox, 2 metadata pairs", CALLS, 5000, insert_new(f, i));
	MEASURE("set deadline", CALLS, 2000, store_sandbox_set_end(f->s, "inew0", T0 + i, &f->e));
	MEASURE("set state", CALLS, 2000, set_state(f, i));
	MEASURE("set state, synced (pause, resume)", 50, 500000, pause_resume(f, i));
	MEASURE("count running of a key (3,000)", CALLS, 20000,
		store_sandbox_count(f->s, f->key, 1, &v, &f->e));
	MEASURE("next deadline", CALLS, 2000, store_sandbox_next_end(f->s, &v, &f->e));
	MEASURE("expired, none", CALLS, 2000,
		store_sandbox_expired(f->s, 1, ignore_expired, NULL, &more, &f->e));
}

static void measure_rest(struct fixture *f)
{
	struct store_bill b;

	MEASURE("record usage", CALLS, 5000, record_usage(f, i));
	MEASURE("record usage of 100 in a batch", 50, 100000, record_batch(f, i));
	MEASURE("bill of a key's month", CALLS, 5000,
		store_usage_bill(f->s, f->key, T0, &b, &f->e));
	MEASURE("add sample", CALLS, 5000, add_sample(f, i));
	MEASURE("add sample to 100 in a batch", 50, 100000, sample_batch(f, i));
	MEASURE("list 720 samples", PAGES, 50000,
		store_sample_list(f->s, "inew0", 0, UINT64_MAX, ignore_sample, NULL, &f->e));
	MEASURE("add event", CALLS, 5000, add_event(f, i));
	MEASURE("list 100 events", PAGES, 50000, list_events(f));
	MEASURE("add 100 records of activity, 100 go", PAGES, 50000, add_activity(f, i));
	MEASURE("list 100 records of activity", PAGES, 50000,
		store_activity_list(f->s, "inew0", 0, 0, 100, ignore_activity, NULL, &f->e));
	MEASURE("list activity of a kind that is not there", PAGES, 50000,
		store_activity_list(f->s, "inew0", STORE_ACTIVITY_BIT(STORE_ACTIVITY_REQUEST), 0,
			100, ignore_activity, NULL, &f->e));
	MEASURE("delete sandbox", CALLS, 5000, delete_new(f, i));
	MEASURE("sync", 50, 500000, store_sync(f->s, &f->e));
}

static void test_costs(void **state)
{
	struct fixture *f = *state;
	struct stat st;
	uint64_t from = clock_monotonic_ns();

	fill(f);
	assert_int_equal(stat(f->path, &st), 0);
	print_message("%d sandboxes in %.1f s, file %.0f MB\n", SANDBOXES,
		(double)(clock_monotonic_ns() - from) / 1e9, (double)st.st_size / 1e6);
	from = clock_monotonic_ns();
	fixture_reopen(f);
	print_message(
		"closed and opened in %.0f ms\n", (double)(clock_monotonic_ns() - from) / 1e6);
	measure_sandboxes(f);
	measure_lists(f);
	measure_rest(f);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_no_statement_scans),
		TEST(test_costs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
