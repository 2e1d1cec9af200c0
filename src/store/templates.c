#include "store/templates.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/str.h"
#include "store/db.h"
#include "store/text.h"

/* Reads the row of what is seen: id, build_id, build_count, spawn_count, last_spawned_ns. Returns 1
 * when there is one. */
static int take_row(struct query *q, const char *name, struct store_template *t, struct error *e)
{
	int r;

	query_text(q, name);
	r = query_step(q, e);
	if (r <= 0)
		return r;
	row_copy(q, t->id, sizeof(t->id));
	row_copy(q, t->build_id, sizeof(t->build_id));
	t->build_count = row_u64(q);
	t->spawn_count = row_u64(q);
	t->last_spawned_ns = row_u64(q);
	return 1;
}

/* Returns 1 when found. */
static int read_row(struct store *s, const char *name, struct store_template *t, uint64_t *made_s,
	struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_TEMPLATE_GET,
		"SELECT id, build_id, build_count, spawn_count, last_spawned_ns, made_s "
		"FROM templates WHERE name = ?");
	int r = take_row(&q, name, t, e);

	if (r > 0)
		*made_s = row_u64(&q);
	return r;
}

static int write_row(struct store *s, const char *name, const struct store_template *t,
	uint64_t made_s, struct error *e)
{
	struct query q = db_query(s, STMT_TEMPLATE_PUT,
		"INSERT INTO templates VALUES (?, ?, ?, ?, ?, 0, 0) "
		"ON CONFLICT (name) DO UPDATE SET build_id = excluded.build_id, "
		"made_s = excluded.made_s, build_count = excluded.build_count");

	query_text(&q, name);
	query_text(&q, t->id);
	query_text(&q, t->build_id);
	query_u64(&q, made_s);
	query_u64(&q, t->build_count);
	return query_run(&q, NULL, e);
}

/* Records a build. Synced, as clients keep the ids. */
static int note_build(struct store *s, const char *name, struct store_template *t, bool is_new,
	uint64_t made_s, struct error *e)
{
	int r = db_check_space(s, e);

	if (r == 0 && is_new && str_random_id(t->id, sizeof(t->id)) < 0)
		r = error_set(e, ERROR_INTERNAL, EIO, "no random numbers");
	if (r == 0)
		r = db_random_uuid(t->build_id, e);
	t->build_count++;
	if (r == 0)
		r = write_row(s, name, t, made_s, e);
	return r < 0 ? r : db_durable(s, e);
}

/* The directory of a client's build has its id as a name (catalog.h). Returns 1 when found. */
static int read_build(struct store *s, const char *name, struct store_template *t, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_BUILD_TEMPLATE,
		"SELECT catalog.id, builds.id, build_count, spawn_count, last_spawned_ns "
		"FROM builds JOIN catalog ON catalog.id = template_id WHERE builds.id = ?");

	return take_row(&q, name, t, e);
}

int store_template_see(struct store *s, const char *name, uint64_t made_s,
	struct store_template *ret, struct error *e)
{
	struct store_template t = {0};
	uint64_t seen_s = 0;
	int r = text_check("name", name, STORE_NAME_MAX, e);

	if (r == 0 && strlen(name) == STORE_UUID_BYTES - 1) {
		r = read_build(s, name, &t, e);
		if (r == 1)
			*ret = t;
		if (r != 0)
			return r < 0 ? r : 0;
	}
	if (r == 0)
		r = read_row(s, name, &t, &seen_s, e);
	if (r < 0)
		return r;
	if (r == 0 || t.build_count == 0 || seen_s != made_s)
		r = note_build(s, name, &t, r == 0, made_s, e);
	if (r < 0)
		return r;
	*ret = t;
	return 0;
}

int store_template_name(
	struct store *s, const char *id, char ret[STORE_NAME_MAX + 1], struct error *e)
{
	_cleanup_(query_done) struct query q =
		db_query(s, STMT_TEMPLATE_NAME, "SELECT name FROM templates WHERE id = ?");
	int r;

	query_text(&q, id);
	r = query_step(&q, e);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	row_copy(&q, ret, STORE_NAME_MAX + 1);
	return 0;
}

static int spawned_of_client(struct store *s, const char *id, uint64_t at_ns, struct error *e)
{
	struct query q = db_query(s, STMT_CATALOG_SPAWNED,
		"UPDATE catalog SET spawn_count = spawn_count + 1, "
		"last_spawned_ns = max(last_spawned_ns, ?) WHERE id = ?");

	query_u64(&q, at_ns);
	query_text(&q, id);
	return query_run(&q, NULL, e);
}

int store_template_spawned(struct store *s, const char *id, uint64_t at_ns, struct error *e)
{
	unsigned changes = 0;
	int r;
	struct query q = db_query(s, STMT_TEMPLATE_SPAWNED,
		"UPDATE templates SET spawn_count = spawn_count + 1, "
		"last_spawned_ns = max(last_spawned_ns, ?) WHERE id = ?");

	query_u64(&q, at_ns);
	query_text(&q, id);
	r = query_run(&q, &changes, e);
	return r == 0 && changes == 0 ? spawned_of_client(s, id, at_ns, e) : r;
}
