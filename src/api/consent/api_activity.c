/* Records of what sandboxes did (store/activity.h), as long as they are kept. A client may wait for
 * new records: it asks again with the cursor of the last answer, until the sandbox has ended. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/auth.h"
#include "api/consent/follow.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "network/activity.h"
#include "store/activity.h"
#include "store/keys.h"

enum {
	LATE_S = 2, /* what its worker said last may come after its end */
	DEFAULT_LIMIT = 100,
	ANSWER_MAX = STORE_ACTIVITY_LIST_MAX * (STORE_ACTIVITY_RECORD_MAX + 256),
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
	uint64_t cursor; /* number of the last record; of the log's newest one if no record is of
			  * the kinds */
	bool more, ended;
	const struct question *question;
};

/* --- the question --- */

static int bit_of_kind(const char *word, uint32_t *ret_bit)
{
	enum store_activity_kind kind;
	int r = store_activity_kind_parse(word, &kind);

	if (r == 0)
		*ret_bit = STORE_ACTIVITY_BIT(kind);
	return r;
}

static bool take_question(struct request *r, struct question *q)
{
	struct store_activity_log log;

	q->store = fleet_of(r)->store;
	q->limit = api_limit(r, STORE_ACTIVITY_LIST_MAX, DEFAULT_LIMIT);
	if (!q->limit ||
		!follow_take_words(r, "kind", bit_of_kind,
			"flow, request, model, tool, approval, process, program, file, lifecycle "
			"or lost",
			&q->kinds) ||
		!follow_take(r, &q->follow) || !follow_take_cursor(r, &q->cursor))
		return false;
	if (route_sandbox_id(r->params[0], q->id) &&
		store_activity_get(q->store, q->id, auth_scope(r), &log, NULL) == 0)
		return true;
	return api_find_logged(r, q->id);
}

/* --- the answer --- */

/* The members between `id` and `hash` are the text that the hash covers. Records of an older
 * Mayfly have neither number nor hash. */
static int write_record(struct buf *b, bool comma, const struct store_activity *a)
{
	char hash[2 * ACTIVITY_HASH_BYTES + 1];
	int r = buf_printf(b, "%s{\"id\":%llu", comma ? "," : "", (unsigned long long)a->id);

	if (r == 0 && a->link.n)
		r = buf_printf(b, ",\"n\":%llu", (unsigned long long)a->link.n);
	r = r ? r
	      : buf_printf(b, ",\"kind\":\"%s\",%.*s", store_activity_kind_name(a->kind),
			(int)strlen(a->record) - 2, a->record + 1);
	str_hex(a->link.hash, sizeof(a->link.hash), hash);
	if (r == 0 && a->link.n)
		r = buf_printf(b, ",\"hash\":\"%s\"", hash);
	return r ? r : buf_add_str(b, "}");
}

static int write_link(struct buf *b, const char *name, const struct activity_link *l)
{
	char hash[2 * ACTIVITY_HASH_BYTES + 1];

	str_hex(l->hash, sizeof(l->hash), hash);
	return buf_printf(
		b, ",\"%s\":{\"n\":%llu,\"hash\":\"%s\"}", name, (unsigned long long)l->n, hash);
}

static int add_record(void *arg, const struct store_activity *a)
{
	struct answer *x = arg;

	if (x->count == x->question->limit) {
		x->more = true;
		return 1;
	}
	x->cursor = a->id;
	return write_record(&x->text, x->count++ > 0, a);
}

static bool has_ended(const struct question *q, const struct store_activity_log *log)
{
	struct store_sandbox *sb = NULL;
	bool there = store_sandbox_get(q->store, q->id, &sb, NULL) != -ENOENT;

	store_sandbox_free(sb);
	return !there && log->ended_ns + LATE_S * NS_PER_S < clock_realtime_ns();
}

/* Lists the records. The cursor also passes records of other kinds, so the next request does not
 * read them again. */
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
	struct store_activity_log log = {.sealed = true};
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
			"\"dropped\":%llu,\"sealed\":%s",
			(unsigned long long)x->cursor, x->more ? "true" : "false",
			x->ended ? "true" : "false", (unsigned long long)log.lost,
			(unsigned long long)log.dropped, log.sealed ? "true" : "false");
	if (r >= 0 && log.anchor.n)
		r = write_link(&x->text, "anchor", &log.anchor);
	if (r >= 0 && log.head.n)
		r = write_link(&x->text, "head", &log.head);
	if (r >= 0)
		r = buf_add_str(&x->text, "}");
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
	struct follow follow;
	struct question question;
};

/* Answers if there is a record, if the sandbox has ended, or if the request has waited long
 * enough. */
static void look(struct follow *f, bool late)
{
	struct waiting *w = (struct waiting *)f;
	struct error e = {0};
	struct answer x;

	if (read_answer(&w->question, &x, &e) < 0)
		reply_failure(f->request, &e);
	else if (x.count || x.ended || late)
		send_answer(f->request, &x);
	else
		w->question.cursor = x.cursor;
	buf_done(&x.text);
}

static void wait_for_more(struct request *r, const struct question *q, uint64_t cursor)
{
	struct waiting *w = api_calloc(r, sizeof(*w));

	if (!w)
		return;
	w->question = *q;
	w->question.cursor = cursor;
	w->follow = (struct follow){.request = r,
		.list = activity_watches(fleet_of(r)),
		.look = look,
		.watch = {.about = w->question.id, .owner = r->key->id}};
	if (!follow_begin(&w->follow, "activity"))
		free(w);
}

void api_activity(struct request *r)
{
	struct question q = {0};
	struct error e = {0};
	struct answer x;

	if (!take_question(r, &q))
		return;
	activity_flush(fleet_of(r), q.id);
	if (read_answer(&q, &x, &e) < 0)
		reply_failure(r, &e);
	else if (q.follow && !x.count && !x.ended)
		wait_for_more(r, &q, x.cursor);
	else
		send_answer(r, &x);
	buf_done(&x.text);
}
