#include "store/samples.h"

#include <errno.h>

#include "base/clock.h"
#include "store/db.h"
#include "store/maintain.h"
#include "store/sandboxes_internal.h"

#define SAMPLE_COLUMNS                                                                             \
	"at_ns, cpu_count, cpu_used_permille, mem_used_bytes, mem_total_bytes, mem_cache_bytes, "  \
	"disk_used_bytes, disk_total_bytes"

static int find_sandbox(struct store *s, const char *id, uint64_t *ret_seq, struct error *e)
{
	struct query q = db_query(s, STMT_SAMPLE_SANDBOX, "SELECT seq FROM sandboxes WHERE id = ?");
	int r;

	query_text(&q, id);
	r = query_number(&q, ret_seq, e);
	return r == -ENOENT ? sandbox_not_found(id, e) : r;
}

int store_sample_add(
	struct store *s, const char *sandbox_id, const struct store_sample *m, struct error *e)
{
	uint64_t seq = 0;
	struct query q;
	int r = db_check_space(s, e);

	if (r == 0)
		r = find_sandbox(s, sandbox_id, &seq, e);
	if (r < 0)
		return r;
	q = db_query(s, STMT_SAMPLE_PUT,
		"INSERT OR REPLACE INTO samples (sandbox, slot, " SAMPLE_COLUMNS ") "
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
	query_u64(&q, seq);
	query_u64(&q, m->at_ns / (STORE_SAMPLE_INTERVAL_S * NS_PER_S) % STORE_SAMPLES_MAX);
	query_u64(&q, m->at_ns);
	query_u64(&q, m->cpu_count);
	query_u64(&q, m->cpu_used_permille);
	query_u64(&q, m->mem_used_bytes);
	query_u64(&q, m->mem_total_bytes);
	query_u64(&q, m->mem_cache_bytes);
	query_u64(&q, m->disk_used_bytes);
	query_u64(&q, m->disk_total_bytes);
	return query_run(&q, NULL, e);
}

static void read_sample(struct query *q, struct store_sample *m)
{
	m->at_ns = row_u64(q);
	m->cpu_count = (uint32_t)row_u64(q);
	m->cpu_used_permille = (uint32_t)row_u64(q);
	m->mem_used_bytes = row_u64(q);
	m->mem_total_bytes = row_u64(q);
	m->mem_cache_bytes = row_u64(q);
	m->disk_used_bytes = row_u64(q);
	m->disk_total_bytes = row_u64(q);
}

int store_sample_list(struct store *s, const char *sandbox_id, uint64_t from_ns, uint64_t to_ns,
	int (*each)(void *arg, const struct store_sample *m), void *arg, struct error *e)
{
	_cleanup_(query_done) struct query q = {.store = s};
	uint64_t seq = 0;
	int r = find_sandbox(s, sandbox_id, &seq, e);

	if (r < 0)
		return r;
	q = db_query(s, STMT_SAMPLE_LIST,
		"SELECT " SAMPLE_COLUMNS " FROM samples WHERE sandbox = ? "
		"AND at_ns BETWEEN ? AND ? ORDER BY at_ns");
	query_u64(&q, seq);
	query_u64(&q, from_ns);
	query_u64(&q, to_ns);
	while ((r = query_step(&q, e)) > 0) {
		struct store_sample m;

		read_sample(&q, &m);
		r = each(arg, &m);
		if (r)
			break;
	}
	return r;
}

int store_sample_last(
	struct store *s, const char *sandbox_id, struct store_sample *ret, struct error *e)
{
	_cleanup_(query_done) struct query q = {.store = s};
	uint64_t seq = 0;
	int r = find_sandbox(s, sandbox_id, &seq, e);

	if (r < 0)
		return r;
	q = db_query(s, STMT_SAMPLE_LAST,
		"SELECT " SAMPLE_COLUMNS " FROM samples WHERE sandbox = ? "
		"ORDER BY at_ns DESC LIMIT 1");
	query_u64(&q, seq);
	r = query_step(&q, e);
	if (r < 0)
		return r;
	if (r == 0)
		return error_set(e, ERROR_NOT_FOUND, ENODATA, "no samples of this sandbox yet");
	read_sample(&q, ret);
	return 0;
}

/* Removes the samples of one removed sandbox. They are adjacent in the file. */
int samples_collect(struct store *s, bool *more, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	uint64_t sandbox = 0;
	struct query q = db_query(s, STMT_SAMPLE_GARBAGE,
		"SELECT sandbox FROM sample_garbage ORDER BY sandbox LIMIT 1");
	int r = query_number(&q, &sandbox, e);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = txn_begin(&t, s, e);
	if (r < 0)
		return r;
	q = db_query(s, STMT_SAMPLE_COLLECT, "DELETE FROM samples WHERE sandbox = ?");
	query_u64(&q, sandbox);
	r = query_run(&q, NULL, e);
	if (r < 0)
		return r;
	q = db_query(s, STMT_SAMPLE_COLLECTED, "DELETE FROM sample_garbage WHERE sandbox = ?");
	query_u64(&q, sandbox);
	r = query_run(&q, NULL, e);
	if (r == 0)
		r = txn_commit(&t, false, e);
	if (r == 0)
		*more = true;
	return r;
}
