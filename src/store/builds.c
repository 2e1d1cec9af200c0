#include "store/builds.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "store/db.h"
#include "store/text.h"

enum { ENTRY_COST = 64 };

#define COLUMNS                                                                                    \
	"seq, id, template_id, key_id, status, tags_json, created_ns, updated_ns, finished_ns, "   \
	"cpus, memory_mb, disk_mb, free_mb, reason, step, log_count, log_bytes"

static void read_row(struct query *q, struct store_build *b)
{
	b->seq = row_u64(q);
	row_copy(q, b->id, sizeof(b->id));
	row_copy(q, b->template_id, sizeof(b->template_id));
	row_copy(q, b->key_id, sizeof(b->key_id));
	b->status = (enum store_build_status)row_u64(q);
	row_copy(q, b->tags_json, sizeof(b->tags_json));
	b->created_ns = row_u64(q);
	b->updated_ns = row_u64(q);
	b->finished_ns = row_u64(q);
	b->cpus = (uint32_t)row_u64(q);
	b->memory_mb = (uint32_t)row_u64(q);
	b->disk_mb = (uint32_t)row_u64(q);
	b->free_mb = (uint32_t)row_u64(q);
	row_copy(q, b->reason, sizeof(b->reason));
	row_copy(q, b->step, sizeof(b->step));
	b->log_count = row_u64(q);
	b->log_bytes = row_u64(q);
}

static int first_row(struct query *q, struct store_build *ret, struct error *e)
{
	int r = query_step(q, e);

	if (r <= 0)
		return r < 0 ? r : error_set(e, ERROR_NOT_FOUND, ENOENT, "there is no such build");
	read_row(q, ret);
	return 0;
}

/* --- one build --- */

static int insert(struct store *s, const struct store_build *b, const char *id, struct error *e)
{
	struct query q = db_query(s, STMT_BUILD_INSERT,
		"INSERT INTO builds (id, template_id, key_id, status, tags_json, created_ns, "
		"updated_ns, finished_ns, cpus, memory_mb, disk_mb, free_mb, reason, step, "
		"log_count, log_bytes) VALUES (?, ?, ?, 0, ?, ?5, ?5, 0, ?, ?, 0, ?, '', '', 0, "
		"0)");

	query_text(&q, id);
	query_text(&q, b->template_id);
	query_text(&q, b->key_id);
	query_text(&q, b->tags_json);
	query_u64(&q, b->created_ns);
	query_u64(&q, b->cpus);
	query_u64(&q, b->memory_mb);
	query_u64(&q, b->free_mb);
	return query_run(&q, NULL, e);
}

static int count_build(struct store *s, const char *template_id, uint64_t at_ns, struct error *e)
{
	struct query q = db_query(s, STMT_BUILD_COUNT,
		"UPDATE catalog SET build_count = build_count + 1, updated_ns = ? WHERE id = ?");

	query_u64(&q, at_ns);
	query_text(&q, template_id);
	return query_run(&q, NULL, e);
}

/* Removes the oldest builds that have ended and that no tag names, with their logs. */
static int prune(struct store *s, const char *template_id, struct error *e)
{
	static const char old[] =
		"FROM builds WHERE template_id = ?1 AND seq <= (SELECT seq FROM builds WHERE "
		"template_id = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2) AND status IN (0, 3, 4) AND "
		"NOT EXISTS (SELECT 1 FROM tags WHERE tags.template_id = ?1 AND build_id = "
		"builds.id AND current = 1)";
	char sql[1024];
	int r = 0;

	for (unsigned step = 0; step < 2 && r == 0; step++) {
		struct query q;

		if (step == 0)
			(void)snprintf(sql, sizeof(sql),
				"DELETE FROM build_logs WHERE build IN (SELECT seq %s)", old);
		else
			(void)snprintf(sql, sizeof(sql), "DELETE %s", old);
		q = db_query_once(s, sql);
		query_text(&q, template_id);
		query_u64(&q, STORE_BUILDS_KEPT);
		r = query_run(&q, NULL, e);
	}
	return r;
}

/* Finds the newest build whose log makes the key exceed its limit; 0: none. */
static int find_excess(struct store *s, const char *key_id, uint64_t *ret_seq, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_BUILD_LOGGED,
		"SELECT seq, log_bytes FROM builds INDEXED BY builds_logged WHERE key_id = ? AND "
		"log_count > 0 ORDER BY seq DESC");
	uint64_t sum = 0;
	int r;

	*ret_seq = 0;
	query_text(&q, key_id);
	while ((r = query_step(&q, e)) > 0) {
		uint64_t seq = row_u64(&q);

		sum += row_u64(&q);
		if (sum > STORE_BUILD_LOGS_KEY_BYTES) {
			*ret_seq = seq;
			return 0;
		}
	}
	return r;
}

static int run_for_logged(
	struct store *s, const char *sql, const char *key_id, uint64_t seq, struct error *e)
{
	struct query q = db_query_once(s, sql);

	query_text(&q, key_id);
	query_u64(&q, seq);
	return query_run(&q, NULL, e);
}

/* Removes the logs of the key's oldest builds that have ended, until the rest is within the
 * limit. */
static int prune_logs(struct store *s, const char *key_id, struct error *e)
{
	uint64_t seq = 0;
	int r = find_excess(s, key_id, &seq, e);

	if (r < 0 || !seq)
		return r;
	r = run_for_logged(s,
		"DELETE FROM build_logs WHERE build IN (SELECT seq FROM builds INDEXED BY "
		"builds_logged WHERE key_id = ? AND log_count > 0 AND seq <= ? AND status IN (3, "
		"4))",
		key_id, seq, e);
	return r < 0 ? r
		     : run_for_logged(s,
			       "UPDATE builds INDEXED BY builds_logged SET log_count = 0, "
			       "log_bytes = 0 WHERE key_id = ? AND log_count > 0 AND seq <= ? AND "
			       "status IN (3, 4)",
			       key_id, seq, e);
}

int store_build_add(struct store *s, const struct store_build *b, char ret_id[STORE_UUID_BYTES],
	struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	int r = db_check_space(s, e);

	if (r == 0)
		r = db_random_uuid(ret_id, e);
	if (r == 0)
		r = txn_begin(&t, s, e);
	if (r == 0)
		r = insert(s, b, ret_id, e);
	if (r == 0)
		r = count_build(s, b->template_id, b->created_ns, e);
	if (r == 0)
		r = prune(s, b->template_id, e);
	if (r == 0)
		r = prune_logs(s, b->key_id, e);
	return r == 0 ? txn_commit(&t, true, e) : r;
}

int store_build_get(struct store *s, const char *id, struct store_build *ret, struct error *e)
{
	_cleanup_(query_done) struct query q =
		db_query(s, STMT_BUILD_GET, "SELECT " COLUMNS " FROM builds WHERE id = ?");

	query_text(&q, id);
	return first_row(&q, ret, e);
}

int store_build_list(struct store *s, const char *template_id, uint64_t before_seq, uint32_t limit,
	int (*each)(void *arg, const struct store_build *b), void *arg, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_BUILD_LIST,
		"SELECT " COLUMNS " FROM builds WHERE template_id = ? AND seq < ? "
		"ORDER BY seq DESC LIMIT ?");
	int r;

	query_text(&q, template_id);
	query_u64(&q, before_seq ? before_seq : INT64_MAX);
	query_u64(&q, limit);
	while ((r = query_step(&q, e)) > 0) {
		struct store_build b = {0};

		read_row(&q, &b);
		r = each(arg, &b);
		if (r)
			break;
	}
	return r;
}

int store_build_last(struct store *s, const char *template_id, enum store_build_status status,
	struct store_build *ret, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_BUILD_LAST,
		"SELECT " COLUMNS
		" FROM builds WHERE template_id = ?1 AND (?2 = ?3 OR status = ?2) "
		"ORDER BY seq DESC LIMIT 1");

	query_text(&q, template_id);
	query_u64(&q, status);
	query_u64(&q, STORE_BUILD_STATUSES_);
	return first_row(&q, ret, e);
}

int store_build_set_status(struct store *s, const char *id, enum store_build_status status,
	uint64_t at_ns, struct error *e)
{
	struct query q = db_query(
		s, STMT_BUILD_STATUS, "UPDATE builds SET status = ?, updated_ns = ? WHERE id = ?");

	query_u64(&q, status);
	query_u64(&q, at_ns);
	query_text(&q, id);
	return query_run(&q, NULL, e);
}

int store_build_finish(struct store *s, const char *id, enum store_build_status status,
	uint64_t at_ns, uint32_t disk_mb, const char *reason, const char *step, struct error *e)
{
	char text[STORE_BUILD_REASON_MAX + 1];
	struct query q = db_query(s, STMT_BUILD_FINISH,
		"UPDATE builds SET status = ?, updated_ns = ?2, finished_ns = ?2, disk_mb = ?, "
		"reason = ?, step = ? WHERE id = ?");
	int r;

	(void)snprintf(text, sizeof(text), "%s", reason); /* may be cut */
	query_u64(&q, status);
	query_u64(&q, at_ns);
	query_u64(&q, disk_mb);
	query_text(&q, text);
	query_text(&q, step);
	query_text(&q, id);
	r = query_run(&q, NULL, e);
	return r < 0 ? r : db_durable(s, e);
}

int store_build_fail_open(struct store *s, uint64_t at_ns, const char *reason, struct error *e)
{
	struct query q = db_query(s, STMT_BUILD_FAIL_OPEN,
		"UPDATE builds SET status = 4, reason = ?, updated_ns = ?2, finished_ns = ?2 WHERE "
		"seq IN (SELECT seq FROM builds INDEXED BY builds_open WHERE status IN (1, 2))");

	query_text(&q, reason);
	query_u64(&q, at_ns);
	return query_run(&q, NULL, e);
}

/* --- logs --- */

static int find_place(struct store *s, const char *build_id, uint64_t *ret_seq, uint64_t *ret_count,
	uint64_t *ret_bytes, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_BUILD_LOG_PLACE,
		"SELECT seq, log_count, log_bytes FROM builds WHERE id = ?");
	int r;

	query_text(&q, build_id);
	r = query_step(&q, e);
	if (r <= 0)
		return r < 0 ? r : error_set(e, ERROR_NOT_FOUND, ENOENT, "there is no such build");
	*ret_seq = row_u64(&q);
	*ret_count = row_u64(&q);
	*ret_bytes = row_u64(&q);
	return 0;
}

static int insert_entry(struct store *s, uint64_t seq, uint64_t number,
	const struct store_build_log *l, struct error *e)
{
	struct query q = db_query(
		s, STMT_BUILD_LOG_INSERT, "INSERT INTO build_logs VALUES (?, ?, ?, ?, ?, ?)");

	query_u64(&q, seq);
	query_u64(&q, number);
	query_u64(&q, l->at_ns);
	query_u64(&q, l->level);
	query_text(&q, l->step);
	query_text(&q, l->message);
	return query_run(&q, NULL, e);
}

static int count_entry(struct store *s, uint64_t seq, uint64_t bytes, struct error *e)
{
	struct query q = db_query(s, STMT_BUILD_LOG_COUNT,
		"UPDATE builds SET log_count = log_count + 1, log_bytes = log_bytes + ? "
		"WHERE seq = ?");

	query_u64(&q, bytes);
	query_u64(&q, seq);
	return query_run(&q, NULL, e);
}

/* Entries after the one that says that there are too many are dropped. */
int store_build_log(
	struct store *s, const char *build_id, const struct store_build_log *l, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	struct store_build_log entry = *l;
	uint64_t seq = 0, count = 0, used = 0, bytes = strlen(l->message) + ENTRY_COST;
	int r = find_place(s, build_id, &seq, &count, &used, e);

	if (r == 0)
		r = text_check("message", l->message, STORE_BUILD_LINE_MAX, e);
	if (r < 0)
		return r;
	if (count > STORE_BUILD_LOGS_MAX || used > STORE_BUILD_LOGS_BYTES)
		return 0;
	if (count == STORE_BUILD_LOGS_MAX || used + bytes > STORE_BUILD_LOGS_BYTES) {
		entry.level = 2;
		entry.message = "the build prints too much: the rest is left out";
		bytes = STORE_BUILD_LOGS_BYTES + 1;
	}
	r = db_check_space(s, e);
	if (r == 0)
		r = txn_begin(&t, s, e);
	if (r == 0)
		r = insert_entry(s, seq, count, &entry, e);
	if (r == 0)
		r = count_entry(s, seq, bytes, e);
	return r == 0 ? txn_commit(&t, false, e) : r;
}

static struct query log_query(struct store *s, bool backward)
{
	return backward ? db_query(s, STMT_BUILD_LOG_BACK,
				  "SELECT n, at_ns, level, step, message FROM build_logs WHERE "
				  "build = ? AND n <= ? AND at_ns <= ? AND level >= ? "
				  "ORDER BY n DESC LIMIT ?")
			: db_query(s, STMT_BUILD_LOG_LIST,
				  "SELECT n, at_ns, level, step, message FROM build_logs WHERE "
				  "build = ? AND n >= ? AND at_ns >= ? AND level >= ? "
				  "ORDER BY n LIMIT ?");
}

int store_build_log_list(struct store *s, const struct store_build_log_filter *f,
	int (*each)(void *arg, const struct store_build_log *l), void *arg, struct error *e)
{
	_cleanup_(query_done) struct query q = log_query(s, f->backward);
	int r;

	query_u64(&q, f->build_seq);
	query_u64(&q, f->from);
	query_u64(&q, f->at_ns);
	query_u64(&q, f->level);
	query_u64(&q, f->limit);
	while ((r = query_step(&q, e)) > 0) {
		struct store_build_log l;

		l.number = row_u64(&q);
		l.at_ns = row_u64(&q);
		l.level = (unsigned)row_u64(&q);
		l.step = row_text(&q);
		l.message = row_text(&q);
		r = each(arg, &l);
		if (r)
			break;
	}
	return r;
}
