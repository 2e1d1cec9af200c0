#include "store/events.h"

#include <errno.h>
#include <string.h>

#include "store/db.h"
#include "store/maintain.h"
#include "store/text.h"

static const char *const type_names[STORE_EVENT_TYPES_] = {
	[STORE_EVENT_CREATED] = "created",
	[STORE_EVENT_STARTED] = "started",
	[STORE_EVENT_PAUSED] = "paused",
	[STORE_EVENT_RESUMED] = "resumed",
	[STORE_EVENT_UPDATED] = "updated",
	[STORE_EVENT_CHECKPOINTED] = "checkpointed",
	[STORE_EVENT_FORKED] = "forked",
	[STORE_EVENT_KILLED] = "killed",
	[STORE_EVENT_TIMED_OUT] = "timed_out",
	[STORE_EVENT_CRASHED] = "crashed",
	[STORE_EVENT_APPROVAL_REQUESTED] = "approval.requested",
	[STORE_EVENT_APPROVAL_DECIDED] = "approval.decided",
	[STORE_EVENT_INVOCATION] = "agent.invocation.finished",
};

const char *store_event_type_name(enum store_event_type type)
{
	return (unsigned)type < STORE_EVENT_TYPES_ ? type_names[type] : "unknown";
}

int store_event_type_parse(const char *name, enum store_event_type *ret)
{
	for (unsigned i = 0; i < STORE_EVENT_TYPES_; i++) {
		if (strcmp(name, type_names[i]) != 0)
			continue;
		*ret = (enum store_event_type)i;
		return 0;
	}
	return -EINVAL;
}

static int check_event(const struct store_event *ev, struct error *e)
{
	int r = 0;

	if ((unsigned)ev->type >= STORE_EVENT_TYPES_)
		r = error_set(e, ERROR_INTERNAL, EINVAL, "no such type of event");
	if (r == 0)
		r = text_check("sandbox id", ev->sandbox_id, STORE_ID_MAX, e);
	if (r == 0)
		r = text_check("key id", ev->key_id, STORE_ID_MAX, e);
	if (r == 0)
		r = text_check_optional("template id", ev->template_id, STORE_NAME_MAX, e);
	if (r == 0)
		r = text_check_optional("build id", ev->build_id, STORE_ID_MAX, e);
	if (r == 0)
		r = text_check_optional("event id", ev->uuid, STORE_UUID_BYTES - 1, e);
	if (r == 0)
		r = text_check_json("details", ev->details_json, false, NULL, e);
	return r;
}

static int insert(struct store *s, const struct store_event *ev, uint64_t *ret_id, struct error *e)
{
	struct query q = db_query(s, STMT_EVENT_INSERT,
		"INSERT INTO events "
		"(type, at_ns, sandbox_id, key_id, template_id, details_json, uuid, build_id) "
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
	int r;

	query_u64(&q, ev->type);
	query_u64(&q, ev->at_ns);
	query_text(&q, ev->sandbox_id);
	query_text(&q, ev->key_id);
	query_text(&q, ev->template_id);
	query_text(&q, ev->details_json);
	query_text(&q, ev->uuid);
	query_text(&q, ev->build_id);
	r = query_run(&q, NULL, e);
	if (r == 0 && ret_id)
		*ret_id = (uint64_t)sqlite3_last_insert_rowid(s->db);
	return r;
}

/* Removes the key's oldest event if it has as many as it may, and counts the new one. What is
 * removed is counted by a trigger. */
static int make_room(struct store *s, const char *key_id, struct error *e)
{
	struct query q = db_query(s, STMT_EVENT_REPLACE,
		"DELETE FROM events WHERE id = (SELECT id FROM events INDEXED BY events_key "
		"WHERE key_id = ?1 ORDER BY id LIMIT 1) "
		"AND (SELECT count FROM event_totals WHERE key_id = ?1) >= ?2");
	int r;

	query_text(&q, key_id);
	query_u64(&q, STORE_EVENTS_KEY_MAX);
	r = query_run(&q, NULL, e);
	if (r < 0)
		return r;
	q = db_query(s, STMT_EVENT_COUNT,
		"INSERT INTO event_totals VALUES (?, 1) "
		"ON CONFLICT (key_id) DO UPDATE SET count = count + 1");
	query_text(&q, key_id);
	return query_run(&q, NULL, e);
}

int store_event_add(
	struct store *s, const struct store_event *ev, uint64_t *ret_id, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	int r = check_event(ev, e);

	if (r == 0)
		r = db_check_space(s, e);
	if (r == 0)
		r = txn_begin(&t, s, e);
	if (r == 0)
		r = make_room(s, ev->key_id, e);
	if (r == 0)
		r = insert(s, ev, ret_id, e);
	if (r == 0)
		r = txn_commit(&t, false, e);
	return r;
}

#define EVENT_COLUMNS                                                                              \
	"SELECT id, type, at_ns, sandbox_id, key_id, template_id, details_json, "                  \
	"uuid, build_id"
#define EVENT_FILTER " AND (? >> type) & 1 AND at_ns >= ? AND at_ns < ?"

/* By sandbox, key or neither, and by order; each variant has its index. */
static const char *const list_sql[3][2] = {
	{EVENT_COLUMNS " FROM events WHERE id < ?" EVENT_FILTER
		       " ORDER BY id DESC LIMIT ? OFFSET ?",
		EVENT_COLUMNS " FROM events WHERE id > ?" EVENT_FILTER
			      " ORDER BY id LIMIT ? OFFSET ?"},
	{EVENT_COLUMNS " FROM events INDEXED BY events_key WHERE key_id = ? AND id < ?" EVENT_FILTER
		       " ORDER BY id DESC LIMIT ? OFFSET ?",
		EVENT_COLUMNS
		" FROM events INDEXED BY events_key WHERE key_id = ? AND id > ?" EVENT_FILTER
		" ORDER BY id LIMIT ? OFFSET ?"},
	{EVENT_COLUMNS " FROM events INDEXED BY events_sandbox WHERE sandbox_id = ? AND id < ? "
		       "AND (?3 IS NULL OR key_id = ?3)" EVENT_FILTER
		       " ORDER BY id DESC LIMIT ? OFFSET ?",
		EVENT_COLUMNS " FROM events INDEXED BY events_sandbox WHERE sandbox_id = ? "
			      "AND id > ? AND (?3 IS NULL OR key_id = ?3)" EVENT_FILTER
			      " ORDER BY id LIMIT ? OFFSET ?"},
};

static struct query list_query(struct store *s, const struct store_event_filter *f)
{
	unsigned by = f->sandbox_id ? 2 : f->key_id ? 1 : 0;
	uint64_t cursor = f->cursor || f->ascending ? f->cursor : INT64_MAX;
	struct query q = db_query(s, (enum stmt)(STMT_EVENT_LIST + 2 * by + f->ascending),
		list_sql[by][f->ascending]);

	if (by == 2)
		query_text(&q, f->sandbox_id);
	if (by == 1)
		query_text(&q, f->key_id);
	query_u64(&q, cursor);
	if (by == 2)
		query_text(&q, f->key_id);
	query_u64(&q, f->types ? f->types : UINT32_MAX);
	query_u64(&q, f->since_ns);
	query_u64(&q, f->until_ns ? f->until_ns : INT64_MAX);
	query_u64(&q, f->limit);
	query_u64(&q, f->offset);
	return q;
}

int store_event_list(struct store *s, const struct store_event_filter *f,
	int (*each)(void *arg, const struct store_event *ev), void *arg, struct error *e)
{
	_cleanup_(query_done) struct query q = {.store = s};
	int r;

	if (f->limit < 1 || f->limit > STORE_EVENTS_LIST_MAX)
		return error_set(
			e, ERROR_USAGE, EINVAL, "limit is not 1-%d", STORE_EVENTS_LIST_MAX);
	if (f->offset > STORE_EVENTS_KEY_MAX)
		return error_set(
			e, ERROR_USAGE, EINVAL, "offset is more than %d", STORE_EVENTS_KEY_MAX);
	q = list_query(s, f);
	while ((r = query_step(&q, e)) > 0) {
		struct store_event ev;

		ev.id = row_u64(&q);
		ev.type = (enum store_event_type)row_u64(&q);
		ev.at_ns = row_u64(&q);
		ev.sandbox_id = row_text(&q);
		ev.key_id = row_text(&q);
		ev.template_id = row_text(&q);
		ev.details_json = row_text(&q);
		ev.uuid = row_text(&q);
		ev.build_id = row_text(&q);
		r = each(arg, &ev);
		if (r)
			break;
	}
	return r;
}

/* Ids grow with time: the oldest rows have the lowest ids, so only those are examined. */
int events_prune(struct store *s, uint64_t before_ns, uint64_t max, bool *more, struct error *e)
{
	struct query q = db_query(s, STMT_EVENT_PRUNE,
		"DELETE FROM events WHERE id IN ("
		"SELECT id FROM (SELECT id, at_ns FROM events ORDER BY id LIMIT ?) "
		"WHERE at_ns < ? OR id + ? <= (SELECT max(id) FROM events))");

	query_u64(&q, MAINTAIN_ROWS);
	query_u64(&q, before_ns);
	query_u64(&q, max);
	return query_run_slice(&q, MAINTAIN_ROWS, more, e);
}
