#include "store/activity.h"

#include <errno.h>
#include <string.h>

#include "store/db.h"
#include "store/maintain.h"
#include "store/text.h"

enum { ROOM_ROWS = 64 }; /* removed by one statement */

static const char *const kind_names[STORE_ACTIVITY_KINDS_] = {
	[STORE_ACTIVITY_FLOW] = "flow",
	[STORE_ACTIVITY_REQUEST] = "request",
	[STORE_ACTIVITY_LOST] = "lost",
	[STORE_ACTIVITY_APPROVAL] = "approval",
	[STORE_ACTIVITY_LIFECYCLE] = "lifecycle",
	[STORE_ACTIVITY_PROCESS] = "process",
	[STORE_ACTIVITY_MODEL] = "model",
	[STORE_ACTIVITY_TOOL] = "tool",
	[STORE_ACTIVITY_PROGRAM] = "program",
	[STORE_ACTIVITY_FILE] = "file",
};

const char *store_activity_kind_name(enum store_activity_kind kind)
{
	return (unsigned)kind < STORE_ACTIVITY_KINDS_ ? kind_names[kind] : "unknown";
}

int store_activity_kind_parse(const char *name, enum store_activity_kind *ret)
{
	for (unsigned i = 0; i < STORE_ACTIVITY_KINDS_; i++) {
		if (strcmp(name, kind_names[i]) != 0)
			continue;
		*ret = (enum store_activity_kind)i;
		return 0;
	}
	return -EINVAL;
}

void store_activity_bound(struct store *s, const struct store_activity_bounds *b)
{
	s->activity_bounds = *b;
}

void store_activity_key(struct store *s, const uint8_t key[ACTIVITY_KEY_BYTES])
{
	memcpy(s->activity_key, key, ACTIVITY_KEY_BYTES);
}

static uint64_t bound_of(uint64_t given, uint64_t otherwise)
{
	return given ? given : otherwise;
}

/* --- totals --- */

/* The rows that a log is counted in, and their bytes. */
struct place {
	const char *sandbox_id; /* borrowed */
	uint64_t log, log_bytes, owner, owner_bytes;
	struct activity_ends ends;
};

static int find_owner(struct store *s, const char *key_id, struct place *p, struct error *e)
{
	struct query q = db_query(s, STMT_ACTIVITY_OWNER_MAKE,
		"INSERT INTO activity_totals (key_id) VALUES (?) ON CONFLICT DO NOTHING");
	int r;

	query_text(&q, key_id);
	r = query_run(&q, NULL, e);
	if (r < 0)
		return r;
	q = db_query(
		s, STMT_ACTIVITY_OWNER, "SELECT seq, bytes FROM activity_totals WHERE key_id = ?");
	query_text(&q, key_id);
	r = query_step(&q, e);
	if (r > 0) {
		p->owner = row_u64(&q);
		p->owner_bytes = row_u64(&q);
	}
	query_done(&q);
	return r < 0 ? r : 0;
}

#define ENDS "n, head, anchor, anchor_hash, seal"

static void row_link(struct query *q, struct activity_link *ret)
{
	ret->n = row_u64(q);
	row_blob(q, ret->hash, sizeof(ret->hash));
}

/* Reads ENDS. */
static void row_ends(
	struct query *q, struct store *s, const char *sandbox_id, struct activity_ends *ret)
{
	uint8_t seal[ACTIVITY_HASH_BYTES];

	row_link(q, &ret->head);
	row_link(q, &ret->anchor);
	row_blob(q, seal, sizeof(seal));
	ret->sealed = activity_chain_is_sealed(ret, s->activity_key, sandbox_id, seal);
	if (ret->head.n == 0)
		activity_chain_begin(sandbox_id, &ret->head);
}

static int write_ends(struct store *s, uint64_t log, const char *sandbox_id,
	const struct activity_ends *ends, struct error *e)
{
	struct query q = db_query(s, STMT_ACTIVITY_ENDS_SET,
		"UPDATE activity_logs SET n = ?, head = ?, anchor = ?, anchor_hash = ?, seal = ? "
		"WHERE seq = ?");
	uint8_t seal[ACTIVITY_HASH_BYTES] = {0};

	if (ends->sealed && !activity_chain_seal(ends, s->activity_key, sandbox_id, seal)) {
		query_done(&q);
		return error_set(e, ERROR_INTERNAL, ENOMEM, "HMAC");
	}
	query_u64(&q, ends->head.n);
	query_blob(&q, ends->head.hash, sizeof(ends->head.hash));
	query_u64(&q, ends->anchor.n);
	query_blob(&q, ends->anchor.hash, sizeof(ends->anchor.hash));
	query_blob(&q, seal, sizeof(seal));
	query_u64(&q, log);
	return query_run(&q, NULL, e);
}

static int sign_anew(struct store *s, struct query *q, const uint8_t key[ACTIVITY_KEY_BYTES],
	uint64_t *ret_log, struct error *e)
{
	char id[STORE_ID_MAX + 1];
	uint8_t seal[ACTIVITY_HASH_BYTES];
	struct activity_ends ends;
	struct query set;

	*ret_log = row_u64(q);
	row_copy(q, id, sizeof(id));
	row_ends(q, s, id, &ends);
	if (!ends.sealed)
		return 0;
	if (!activity_chain_seal(&ends, key, id, seal))
		return error_set(e, ERROR_INTERNAL, ENOMEM, "HMAC");
	set = db_query_once(s, "UPDATE activity_logs SET seal = ? WHERE seq = ?");
	query_blob(&set, seal, sizeof(seal));
	query_u64(&set, *ret_log);
	return query_run(&set, NULL, e);
}

int activity_sign_anew(struct store *s, const uint8_t key[ACTIVITY_KEY_BYTES], struct error *e)
{
	uint64_t log = 0;
	int r;

	for (;;) {
		_cleanup_(query_done) struct query q = db_query_once(s,
			"SELECT seq, sandbox_id, " ENDS " FROM activity_logs WHERE seq > ? "
			"AND n > 0 ORDER BY seq LIMIT 1");

		query_u64(&q, log);
		r = query_step(&q, e);
		if (r <= 0)
			return r;
		r = sign_anew(s, &q, key, &log, e);
		if (r < 0)
			return r;
	}
}

static int find_log(struct store *s, const char *id, struct place *p, struct error *e)
{
	struct query q = db_query(s, STMT_ACTIVITY_LOG,
		"SELECT seq, bytes, " ENDS " FROM activity_logs WHERE sandbox_id = ?");
	int r;

	query_text(&q, id);
	r = query_step(&q, e);
	if (r > 0) {
		p->log = row_u64(&q);
		p->log_bytes = row_u64(&q);
		row_ends(&q, s, id, &p->ends);
	}
	query_done(&q);
	return r;
}

/* The log of a sandbox without a row gets an end at once: the sandbox has ended already, or its row
 * follows and removes the end (activity_begin). */
static int make_log(
	struct store *s, const char *id, uint64_t now_ns, struct place *p, struct error *e)
{
	struct query q = db_query(s, STMT_ACTIVITY_LOG_MAKE,
		"INSERT INTO activity_logs (sandbox_id, owner, ended_ns) VALUES (?1, ?2, "
		"CASE WHEN EXISTS (SELECT 1 FROM sandboxes WHERE id = ?1) THEN 0 ELSE ?3 END)");
	int r;

	query_text(&q, id);
	query_u64(&q, p->owner);
	query_u64(&q, now_ns);
	r = query_run(&q, NULL, e);
	if (r == 0)
		p->log = (uint64_t)sqlite3_last_insert_rowid(s->db);
	p->ends = (struct activity_ends){.sealed = true};
	activity_chain_begin(id, &p->ends.head);
	return r;
}

static int find_place(struct store *s, const char *id, const char *key_id, uint64_t now_ns,
	struct place *p, struct error *e)
{
	int r = find_owner(s, key_id, p, e);

	p->sandbox_id = id;
	r = r < 0 ? r : find_log(s, id, p, e);
	if (r != 0)
		return r < 0 ? r : 0;
	return make_log(s, id, now_ns, p, e);
}

static int add_to_owner(struct store *s, uint64_t owner, int64_t bytes, struct error *e)
{
	struct query q = db_query(s, STMT_ACTIVITY_OWNER_ADD,
		"UPDATE activity_totals SET bytes = bytes + ? - ? WHERE seq IN (0, ?)");

	query_u64(&q, bytes > 0 ? (uint64_t)bytes : 0);
	query_u64(&q, bytes < 0 ? (uint64_t)-bytes : 0);
	query_u64(&q, owner);
	return query_run(&q, NULL, e);
}

static int add_to_log(
	struct store *s, const struct place *p, uint64_t bytes, uint64_t lost, struct error *e)
{
	struct query q = db_query(s, STMT_ACTIVITY_LOG_ADD,
		"UPDATE activity_logs SET bytes = bytes + ?, lost = lost + ? WHERE seq = ?");

	query_u64(&q, bytes);
	query_u64(&q, lost);
	query_u64(&q, p->log);
	return query_run(&q, NULL, e);
}

/* --- making room --- */

#define REMOVED " RETURNING log, owner, length(CAST(record AS BLOB)), n, hash"

/* The oldest records of a log, of a key, or of all. Each statement has its index. */
static const char *const remove_sql[] = {
	"DELETE FROM activity WHERE id IN (SELECT id FROM activity WHERE log = ? "
	"ORDER BY id LIMIT ?)" REMOVED,
	"DELETE FROM activity WHERE id IN (SELECT id FROM activity INDEXED BY activity_owner "
	"WHERE owner = ? ORDER BY id LIMIT ?)" REMOVED,
	"DELETE FROM activity WHERE id IN (SELECT id FROM activity WHERE ? = 0 "
	"ORDER BY id LIMIT ?)" REMOVED,
};

enum from { FROM_LOG, FROM_OWNER, FROM_ALL };

struct removed {
	unsigned count;
	struct {
		uint64_t log, owner, bytes;
		struct activity_link link;
	} rows[ROOM_ROWS];
};

static int remove_rows(struct store *s, enum from from, uint64_t of, unsigned limit,
	struct removed *ret, struct error *e)
{
	struct query q = db_query(s, (enum stmt)(STMT_ACTIVITY_REMOVE + from), remove_sql[from]);
	int r;

	ret->count = 0;
	query_u64(&q, of);
	query_u64(&q, limit);
	while ((r = query_step(&q, e)) > 0 && ret->count < ROOM_ROWS) {
		ret->rows[ret->count].log = row_u64(&q);
		ret->rows[ret->count].owner = row_u64(&q);
		ret->rows[ret->count].bytes = row_u64(&q) + STORE_ACTIVITY_OVERHEAD;
		row_link(&q, &ret->rows[ret->count].link);
		ret->count++;
	}
	query_done(&q);
	return r < 0 ? r : 0;
}

/* The chain begins behind the last record that is gone. */
static int move_anchor(
	struct store *s, uint64_t log, const struct activity_link *last, struct error *e)
{
	struct query q = db_query(s, STMT_ACTIVITY_ENDS,
		"SELECT sandbox_id, " ENDS " FROM activity_logs WHERE seq = ?");
	struct activity_ends ends = {0};
	char id[STORE_ID_MAX + 1];
	int r;

	query_u64(&q, log);
	r = query_step(&q, e);
	if (r > 0) {
		row_copy(&q, id, sizeof(id));
		row_ends(&q, s, id, &ends);
	}
	query_done(&q);
	if (r <= 0 || last->n <= ends.anchor.n)
		return r < 0 ? r : 0;
	ends.anchor = *last;
	return write_ends(s, log, id, &ends, e);
}

/* Rows of the same log are often adjacent: one update for each run of them. */
static int account_removed(struct store *s, const struct removed *x, struct error *e)
{
	int r = 0;

	for (unsigned i = 0, end; r == 0 && i < x->count; i = end) {
		struct query q = db_query(s, STMT_ACTIVITY_LOG_DROP,
			"UPDATE activity_logs SET bytes = bytes - ?, dropped = dropped + ? "
			"WHERE seq = ?");
		const struct activity_link *last = &x->rows[i].link;
		uint64_t bytes = 0;

		for (end = i; end < x->count && x->rows[end].log == x->rows[i].log; end++) {
			bytes += x->rows[end].bytes;
			if (x->rows[end].link.n > last->n)
				last = &x->rows[end].link;
		}
		query_u64(&q, bytes);
		query_u64(&q, end - i);
		query_u64(&q, x->rows[i].log);
		r = query_run(&q, NULL, e);
		if (r == 0)
			r = add_to_owner(s, x->rows[i].owner, -(int64_t)bytes, e);
		if (r == 0)
			r = move_anchor(s, x->rows[i].log, last, e);
	}
	return r;
}

/* Removes the oldest until `excess` bytes are free, or there are none. */
static int make_room(struct store *s, enum from from, uint64_t of, uint64_t excess,
	uint64_t *dropped, struct error *e)
{
	struct removed x;
	int r = 0;

	while (excess > 0) {
		unsigned rows = (unsigned)(excess / (4 * STORE_ACTIVITY_OVERHEAD)) + 1;

		r = remove_rows(s, from, of, rows < ROOM_ROWS ? rows : ROOM_ROWS, &x, e);
		r = r < 0 ? r : account_removed(s, &x, e);
		if (r < 0 || x.count == 0)
			return r;
		*dropped += x.count;
		for (unsigned i = 0; i < x.count; i++)
			excess = excess > x.rows[i].bytes ? excess - x.rows[i].bytes : 0;
	}
	return r;
}

static uint64_t above(uint64_t bytes, uint64_t max)
{
	return bytes > max ? bytes - max : 0;
}

/* Bytes removed from the log also count as removed from the key and from all. */
static int keep_bounds(struct store *s, const struct place *p, uint64_t *dropped, struct error *e)
{
	const struct store_activity_bounds *b = &s->activity_bounds;
	struct query q;
	uint64_t bytes = 0;
	int r = make_room(s, FROM_LOG, p->log,
		above(p->log_bytes, bound_of(b->sandbox_bytes, STORE_ACTIVITY_SANDBOX_BYTES)),
		dropped, e);

	if (r < 0)
		return r;
	q = db_query(
		s, STMT_ACTIVITY_OWNER_BYTES, "SELECT bytes FROM activity_totals WHERE seq = ?");
	query_u64(&q, p->owner);
	r = query_number(&q, &bytes, e);
	r = r < 0 ? r
		  : make_room(s, FROM_OWNER, p->owner,
			    above(bytes, bound_of(b->key_bytes, STORE_ACTIVITY_KEY_BYTES)), dropped,
			    e);
	r = r < 0 ? r : store_activity_bytes(s, &bytes, e);
	return r < 0 ? r
		     : make_room(s, FROM_ALL, 0,
			       above(bytes, bound_of(b->all_bytes, STORE_ACTIVITY_ALL_BYTES)),
			       dropped, e);
}

int store_activity_bytes(struct store *s, uint64_t *ret, struct error *e)
{
	struct query q = db_query(
		s, STMT_ACTIVITY_OWNER_BYTES, "SELECT bytes FROM activity_totals WHERE seq = ?");

	query_u64(&q, 0);
	return query_number(&q, ret, e);
}

/* --- adding --- */

static int check(const char *sandbox_id, const char *key_id, const struct store_activity *list,
	size_t count, struct error *e)
{
	int r = text_check("sandbox id", sandbox_id, STORE_ID_MAX, e);

	r = r < 0 ? r : text_check("key id", key_id, STORE_ID_MAX, e);
	for (size_t i = 0; r == 0 && i < count; i++) {
		if ((unsigned)list[i].kind >= STORE_ACTIVITY_KINDS_)
			return error_set(e, ERROR_INTERNAL, EINVAL, "no such kind of activity");
		r = text_check("record", list[i].record, STORE_ACTIVITY_RECORD_MAX, e);
	}
	return r;
}

static int insert(struct store *s, struct place *p, const struct store_activity *a, struct error *e)
{
	struct activity_link *head = &p->ends.head;
	struct query q;

	if (!activity_chain_add(head, store_activity_kind_name(a->kind), a->record))
		return error_set(e, ERROR_INTERNAL, ENOMEM, "SHA-256");
	q = db_query(s, STMT_ACTIVITY_INSERT,
		"INSERT INTO activity (log, owner, kind, at_ns, record, n, hash) "
		"VALUES (?, ?, ?, ?, ?, ?, ?)");
	query_u64(&q, p->log);
	query_u64(&q, p->owner);
	query_u64(&q, a->kind);
	query_u64(&q, a->at_ns);
	query_text(&q, a->record);
	query_u64(&q, head->n);
	query_blob(&q, head->hash, sizeof(head->hash));
	return query_run(&q, NULL, e);
}

static int add(struct store *s, struct place *p, const struct store_activity *list, size_t count,
	uint64_t lost, uint64_t *dropped, struct error *e)
{
	uint64_t bytes = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		bytes += strlen(list[i].record) + STORE_ACTIVITY_OVERHEAD;
		r = insert(s, p, &list[i], e);
	}
	p->log_bytes += bytes;
	r = r < 0 ? r : add_to_log(s, p, bytes, lost, e);
	r = r < 0 || count == 0 ? r : write_ends(s, p->log, p->sandbox_id, &p->ends, e);
	r = r < 0 ? r : add_to_owner(s, p->owner, (int64_t)bytes, e);
	return r < 0 ? r : keep_bounds(s, p, dropped, e);
}

int store_activity_add(struct store *s, const char *sandbox_id, const char *key_id,
	const struct store_activity *list, size_t count, uint64_t lost, uint64_t now_ns,
	uint64_t *ret_dropped, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	struct place p = {0};
	uint64_t dropped = 0;
	int r = check(sandbox_id, key_id, list, count, e);

	r = r < 0 ? r : db_check_space(s, e);
	r = r < 0 ? r : txn_begin(&t, s, e);
	r = r < 0 ? r : find_place(s, sandbox_id, key_id, now_ns, &p, e);
	r = r < 0 ? r : add(s, &p, list, count, lost, &dropped, e);
	r = r < 0 ? r : txn_commit(&t, false, e);
	if (r == 0 && ret_dropped)
		*ret_dropped = dropped;
	return r;
}

/* --- reading --- */

int store_activity_get(struct store *s, const char *sandbox_id, const char *key_id,
	struct store_activity_log *ret, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_ACTIVITY_GET,
		"SELECT dropped, lost, ended_ns, " ENDS
		" FROM activity_logs JOIN activity_totals t "
		"ON owner = t.seq WHERE sandbox_id = ?1 AND (?2 IS NULL OR key_id = ?2)");
	struct activity_ends ends = {0};
	int r;

	query_text(&q, sandbox_id);
	query_text(&q, key_id);
	r = query_step(&q, e);
	if (r == 0)
		return error_set(e, ERROR_NOT_FOUND, ENOENT, "no activity of such a sandbox");
	if (r > 0) {
		ret->dropped = row_u64(&q);
		ret->lost = row_u64(&q);
		ret->ended_ns = row_u64(&q);
		row_ends(&q, s, sandbox_id, &ends);
		ret->head = ends.head;
		ret->anchor = ends.anchor;
		ret->sealed = ends.sealed;
	}
	return r < 0 ? r : 0;
}

int store_activity_list(struct store *s, const char *sandbox_id, uint32_t kinds, uint64_t cursor,
	uint32_t limit, int (*each)(void *arg, const struct store_activity *a), void *arg,
	struct error *e)
{
	_cleanup_(query_done) struct query q = {.store = s};
	int r;

	if (limit < 1 || limit > STORE_ACTIVITY_LIST_MAX)
		return error_set(
			e, ERROR_USAGE, EINVAL, "limit is not 1-%d", STORE_ACTIVITY_LIST_MAX);
	q = db_query(s, STMT_ACTIVITY_LIST,
		"SELECT id, kind, at_ns, record, n, hash FROM activity INDEXED BY activity_log "
		"WHERE log = "
		"(SELECT seq FROM activity_logs WHERE sandbox_id = ?) AND id > ? "
		"AND (? >> kind) & 1 ORDER BY id LIMIT ?");
	query_text(&q, sandbox_id);
	query_u64(&q, cursor);
	query_u64(&q, kinds ? kinds : UINT32_MAX);
	query_u64(&q, limit);
	while ((r = query_step(&q, e)) > 0) {
		struct store_activity a;

		a.id = row_u64(&q);
		a.kind = (enum store_activity_kind)row_u64(&q);
		a.at_ns = row_u64(&q);
		a.record = row_text(&q);
		row_link(&q, &a.link);
		r = each(arg, &a);
		if (r)
			break;
	}
	return r;
}

int store_activity_newest(struct store *s, const char *sandbox_id, uint64_t *ret, struct error *e)
{
	struct query q = db_query(s, STMT_ACTIVITY_NEWEST,
		"SELECT coalesce(max(id), 0) FROM activity INDEXED BY activity_log WHERE log = "
		"(SELECT seq FROM activity_logs WHERE sandbox_id = ?)");

	query_text(&q, sandbox_id);
	return query_number(&q, ret, e);
}

/* --- the end of sandboxes and of logs --- */

int activity_end(struct store *s, const char *sandbox_id, uint64_t now_ns, struct error *e)
{
	struct query q = db_query(
		s, STMT_ACTIVITY_END, "UPDATE activity_logs SET ended_ns = ? WHERE sandbox_id = ?");

	query_u64(&q, now_ns);
	query_text(&q, sandbox_id);
	return query_run(&q, NULL, e);
}

int activity_begin(struct store *s, const char *sandbox_id, struct error *e)
{
	return activity_end(s, sandbox_id, 0, e);
}

static int remove_log(struct store *s, uint64_t log, struct error *e)
{
	struct query q =
		db_query(s, STMT_ACTIVITY_LOG_REMOVE, "DELETE FROM activity_logs WHERE seq = ?");

	query_u64(&q, log);
	return query_run(&q, NULL, e);
}

/* One slice of the log that ended first. */
int activity_prune(struct store *s, uint64_t before_ns, bool *more, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	struct query q = db_query(s, STMT_ACTIVITY_ENDED,
		"SELECT seq FROM activity_logs WHERE ended_ns > 0 AND ended_ns < ? "
		"ORDER BY ended_ns LIMIT 1");
	struct removed x;
	uint64_t log;
	int r;

	query_u64(&q, before_ns);
	r = query_number(&q, &log, e);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = txn_begin(&t, s, e);
	r = r < 0 ? r : remove_rows(s, FROM_LOG, log, ROOM_ROWS, &x, e);
	r = r < 0 ? r : account_removed(s, &x, e);
	if (r == 0 && x.count < ROOM_ROWS)
		r = remove_log(s, log, e);
	r = r < 0 ? r : txn_commit(&t, false, e);
	if (r == 0)
		*more = true;
	return r;
}
