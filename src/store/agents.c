#include "store/agents.h"

#include <errno.h>

#include "base/str.h"
#include "store/db.h"
#include "store/text.h"

#define COLUMNS "id, key_id, name, created_ns, updated_ns, current, last"

static void read_row(struct query *q, struct store_agent *a)
{
	row_copy(q, a->id, sizeof(a->id));
	row_copy(q, a->key_id, sizeof(a->key_id));
	row_copy(q, a->name, sizeof(a->name));
	a->created_ns = row_u64(q);
	a->updated_ns = row_u64(q);
	a->current = (uint32_t)row_u64(q);
	a->last = (uint32_t)row_u64(q);
}

static int not_found(struct error *e)
{
	return error_set(e, ERROR_NOT_FOUND, ENOENT, "there is no such agent");
}

static int first_row(struct query *q, struct store_agent *ret, struct error *e)
{
	int r = query_step(q, e);

	if (r <= 0)
		return r < 0 ? r : not_found(e);
	read_row(q, ret);
	return 0;
}

int store_agent_get(struct store *s, const char *id, struct store_agent *ret, struct error *e)
{
	_cleanup_(query_done) struct query q =
		db_query(s, STMT_AGENT_GET, "SELECT " COLUMNS " FROM agents WHERE id = ?");

	query_text(&q, id);
	return first_row(&q, ret, e);
}

int store_agent_find(struct store *s, const char *key_id, const char *name, struct store_agent *ret,
	struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(
		s, STMT_AGENT_FIND, "SELECT " COLUMNS " FROM agents WHERE key_id = ? AND name = ?");

	query_text(&q, key_id);
	query_text(&q, name);
	return first_row(&q, ret, e);
}

int store_agent_list(struct store *s, const char *key_id,
	int (*each)(void *arg, const struct store_agent *a), void *arg, struct error *e)
{
	_cleanup_(query_done) struct query q =
		key_id ? db_query(s, STMT_AGENT_LIST,
				 "SELECT " COLUMNS " FROM agents WHERE key_id = ? ORDER BY name")
		       : db_query(s, STMT_AGENT_LIST_ALL,
				 "SELECT " COLUMNS " FROM agents INDEXED BY agents_name "
				 "WHERE key_id >= '' ORDER BY key_id, name");
	int r;

	if (key_id)
		query_text(&q, key_id);
	while ((r = query_step(&q, e)) > 0) {
		struct store_agent a = {0};

		read_row(&q, &a);
		r = each(arg, &a);
		if (r)
			break;
	}
	return r;
}

/* --- changes --- */

static int check_room(struct store *s, const char *key_id, struct error *e)
{
	struct query q =
		db_query(s, STMT_AGENT_COUNT, "SELECT count(*) FROM agents WHERE key_id = ?");
	uint64_t n = 0;
	int r;

	query_text(&q, key_id);
	r = query_number(&q, &n, e);
	if (r == 0 && n >= STORE_AGENTS_MAX)
		r = error_set(e, ERROR_TOO_MANY, ENOBUFS,
			"the key has %d agents already: remove one first", STORE_AGENTS_MAX);
	return r == 0 ? db_check_space(s, e) : r;
}

static int insert(struct store *s, const char *id, const char *key_id, const char *name,
	uint64_t at_ns, struct error *e)
{
	struct query q = db_query(s, STMT_AGENT_INSERT,
		"INSERT INTO agents (id, key_id, name, created_ns, updated_ns, current, last) "
		"VALUES (?, ?, ?, ?4, ?4, 0, 0)");

	query_text(&q, id);
	query_text(&q, key_id);
	query_text(&q, name);
	query_u64(&q, at_ns);
	return query_run(&q, NULL, e);
}

int store_agent_put(struct store *s, const char *key_id, const char *name, uint64_t at_ns,
	struct store_agent *ret, struct error *e)
{
	char id[STORE_TEMPLATE_ID_BYTES];
	struct error why = {0};
	int r = store_agent_find(s, key_id, name, ret, &why);

	if (r == 0 || why.code != ERROR_NOT_FOUND)
		return r == 0 ? 0 : error_set(e, why.code, why.err, "%s", why.message);
	r = text_check("name", name, STORE_CATALOG_NAME_MAX, e);
	if (r == 0)
		r = check_room(s, key_id, e);
	if (r == 0 && str_random_id(id, sizeof(id)) < 0)
		r = error_set(e, ERROR_INTERNAL, EIO, "no random numbers");
	if (r == 0)
		r = insert(s, id, key_id, name, at_ns, e);
	if (r == 0)
		r = db_durable(s, e);
	return r == 0 ? store_agent_get(s, id, ret, e) : r;
}

int store_agent_set_current(
	struct store *s, const char *id, uint32_t number, uint64_t at_ns, struct error *e)
{
	struct query q = db_query(s, STMT_AGENT_SET_CURRENT,
		"UPDATE agents SET current = ?, updated_ns = ? WHERE id = ?");
	unsigned changes = 0;
	int r;

	query_u64(&q, number);
	query_u64(&q, at_ns);
	query_text(&q, id);
	r = query_run(&q, &changes, e);
	if (r == 0 && changes == 0)
		r = not_found(e);
	return r < 0 ? r : db_durable(s, e);
}

static int run_on(struct store *s, enum stmt slot, const char *sql, const char *id, struct error *e)
{
	struct query q = db_query(s, slot, sql);

	query_text(&q, id);
	return query_run(&q, NULL, e);
}

int store_agent_remove(struct store *s, const char *id, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	int r = txn_begin(&t, s, e);

	if (r == 0)
		r = run_on(s, STMT_AGENT_DROP_ALIASES,
			"DELETE FROM agent_aliases WHERE agent_id = ?", id, e);
	if (r == 0)
		r = run_on(s, STMT_AGENT_DROP_VERSIONS,
			"DELETE FROM agent_versions WHERE agent_id = ?", id, e);
	if (r == 0)
		r = run_on(s, STMT_AGENT_DROP, "DELETE FROM agents WHERE id = ?", id, e);
	if (r == 0)
		r = store_catalog_remove_builds(s, id, e); /* builds, their logs, tags */
	return r == 0 ? txn_commit(&t, true, e) : r;
}

/* --- aliases --- */

static int no_alias(const char *alias, struct error *e)
{
	return error_set(e, ERROR_NOT_FOUND, ENOENT, "the agent has no alias '%.64s'", alias);
}

/* A new one needs room. */
static int check_alias_room(
	struct store *s, const char *agent_id, const char *alias, struct error *e)
{
	struct query q = db_query(s, STMT_AGENT_ALIAS_COUNT,
		"SELECT count(*) FROM agent_aliases WHERE agent_id = ? AND alias <> ?");
	uint64_t n = 0;
	int r;

	query_text(&q, agent_id);
	query_text(&q, alias);
	r = query_number(&q, &n, e);
	if (r == 0 && n >= STORE_AGENT_ALIASES_MAX)
		r = error_set(e, ERROR_TOO_MANY, ENOBUFS,
			"the agent has %d aliases already: remove one first",
			STORE_AGENT_ALIASES_MAX);
	return r == 0 ? db_check_space(s, e) : r;
}

int store_agent_alias_put(struct store *s, const char *agent_id, const char *alias,
	const char *weights_json, struct error *e)
{
	struct query q;
	int r = text_check("alias", alias, STORE_AGENT_ALIAS_MAX, e);

	if (r == 0)
		r = text_check("weights", weights_json, STORE_AGENT_WEIGHTS_MAX, e);
	if (r == 0)
		r = text_check_json("weights", weights_json, false, NULL, e);
	if (r == 0)
		r = check_alias_room(s, agent_id, alias, e);
	if (r < 0)
		return r;
	q = db_query(
		s, STMT_AGENT_ALIAS_PUT, "INSERT OR REPLACE INTO agent_aliases VALUES (?, ?, ?)");
	query_text(&q, agent_id);
	query_text(&q, alias);
	query_text(&q, weights_json);
	r = query_run(&q, NULL, e);
	return r < 0 ? r : db_durable(s, e);
}

int store_agent_alias_remove(
	struct store *s, const char *agent_id, const char *alias, struct error *e)
{
	struct query q = db_query(s, STMT_AGENT_ALIAS_REMOVE,
		"DELETE FROM agent_aliases WHERE agent_id = ? AND alias = ?");
	unsigned changes = 0;
	int r;

	query_text(&q, agent_id);
	query_text(&q, alias);
	r = query_run(&q, &changes, e);
	if (r == 0 && changes == 0)
		r = no_alias(alias, e);
	return r < 0 ? r : db_durable(s, e);
}

int store_agent_alias_get(struct store *s, const char *agent_id, const char *alias,
	char ret[STORE_AGENT_WEIGHTS_MAX + 1], struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_AGENT_ALIAS_GET,
		"SELECT weights_json FROM agent_aliases WHERE agent_id = ? AND alias = ?");
	int r;

	query_text(&q, agent_id);
	query_text(&q, alias);
	r = query_step(&q, e);
	if (r <= 0)
		return r < 0 ? r : no_alias(alias, e);
	row_copy(&q, ret, STORE_AGENT_WEIGHTS_MAX + 1);
	return 0;
}

int store_agent_alias_list(struct store *s, const char *agent_id,
	int (*each)(void *arg, const char *alias, const char *weights_json), void *arg,
	struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_AGENT_ALIAS_LIST,
		"SELECT alias, weights_json FROM agent_aliases WHERE agent_id = ? ORDER BY alias");
	int r;

	query_text(&q, agent_id);
	while ((r = query_step(&q, e)) > 0) {
		const char *alias = row_text(&q);

		r = each(arg, alias, row_text(&q));
		if (r)
			break;
	}
	return r;
}
