#include "store/tiers.h"

#include <errno.h>
#include <stdio.h>

#include "store/db.h"
#include "store/text.h"

#define MINUTE_US    UINT64_C(60000000)
#define TIER_COLUMNS "name, included_minutes, price_micros, hard_stop, currency"

int store_tier_put(struct store *s, const struct store_tier *t, struct error *e)
{
	struct query q;
	const char *currency = t->currency && *t->currency ? t->currency : NULL;
	int r = text_check("name", t->name, STORE_NAME_MAX, e);

	if (r == 0)
		r = text_check_optional("currency", currency, STORE_CURRENCY_MAX, e);
	if (r < 0)
		return r;
	q = db_query(s, STMT_TIER_PUT,
		"INSERT INTO tiers (" TIER_COLUMNS ") VALUES (?, ?, ?, ?, ?) "
		"ON CONFLICT (name) DO UPDATE SET "
		"included_minutes = excluded.included_minutes, "
		"price_micros = excluded.price_micros, hard_stop = excluded.hard_stop, "
		"currency = excluded.currency");
	query_text(&q, t->name);
	query_u64(&q, t->included_minutes);
	query_u64(&q, t->price_micros_per_minute);
	query_u64(&q, t->hard_stop);
	query_text(&q, currency ? currency : "");
	r = query_run(&q, NULL, e);
	return r < 0 ? r : db_durable(s, e);
}

int store_tier_remove(struct store *s, const char *name, struct error *e)
{
	struct query q = db_query(s, STMT_TIER_REMOVE, "DELETE FROM tiers WHERE name = ?");
	struct error why = {0};
	unsigned changes = 0;
	int r;

	query_text(&q, name);
	r = query_run(&q, &changes, &why);
	if (r == -ENOENT) /* the foreign key of keys failed */
		return error_set(e, ERROR_EXISTS, EBUSY,
			"there are keys of this tier; give them another one first");
	if (r < 0)
		return error_set(e, why.code, why.err, "%s", why.message);
	if (changes == 0)
		return error_set(e, ERROR_NOT_FOUND, ENOENT, "no such tier");
	return db_durable(s, e);
}

static void read_tier(struct query *q, struct store_tier *t)
{
	t->name = row_text(q);
	t->included_minutes = row_u64(q);
	t->price_micros_per_minute = row_u64(q);
	t->hard_stop = row_bool(q);
	t->currency = row_text(q);
}

int store_tier_list(struct store *s, int (*each)(void *arg, const struct store_tier *t), void *arg,
	struct error *e)
{
	_cleanup_(query_done) struct query q =
		db_query(s, STMT_TIER_LIST, "SELECT " TIER_COLUMNS " FROM tiers ORDER BY name");
	int r;

	while ((r = query_step(&q, e)) > 0) {
		struct store_tier t;

		read_tier(&q, &t);
		r = each(arg, &t);
		if (r)
			break;
	}
	return r;
}

static int keep_total(void *arg, const struct store_key_usage *u)
{
	*(struct store_counters *)arg = u->total;
	return 0;
}

static void apply_tier(struct store_bill *b, const struct store_tier *t)
{
	uint64_t over = b->minutes > t->included_minutes ? b->minutes - t->included_minutes : 0;
	uint64_t all_us;

	if (__builtin_mul_overflow(t->included_minutes, MINUTE_US, &all_us))
		all_us = UINT64_MAX;
	b->has_tier = true;
	b->included_minutes = t->included_minutes;
	b->hard_stop = t->hard_stop;
	if (t->hard_stop)
		b->left_us = all_us > b->used.uptime_us ? all_us - b->used.uptime_us : 0;
	b->stopped = b->left_us == 0;
	(void)snprintf(b->tier, sizeof(b->tier), "%s", t->name);	     /* bounded when put */
	(void)snprintf(b->currency, sizeof(b->currency), "%s", t->currency); /* likewise */
	if (__builtin_mul_overflow(over, t->price_micros_per_minute, &b->charge_micros))
		b->charge_micros = UINT64_MAX;
}

int store_usage_bill(struct store *s, const char *key_id, uint64_t at_ns, struct store_bill *ret,
	struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_TIER_OF_KEY,
		"SELECT " TIER_COLUMNS " FROM tiers "
		"WHERE name = (SELECT tier FROM keys WHERE id = ?)");
	struct store_bill b = {.left_us = UINT64_MAX};
	struct store_tier t;
	uint64_t from, to;
	int r;

	store_month_of(at_ns, &from, &to);
	r = store_usage_keys(s, key_id, from, to, keep_total, &b.used, e);
	if (r < 0)
		return r;
	b.minutes = b.used.uptime_us / MINUTE_US + (b.used.uptime_us % MINUTE_US != 0);
	query_text(&q, key_id);
	r = query_step(&q, e);
	if (r < 0)
		return r;
	if (r > 0) {
		read_tier(&q, &t);
		apply_tier(&b, &t);
	}
	*ret = b;
	return 0;
}

int store_tier_stopping_keys(
	struct store *s, int (*each)(void *arg, const char *key_id), void *arg, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_TIER_STOPPING,
		"SELECT k.id FROM tiers CROSS JOIN keys k ON k.tier = tiers.name "
		"WHERE hard_stop = 1 AND EXISTS ("
		"SELECT 1 FROM sandboxes WHERE key_id = k.id AND state IN (0, 3))");
	int r;

	while ((r = query_step(&q, e)) > 0) {
		r = each(arg, row_text(&q));
		if (r)
			break;
	}
	return r;
}
