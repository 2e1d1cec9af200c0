#include "store/invocations.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "store/db.h"
#include "store/maintain.h"
#include "store/text.h"

enum { ROOM_ROWS = 16 }; /* that go at once */

const char *store_invocation_state_name(enum store_invocation_state state)
{
	static const char *const names[STORE_INVOCATION_STATES_] = {
		[STORE_INVOCATION_QUEUED] = "queued",
		[STORE_INVOCATION_RUNNING] = "running",
		[STORE_INVOCATION_OVER] = "finished",
	};

	return (unsigned)state < STORE_INVOCATION_STATES_ ? names[state] : "unknown";
}

static int not_found(struct error *e)
{
	return error_set(e, ERROR_NOT_FOUND, ENOENT, "there is no such invocation");
}

/* --- its life --- */

static int check(const struct store_invocation *v, struct error *e)
{
	int r = text_check("invocation id", v->id, STORE_INVOCATION_ID_BYTES, e);

	r = r ? r : text_check("key id", v->key_id, STORE_ID_MAX, e);
	r = r ? r : text_check("agent id", v->agent_id, STORE_ID_MAX, e);
	r = r ? r : text_check("agent", v->agent, STORE_NAME_MAX, e);
	return r ? r : text_check_optional("session", v->session, STORE_INVOCATION_SESSION_MAX, e);
}

int store_invocation_add(struct store *s, const struct store_invocation *v, struct error *e)
{
	int r = check(v, e);
	struct query q;

	r = r ? r : db_check_space(s, e);
	if (r < 0)
		return r;
	q = db_query(s, STMT_INVOCATION_INSERT,
		"INSERT INTO invocations (id, key_id, agent_id, agent, version, session, async, "
		"asked_ns, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
	query_text(&q, v->id);
	query_text(&q, v->key_id);
	query_text(&q, v->agent_id);
	query_text(&q, v->agent);
	query_u64(&q, v->version);
	query_text(&q, v->session);
	query_u64(&q, v->async);
	query_u64(&q, v->asked_ns);
	query_u64(&q, STORE_INVOCATION_OVERHEAD);
	return query_run(&q, NULL, e);
}

int store_invocation_run(
	struct store *s, const char *id, const char *sandbox_id, uint64_t at_ns, struct error *e)
{
	struct query q = db_query(s, STMT_INVOCATION_RUN,
		"UPDATE invocations SET state = 1, sandbox_id = ?2, started_ns = ?3 "
		"WHERE id = ?1 AND state = 0");
	unsigned changes = 0;
	int r;

	query_text(&q, id);
	query_text(&q, sandbox_id);
	query_u64(&q, at_ns);
	r = query_run(&q, &changes, e);
	return r < 0 || changes ? r : not_found(e);
}

/* What the key has too many of: the oldest go, a few at a time. */
static int drop_oldest(struct store *s, const char *key_id, unsigned *ret_count, struct error *e)
{
	struct query q = key_id ? db_query(s, STMT_INVOCATION_DROP_KEY,
					  "DELETE FROM invocations WHERE seq IN (SELECT seq FROM "
					  "invocations WHERE key_id = ?1 AND state = 2 "
					  "ORDER BY seq LIMIT ?2)")
				: db_query(s, STMT_INVOCATION_DROP_ALL,
					  "DELETE FROM invocations WHERE seq IN (SELECT seq FROM "
					  "invocations WHERE state = 2 AND ?1 IS NULL "
					  "ORDER BY ended_ns LIMIT ?2)");

	query_text(&q, key_id);
	query_u64(&q, ROOM_ROWS);
	return query_run(&q, ret_count, e);
}

static int read_total(struct store *s, const char *key_id, uint64_t *ret_count, uint64_t *ret_bytes,
	struct error *e)
{
	struct query q = db_query(s, STMT_INVOCATION_TOTAL,
		"SELECT count, bytes FROM invocation_totals WHERE key_id = ?");
	int r;

	*ret_count = *ret_bytes = 0;
	query_text(&q, key_id);
	r = query_step(&q, e);
	if (r > 0) {
		*ret_count = row_u64(&q);
		*ret_bytes = row_u64(&q);
	}
	query_done(&q);
	return r < 0 ? r : 0;
}

/* key_id NULL: the bound of all. */
static int make_room(struct store *s, const char *key_id, struct error *e)
{
	uint64_t max = key_id ? STORE_INVOCATIONS_KEY_BYTES : STORE_INVOCATIONS_ALL_BYTES;
	unsigned went = 1;

	while (went) {
		uint64_t count, bytes;
		int r = read_total(s, key_id ? key_id : "", &count, &bytes, e);

		if (r < 0 || (bytes <= max && (!key_id || count <= STORE_INVOCATIONS_KEY_MAX)))
			return r;
		r = drop_oldest(s, key_id, &went, e);
		if (r < 0)
			return r;
	}
	return 0; /* what is left is not over */
}

static int finish(struct store *s, const struct store_invocation *v, struct error *e)
{
	struct query q = db_query(s, STMT_INVOCATION_FINISH,
		"UPDATE invocations SET state = 2, ended_ns = ?2, code = ?3, message = ?4, "
		"status = ?5, printed = ?6, output = ?7, errors = ?8, bytes = ?9, "
		"cpu_us = ?10, in_bytes = ?11, out_bytes = ?12 "
		"WHERE id = ?1 AND state < 2 RETURNING key_id");
	char key_id[STORE_ID_MAX + 1] = "";
	int r;

	query_text(&q, v->id);
	query_u64(&q, v->ended_ns);
	query_text(&q, v->code);
	query_text(&q, v->message);
	query_u64(&q, (uint64_t)(v->status + 1));
	query_u64(&q, v->printed);
	query_blob(&q, v->output, v->output_bytes);
	query_blob(&q, v->errors, v->errors_bytes);
	query_u64(&q, STORE_INVOCATION_OVERHEAD + v->output_bytes + v->errors_bytes);
	query_u64(&q, v->metered ? v->cpu_us + 1 : 0);
	query_u64(&q, v->in_bytes);
	query_u64(&q, v->out_bytes);
	r = query_step(&q, e);
	if (r > 0)
		row_copy(&q, key_id, sizeof(key_id));
	query_done(&q);
	if (r <= 0)
		return r < 0 ? r : not_found(e);
	r = make_room(s, key_id, e);
	return r < 0 ? r : make_room(s, NULL, e);
}

int store_invocation_finish(struct store *s, const struct store_invocation *v, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	int r = text_check("code", v->code, STORE_INVOCATION_CODE_MAX, e);

	r = r ? r : text_check_optional("message", v->message, STORE_INVOCATION_MESSAGE_MAX, e);
	r = r < 0 ? r : txn_begin(&t, s, e);
	r = r < 0 ? r : finish(s, v, e);
	return r < 0 ? r : txn_commit(&t, false, e);
}

int store_invocation_fail_open(struct store *s, uint64_t at_ns, const char *code,
	const char *message, unsigned *ret_count, struct error *e)
{
	struct query q = db_query(s, STMT_INVOCATION_FAIL_OPEN,
		"UPDATE invocations SET state = 2, ended_ns = ?, code = ?, message = ? "
		"WHERE state < 2");

	query_u64(&q, at_ns);
	query_text(&q, code);
	query_text(&q, message);
	return query_run(&q, ret_count, e);
}

int invocations_prune(struct store *s, uint64_t before_ns, bool *more, struct error *e)
{
	struct query q = db_query(s, STMT_INVOCATION_PRUNE,
		"DELETE FROM invocations WHERE seq IN (SELECT seq FROM invocations "
		"WHERE state = 2 AND ended_ns < ? ORDER BY ended_ns LIMIT ?)");

	query_u64(&q, before_ns);
	query_u64(&q, MAINTAIN_ROWS);
	return query_run_slice(&q, MAINTAIN_ROWS, more, e);
}

/* --- reading --- */

#define COLUMNS                                                                                    \
	"SELECT seq, id, key_id, agent_id, agent, version, session, async, state, sandbox_id, "    \
	"asked_ns, started_ns, ended_ns, code, message, status, printed, output, errors, cpu_us, " \
	"in_bytes, out_bytes FROM invocations "

static void read_row(struct query *q, struct store_invocation *v)
{
	*v = (struct store_invocation){.seq = row_u64(q)};
	v->id = row_text(q);
	v->key_id = row_text(q);
	v->agent_id = row_text(q);
	v->agent = row_text(q);
	v->version = (uint32_t)row_u64(q);
	v->session = row_text(q);
	v->async = row_bool(q);
	v->state = (enum store_invocation_state)row_u64(q);
	v->sandbox_id = row_text(q);
	v->asked_ns = row_u64(q);
	v->started_ns = row_u64(q);
	v->ended_ns = row_u64(q);
	v->code = row_text(q);
	v->message = row_text(q);
	v->status = (int64_t)row_u64(q) - 1;
	v->printed = row_u64(q);
	v->output = row_bytes(q, &v->output_bytes);
	v->errors = row_bytes(q, &v->errors_bytes);
	v->cpu_us = row_u64(q);
	v->metered = v->cpu_us > 0;
	v->cpu_us -= v->metered;
	v->in_bytes = row_u64(q);
	v->out_bytes = row_u64(q);
}

/* Calls `each` for all rows of a query, which it ends. */
static int each_row(struct query *q, int (*each)(void *arg, const struct store_invocation *v),
	void *arg, struct error *e)
{
	struct store_invocation v;
	int r;

	while ((r = query_step(q, e)) > 0) {
		read_row(q, &v);
		r = each(arg, &v);
		if (r)
			break;
	}
	query_done(q);
	return r;
}

struct one {
	int (*each)(void *arg, const struct store_invocation *v);
	void *arg;
	bool found;
};

static int take_one(void *arg, const struct store_invocation *v)
{
	struct one *o = arg;

	o->found = true;
	return o->each(o->arg, v);
}

int store_invocation_get(struct store *s, const char *id, const char *key_id,
	int (*each)(void *arg, const struct store_invocation *v), void *arg, struct error *e)
{
	struct one o = {.each = each, .arg = arg};
	struct query q = db_query(
		s, STMT_INVOCATION_GET, COLUMNS "WHERE id = ?1 AND (?2 IS NULL OR key_id = ?2)");
	int r;

	query_text(&q, id);
	query_text(&q, key_id);
	r = each_row(&q, take_one, &o, e);
	return r || o.found ? r : not_found(e);
}

int store_invocation_list(struct store *s, const struct store_invocation_filter *f,
	int (*each)(void *arg, const struct store_invocation *v), void *arg, struct error *e)
{
	struct query q =
		f->ascending ? db_query(s, STMT_INVOCATION_LIST,
				       COLUMNS "WHERE agent_id = ?1 AND seq > ?2 AND (?3 IS "
					       "NULL OR key_id = ?3) ORDER BY seq LIMIT ?4")
			     : db_query(s, STMT_INVOCATION_LIST_BACK,
				       COLUMNS "WHERE agent_id = ?1 AND seq < ?2 AND (?3 IS "
					       "NULL OR key_id = ?3) ORDER BY seq DESC LIMIT ?4");

	query_text(&q, f->agent_id);
	query_u64(&q, f->cursor || f->ascending ? f->cursor : UINT64_MAX);
	query_text(&q, f->key_id);
	query_u64(&q, f->limit);
	return each_row(&q, each, arg, e);
}
