#include "store/webhooks.h"

#include <errno.h>
#include <string.h>

#include "proto/json_text.h"
#include "base/clock.h"
#include "store/db.h"
#include "store/sealed.h"
#include "store/text.h"

enum { LOCKED_RETRY_S = 300 }; /* of deliveries without the key that opens them */

static int check_types(uint32_t types, struct error *e)
{
	if (types & ~(STORE_EVENT_BIT(STORE_EVENT_TYPES_) - 1))
		return error_set(e, ERROR_USAGE, EINVAL, "no such type of event");
	return 0;
}

static int check_webhook(const struct store_webhook *w, bool new, struct error *e)
{
	int r = text_check("url", w->url, STORE_URL_MAX, e);

	if (r == 0)
		r = new ? text_check("secret", w->secret, STORE_TOKEN_MAX, e)
			: text_check_optional("secret", w->secret, STORE_TOKEN_MAX, e);
	if (r == 0)
		r = text_check_optional("key id", w->key_id, STORE_ID_MAX, e);
	if (r == 0 && w->name && *w->name)
		r = text_check("name", w->name, STORE_WEBHOOK_NAME_MAX, e);
	return r == 0 ? check_types(w->types, e) : r;
}

static int check_count(struct store *s, struct error *e)
{
	struct query q = db_query(s, STMT_WEBHOOK_COUNT, "SELECT count(*) FROM webhooks");
	uint64_t n = 0;
	int r = query_number(&q, &n, e);

	if (r == 0 && n >= STORE_WEBHOOKS_MAX)
		r = error_set(e, ERROR_LIMIT, ENOBUFS,
			"there are %d webhooks already; remove one first", STORE_WEBHOOKS_MAX);
	return r;
}

int store_webhook_add(struct store *s, const struct store_webhook *w, char ret_id[STORE_UUID_BYTES],
	struct error *e)
{
	struct query q;
	int r = check_webhook(w, true, e);

	if (r == 0)
		r = check_count(s, e);
	if (r == 0)
		r = db_check_space(s, e);
	if (r == 0)
		r = db_random_uuid(ret_id, e);
	if (r < 0)
		return r;
	q = db_query(s, STMT_WEBHOOK_INSERT,
		"INSERT INTO webhooks (id, key_id, url, secret, types, enabled, created_ns, name) "
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
	query_text(&q, ret_id);
	query_text(&q, w->key_id);
	query_text(&q, w->url);
	query_sealed(&q, SEALED_WEBHOOK, ret_id, w->secret);
	query_u64(&q, w->types);
	query_u64(&q, w->enabled);
	query_u64(&q, w->created_ns);
	query_text(&q, w->name ? w->name : "");
	r = query_run(&q, NULL, e);
	return r < 0 ? r : db_durable(s, e);
}

/* Deliveries of a disabled webhook get STORE_NEVER_NS as their next attempt, so the query for due
 * ones never reads them. */
static int reschedule(struct store *s, const char *id, bool enabled, struct error *e)
{
	struct query q = enabled ? db_query(s, STMT_WEBHOOK_WAKE,
					   "UPDATE deliveries SET next_ns = created_ns "
					   "WHERE webhook_id = ? AND next_ns = 9223372036854775807")
				 : db_query(s, STMT_WEBHOOK_PARK,
					   "UPDATE deliveries SET next_ns = 9223372036854775807 "
					   "WHERE webhook_id = ?");

	query_text(&q, id);
	return query_run(&q, NULL, e);
}

int store_webhook_update(
	struct store *s, const char *id, const struct store_webhook *w, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	unsigned changes = 0;
	struct query q;
	int r = check_webhook(w, false, e);

	if (r == 0)
		r = txn_begin(&t, s, e);
	if (r < 0)
		return r;
	q = db_query(s, STMT_WEBHOOK_UPDATE,
		"UPDATE webhooks SET url = ?, secret = coalesce(?, secret), types = ?, enabled = "
		"?, "
		"name = coalesce(?, name) WHERE id = ?");
	query_text(&q, w->url);
	query_sealed(&q, SEALED_WEBHOOK, id, w->secret);
	query_u64(&q, w->types);
	query_u64(&q, w->enabled);
	query_text(&q, w->name);
	query_text(&q, id);
	r = query_run(&q, &changes, e);
	if (r == 0 && changes == 0)
		r = error_set(e, ERROR_NOT_FOUND, ENOENT, "no such webhook");
	if (r == 0)
		r = reschedule(s, id, w->enabled, e);
	return r < 0 ? r : txn_commit(&t, true, e);
}

int store_webhook_remove(struct store *s, const char *id, struct error *e)
{
	struct query q = db_query(s, STMT_WEBHOOK_REMOVE, "DELETE FROM webhooks WHERE id = ?");
	unsigned changes = 0;
	int r;

	query_text(&q, id);
	r = query_run(&q, &changes, e);
	if (r == 0 && changes == 0)
		r = error_set(e, ERROR_NOT_FOUND, ENOENT, "no such webhook");
	return r < 0 ? r : db_durable(s, e);
}

int store_webhook_list(struct store *s, const char *key_id,
	int (*each)(void *arg, const struct store_webhook *w), void *arg, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_WEBHOOK_LIST,
		"SELECT id, key_id, url, secret, types, enabled, created_ns, queued, dropped, "
		"name, (SELECT last_error FROM deliveries WHERE webhook_id = webhooks.id "
		"ORDER BY id LIMIT 1) FROM webhooks WHERE ?1 IS NULL OR key_id = ?1 ORDER BY "
		"created_ns, id");
	int r;

	query_text(&q, key_id);
	while ((r = query_step(&q, e)) > 0) {
		struct store_webhook w;

		w.id = row_text(&q);
		w.key_id = row_text(&q);
		w.url = row_text(&q);
		w.secret = NULL;
		q.column++;
		w.types = (uint32_t)row_u64(&q);
		w.enabled = row_bool(&q);
		w.created_ns = row_u64(&q);
		w.queued = row_u64(&q);
		w.dropped = row_u64(&q);
		w.name = row_text(&q);
		w.last_error = row_text(&q);
		r = each(arg, &w);
		if (r)
			break;
	}
	return r;
}

/* ---- deliveries ---- */

static int drop_oldest(struct store *s, const char *webhook_id, struct error *e)
{
	struct query q = db_query(s, STMT_DELIVERY_DROP,
		"DELETE FROM deliveries WHERE id = ("
		"SELECT min(id) FROM deliveries WHERE webhook_id = ?)");

	query_text(&q, webhook_id);
	return query_run(&q, NULL, e);
}

static int queue_one(struct store *s, const char *webhook_id, bool full,
	const struct store_event *ev, const char *payload, uint64_t now_ns, struct error *e)
{
	struct query q;
	int r = full ? drop_oldest(s, webhook_id, e) : 0;

	if (r < 0)
		return r;
	q = db_query(s, STMT_WEBHOOK_ADD_QUEUED,
		"UPDATE webhooks SET queued = queued + iif(?1, 0, 1), dropped = dropped + ?1 "
		"WHERE id = ?");
	query_u64(&q, full);
	query_text(&q, webhook_id);
	r = query_run(&q, NULL, e);
	if (r < 0)
		return r;
	q = db_query(s, STMT_DELIVERY_INSERT,
		"INSERT INTO deliveries (webhook_id, event_id, payload, created_ns, next_ns) "
		"VALUES (?, ?, ?, ?4, ?4)");
	query_text(&q, webhook_id);
	query_u64(&q, ev->id);
	query_sealed(&q, SEALED_PAYLOAD, webhook_id, payload);
	query_u64(&q, now_ns);
	return query_run(&q, NULL, e);
}

struct matches {
	unsigned count;
	struct {
		char id[STORE_UUID_BYTES];
		bool full, operators;
	} webhooks[STORE_WEBHOOKS_MAX];
};

static int find_matches(
	struct store *s, const struct store_event *ev, struct matches *m, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_WEBHOOK_MATCH,
		"SELECT id, queued >= ?, key_id IS NULL FROM webhooks WHERE enabled "
		"AND (key_id IS NULL OR key_id = ?) AND (types = 0 OR (types >> ?) & 1)");
	int r;

	m->count = 0;
	query_u64(&q, STORE_DELIVERIES_MAX);
	query_text(&q, ev->key_id);
	query_u64(&q, ev->type);
	while ((r = query_step(&q, e)) > 0 && m->count < STORE_WEBHOOKS_MAX) {
		row_copy(&q, m->webhooks[m->count].id, STORE_UUID_BYTES);
		m->webhooks[m->count].full = row_bool(&q);
		m->webhooks[m->count].operators = row_bool(&q);
		m->count++;
	}
	return r < 0 ? r : 0;
}

int store_delivery_queue(struct store *s, const struct store_event *ev, const char *payload,
	uint64_t now_ns, unsigned *ret_count, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	struct matches m;
	int r = find_matches(s, ev, &m, e);

	if (ret_count)
		*ret_count = 0;
	if (r < 0 || m.count == 0)
		return r;
	r = text_check("payload", payload, STORE_PAYLOAD_MAX, e);
	r = r ? r : text_check_optional("payload", ev->operator_payload, STORE_PAYLOAD_MAX, e);
	if (r == 0)
		r = db_check_space(s, e);
	if (r == 0)
		r = txn_begin(&t, s, e);
	for (unsigned i = 0; r == 0 && i < m.count; i++)
		r = queue_one(s, m.webhooks[i].id, m.webhooks[i].full, ev,
			m.webhooks[i].operators && ev->operator_payload ? ev->operator_payload
									: payload,
			now_ns, e);
	if (r == 0)
		r = txn_commit(&t, false, e);
	if (r == 0 && ret_count)
		*ret_count = m.count;
	return r;
}

int store_event_publish(struct store *s, const struct store_event *ev, const char *payload,
	uint64_t now_ns, unsigned *ret_count, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	struct store_event with_id = *ev;
	int r = txn_begin(&t, s, e);

	if (r == 0)
		r = store_event_add(s, ev, &with_id.id, e);
	if (r == 0)
		r = store_delivery_queue(s, &with_id, payload, now_ns, ret_count, e);
	return r < 0 ? r : txn_commit(&t, false, e);
}

int store_delivery_queue_for(struct store *s, const char *webhook_id, const char *payload,
	uint64_t now_ns, struct error *e)
{
	static const struct store_event none = {0};
	_cleanup_(txn_end) struct txn t = {.store = s};
	struct query q =
		db_query(s, STMT_WEBHOOK_FULL, "SELECT queued >= ? FROM webhooks WHERE id = ?");
	uint64_t full = 0;
	int r;

	query_u64(&q, STORE_DELIVERIES_MAX);
	query_text(&q, webhook_id);
	r = query_number(&q, &full, e);
	if (r == -ENOENT)
		return error_set(e, ERROR_NOT_FOUND, ENOENT, "no such webhook");
	if (r == 0)
		r = text_check("payload", payload, STORE_PAYLOAD_MAX, e);
	if (r == 0)
		r = db_check_space(s, e);
	if (r == 0)
		r = txn_begin(&t, s, e);
	if (r == 0)
		r = queue_one(s, webhook_id, full, &none, payload, now_ns, e);
	return r < 0 ? r : txn_commit(&t, false, e);
}

/* The oldest delivery of each webhook: at most one row per webhook. */
#define HEADS                                                                                      \
	"FROM webhooks w JOIN deliveries d ON d.id = "                                             \
	"(SELECT min(id) FROM deliveries WHERE webhook_id = w.id)"

int store_delivery_next(struct store *s, uint64_t *ret_ns, struct error *e)
{
	struct query q = db_query(
		s, STMT_DELIVERY_NEXT, "SELECT d.next_ns " HEADS " ORDER BY d.next_ns LIMIT 1");
	int r = query_number(&q, ret_ns, e);

	if (r == -ENOENT) {
		*ret_ns = STORE_NEVER_NS;
		r = 0;
	}
	return r;
}

static int give_delivery(struct store *s, uint64_t id, uint64_t now_ns,
	int (*each)(void *arg, const struct store_delivery *d), void *arg, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_DELIVERY_GET,
		"SELECT d.id, w.id, w.key_id, w.url, w.secret, d.event_id, d.payload, d.attempts, "
		"d.created_ns, d.next_ns, d.last_error "
		"FROM deliveries d JOIN webhooks w ON w.id = d.webhook_id WHERE d.id = ?");
	struct store_delivery d;
	int r;

	query_u64(&q, id);
	r = query_step(&q, e);
	if (r <= 0)
		return r; /* gone: an earlier callback removed its webhook */
	d.id = row_u64(&q);
	d.webhook_id = row_text(&q);
	d.key_id = row_text(&q);
	d.url = row_text(&q);
	d.secret = row_sealed(&q, SEALED_WEBHOOK, d.webhook_id);
	d.event_id = row_u64(&q);
	d.payload = row_sealed(&q, SEALED_PAYLOAD, d.webhook_id);
	d.attempts = (uint32_t)row_u64(&q);
	d.created_ns = row_u64(&q);
	d.next_ns = row_u64(&q);
	d.last_error = row_text(&q);
	if (d.secret && d.payload)
		return each(arg, &d);
	query_done(&q);
	return store_delivery_failed(s, id, now_ns + LOCKED_RETRY_S * NS_PER_S,
		"it cannot be signed: the key file of the secrets is missing", e);
}

int store_delivery_due(struct store *s, uint64_t now_ns, uint32_t limit,
	int (*each)(void *arg, const struct store_delivery *d), void *arg, struct error *e)
{
	uint64_t ids[STORE_DUE_MAX];
	unsigned n = 0;
	struct query q;
	int r;

	if (limit < 1 || limit > STORE_DUE_MAX)
		return error_set(e, ERROR_USAGE, EINVAL, "limit is not 1-%d", STORE_DUE_MAX);
	q = db_query(s, STMT_DELIVERY_DUE,
		"SELECT d.id " HEADS " WHERE d.next_ns <= ? ORDER BY d.next_ns LIMIT ?");
	query_u64(&q, now_ns < STORE_NEVER_NS ? now_ns : STORE_NEVER_NS - 1);
	query_u64(&q, limit);
	while ((r = query_step(&q, e)) > 0 && n < limit)
		ids[n++] = row_u64(&q);
	query_done(&q);
	for (unsigned i = 0; r == 0 && i < n; i++)
		r = give_delivery(s, ids[i], now_ns, each, arg, e);
	return r;
}

static int delivery_changed(struct query *q, struct error *e)
{
	unsigned changes = 0;
	int r = query_run(q, &changes, e);

	if (r == 0 && changes == 0)
		r = error_set(e, ERROR_NOT_FOUND, ENOENT, "no such delivery");
	return r;
}

int store_delivery_claim(struct store *s, uint64_t id, uint64_t until_ns, struct error *e)
{
	struct query q =
		db_query(s, STMT_DELIVERY_CLAIM, "UPDATE deliveries SET next_ns = ? WHERE id = ?");

	query_u64(&q, until_ns);
	query_u64(&q, id);
	return delivery_changed(&q, e);
}

/* Cuts to n - 1 bytes without splitting a character; leaves out what is not UTF-8. */
static void cut_text(const char *text, char *out, size_t n)
{
	size_t len = strnlen(text, n - 1);

	memcpy(out, text, len);
	while (len > 0 && !json_text_is_utf8(out, len))
		len--;
	out[len] = '\0';
}

int store_delivery_failed(
	struct store *s, uint64_t id, uint64_t next_ns, const char *why, struct error *e)
{
	char cut[STORE_DELIVERY_ERROR_MAX + 1];
	struct query q = db_query(s, STMT_DELIVERY_FAILED,
		"UPDATE deliveries SET next_ns = iif((SELECT enabled FROM webhooks w "
		"WHERE w.id = webhook_id), ?, 9223372036854775807), "
		"attempts = attempts + 1, last_error = ? WHERE id = ?");

	cut_text(why, cut, sizeof(cut));
	query_u64(&q, next_ns);
	query_text(&q, cut);
	query_u64(&q, id);
	return delivery_changed(&q, e);
}

int store_delivery_done(struct store *s, uint64_t id, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	struct query q;
	int r = txn_begin(&t, s, e);

	if (r < 0)
		return r;
	q = db_query(s, STMT_DELIVERY_WEBHOOK,
		"UPDATE webhooks SET queued = max(queued - 1, 0) "
		"WHERE id = (SELECT webhook_id FROM deliveries WHERE id = ?)");
	query_u64(&q, id);
	r = query_run(&q, NULL, e);
	if (r < 0)
		return r;
	q = db_query(s, STMT_DELIVERY_DONE, "DELETE FROM deliveries WHERE id = ?");
	query_u64(&q, id);
	r = query_run(&q, NULL, e);
	return r < 0 ? r : txn_commit(&t, false, e);
}
