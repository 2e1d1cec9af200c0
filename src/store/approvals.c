#include "store/approvals.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/str.h"
#include "store/db.h"
#include "store/maintain.h"
#include "store/sandboxes.h"
#include "store/sealed.h"
#include "store/text.h"

static const char *const state_names[STORE_APPROVAL_STATES_] = {
	[STORE_APPROVAL_WAITING] = "waiting",
	[STORE_APPROVAL_ALLOWED] = "allowed",
	[STORE_APPROVAL_DENIED] = "denied",
	[STORE_APPROVAL_EXPIRED] = "expired",
	[STORE_APPROVAL_CANCELLED] = "cancelled",
};

static const char *const for_names[STORE_APPROVAL_FORS_] = {
	[STORE_APPROVAL_ONCE] = "once",
	[STORE_APPROVAL_SANDBOX] = "sandbox",
	[STORE_APPROVAL_TEMPLATE] = "template",
};

static int find_word(const char *word, const char *const *list, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (strcmp(word, list[i]) == 0)
			return (int)i;
	return -EINVAL;
}

const char *store_approval_state_name(enum store_approval_state state)
{
	return (unsigned)state < STORE_APPROVAL_STATES_ ? state_names[state] : "unknown";
}

int store_approval_state_parse(const char *name, enum store_approval_state *ret)
{
	int i = find_word(name, state_names, STORE_APPROVAL_STATES_);

	if (i >= 0)
		*ret = (enum store_approval_state)i;
	return i < 0 ? i : 0;
}

const char *store_approval_for_name(enum store_approval_for f)
{
	return (unsigned)f < STORE_APPROVAL_FORS_ ? for_names[f] : "unknown";
}

int store_approval_for_parse(const char *name, enum store_approval_for *ret)
{
	int i = find_word(name, for_names, STORE_APPROVAL_FORS_);

	if (i >= 0)
		*ret = (enum store_approval_for)i;
	return i < 0 ? i : 0;
}

/* --- rows --- */

#define COLUMNS                                                                                    \
	"SELECT seq, id, key_id, sandbox_id, template_id, rule, question, target, rule_digest, "   \
	"link_key, asked_ns, expires_ns, count, state, decided_ns, decided_by, reason, scope, "    \
	"until_ns FROM approvals "

static void read_row(struct query *q, struct store_approval *a)
{
	*a = (struct store_approval){.seq = row_u64(q)};
	a->id = row_text(q);
	a->key_id = row_text(q);
	a->sandbox_id = row_text(q);
	a->template_id = row_text(q);
	a->rule = row_text(q);
	a->question_json = row_text(q);
	row_blob(q, a->target, sizeof(a->target));
	row_blob(q, a->rule_digest, sizeof(a->rule_digest));
	row_sealed_blob(q, SEALED_LINK_KEY, a->id, a->link_key, sizeof(a->link_key));
	a->asked_ns = row_u64(q);
	a->expires_ns = row_u64(q);
	a->count = row_u64(q);
	a->state = (enum store_approval_state)row_u64(q);
	a->decided_ns = row_u64(q);
	a->decided_by = row_text(q);
	a->reason = row_text(q);
	a->scope = (enum store_approval_for)row_u64(q);
	a->until_ns = row_u64(q);
}

/* Calls `each` for all rows of a query, which it ends. */
static int each_row(struct query *q, int (*each)(void *arg, const struct store_approval *a),
	void *arg, struct error *e)
{
	struct store_approval a;
	int r;

	while ((r = query_step(q, e)) > 0) {
		read_row(q, &a);
		r = each(arg, &a);
		if (r)
			break;
	}
	query_done(q);
	return r;
}

static int not_found(struct error *e)
{
	return error_set(e, ERROR_NOT_FOUND, ENOENT, "there is no such approval");
}

/* --- asking --- */

static int check(const struct store_approval *a, struct error *e)
{
	int r = text_check("sandbox id", a->sandbox_id, STORE_ID_MAX, e);

	r = r ? r : text_check("key id", a->key_id, STORE_ID_MAX, e);
	r = r ? r : text_check_optional("template id", a->template_id, STORE_NAME_MAX, e);
	r = r ? r : text_check("rule", a->rule, STORE_APPROVAL_RULE_MAX, e);
	return r ? r : text_check("question", a->question_json, STORE_APPROVAL_QUESTION_MAX, e);
}

static int find_same(struct store *s, const struct store_approval *a,
	char ret_id[STORE_APPROVAL_ID_BYTES], struct error *e)
{
	struct query q = db_query(s, STMT_APPROVAL_JOIN,
		"UPDATE approvals SET count = count + 1 WHERE state = 0 AND sandbox_id = ? "
		"AND same = ? RETURNING id");
	int r;

	query_text(&q, a->sandbox_id);
	query_blob(&q, a->same, sizeof(a->same));
	r = query_step(&q, e);
	if (r > 0)
		row_copy(&q, ret_id, STORE_APPROVAL_ID_BYTES);
	query_done(&q);
	return r;
}

/* Each bound has its statement, so that each has its index. */
static const struct bound {
	const char *sql, *of;
	unsigned max;
} bounds[] = {
	{"SELECT count(*) FROM approvals WHERE state = 0 AND sandbox_id = ?", "the sandbox",
		STORE_APPROVALS_SANDBOX_MAX},
	{"SELECT count(*) FROM approvals WHERE state = 0 AND key_id = ?", "the API key",
		STORE_APPROVALS_KEY_MAX},
	{"SELECT count(*) FROM approvals INDEXED BY approvals_late WHERE state = 0", "this host",
		STORE_APPROVALS_ALL_MAX},
};

static int check_bounds(struct store *s, const struct store_approval *a, struct error *e)
{
	for (unsigned i = 0; i < ARRAY_SIZE(bounds); i++) {
		struct query q = db_query(s, (enum stmt)(STMT_APPROVAL_BOUND + i), bounds[i].sql);
		uint64_t n = 0;
		int r;

		if (i < 2)
			query_text(&q, i == 0 ? a->sandbox_id : a->key_id);
		r = query_number(&q, &n, e);
		if (r < 0)
			return r;
		if (n >= bounds[i].max)
			return error_set(e, ERROR_TOO_MANY, ENOBUFS,
				"%s has %u approvals that wait: decide some first", bounds[i].of,
				bounds[i].max);
	}
	return 0;
}

/* Removes the oldest approvals of the key that no longer wait. Decisions in force stay. */
static int keep_room(struct store *s, const struct store_approval *a, struct error *e)
{
	struct query q = db_query(s, STMT_APPROVAL_ROOM,
		"DELETE FROM approvals WHERE seq IN (SELECT seq FROM approvals "
		"INDEXED BY approvals_over WHERE key_id = ?1 AND state > 0 "
		"AND (scope = 0 OR until_ns < ?2) ORDER BY seq DESC LIMIT 64 OFFSET ?3)");

	query_text(&q, a->key_id);
	query_u64(&q, a->asked_ns);
	query_u64(&q, STORE_APPROVALS_OVER_MAX);
	return query_run(&q, NULL, e);
}

static int insert(struct store *s, const struct store_approval *a, const char *id, struct error *e)
{
	struct query q = db_query(s, STMT_APPROVAL_INSERT,
		"INSERT INTO approvals (id, key_id, sandbox_id, template_id, rule, question, same, "
		"target, rule_digest, link_key, asked_ns, expires_ns) "
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
	uint8_t link_key[STORE_APPROVAL_LINK_KEY];

	if (getrandom(link_key, sizeof(link_key), 0) != sizeof(link_key)) {
		query_done(&q);
		return error_set(e, ERROR_INTERNAL, EIO, "no random numbers");
	}
	query_text(&q, id);
	query_text(&q, a->key_id);
	query_text(&q, a->sandbox_id);
	query_text(&q, a->template_id);
	query_text(&q, a->rule);
	query_text(&q, a->question_json);
	query_blob(&q, a->same, sizeof(a->same));
	query_blob(&q, a->target, sizeof(a->target));
	query_blob(&q, a->rule_digest, sizeof(a->rule_digest));
	query_sealed_blob(&q, SEALED_LINK_KEY, id, link_key, sizeof(link_key));
	query_u64(&q, a->asked_ns);
	query_u64(&q, a->expires_ns);
	return query_run(&q, NULL, e);
}

static int add(struct store *s, const struct store_approval *a,
	char ret_id[STORE_APPROVAL_ID_BYTES], struct error *e)
{
	int r = check_bounds(s, a, e);

	r = r ? r : db_check_space(s, e);
	r = r ? r : keep_room(s, a, e);
	memcpy(ret_id, "apr_", sizeof("apr_"));
	if (r == 0 && str_random_id(ret_id + 4, STORE_APPROVAL_ID_BYTES - 4) < 0)
		r = error_set(e, ERROR_INTERNAL, EIO, "no random numbers");
	return r ? r : insert(s, a, ret_id, e);
}

int store_approval_ask(struct store *s, const struct store_approval *a,
	char ret_id[STORE_APPROVAL_ID_BYTES], bool *ret_fresh, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	int r = check(a, e);

	r = r < 0 ? r : txn_begin(&t, s, e);
	r = r < 0 ? r : find_same(s, a, ret_id, e);
	*ret_fresh = r == 0;
	r = r == 0 ? add(s, a, ret_id, e) : r;
	return r < 0 ? r : txn_commit(&t, false, e);
}

/* --- deciding --- */

/* Says why the approval cannot be decided, to a person who came second. */
static int say_decided(void *arg, const struct store_approval *a)
{
	struct error *e = arg;

	if (a->state == STORE_APPROVAL_EXPIRED || a->state == STORE_APPROVAL_WAITING)
		return error_set(
			e, ERROR_EXISTS, EALREADY, "nobody decided it in time: it has expired");
	if (a->state == STORE_APPROVAL_CANCELLED)
		return error_set(e, ERROR_EXISTS, EALREADY, "it was cancelled: %s", a->reason);
	return error_set(e, ERROR_EXISTS, EALREADY, "%s has %s it already",
		a->decided_by ? a->decided_by : "somebody", store_approval_state_name(a->state));
}

static int note_key(void *arg, const struct store_approval *a)
{
	(void)snprintf(arg, STORE_ID_MAX + 1, "%s", a->key_id); /* fits */
	return 0;
}

/* A decision for longer than once is kept as long as it is in force, so a key may only have a
 * maximum of them. */
static int check_held(
	struct store *s, const char *id, const char *key_id, uint64_t now_ns, struct error *e)
{
	char owner[STORE_ID_MAX + 1];
	int r = store_approval_get(s, id, key_id, note_key, owner, e);
	struct query q;
	uint64_t n = 0;

	if (r < 0)
		return r;
	q = db_query(s, STMT_APPROVAL_HELD,
		"SELECT count(*) FROM approvals WHERE scope > 0 AND key_id = ? AND until_ns > ?");
	query_text(&q, owner);
	query_u64(&q, now_ns);
	r = query_number(&q, &n, e);
	if (r < 0 || n < STORE_APPROVALS_HELD_MAX)
		return r < 0 ? r : 0;
	return error_set(e, ERROR_TOO_MANY, ENOBUFS,
		"the API key has %d decisions that hold for longer: decide this one once, give "
		"decisions a ttl, or let a rule of the policy decide",
		STORE_APPROVALS_HELD_MAX);
}

int store_approval_decide(struct store *s, const char *id, const char *key_id,
	const struct store_approval *d, bool spare, struct error *e)
{
	/* one whose time has expired cannot be decided any more */
	int r = d->scope == STORE_APPROVAL_ONCE ? 0 : check_held(s, id, key_id, d->decided_ns, e);
	struct query q;
	unsigned changes = 0;

	if (r < 0)
		return r;
	q = db_query(s, STMT_APPROVAL_DECIDE,
		"UPDATE approvals SET state = ?1, decided_ns = ?2, decided_by = ?3, reason = ?4, "
		"scope = ?5, until_ns = ?6, spare = ?7 WHERE id = ?8 AND state = 0 "
		"AND (?9 IS NULL OR key_id = ?9) AND (?1 > 2 OR expires_ns > ?2)");
	query_u64(&q, d->state);
	query_u64(&q, d->decided_ns);
	query_text(&q, d->decided_by);
	query_text(&q, d->reason);
	query_u64(&q, d->scope);
	query_u64(&q, d->until_ns);
	query_u64(&q, spare);
	query_text(&q, id);
	query_text(&q, key_id);
	r = query_run(&q, &changes, e);
	if (r < 0 || changes)
		return r;
	return store_approval_get(s, id, key_id, say_decided, e, e);
}

static int say_ended(void *arg, const struct store_approval *a)
{
	struct error *e = arg;

	if (a->state == STORE_APPROVAL_WAITING)
		return error_set(e, ERROR_EXISTS, EALREADY, "it waits: decide it");
	return error_set(e, ERROR_EXISTS, EALREADY, "it is no decision that holds any more");
}

int store_approval_end(
	struct store *s, const char *id, const char *key_id, uint64_t now_ns, struct error *e)
{
	struct query q = db_query(s, STMT_APPROVAL_END,
		"UPDATE approvals SET until_ns = ?1 WHERE id = ?2 AND scope > 0 "
		"AND until_ns > ?1 AND (?3 IS NULL OR key_id = ?3)");
	unsigned changes = 0;
	int r;

	query_u64(&q, now_ns);
	query_text(&q, id);
	query_text(&q, key_id);
	r = query_run(&q, &changes, e);
	return r < 0 || changes ? r : store_approval_get(s, id, key_id, say_ended, e, e);
}

/* --- what is decided already --- */

/* The newest decision in force: a spare one, one for the sandbox, one for the template. */
static const char *const take_sql[] = {
	COLUMNS "WHERE spare = 1 AND sandbox_id = ?1 AND same = ?2 AND until_ns > ?3 "
		"ORDER BY seq DESC LIMIT 1",
	COLUMNS "WHERE scope = 1 AND sandbox_id = ?1 AND target = ?2 AND until_ns > ?3 "
		"ORDER BY seq DESC LIMIT 1",
	COLUMNS "WHERE scope = 2 AND key_id = ?1 AND target = ?2 AND until_ns > ?3 "
		"AND template_id = ?4 ORDER BY seq DESC LIMIT 1",
};

static int use_up(struct store *s, uint64_t seq, struct error *e)
{
	struct query q =
		db_query(s, STMT_APPROVAL_USED, "UPDATE approvals SET spare = 0 WHERE seq = ?");

	query_u64(&q, seq);
	return query_run(&q, NULL, e);
}

static int take_one(struct store *s, unsigned which, const struct store_approval *question,
	uint64_t now_ns, int (*each)(void *arg, const struct store_approval *a), void *arg,
	struct error *e)
{
	_cleanup_(query_done) struct query q =
		db_query(s, (enum stmt)(STMT_APPROVAL_TAKE + which), take_sql[which]);
	const uint8_t *hash = which == 0 ? question->same : question->target;
	struct store_approval a;
	int r;

	query_text(&q, which == 2 ? question->key_id : question->sandbox_id);
	query_blob(&q, hash, STORE_APPROVAL_HASH);
	query_u64(&q, now_ns);
	if (which == 2)
		query_text(&q, question->template_id);
	r = query_step(&q, e);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	read_row(&q, &a);
	r = which == 0 ? use_up(s, a.seq, e) : 0;
	return r < 0 ? r : each(arg, &a);
}

int store_approval_take(struct store *s, const struct store_approval *question, uint64_t now_ns,
	int (*each)(void *arg, const struct store_approval *a), void *arg, struct error *e)
{
	int r = -ENOENT;

	for (unsigned i = 0; r == -ENOENT && i < ARRAY_SIZE(take_sql); i++)
		r = take_one(s, i, question, now_ns, each, arg, e);
	return r;
}

/* --- reading --- */

int store_approval_get(struct store *s, const char *id, const char *key_id,
	int (*each)(void *arg, const struct store_approval *a), void *arg, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(
		s, STMT_APPROVAL_GET, COLUMNS "WHERE id = ?1 AND (?2 IS NULL OR key_id = ?2)");
	struct store_approval a;
	int r;

	query_text(&q, id);
	query_text(&q, key_id);
	r = query_step(&q, e);
	if (r <= 0)
		return r < 0 ? r : not_found(e);
	read_row(&q, &a);
	return each(arg, &a);
}

/* By sandbox, key or neither; each variant has its index. */
static const char *const list_sql[] = {
	COLUMNS "WHERE seq > ?1 AND (?2 >> state) & 1 ORDER BY seq LIMIT ?3",
	COLUMNS "INDEXED BY approvals_key WHERE key_id = ?4 AND seq > ?1 AND (?2 >> state) & 1 "
		"ORDER BY seq LIMIT ?3",
	COLUMNS "INDEXED BY approvals_sandbox WHERE sandbox_id = ?4 AND seq > ?1 "
		"AND (?2 >> state) & 1 AND (?5 IS NULL OR key_id = ?5) ORDER BY seq LIMIT ?3",
};

int store_approval_list(struct store *s, const struct store_approval_filter *f,
	int (*each)(void *arg, const struct store_approval *a), void *arg, struct error *e)
{
	unsigned by = f->sandbox_id ? 2 : f->key_id ? 1 : 0;
	struct query q;

	if (f->limit < 1 || f->limit > STORE_APPROVALS_LIST_MAX)
		return error_set(
			e, ERROR_USAGE, EINVAL, "limit is not 1-%d", STORE_APPROVALS_LIST_MAX);
	q = db_query(s, (enum stmt)(STMT_APPROVAL_LIST + by), list_sql[by]);
	query_u64(&q, f->after);
	query_u64(&q, f->states ? f->states : UINT32_MAX);
	query_u64(&q, f->limit);
	if (by)
		query_text(&q, by == 2 ? f->sandbox_id : f->key_id);
	if (by == 2)
		query_text(&q, f->key_id);
	return each_row(&q, each, arg, e);
}

int store_approval_given(struct store *s, const struct store_sandbox *sb, uint64_t now_ns,
	int (*each)(void *arg, const struct store_approval *a), void *arg, struct error *e)
{
	struct query q = db_query(s, STMT_APPROVAL_GIVEN,
		COLUMNS "WHERE scope > 0 AND key_id = ?1 AND until_ns > ?2 AND "
			"(sandbox_id = ?3 AND scope = 1 OR template_id = ?4 AND scope = 2) "
			"ORDER BY until_ns");

	query_text(&q, sb->key_id);
	query_u64(&q, now_ns);
	query_text(&q, sb->id);
	query_text(&q, sb->template_id);
	return each_row(&q, each, arg, e);
}

int store_approval_next(struct store *s, uint64_t *ret_ns, struct error *e)
{
	struct query q = db_query(s, STMT_APPROVAL_NEXT,
		"SELECT coalesce(min(expires_ns), ?) FROM approvals WHERE state = 0");

	query_u64(&q, STORE_NEVER_NS);
	return query_number(&q, ret_ns, e);
}

int store_approval_move(struct store *s, int64_t step_ns, uint64_t max_ns, struct error *e)
{
	struct query q = db_query(s, STMT_APPROVAL_MOVE,
		"UPDATE approvals SET expires_ns = max(min(expires_ns + ?1 - ?2, ?3), 0) "
		"WHERE state = 0 AND (?1 != ?2 OR expires_ns > ?3)");

	query_u64(&q, step_ns > 0 ? (uint64_t)step_ns : 0);
	query_u64(&q, step_ns < 0 ? -(uint64_t)step_ns : 0);
	query_u64(&q, max_ns);
	return query_run(&q, NULL, e);
}

int store_approval_late(struct store *s, uint64_t now_ns, uint32_t limit,
	int (*each)(void *arg, const struct store_approval *a), void *arg, struct error *e)
{
	struct query q = db_query(s, STMT_APPROVAL_LATE,
		COLUMNS "WHERE state = 0 AND expires_ns <= ? ORDER BY expires_ns LIMIT ?");

	query_u64(&q, now_ns);
	query_u64(&q, limit);
	return each_row(&q, each, arg, e);
}

/* --- the end --- */

int approvals_end(struct store *s, const char *sandbox_id, uint64_t now_ns, struct error *e)
{
	struct query q = db_query(s, STMT_APPROVAL_CANCEL,
		"UPDATE approvals SET state = 4, decided_ns = ?, reason = 'the sandbox has ended' "
		"WHERE state = 0 AND sandbox_id = ?");
	int r;

	query_u64(&q, now_ns);
	query_text(&q, sandbox_id);
	r = query_run(&q, NULL, e);
	if (r < 0)
		return r;
	q = db_query(s, STMT_APPROVAL_LAPSE,
		"UPDATE approvals SET until_ns = ?1, spare = 0 WHERE sandbox_id = ?2 "
		"AND scope < 2 AND until_ns > ?1");
	query_u64(&q, now_ns);
	query_text(&q, sandbox_id);
	return query_run(&q, NULL, e);
}

/* The index is by the time at which a decision's force ends, so the query skips decisions in
 * force. */
int approvals_prune(struct store *s, uint64_t before_ns, bool *more, struct error *e)
{
	struct query q = db_query(s, STMT_APPROVAL_PRUNE,
		"DELETE FROM approvals WHERE seq IN (SELECT seq FROM approvals INDEXED BY "
		"approvals_ended WHERE state > 0 AND CASE WHEN scope > 0 THEN "
		"max(decided_ns, until_ns) ELSE decided_ns END < ? LIMIT ?)");

	query_u64(&q, before_ns);
	query_u64(&q, MAINTAIN_ROWS);
	return query_run_slice(&q, MAINTAIN_ROWS, more, e);
}
