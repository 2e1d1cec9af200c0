#include "store/vault.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/str.h"
#include "store/activity.h"
#include "store/maintain.h"
#include "store/checkpoint.h"
#include "store/db.h"
#include "store/schema.h"
#include "store/sealed_columns.h"

bool store_vault_key(struct store *s, uint8_t ret_name[STORE_VAULT_NAME])
{
	_cleanup_(query_done) struct query q = db_query_once(s, "SELECT key FROM vault");
	size_t n = 0;
	const void *name = query_step(&q, NULL) > 0 ? row_bytes(&q, &n) : NULL;

	if (!name || n != STORE_VAULT_NAME)
		return false;
	memcpy(ret_name, name, STORE_VAULT_NAME);
	return true;
}

static int note_key(struct store *s, const uint8_t name[STORE_VAULT_NAME], struct error *e)
{
	struct query q = db_query_once(s, "UPDATE vault SET key = ?, done = max(done, 1)");

	query_blob(&q, name, STORE_VAULT_NAME);
	return query_run(&q, NULL, e);
}

/* --- every value of a column --- */

/* Values become those of `to`: from plain text, or from what `from` opens. */
struct change {
	struct store *store;
	const struct store_vault *from, *to; /* from NULL: plain text */
	uint64_t count;
	struct error *e;
};

/* A value's bytes as they were before sealing. *ret is malloc'ed. */
static int value_bytes(struct change *c, const char *context, struct query *q, bool blob,
	char **ret, size_t *ret_n)
{
	_cleanup_free_ uint8_t *decoded = NULL;
	size_t n;
	const void *value = row_bytes(q, &n);
	_cleanup_free_ char *copy = malloc(n + 1);
	int r = copy ? 0 : error_set(c->e, ERROR_INTERNAL, ENOMEM, "out of memory");

	if (r < 0)
		return r;
	memcpy(copy, n ? value : "", n);
	copy[n] = '\0';
	if (!c->from) {
		*ret = TAKE_PTR(copy);
		*ret_n = n;
		return 0;
	}
	if (blob)
		return c->from->open(c->from->arg, context, copy, n, ret, ret_n, c->e);
	r = sealed_decode(copy, &decoded, &n);
	if (r < 0)
		return error_set_errno(c->e, ERROR_INTERNAL, -r, "a sealed value");
	return c->from->open(c->from->arg, context, decoded, n, ret, ret_n, c->e);
}

static int put_value(
	struct change *c, const struct sealed_column *col, uint64_t row, uint8_t *sealed, size_t n)
{
	char sql[160];
	char *text = col->blob ? NULL : sealed_encode(sealed, n);
	struct query q;

	(void)snprintf(sql, sizeof(sql), "UPDATE %s SET %s = ? WHERE rowid = ?", col->table,
		col->column); /* fits */
	q = db_query_once(c->store, sql);
	if (col->blob) {
		query_blob_taken(&q, sealed, n);
	} else {
		free(sealed);
		query_text_taken(&q, text); /* NULL fails at the column or is seen below */
	}
	query_u64(&q, row);
	if (!col->blob && !text) {
		query_done(&q);
		return error_set(c->e, ERROR_INTERNAL, ENOMEM, "out of memory");
	}
	return query_run(&q, NULL, c->e);
}

static int change_value(
	struct change *c, const struct sealed_column *col, struct query *q, uint64_t row)
{
	char context[SEALED_CONTEXT_BYTES];
	uint8_t *sealed = NULL;
	char *plain = NULL;
	size_t n = 0, sealed_n = 0;
	int r;

	row_copy(q, context, sizeof(context));
	r = value_bytes(c, context, q, col->blob, &plain, &n);
	if (r == 0)
		r = c->to->seal(c->to->arg, context, plain, n, &sealed, &sealed_n, c->e);
	if (plain)
		explicit_bzero(plain, n);
	free(plain);
	if (r < 0) {
		error_prefix(
			c->e, "%s.%s, row %llu", col->table, col->column, (unsigned long long)row);
		return r;
	}
	c->count++;
	return put_value(c, col, row, sealed, sealed_n);
}

static void context_sql(const struct sealed_column *col, char out[SEALED_CONTEXT_BYTES])
{
	if (col->context)
		(void)snprintf(out, SEALED_CONTEXT_BYTES, "%s", col->context); /* these fit */
	else
		(void)snprintf(out, SEALED_CONTEXT_BYTES, "'%s.%s ' || %s", col->table, col->column,
			col->owner);
}

/* One row at a time, after the last one: the update must not meet the query. */
static int change_column(struct change *c, const struct sealed_column *col)
{
	char sql[2 * SEALED_CONTEXT_BYTES], context[SEALED_CONTEXT_BYTES];
	uint64_t row = 0;
	int r;

	context_sql(col, context);
	(void)snprintf(sql, sizeof(sql),
		"SELECT rowid, %s, %s FROM %s WHERE rowid > ? AND %s IS NOT NULL AND %s NOT IN "
		"('', '{}') ORDER BY rowid LIMIT 1",
		context, col->column, col->table, col->column, col->column); /* fits */
	for (;;) {
		_cleanup_(query_done) struct query q = db_query_once(c->store, sql);

		query_u64(&q, row);
		r = query_step(&q, c->e);
		if (r <= 0)
			return r;
		row = row_u64(&q);
		r = change_value(c, col, &q, row);
		if (r < 0)
			return r;
	}
}

/* All columns up to `count` in one transaction, together with the key's name. */
static int change_all(struct change *c, unsigned count, const uint8_t name[STORE_VAULT_NAME],
	const uint8_t *activity_key, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = c->store};
	int r = txn_begin(&t, c->store, e);

	c->e = e;
	if (r == 0 && activity_key)
		r = activity_sign_anew(c->store, activity_key, e);
	for (unsigned i = 0; r == 0 && i < count; i++)
		r = change_column(c, &sealed_columns[i]);
	if (r == 0)
		r = note_key(c->store, name, e);
	if (r == 0)
		r = fault_disk("vault_commit", e);
	return r < 0 ? r : txn_commit(&t, true, e);
}

/* --- the first time --- */

enum done { DONE_NOTHING, DONE_SEALED, DONE_CLEAN };

/* The copies of the file that earlier migrations made have the plain text in them. */
static int remove_copies(struct store *s, struct error *e)
{
	for (unsigned v = 1; v < VAULT_VERSION; v++) {
		_cleanup_free_ char *path = str_printf("%s.v%u", s->path, v);

		if (!path)
			return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
		if (unlink(path) < 0 && errno != ENOENT)
			return error_set_errno(e, ERROR_HOST, errno,
				"%s holds secrets in plain text and cannot be removed", path);
	}
	return 0;
}

/* Empties the log. busy: another process reads the database, so the log keeps what it has. */
static int empty_log(struct store *s, uint64_t *ret_busy, struct error *e)
{
	struct query q = db_query_once(s, "PRAGMA wal_checkpoint(TRUNCATE)");

	return query_number(&q, ret_busy, e);
}

/* Writes the file anew and empties its log, so that neither has plain text of before. If a reader
 * keeps the log, the next start does it again. */
static int clean(struct store *s, struct error *e)
{
	uint64_t busy = 0;
	int r = db_exec(s, "VACUUM", e);

	if (r == 0)
		r = empty_log(s, &busy, e);
	checkpointer_renew(s->checkpointer);
	if (r == 0)
		r = remove_copies(s, e);
	if (r < 0) {
		error_prefix(e, "removing the plain text of what is sealed now");
		return r;
	}
	return busy ? 0 : db_exec(s, "UPDATE vault SET done = 2", e);
}

static int read_done(struct store *s, uint64_t *ret, struct error *e)
{
	struct query q = db_query_once(s, "SELECT done FROM vault");

	return query_number(&q, ret, e);
}

int store_vault_set(struct store *s, const struct store_vault *v,
	const uint8_t name[STORE_VAULT_NAME], uint64_t *ret_sealed, struct error *e)
{
	struct change c = {.store = s, .to = v};
	uint64_t done = DONE_NOTHING;
	int r = read_done(s, &done, e);

	if (r == 0 && getrandom(s->nobody, sizeof(s->nobody), 0) != sizeof(s->nobody))
		r = error_set(e, ERROR_INTERNAL, EIO, "no random numbers");
	if (r == 0 && !name)
		done = DONE_CLEAN;
	if (r == 0 && done == DONE_NOTHING)
		r = change_all(&c, SEALED_KINDS_, name, NULL, e);
	if (r == 0 && done < DONE_CLEAN)
		r = clean(s, e);
	if (r < 0)
		return r;
	s->vault = *v;
	if (ret_sealed)
		*ret_sealed = c.count;
	return 0;
}

int store_vault_change(struct store *s, const struct store_vault *v,
	const uint8_t name[STORE_VAULT_NAME], const uint8_t activity_key[32], uint64_t *ret_sealed,
	struct error *e)
{
	struct change c = {.store = s, .from = &s->vault, .to = v};
	int r = change_all(&c, sealed_column_count, name, activity_key, e);

	if (r < 0)
		return r;
	s->vault = *v;
	store_activity_key(s, activity_key);
	if (ret_sealed)
		*ret_sealed = c.count;
	return 0;
}

void store_vault_take(struct store *s, const struct store_vault *v)
{
	s->vault = *v;
}
