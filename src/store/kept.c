#include "store/kept.h"

#include "base/cleanup.h"
#include "store/db.h"

static int count_key(struct store *s, const char *key_id, struct store_kept *ret, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_KEPT_KEY,
		"SELECT (SELECT count(*) FROM sandboxes WHERE state IN (1, 2) AND key_id = ?1) + "
		"(SELECT count(*) FROM snapshots WHERE key_id = ?1), "
		"(SELECT ifnull(sum(kept_bytes), 0) FROM sandboxes WHERE state IN (1, 2) "
		"AND key_id = ?1) + "
		"(SELECT ifnull(sum(kept_bytes), 0) FROM snapshots WHERE key_id = ?1), "
		"(SELECT count(*) FROM sandboxes WHERE state IN (0, 3) AND key_id = ?1 "
		"AND auto_pause)");
	int r;

	query_text(&q, key_id);
	r = query_step(&q, e);
	if (r <= 0)
		return r;
	*ret = (struct store_kept){row_u64(&q), row_u64(&q), row_u64(&q)};
	return 0;
}

static int count_all(struct store *s, struct store_kept *ret, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_KEPT_ALL,
		"SELECT (SELECT count(*) FROM sandboxes WHERE state IN (1, 2)) + "
		"(SELECT count(kept_bytes) FROM snapshots), "
		"(SELECT ifnull(sum(kept_bytes), 0) FROM sandboxes WHERE state IN (1, 2)) + "
		"(SELECT ifnull(sum(kept_bytes), 0) FROM snapshots)");
	int r = query_step(&q, e);

	if (r <= 0)
		return r;
	*ret = (struct store_kept){row_u64(&q), row_u64(&q), 0};
	return 0;
}

int store_kept_count(struct store *s, const char *key_id, struct store_kept *ret, struct error *e)
{
	*ret = (struct store_kept){0};
	return key_id ? count_key(s, key_id, ret, e) : count_all(s, ret, e);
}

static int note(struct query q, const char *id, uint64_t bytes, struct error *e)
{
	query_u64(&q, bytes);
	query_text(&q, id);
	return query_run(&q, NULL, e);
}

int store_kept_note_paused(struct store *s, const char *id, uint64_t bytes, struct error *e)
{
	return note(
		db_query(s, STMT_KEPT_PAUSED, "UPDATE sandboxes SET kept_bytes = ? WHERE id = ?"),
		id, bytes, e);
}

int store_kept_note_snapshot(struct store *s, const char *id, uint64_t bytes, struct error *e)
{
	return note(
		db_query(s, STMT_KEPT_SNAPSHOT, "UPDATE snapshots SET kept_bytes = ? WHERE id = ?"),
		id, bytes, e);
}
