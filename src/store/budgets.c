#include "store/budgets.h"

#include <errno.h>

#include "base/clock.h"
#include "base/str.h"
#include "store/db.h"
#include "store/maintain.h"
#include "store/text.h"

#define DAY_NS (UINT64_C(86400) * NS_PER_S)

/* So that no sum overflows. */
#define AMOUNT_MAX (UINT64_C(1) << 50)

uint64_t store_budget_day(uint64_t now_ns)
{
	return now_ns / DAY_NS;
}

static uint64_t cut(uint64_t n)
{
	return n < AMOUNT_MAX ? n : AMOUNT_MAX;
}

/* A key's own has no sandbox. */
static void bind(struct query *q, const struct store_budget *b)
{
	query_text(q, b->key_id);
	query_text(q, b->sandbox_id ? b->sandbox_id : "");
	query_text(q, b->id);
	query_u64(q, b->day);
}

/* 1: it is there. */
static int read_used(struct store *s, struct store_budget *b, struct error *e)
{
	struct query q = db_query(s, STMT_BUDGET_GET,
		"SELECT requests, tokens, micros FROM budgets WHERE key_id = ? AND sandbox_id = ? "
		"AND id = ? AND day = ?");
	int r;

	b->used = (struct store_amounts){0};
	bind(&q, b);
	r = query_step(&q, e);
	if (r > 0) {
		b->used.requests = row_u64(&q);
		b->used.tokens = row_u64(&q);
		b->used.micros = row_u64(&q);
	}
	query_done(&q);
	return r;
}

int store_budget_get(struct store *s, struct store_budget *b, struct error *e)
{
	int r = read_used(s, b, e);

	return r < 0 ? r : 0;
}

static int check_bound(
	struct store *s, const char *key_id, unsigned max, const char *of, struct error *e)
{
	struct query q = db_query(s, STMT_BUDGET_TOTAL,
		"SELECT coalesce(max(count), 0) FROM budget_totals WHERE key_id = ?");
	uint64_t n = 0;
	int r;

	query_text(&q, key_id);
	r = query_number(&q, &n, e);
	if (r == 0 && n >= max)
		r = error_set(e, ERROR_TOO_MANY, ENOBUFS,
			"%s counts %u budgets, and has no place for more: end sandboxes", of, max);
	return r;
}

static int check(struct store *s, const struct store_budget *b, struct error *e)
{
	int r = text_check("id of a budget", b->id, STORE_BUDGET_ID_MAX, e);

	r = r ? r : text_check("key id", b->key_id, STORE_ID_MAX, e);
	r = r ? r : text_check_optional("sandbox id", b->sandbox_id, STORE_ID_MAX, e);
	r = r ? r : check_bound(s, b->key_id, STORE_BUDGETS_KEY_MAX, "the API key", e);
	r = r ? r : check_bound(s, "", STORE_BUDGETS_ALL_MAX, "this host", e);
	return r ? r : db_check_space(s, e);
}

int store_budget_charge(
	struct store *s, struct store_budget *b, const struct store_amounts *more, struct error *e)
{
	struct query q;
	int r = read_used(s, b, e);

	r = r ? (r < 0 ? r : 0) : check(s, b, e);
	if (r < 0)
		return r;
	b->used.requests = cut(b->used.requests + cut(more->requests));
	b->used.tokens = cut(b->used.tokens + cut(more->tokens));
	b->used.micros = cut(b->used.micros + cut(more->micros));
	q = db_query(s, STMT_BUDGET_PUT,
		"INSERT INTO budgets (key_id, sandbox_id, id, day, requests, tokens, micros) "
		"VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key_id, sandbox_id, id, day) DO UPDATE "
		"SET requests = excluded.requests, tokens = excluded.tokens, "
		"micros = excluded.micros");
	bind(&q, b);
	query_u64(&q, b->used.requests);
	query_u64(&q, b->used.tokens);
	query_u64(&q, b->used.micros);
	return query_run(&q, NULL, e);
}

static uint64_t moved(uint64_t n, int64_t by)
{
	if (by < 0)
		return n > -(uint64_t)by ? n + (uint64_t)by : 0;
	return cut(n + cut((uint64_t)by));
}

int store_budget_settle(struct store *s, const struct store_budget *b, int64_t tokens,
	int64_t micros, struct error *e)
{
	struct store_budget now = *b;
	int r = read_used(s, &now, e);
	struct query q;

	if (r <= 0)
		return r;
	q = db_query(s, STMT_BUDGET_SETTLE,
		"UPDATE budgets SET tokens = ?5, micros = ?6 WHERE key_id = ?1 AND sandbox_id = ?2 "
		"AND id = ?3 AND day = ?4");
	bind(&q, b);
	query_u64(&q, moved(now.used.tokens, tokens));
	query_u64(&q, moved(now.used.micros, micros));
	return query_run(&q, NULL, e);
}

int budgets_end(struct store *s, const char *sandbox_id, struct error *e)
{
	struct query q = db_query(s, STMT_BUDGET_END,
		"DELETE FROM budgets WHERE sandbox_id = ? AND sandbox_id != ''");

	query_text(&q, sandbox_id);
	return query_run(&q, NULL, e);
}

int budgets_forget_key(struct store *s, const char *key_id, struct error *e)
{
	struct query q = db_query(
		s, STMT_BUDGET_FORGET, "DELETE FROM budgets WHERE key_id = ? AND sandbox_id = ''");

	query_text(&q, key_id);
	return query_run(&q, NULL, e);
}

/* Requests may go on over midnight, and are settled on the day of their begin. */
int budgets_prune(struct store *s, uint64_t now_ns, bool *more, struct error *e)
{
	uint64_t today = store_budget_day(now_ns);
	struct query q = db_query(s, STMT_BUDGET_PRUNE,
		"DELETE FROM budgets WHERE (key_id, sandbox_id, id, day) IN (SELECT key_id, "
		"sandbox_id, id, day FROM budgets INDEXED BY budgets_day WHERE day > 0 AND "
		"day < ? LIMIT ?)");

	query_u64(&q, today ? today - 1 : 0);
	query_u64(&q, MAINTAIN_ROWS);
	return query_run_slice(&q, MAINTAIN_ROWS, more, e);
}
