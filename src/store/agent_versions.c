#include "store/agent_versions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/db.h"
#include "store/sealed.h"
#include "store/sandboxes.h"
#include "store/text.h"

#define COLUMNS                                                                                    \
	"agent_id, number, state, build_id, cpus, memory_mb, disk_mb, timeout_s, created_ns, "     \
	"finished_ns, env_json, secrets_json, protocol, kind, entry, dir, user, reason, step, "    \
	"concurrency"

static void copy_sealed(
	struct query *q, enum sealed kind, const char *build_id, char *out, size_t n)
{
	const char *text = row_sealed(q, kind, build_id);

	(void)snprintf(out, n, "%s", text ? text : "{}"); /* it fitted when it was written */
}

static void read_row(struct query *q, struct store_agent_version *v)
{
	row_copy(q, v->agent_id, sizeof(v->agent_id));
	v->number = (uint32_t)row_u64(q);
	v->state = (enum store_agent_state)row_u64(q);
	row_copy(q, v->build_id, sizeof(v->build_id));
	v->cpus = (uint32_t)row_u64(q);
	v->memory_mb = (uint32_t)row_u64(q);
	v->disk_mb = (uint32_t)row_u64(q);
	v->timeout_s = (uint32_t)row_u64(q);
	v->created_ns = row_u64(q);
	v->finished_ns = row_u64(q);
	copy_sealed(q, SEALED_AGENT_ENV, v->build_id, v->env_json, sizeof(v->env_json));
	row_copy(q, v->secrets_json, sizeof(v->secrets_json));
	v->protocol = (enum store_agent_protocol)row_u64(q);
	row_copy(q, v->kind, sizeof(v->kind));
	row_copy(q, v->entry, sizeof(v->entry));
	row_copy(q, v->dir, sizeof(v->dir));
	row_copy(q, v->user, sizeof(v->user));
	row_copy(q, v->reason, sizeof(v->reason));
	row_copy(q, v->step, sizeof(v->step));
	v->concurrency = (uint32_t)row_u64(q);
}

static int not_found(struct error *e)
{
	return error_set(e, ERROR_NOT_FOUND, ENOENT, "the agent has no such version");
}

static int first_row(struct query *q, struct store_agent_version *ret, struct error *e)
{
	int r = query_step(q, e);

	if (r <= 0)
		return r < 0 ? r : not_found(e);
	read_row(q, ret);
	return 0;
}

int store_agent_version_get(struct store *s, const char *agent_id, uint32_t number,
	struct store_agent_version *ret, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_AGENT_VERSION_GET,
		"SELECT " COLUMNS " FROM agent_versions WHERE agent_id = ? AND number = ?");

	query_text(&q, agent_id);
	query_u64(&q, number);
	return first_row(&q, ret, e);
}

int store_agent_version_of_build(
	struct store *s, const char *build_id, struct store_agent_version *ret, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_AGENT_VERSION_OF_BUILD,
		"SELECT " COLUMNS " FROM agent_versions WHERE build_id = ?");

	query_text(&q, build_id);
	return first_row(&q, ret, e);
}

int store_agent_version_list(struct store *s, const char *agent_id, uint32_t before, uint32_t limit,
	int (*each)(void *arg, const struct store_agent_version *v), void *arg, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_AGENT_VERSION_LIST,
		"SELECT " COLUMNS " FROM agent_versions WHERE agent_id = ? AND number < ? "
		"ORDER BY number DESC LIMIT ?");
	struct store_agent_version *v = malloc(sizeof(*v));
	int r = v ? 0 : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");

	query_text(&q, agent_id);
	query_u64(&q, before ? before : UINT32_MAX);
	query_u64(&q, limit);
	while (r == 0 && (r = query_step(&q, e)) > 0) {
		read_row(&q, v);
		r = each(arg, v);
	}
	free(v);
	return r;
}

int store_agent_version_count(struct store *s, const char *agent_id, enum store_agent_state state,
	uint64_t *ret, struct error *e)
{
	struct query q = db_query(s, STMT_AGENT_VERSION_COUNT,
		"SELECT count(*) FROM agent_versions WHERE agent_id = ? AND state = ?");

	query_text(&q, agent_id);
	query_u64(&q, state);
	return query_number(&q, ret, e);
}

/* --- changes --- */

static int next_number(
	struct store *s, const char *agent_id, uint64_t at_ns, uint32_t *ret, struct error *e)
{
	struct query q = db_query(s, STMT_AGENT_NUMBER,
		"UPDATE agents SET last = last + 1, updated_ns = ? WHERE id = ? RETURNING last");
	uint64_t number = 0;
	int r;

	query_u64(&q, at_ns);
	query_text(&q, agent_id);
	r = query_number(&q, &number, e);
	*ret = (uint32_t)number;
	return r == -ENOENT ? not_found(e) : r;
}

static int insert(
	struct store *s, const struct store_agent_version *v, uint32_t number, struct error *e)
{
	struct query q = db_query(s, STMT_AGENT_VERSION_INSERT,
		"INSERT INTO agent_versions (" COLUMNS ") VALUES (?, ?, 0, ?, ?, ?, ?, ?, ?, 0, "
		"?, ?, 0, '', '', '', '', '', '', ?)");

	query_text(&q, v->agent_id);
	query_u64(&q, number);
	query_text(&q, v->build_id);
	query_u64(&q, v->cpus);
	query_u64(&q, v->memory_mb);
	query_u64(&q, v->disk_mb);
	query_u64(&q, v->timeout_s);
	query_u64(&q, v->created_ns);
	query_sealed(&q, SEALED_AGENT_ENV, v->build_id, v->env_json);
	query_text(&q, v->secrets_json);
	query_u64(&q, v->concurrency);
	return query_run(&q, NULL, e);
}

/* The oldest that ended, beyond those that are kept. */
static int forget_oldest(struct store *s, const char *agent_id, struct error *e)
{
	struct query q = db_query(s, STMT_AGENT_VERSION_FORGET,
		"DELETE FROM agent_versions WHERE agent_id = ?1 AND state IN (2, 3) AND number <= "
		"(SELECT number FROM agent_versions WHERE agent_id = ?1 ORDER BY number DESC "
		"LIMIT 1 OFFSET ?2)");

	query_text(&q, agent_id);
	query_u64(&q, STORE_AGENT_VERSIONS_KEPT);
	return query_run(&q, NULL, e);
}

int store_agent_version_add(
	struct store *s, const struct store_agent_version *v, uint32_t *ret_number, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	int r = text_check_json("env", v->env_json, true, NULL, e);

	if (r == 0)
		r = text_check_json("secrets", v->secrets_json, false, NULL, e);
	if (r == 0)
		r = db_check_space(s, e);
	if (r == 0)
		r = txn_begin(&t, s, e);
	if (r == 0)
		r = next_number(s, v->agent_id, v->created_ns, ret_number, e);
	if (r == 0)
		r = insert(s, v, *ret_number, e);
	if (r == 0)
		r = forget_oldest(s, v->agent_id, e);
	return r == 0 ? txn_commit(&t, true, e) : r;
}

/* Runs what changes one version. */
static int change_one(struct store *s, struct query *q, struct error *e)
{
	unsigned changes = 0;
	int r = query_run(q, &changes, e);

	if (r == 0 && changes == 0)
		r = not_found(e);
	return r < 0 ? r : db_durable(s, e);
}

int store_agent_version_ready(struct store *s, const struct store_agent_version *v, struct error *e)
{
	struct query q = db_query(s, STMT_AGENT_VERSION_READY,
		"UPDATE agent_versions SET state = 1, finished_ns = ?, cpus = ?, memory_mb = ?, "
		"disk_mb = ?, timeout_s = ?, env_json = ?, secrets_json = ?, protocol = ?, "
		"kind = ?, entry = ?, dir = ?, user = ?, concurrency = ? "
		"WHERE agent_id = ? AND number = ? AND state = 0");

	query_u64(&q, v->finished_ns);
	query_u64(&q, v->cpus);
	query_u64(&q, v->memory_mb);
	query_u64(&q, v->disk_mb);
	query_u64(&q, v->timeout_s);
	query_sealed(&q, SEALED_AGENT_ENV, v->build_id, v->env_json);
	query_text(&q, v->secrets_json);
	query_u64(&q, v->protocol);
	query_text(&q, v->kind);
	query_text(&q, v->entry);
	query_text(&q, v->dir);
	query_text(&q, v->user);
	query_u64(&q, v->concurrency);
	query_text(&q, v->agent_id);
	query_u64(&q, v->number);
	return change_one(s, &q, e);
}

int store_agent_version_end(struct store *s, const char *agent_id, uint32_t number,
	enum store_agent_state state, uint64_t at_ns, const char *reason, const char *step,
	struct error *e)
{
	char text[STORE_AGENT_REASON_MAX + 1], where[STORE_AGENT_STEP_MAX + 1];
	struct query q = db_query(s, STMT_AGENT_VERSION_END,
		"UPDATE agent_versions SET state = ?, finished_ns = ?, reason = ?, step = ?, "
		"env_json = '{}', secrets_json = '{}', placeholders_json = NULL, "
		"authority = NULL, network_json = NULL WHERE agent_id = ? AND number = ?");

	(void)snprintf(text, sizeof(text), "%s", reason); /* these may be cut */
	(void)snprintf(where, sizeof(where), "%s", step);
	query_u64(&q, state);
	query_u64(&q, at_ns);
	query_text(&q, text);
	query_text(&q, where);
	query_text(&q, agent_id);
	query_u64(&q, number);
	return change_one(s, &q, e);
}

int store_agent_fail_open(struct store *s, uint64_t at_ns, const char *reason, struct error *e)
{
	struct query q = db_query(s, STMT_AGENT_FAIL_OPEN,
		"UPDATE agent_versions SET state = 2, finished_ns = ?, reason = ?, "
		"env_json = '{}', secrets_json = '{}', placeholders_json = NULL, "
		"authority = NULL, network_json = NULL WHERE seq IN "
		"(SELECT seq FROM agent_versions INDEXED BY agent_versions_open WHERE state = 0)");

	query_u64(&q, at_ns);
	query_text(&q, reason);
	return query_run(&q, NULL, e);
}

/* --- what its snapshot has --- */

static int copy_or_null(struct query *q, char **ret)
{
	const char *text = row_text(q);

	*ret = text ? strdup(text) : NULL;
	return text && !*ret ? -ENOMEM : 0;
}

/* The columns build_id and network_json. */
static int copy_network(struct query *q, char **ret)
{
	const char *build_id = row_text(q);
	const char *text = row_sealed(q, SEALED_AGENT_NETWORK, build_id);

	*ret = text ? strdup(text) : NULL;
	return text && !*ret ? -ENOMEM : 0;
}

int store_agent_warm_get(struct store *s, const char *agent_id, uint32_t number,
	struct store_agent_warm *ret, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_AGENT_WARM_GET,
		"SELECT placeholders_json, authority, cold, build_id, network_json FROM "
		"agent_versions "
		"WHERE agent_id = ? AND number = ?");
	struct store_agent_warm w = {NULL};
	int r;

	query_text(&q, agent_id);
	query_u64(&q, number);
	r = query_step(&q, e);
	if (r <= 0)
		return r < 0 ? r : not_found(e);
	if (copy_or_null(&q, &w.placeholders_json) == 0 && copy_or_null(&q, &w.authority) == 0 &&
		copy_or_null(&q, &w.cold) == 0 && copy_network(&q, &w.network_json) == 0) {
		*ret = w;
		return 0;
	}
	store_agent_warm_done(&w);
	return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
}

int store_agent_warm_set(
	struct store *s, const char *build_id, const struct store_agent_warm *w, struct error *e)
{
	struct query q = db_query(s, STMT_AGENT_WARM_SET,
		"UPDATE agent_versions SET placeholders_json = ?, authority = ?, network_json = ?, "
		"cold = ? WHERE build_id = ? AND state = 0");
	int r = text_check_json("placeholders", w->placeholders_json, true, NULL, e);

	if (r == 0)
		r = text_check_optional("authority", w->authority, STORE_AUTHORITY_MAX, e);
	if (r == 0)
		r = text_check_json("network", w->network_json, false, NULL, e);
	if (r == 0)
		r = text_check_optional("cold", w->cold, STORE_AGENT_COLD_MAX, e);
	query_text(&q, w->placeholders_json);
	query_text(&q, w->authority);
	query_sealed(&q, SEALED_AGENT_NETWORK, build_id, w->network_json);
	query_text(&q, w->cold);
	query_text(&q, build_id);
	if (r == 0)
		return change_one(s, &q, e);
	query_done(&q);
	return r;
}

int store_agent_cold_set(struct store *s, const char *build_id, const char *cold, struct error *e)
{
	struct query q = db_query(
		s, STMT_AGENT_COLD_SET, "UPDATE agent_versions SET cold = ? WHERE build_id = ?");
	int r = text_check_optional("cold", cold, STORE_AGENT_COLD_MAX, e);

	query_text(&q, cold);
	query_text(&q, build_id);
	if (r == 0)
		return change_one(s, &q, e);
	query_done(&q);
	return r;
}

void store_agent_warm_done(struct store_agent_warm *w)
{
	free(w->placeholders_json);
	free(w->authority);
	free(w->network_json);
	free(w->cold);
	*w = (struct store_agent_warm){NULL};
}
