#include "store/tiers.h"

#include <errno.h>

#include "store/db.h"
#include "store/text.h"

#define MINUTE_US UINT64_C(60000000)

int store_tier_put(struct store *s, const struct store_tier *t, struct error *e)
{
	struct query q;
	int r = text_check("name", t->name, STORE_NAME_MAX, e);

	if (r < 0)
		return r;
	q = db_query(s, STMT_TIER_PUT,
		"INSERT INTO tiers VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
		"included_minutes = excluded.included_minutes, "
		"price_micros = excluded.price_micros, hard_stop = excluded.hard_stop");
	query_text(&q, t->name);
	query_u64(&q, t->included_minutes);
	query_u64(&q, t->price_micros_per_minute);
	query_u64(&q, t->hard_stop);
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
	if (r == -ENOENT) /* the foreign key of keys */
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
}

int store_tier_list(struct store *s, int (*each)(void *arg, const struct store_tier *t), void *arg,
	struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_TIER_LIST,
		"SELECT name, included_minutes, price_micros, hard_stop FROM tiers ORDER BY name");
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

	b->has_tier = true;
	b->included_minutes = t->included_minutes;
	b->stopped = t->hard_stop && b->minutes >= t->included_minutes;
	if (__builtin_mul_overflow(over, t->price_micros_per_minute, &b->charge_micros))
		b->charge_micros = UINT64_MAX;
}

int store_usage_bill(struct store *s, const char *key_id, uint64_t at_ns, struct store_bill *ret,
	struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_TIER_OF_KEY,
		"SELECT t.name, t.included_minutes, t.price_micros, t.hard_stop "
		"FROM keys k JOIN tiers t ON t.name = k.tier WHERE k.id = ?");
	struct store_bill b = {0};
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
