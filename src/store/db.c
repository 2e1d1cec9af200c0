#include "base/log.h"
#include "base/str.h"
#include "store/db.h"

#include <errno.h>
#include <string.h>

#include "store/checkpoint.h"

/* An administrator's sqlite3 may hold the write lock for a moment. A longer wait would stop the
 * event loop for longer than the failure of one call is worth. */
enum { BUSY_MS = 1000 };

static const char settings_sql[] =
	"PRAGMA journal_mode = WAL;"
	"PRAGMA synchronous = NORMAL;"	 /* see store.h; synced calls add a sync */
	"PRAGMA wal_autocheckpoint = 0;" /* see checkpoint.h */
	"PRAGMA foreign_keys = ON;"
	"PRAGMA trusted_schema = OFF;"
	"PRAGMA cell_size_check = ON;"
	"PRAGMA secure_delete = FAST;" /* do not leave tokens of removed sandboxes in the file */
	"PRAGMA temp_store = MEMORY;";

static const char damaged[] =
	"the database %s is damaged (%s); stop the daemon, keep a copy of the file, and restore a "
	"backup or run: sqlite3 %s .recover | sqlite3 repaired.db";

static int connection_error(sqlite3 *db, const char *path, struct error *e)
{
	int code = sqlite3_extended_errcode(db), err = sqlite3_system_errno(db);
	const char *message = sqlite3_errmsg(db);

	switch (code & 0xff) {
	case SQLITE_FULL:
		return error_set(e, ERROR_NO_SPACE, ENOSPC,
			"no space left for the database %s; free some and try again", path);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return error_set(e, ERROR_INTERNAL, EAGAIN,
			"another program holds a lock on the database %s; try again", path);
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return error_set(e, ERROR_INTERNAL, EUCLEAN, damaged, path, message, path);
	case SQLITE_NOMEM:
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory in the database");
	case SQLITE_READONLY:
	case SQLITE_PERM:
	case SQLITE_CANTOPEN:
		return error_set(e, ERROR_HOST, err ? err : EACCES,
			"the database %s cannot be opened for writing (%s)", path, message);
	case SQLITE_TOOBIG:
		return error_set(e, ERROR_USAGE, EMSGSIZE, "a value is too large for the database");
	case SQLITE_IOERR:
		if (err == ENOSPC || err == EDQUOT)
			return error_set(e, ERROR_NO_SPACE, ENOSPC,
				"no space left for the database %s; free some and try again", path);
		return error_set(e, ERROR_INTERNAL, EIO, "I/O error on the database %s (%s)", path,
			err ? strerror(err) : message);
	case SQLITE_CONSTRAINT:
		if (code == SQLITE_CONSTRAINT_FOREIGNKEY)
			return error_set(e, ERROR_NOT_FOUND, ENOENT,
				"what the new entry refers to does not exist");
		if (code == SQLITE_CONSTRAINT_UNIQUE || code == SQLITE_CONSTRAINT_PRIMARYKEY)
			return error_set(e, ERROR_EXISTS, EEXIST, "the entry exists already");
		return error_set(e, ERROR_USAGE, EINVAL, "a value is not allowed (%s)", message);
	default:
		return error_set(e, ERROR_INTERNAL, EIO, "database %s: %s", path, message);
	}
}

int db_connect(const char *path, sqlite3 **ret, struct error *e)
{
	sqlite3 *db = NULL;
	int rc = sqlite3_open_v2(path, &db,
		SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);

	if (!db)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	if (rc == SQLITE_OK)
		rc = sqlite3_busy_timeout(db, BUSY_MS);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(db, settings_sql, NULL, NULL, NULL);
	if (rc != SQLITE_OK) {
		int r = connection_error(db, path, e);

		(void)sqlite3_close(db); /* no statements are open */
		return r;
	}
	*ret = db;
	return 0;
}

/* Turns the connection's last failure into -errno, and fills e. */
static int failure(struct store *s, struct error *e)
{
	return connection_error(s->db, s->path, e);
}

int db_exec(struct store *s, const char *sql, struct error *e)
{
	return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : failure(s, e);
}

int db_check_space(struct store *s, struct error *e)
{
	if (!checkpointer_disk_full(s->checkpointer))
		return 0;
	return error_set(e, ERROR_NO_SPACE, ENOSPC,
		"no space left for the database %s; free some and try again", s->path);
}

int db_durable(struct store *s, struct error *e)
{
	if (s->in_batch) {
		s->sync_wanted = true;
		return 0;
	}
	return store_sync(s, e);
}

struct query db_query_once(struct store *s, const char *sql)
{
	struct query q = {.store = s, .owned = true};

	(void)sqlite3_prepare_v2(s->db, sql, -1, &q.stmt, NULL); /* on failure query_step sees
								  * NULL */
	return q;
}

struct query db_query(struct store *s, enum stmt slot, const char *sql)
{
	sqlite3_stmt **cached = &s->stmts[slot];

	if (!*cached)
		(void)sqlite3_prepare_v3(
			s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, cached, NULL); /* likewise */
	else if (sqlite3_stmt_busy(*cached)) /* a callback called the same query again */
		return db_query_once(s, sql);
	return (struct query){.store = s, .stmt = *cached};
}

struct opened {
	struct opened *next;
	char *text;
};

static void forget_opened(struct query *q)
{
	for (struct opened *o = q->opened, *next; o; o = next) {
		next = o->next;
		explicit_bzero(o->text, strlen(o->text));
		free(o->text);
		free(o);
	}
	q->opened = NULL;
}

const char *row_keep(struct query *q, char *text)
{
	struct opened *o = malloc(sizeof(*o));

	if (!o) {
		explicit_bzero(text, strlen(text));
		free(text);
		return NULL;
	}
	*o = (struct opened){q->opened, text};
	q->opened = o;
	return text;
}

void query_done(struct query *q)
{
	forget_opened(q);
	if (!q->stmt)
		return;
	if (q->owned) {
		(void)sqlite3_finalize(q->stmt); /* repeats the error of the last step */
	} else {
		(void)sqlite3_reset(q->stmt); /* likewise */
		(void)sqlite3_clear_bindings(q->stmt);
	}
	q->stmt = NULL;
}

void query_text(struct query *q, const char *v)
{
	if (q->stmt && sqlite3_bind_text(q->stmt, ++q->param, v, -1, SQLITE_STATIC) != SQLITE_OK)
		q->failed_bind = true;
}

void query_u64(struct query *q, uint64_t v)
{
	int64_t n = v > INT64_MAX ? INT64_MAX : (int64_t)v;

	if (q->stmt && sqlite3_bind_int64(q->stmt, ++q->param, n) != SQLITE_OK)
		q->failed_bind = true;
}

void query_blob(struct query *q, const void *v, size_t n)
{
	if (q->stmt && sqlite3_bind_blob64(q->stmt, ++q->param, v, n, SQLITE_STATIC) != SQLITE_OK)
		q->failed_bind = true;
}

void query_text_taken(struct query *q, char *v)
{
	if (!q->stmt)
		free(v);
	else if (sqlite3_bind_text(q->stmt, ++q->param, v, -1, free) != SQLITE_OK)
		q->failed_bind = true;
}

void query_blob_taken(struct query *q, void *v, size_t n)
{
	if (!q->stmt)
		free(v);
	else if (sqlite3_bind_blob64(q->stmt, ++q->param, v, n, free) != SQLITE_OK)
		q->failed_bind = true;
}

int query_step(struct query *q, struct error *e)
{
	struct store *s = q->store;
	int rc;

	forget_opened(q);
	if (q->failed_seal)
		return error_set(
			e, s->vault_error.code, s->vault_error.err, "%s", s->vault_error.message);

	/* Some errors make SQLite undo the whole transaction. The rest of the batch must not be
	 * committed call by call then. */
	if (s->in_batch && sqlite3_get_autocommit(s->db))
		return error_set(e, ERROR_INTERNAL, ECANCELED,
			"an earlier error undid this batch of changes to the database");
	if (!q->stmt || q->failed_bind)
		return failure(s, e);
	q->column = 0;
	rc = sqlite3_step(q->stmt);
	if (rc == SQLITE_ROW)
		return 1;
	return rc == SQLITE_DONE ? 0 : failure(s, e);
}

int query_run(struct query *q, unsigned *ret_changes, struct error *e)
{
	int r;

	do
		r = query_step(q, e);
	while (r > 0);
	if (r == 0 && ret_changes)
		*ret_changes = (unsigned)sqlite3_changes(q->store->db);
	query_done(q);
	return r;
}

int query_run_slice(struct query *q, unsigned limit, bool *more, struct error *e)
{
	unsigned changes = 0;
	int r = query_run(q, &changes, e);

	if (r == 0 && changes == limit)
		*more = true;
	return r;
}

int query_number(struct query *q, uint64_t *ret, struct error *e)
{
	int r = query_step(q, e);

	if (r > 0)
		*ret = row_u64(q);
	query_done(q);
	return r > 0 ? 0 : r == 0 ? -ENOENT : r;
}

const char *row_text(struct query *q)
{
	return (const char *)sqlite3_column_text(q->stmt, q->column++);
}

uint64_t row_u64(struct query *q)
{
	int64_t v = sqlite3_column_int64(q->stmt, q->column++);

	return v < 0 ? 0 : (uint64_t)v;
}

bool row_bool(struct query *q)
{
	return row_u64(q) != 0;
}

void row_blob(struct query *q, void *out, size_t n)
{
	const void *data = sqlite3_column_blob(q->stmt, q->column);
	size_t have = (size_t)sqlite3_column_bytes(q->stmt, q->column++);

	memset(out, 0, n);
	if (data)
		memcpy(out, data, have < n ? have : n);
}

const void *row_bytes(struct query *q, size_t *ret_n)
{
	const void *data = sqlite3_column_blob(q->stmt, q->column);

	*ret_n = (size_t)sqlite3_column_bytes(q->stmt, q->column++);
	return data;
}

void row_copy(struct query *q, char *out, size_t n)
{
	const char *text = row_text(q);
	size_t have = text ? strnlen(text, n - 1) : 0;

	if (have)
		memcpy(out, text, have);
	out[have] = '\0';
}

static int run_control(struct store *s, enum stmt slot, const char *sql, struct error *e)
{
	struct query q = db_query(s, slot, sql);

	return query_run(&q, NULL, e);
}

int txn_begin(struct txn *t, struct store *s, struct error *e)
{
	int r;

	*t = (struct txn){.store = s, .savepoint = !sqlite3_get_autocommit(s->db)};
	r = t->savepoint ? run_control(s, STMT_SAVEPOINT, "SAVEPOINT call", e)
			 : run_control(s, STMT_BEGIN, "BEGIN IMMEDIATE", e);
	t->open = r == 0;
	return r;
}

int txn_commit(struct txn *t, bool sync, struct error *e)
{
	struct store *s = t->store;
	int r = t->savepoint ? run_control(s, STMT_RELEASE, "RELEASE call", e)
			     : run_control(s, STMT_COMMIT, "COMMIT", e);

	if (r < 0)
		return r; /* txn_end rolls back */
	t->open = false;
	return sync ? db_durable(s, e) : 0;
}

void txn_end(struct txn *t)
{
	struct store *s = t->store;

	if (!t->open || sqlite3_get_autocommit(s->db))
		return; /* nothing left to undo */
	t->open = false;
	/* If the rollback fails, the next BEGIN reports the open transaction. */
	if (t->savepoint) {
		(void)run_control(s, STMT_ROLLBACK_TO, "ROLLBACK TO call", NULL);
		(void)run_control(s, STMT_RELEASE, "RELEASE call", NULL);
	} else {
		(void)run_control(s, STMT_ROLLBACK, "ROLLBACK", NULL);
	}
}

int store_begin(struct store *s, struct error *e)
{
	int r;

	if (s->in_batch)
		return error_set(e, ERROR_INTERNAL, EALREADY, "batches do not nest");
	r = run_control(s, STMT_BEGIN, "BEGIN IMMEDIATE", e);
	if (r < 0)
		return r;
	s->in_batch = true;
	s->sync_wanted = false;
	return 0;
}

int store_commit(struct store *s, struct error *e)
{
	struct error why = {0};
	int r;

	if (!s->in_batch)
		return error_set(e, ERROR_INTERNAL, EINVAL, "no batch is open");
	r = run_control(s, STMT_COMMIT, "COMMIT", e);
	if (r < 0) {
		store_rollback(s);
		return r;
	}
	s->in_batch = false;
	/* The commit is visible, so it cannot be undone, and files that it refers to must stay. */
	if (s->sync_wanted && store_sync(s, &why) < 0)
		log_error("what was stored may be lost if the host fails: %s", why.message);
	return 0;
}

void store_rollback(struct store *s)
{
	bool open = s->in_batch && !sqlite3_get_autocommit(s->db);

	s->in_batch = false;
	if (open)
		(void)run_control(s, STMT_ROLLBACK, "ROLLBACK", NULL); /* as in txn_end */
}

int db_random_uuid(char out[STORE_UUID_BYTES], struct error *e)
{
	int r = str_random_uuid(out);

	return r < 0 ? error_set_errno(e, ERROR_INTERNAL, -r, "reading random numbers") : 0;
}
