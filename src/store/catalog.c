#include "store/catalog.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "store/db.h"
#include "store/text.h"

#define COLUMNS                                                                                    \
	"id, key_id, name, public, created_ns, updated_ns, build_count, spawn_count, "             \
	"last_spawned_ns"

static void read_row(struct query *q, struct store_catalog *c)
{
	row_copy(q, c->id, sizeof(c->id));
	row_copy(q, c->key_id, sizeof(c->key_id));
	row_copy(q, c->name, sizeof(c->name));
	c->public = row_bool(q);
	c->created_ns = row_u64(q);
	c->updated_ns = row_u64(q);
	c->build_count = row_u64(q);
	c->spawn_count = row_u64(q);
	c->last_spawned_ns = row_u64(q);
}

static int not_found(struct error *e)
{
	return error_set(e, ERROR_NOT_FOUND, ENOENT, "there is no such template");
}

/* Reads the first row. */
static int first_row(struct query *q, struct store_catalog *ret, struct error *e)
{
	int r = query_step(q, e);

	if (r <= 0)
		return r < 0 ? r : not_found(e);
	read_row(q, ret);
	return 0;
}

int store_catalog_get(struct store *s, const char *id, struct store_catalog *ret, struct error *e)
{
	_cleanup_(query_done) struct query q =
		db_query(s, STMT_CATALOG_GET, "SELECT " COLUMNS " FROM catalog WHERE id = ?");

	query_text(&q, id);
	return first_row(&q, ret, e);
}

int store_catalog_find(struct store *s, const char *key_id, const char *name,
	struct store_catalog *ret, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_CATALOG_FIND,
		"SELECT " COLUMNS " FROM catalog WHERE key_id = ? AND name = ?");

	query_text(&q, key_id);
	query_text(&q, name);
	return first_row(&q, ret, e);
}

int store_catalog_find_in_team(struct store *s, const char *team, const char *name,
	const char *key_id, bool all, struct store_catalog *ret, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_CATALOG_FIND_IN_TEAM,
		"SELECT " COLUMNS " FROM catalog WHERE id = (SELECT c.id FROM keys k "
		"CROSS JOIN teams t ON t.id = k.team_id "
		"CROSS JOIN catalog c ON c.key_id = k.id AND c.name = ?2 "
		"WHERE (t.id = ?1 OR t.name = ?1) AND (c.public = 1 OR c.key_id = ?3 OR ?4) "
		"ORDER BY c.key_id <> ?3, c.created_ns, c.id LIMIT 1)");

	query_text(&q, team);
	query_text(&q, name);
	query_text(&q, key_id);
	query_u64(&q, all);
	return first_row(&q, ret, e);
}

static int check_room(struct store *s, const char *key_id, struct error *e)
{
	struct query q =
		db_query(s, STMT_CATALOG_COUNT, "SELECT count(*) FROM catalog WHERE key_id = ?");
	uint64_t n = 0;
	int r;

	query_text(&q, key_id);
	r = query_number(&q, &n, e);
	if (r == 0 && n >= STORE_CATALOG_MAX)
		r = error_set(e, ERROR_TOO_MANY, ENOBUFS,
			"the key has %d templates already: delete one first", STORE_CATALOG_MAX);
	return r == 0 ? db_check_space(s, e) : r;
}

static int insert(struct store *s, const char *id, const char *key_id, const char *name,
	uint64_t at_ns, struct error *e)
{
	struct query q = db_query(s, STMT_CATALOG_INSERT,
		"INSERT INTO catalog (id, key_id, name, public, created_ns, updated_ns, "
		"build_count, spawn_count, last_spawned_ns) VALUES (?, ?, ?, 0, ?4, ?4, 0, 0, 0)");

	query_text(&q, id);
	query_text(&q, key_id);
	query_text(&q, name);
	query_u64(&q, at_ns);
	return query_run(&q, NULL, e);
}

int store_catalog_put(struct store *s, const char *key_id, const char *name, uint64_t at_ns,
	struct store_catalog *ret, struct error *e)
{
	char id[STORE_TEMPLATE_ID_BYTES];
	struct error why = {0};
	int r = store_catalog_find(s, key_id, name, ret, &why);

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
	return r == 0 ? store_catalog_get(s, id, ret, e) : r;
}

int store_catalog_list(struct store *s, const char *key_id,
	int (*each)(void *arg, const struct store_catalog *c), void *arg, struct error *e)
{
	_cleanup_(query_done) struct query q =
		key_id ? db_query(s, STMT_CATALOG_LIST,
				 "SELECT " COLUMNS " FROM catalog WHERE key_id = ? ORDER BY name")
		       : db_query(s, STMT_CATALOG_LIST_ALL,
				 "SELECT " COLUMNS " FROM catalog INDEXED BY catalog_name "
				 "WHERE key_id >= '' ORDER BY key_id, name");
	int r;

	if (key_id)
		query_text(&q, key_id);
	while ((r = query_step(&q, e)) > 0) {
		struct store_catalog c = {0};

		read_row(&q, &c);
		r = each(arg, &c);
		if (r)
			break;
	}
	return r;
}

int store_catalog_set_public(
	struct store *s, const char *id, bool public, uint64_t at_ns, struct error *e)
{
	struct query q = db_query(s, STMT_CATALOG_SET_PUBLIC,
		"UPDATE catalog SET public = ?, updated_ns = ? WHERE id = ?");
	unsigned changes = 0;
	int r;

	query_u64(&q, public);
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

int store_catalog_remove_builds(struct store *s, const char *id, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	int r = txn_begin(&t, s, e);

	if (r == 0)
		r = run_on(s, STMT_CATALOG_DROP_LOGS,
			"DELETE FROM build_logs WHERE build IN "
			"(SELECT seq FROM builds WHERE template_id = ?)",
			id, e);
	if (r == 0)
		r = run_on(s, STMT_CATALOG_DROP_BUILDS, "DELETE FROM builds WHERE template_id = ?",
			id, e);
	if (r == 0)
		r = run_on(
			s, STMT_CATALOG_DROP_TAGS, "DELETE FROM tags WHERE template_id = ?", id, e);
	return r == 0 ? txn_commit(&t, true, e) : r;
}

int store_catalog_remove(struct store *s, const char *id, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	unsigned changes = 0;
	struct query q;
	int r = txn_begin(&t, s, e);

	if (r == 0)
		r = store_catalog_remove_builds(s, id, e);
	if (r < 0)
		return r;
	q = db_query(s, STMT_CATALOG_DROP, "DELETE FROM catalog WHERE id = ?");
	query_text(&q, id);
	r = query_run(&q, &changes, e);
	if (r == 0 && changes == 0)
		r = not_found(e);
	return r == 0 ? txn_commit(&t, true, e) : r;
}

int store_catalog_count_sandboxes(struct store *s, const char *id, uint64_t *ret_running,
	uint64_t *ret_paused, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_CATALOG_SANDBOXES,
		"SELECT count(*) FILTER (WHERE state IN (0, 1, 3)), "
		"count(*) FILTER (WHERE state = 2) FROM sandboxes WHERE template_id = ?");
	int r;

	query_text(&q, id);
	r = query_step(&q, e);
	if (r < 0)
		return r;
	*ret_running = row_u64(&q);
	*ret_paused = row_u64(&q);
	return 0;
}
