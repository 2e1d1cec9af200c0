/* What sandboxes did (store/activity.h), for as long as it is kept. A question may wait for an
 * answer: it is asked again with the cursor of the last one, as long as the sandbox has not
 * ended. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/auth.h"
#include "base/buf.h"
#include "base/clock.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "network/activity.h"
#include "proto/uri.h"
#include "store/activity.h"
#include "store/keys.h"

enum {
	WAIT_S = 30,	/* for a record */
	TICK_MS = 1000, /* looks whether the sandbox has ended */
	LATE_S = 2,	/* what its worker said last may come after its end */
	DEFAULT_LIMIT = 100,
	ANSWER_MAX = STORE_ACTIVITY_LIST_MAX * (STORE_ACTIVITY_RECORD_MAX + 128),
	KINDS_MAX = 64,
};

struct question {
	struct store *store;
	char id[ROUTE_SANDBOX_ID_MAX + 1];
	uint32_t kinds, limit;
	uint64_t cursor;
	bool follow;
};

struct answer {
	struct buf text;
	unsigned count;
	uint64_t cursor; /* of the last record, or of the log's newest if none is of the kinds */
	bool more, ended;
	const struct question *question;
};

/* --- the question --- */

static bool take_kinds(struct request *r, uint32_t *ret)
{
	char text[KINDS_MAX], *save = NULL;
	int n = uri_query_get(r->head->query, "kind", text, sizeof(text));
	enum store_activity_kind kind;

	if (n == -ENOENT)
		return true;
	for (char *word = n < 0 ? NULL : strtok_r(text, ",", &save); word;
		word = strtok_r(NULL, ",", &save)) {
		if (store_activity_kind_parse(word, &kind) < 0) {
			n = -EINVAL;
			break;
		}
		*ret |= STORE_ACTIVITY_BIT(kind);
	}
	if (n < 0 || *ret == 0)
		reply_error(r, 400,
			"kind must be flow, request, approval or lost, or several with commas");
	return n >= 0 && *ret;
}

static bool take_follow(struct request *r, bool *ret)
{
	char text[8] = "";
	int n = uri_query_get(r->head->query, "follow", text, sizeof(text));

	*ret = n >= 0 && strcmp(text, "true") == 0;
	if (n == -ENOENT || (n >= 0 && (*ret || strcmp(text, "false") == 0)))
		return true;
	reply_error(r, 400, "follow must be true or false");
	return false;
}

static bool take_cursor(struct request *r, uint64_t *ret)
{
	unsigned long long v = 0;
	int n = uri_query_u64(r->head->query, "cursor", INT64_MAX, &v);

	*ret = v;
	if (n == 0 || n == -ENOENT)
		return true;
	reply_error(r, 400, "cursor must be that of an earlier answer");
	return false;
}

static bool take_question(struct request *r, struct question *q)
{
	struct store_activity_log log;

	q->store = fleet_of(r)->store;
	q->limit = api_limit(r, STORE_ACTIVITY_LIST_MAX, DEFAULT_LIMIT);
	if (!q->limit || !take_kinds(r, &q->kinds) || !take_follow(r, &q->follow) ||
		!take_cursor(r, &q->cursor))
		return false;
	if (route_sandbox_id(r->params[0], q->id) &&
		store_activity_get(q->store, q->id, auth_scope(r), &log, NULL) == 0)
		return true;
	return api_find_logged(r, q->id);
}

/* --- the answer --- */

static int add_record(void *arg, const struct store_activity *a)
{
	struct answer *x = arg;

	if (x->count == x->question->limit) {
		x->more = true;
		return 1;
	}
	x->cursor = a->id;
	return buf_printf(&x->text, "%s{\"id\":%llu,\"kind\":\"%s\",%s", x->count++ ? "," : "",
		(unsigned long long)a->id, store_activity_kind_name(a->kind), a->record + 1);
}

static bool has_ended(const struct question *q, const struct store_activity_log *log)
{
	struct store_sandbox *sb = NULL;
	bool there = store_sandbox_get(q->store, q->id, &sb, NULL) != -ENOENT;

	store_sandbox_free(sb);
	return !there && log->ended_ns + LATE_S * NS_PER_S < clock_realtime_ns();
}

/* The records. Who asks again does not have those looked through that are of other kinds. */
static int read_records(const struct question *q, struct answer *x, uint32_t limit, struct error *e)
{
	uint64_t newest = 0;
	int r = store_activity_newest(q->store, q->id, &newest, e);

	if (r == 0)
		r = store_activity_list(
			q->store, q->id, q->kinds, q->cursor, limit, add_record, x, e);
	if (r >= 0 && x->count == 0 && newest > x->cursor)
		x->cursor = newest;
	return r;
}

/* Reads one record more than may be answered. */
static int read_answer(const struct question *q, struct answer *x, struct error *e)
{
	struct store_activity_log log = {0};
	uint32_t limit =
		q->limit < STORE_ACTIVITY_LIST_MAX ? q->limit + 1 : STORE_ACTIVITY_LIST_MAX;
	int r;

	*x = (struct answer){.text = BUF_INIT(ANSWER_MAX), .cursor = q->cursor, .question = q};
	(void)store_activity_get(q->store, q->id, NULL, &log, NULL); /* there may be none yet */
	x->ended = has_ended(q, &log);
	r = buf_add_str(&x->text, "{\"activity\":[");
	r = r ? r : read_records(q, x, limit, e);
	x->more |= x->count == STORE_ACTIVITY_LIST_MAX;
	if (r >= 0)
		r = buf_printf(&x->text,
			"],\"cursor\":%llu,\"more\":%s,\"ended\":%s,\"lost\":%llu,"
			"\"dropped\":%llu}",
			(unsigned long long)x->cursor, x->more ? "true" : "false",
			x->ended ? "true" : "false", (unsigned long long)log.lost,
			(unsigned long long)log.dropped);
	if (r < 0 && e->code == ERROR_NONE)
		(void)error_set(e, ERROR_INTERNAL, -r, "out of memory");
	return r;
}

static void send_answer(struct request *r, struct answer *x)
{
	reply_json_text(r, 200, buf_head(&x->text), buf_len(&x->text));
}

/* --- waiting --- */

struct waiting {
	struct fleet *fleet;
	struct request *request;
	struct question question;
	struct activity_watch watch;
	uv_timer_t tick;
	unsigned ticks;
};

static void on_tick_closed(uv_handle_t *h)
{
	free(h->data);
}

static void on_done(struct request *r, bool complete)
{
	struct waiting *w = r->data;

	activity_unwatch(w->fleet, &w->watch);
	uv_close((uv_handle_t *)&w->tick, on_tick_closed);
}

/* Answers when there is a record, the sandbox has ended, or it took long enough. */
static void look(struct waiting *w, bool enough)
{
	struct error e = {0};
	struct answer x;

	if (read_answer(&w->question, &x, &e) < 0)
		reply_failure(w->request, &e);
	else if (x.count || x.ended || enough)
		send_answer(w->request, &x);
	else
		w->question.cursor = x.cursor;
	buf_done(&x.text);
}

static void on_written(void *arg)
{
	look(arg, false);
}

static void on_tick(uv_timer_t *t)
{
	struct waiting *w = t->data;

	look(w, ++w->ticks >= WAIT_S * 1000 / TICK_MS);
}

static void wait_for_more(struct request *r, const struct question *q, uint64_t cursor)
{
	static const struct request_ops ops = {.done = on_done};
	struct waiting *w = api_calloc(r, sizeof(*w));
	struct error e = {0};

	if (!w)
		return;
	w->fleet = fleet_of(r);
	w->request = r;
	w->question = *q;
	w->question.cursor = cursor;
	w->watch = (struct activity_watch){.sandbox_id = w->question.id,
		.key_id = r->key->id,
		.written = on_written,
		.arg = w};
	if (activity_watch(w->fleet, &w->watch, &e) < 0) {
		free(w);
		reply_failure(r, &e);
		return;
	}
	(void)uv_timer_init(request_loop(r), &w->tick); /* these cannot fail */
	w->tick.data = w;
	(void)uv_timer_start(&w->tick, on_tick, TICK_MS, TICK_MS);
	request_set_ops(r, &ops, w);
}

void api_activity(struct request *r)
{
	struct question q = {0};
	struct error e = {0};
	struct answer x;

	if (!take_question(r, &q))
		return;
	if (read_answer(&q, &x, &e) < 0)
		reply_failure(r, &e);
	else if (q.follow && !x.count && !x.ended)
		wait_for_more(r, &q, x.cursor);
	else
		send_answer(r, &x);
	buf_done(&x.text);
}
