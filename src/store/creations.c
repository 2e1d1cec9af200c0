#include "store/creations.h"

#include <errno.h>

#include "store/db.h"
#include "store/maintain.h"
#include "store/text.h"

/* Rows of a key are numbered, so the oldest can be found without counting. */
static int next_number(struct store *s, const char *key_id, uint64_t *ret, struct error *e)
{
	struct query q = db_query(s, STMT_CREATION_NEXT,
		"SELECT coalesce(max(number), 0) + 1 FROM creations WHERE key_id = ?");

	query_text(&q, key_id);
	return query_number(&q, ret, e);
}

static int put(struct store *s, const char *key_id, const struct store_creation *c,
	const char *sandbox_id, uint64_t number, uint64_t now_ns, struct error *e)
{
	struct query q = db_query(s, STMT_CREATION_PUT,
		"INSERT INTO creations (key_id, word, hash, sandbox_id, number, created_ns) "
		"VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key_id, word) DO UPDATE SET "
		"hash = excluded.hash, sandbox_id = excluded.sandbox_id, "
		"number = excluded.number, created_ns = excluded.created_ns");

	query_text(&q, key_id);
	query_text(&q, c->word);
	query_blob(&q, c->hash, sizeof(c->hash));
	query_text(&q, sandbox_id);
	query_u64(&q, number);
	query_u64(&q, now_ns);
	return query_run(&q, NULL, e);
}

static int drop_oldest(struct store *s, const char *key_id, uint64_t number, struct error *e)
{
	struct query q = db_query(
		s, STMT_CREATION_DROP, "DELETE FROM creations WHERE key_id = ? AND number <= ?");

	query_text(&q, key_id);
	query_u64(&q, number > STORE_CREATIONS_MAX ? number - STORE_CREATIONS_MAX : 0);
	return query_run(&q, NULL, e);
}

int store_creation_add(struct store *s, const char *key_id, const struct store_creation *c,
	const char *sandbox_id, uint64_t now_ns, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	uint64_t number = 0;
	int r = text_check("Idempotency-Key", c->word, STORE_CREATION_WORD_BYTES - 1, e);

	if (r == 0)
		r = db_check_space(s, e);
	if (r == 0)
		r = txn_begin(&t, s, e);
	if (r == 0)
		r = next_number(s, key_id, &number, e);
	if (r == 0)
		r = put(s, key_id, c, sandbox_id, number, now_ns, e);
	if (r == 0)
		r = drop_oldest(s, key_id, number, e);
	return r == 0 ? txn_commit(&t, false, e) : r;
}

int store_creation_find(struct store *s, const char *key_id, const char *word, uint64_t now_ns,
	uint8_t ret_hash[STORE_CREATION_HASH_BYTES], char ret_sandbox_id[STORE_ID_MAX + 1],
	struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_CREATION_FIND,
		"SELECT hash, sandbox_id FROM creations "
		"WHERE key_id = ? AND word = ? AND created_ns > ?");
	int r;

	query_text(&q, key_id);
	query_text(&q, word);
	query_u64(&q, now_ns > STORE_CREATION_LIFE_NS ? now_ns - STORE_CREATION_LIFE_NS : 0);
	r = query_step(&q, e);
	if (r == 0)
		return error_set(e, ERROR_NOT_FOUND, ENOENT, "no such creation");
	if (r < 0)
		return r;
	row_blob(&q, ret_hash, STORE_CREATION_HASH_BYTES);
	row_copy(&q, ret_sandbox_id, STORE_ID_MAX + 1);
	return 0;
}

int creations_prune(struct store *s, uint64_t before_ns, bool *more, struct error *e)
{
	struct query q = db_query(s, STMT_CREATION_PRUNE,
		"DELETE FROM creations WHERE id IN (SELECT id FROM creations "
		"INDEXED BY creations_created WHERE created_ns < ? LIMIT ?)");

	query_u64(&q, before_ns);
	query_u64(&q, MAINTAIN_ROWS);
	return query_run_slice(&q, MAINTAIN_ROWS, more, e);
}
