/* Approvals (docs/consent.md): what sandboxes wait for, and the decisions of people. A client may
 * wait for changes: it asks again with the cursor of the last answer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/consent/approval_decision.h"
#include "api/auth.h"
#include "api/consent/follow.h"
#include "base/clock.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "network/approval_question.h"
#include "network/approval_right.h"
#include "network/approvals.h"
#include "network/decisions.h"
#include "proto/uri.h"
#include "store/keys.h"

enum {
	DEFAULT_LIMIT = 100,
	BY_MAX = STORE_NAME_MAX + 8,
};

struct question {
	struct fleet *fleet;
	char sandbox[ROUTE_SANDBOX_ID_MAX + 1];
	char key[STORE_UUID_BYTES]; /* "": the operator, who sees all */
	struct store_approval_filter filter;
	bool follow;
};

/* --- the question --- */

static int bit_of_state(const char *word, uint32_t *ret_bit)
{
	enum store_approval_state state;
	int r = store_approval_state_parse(word, &state);

	if (r == 0)
		*ret_bit = STORE_APPROVAL_BIT(state);
	return r;
}

static bool take_sandbox(struct request *r, struct question *q)
{
	char text[ROUTE_SANDBOX_ID_MAX + 1];
	int n = uri_query_get(r->head->query, "sandboxID", text, sizeof(text));

	if (n == -ENOENT || n == 0)
		return true;
	if (n < 0 || !route_sandbox_id(text, q->sandbox)) {
		reply_error(r, 400, "sandboxID must be the id of a sandbox");
		return false;
	}
	q->filter.sandbox_id = q->sandbox;
	return true;
}

static bool take_question(struct request *r, struct question *q)
{
	const char *key = auth_scope(r);

	q->fleet = fleet_of(r);
	(void)snprintf(q->key, sizeof(q->key), "%s", key ? key : ""); /* a UUID */
	q->filter.limit = api_limit(r, STORE_APPROVALS_LIST_MAX, DEFAULT_LIMIT);
	return q->filter.limit &&
	       follow_take_words(r, "state", bit_of_state,
		       "waiting, allowed, denied, expired or cancelled", &q->filter.states) &&
	       take_sandbox(r, q) && follow_take_cursor(r, &q->filter.after) &&
	       follow_take(r, &q->follow);
}

/* --- the answer --- */

struct page {
	json_t *list;
	uint64_t cursor;
};

static int add(void *arg, const struct store_approval *a)
{
	struct page *p = arg;

	p->cursor = a->seq;
	return json_array_append_new(p->list, approval_json(a)) < 0 ? -ENOMEM : 0;
}

/* NULL: e says why. *ret_count: how many are in it. */
static json_t *read_page(const struct question *q, size_t *ret_count, struct error *e)
{
	struct page p = {.list = json_array(), .cursor = q->filter.after};
	struct store_approval_filter f = q->filter;
	int r;

	f.key_id = q->key[0] ? q->key : NULL;
	f.sandbox_id = q->sandbox[0] ? q->sandbox : NULL;
	r = p.list ? store_approval_list(q->fleet->store, &f, add, &p, e) : -ENOMEM;
	*ret_count = json_array_size(p.list);
	if (r == 0)
		return json_pack("{s:o, s:I, s:b}", "approvals", p.list, "cursor",
			(json_int_t)p.cursor, "more", *ret_count == f.limit);
	if (e->code == ERROR_NONE)
		(void)error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	json_decref(p.list);
	return NULL;
}

/* --- waiting --- */

struct waiting {
	struct follow follow;
	struct question question;
};

static void look(struct follow *f, bool late)
{
	struct waiting *w = (struct waiting *)f;
	struct error e = {0};
	size_t count = 0;
	json_t *page = read_page(&w->question, &count, &e);

	if (e.code)
		reply_failure(f->request, &e);
	else if (count || late)
		reply_json(f->request, 200, page);
	else
		json_decref(page);
}

static void wait_for_more(struct request *r, const struct question *q)
{
	struct waiting *w = api_calloc(r, sizeof(*w));

	if (!w)
		return;
	w->question = *q;
	w->follow = (struct follow){.request = r,
		.list = approvals_watches(q->fleet),
		.look = look,
		.watch = {.about = w->question.key[0] ? w->question.key : NULL,
			.owner = w->question.key}};
	if (!follow_begin(&w->follow, "approvals"))
		free(w);
}

void api_approvals_list(struct request *r)
{
	struct question q = {0};
	struct error e = {0};
	size_t count = 0;
	json_t *page;

	if (!take_question(r, &q))
		return;
	page = read_page(&q, &count, &e);
	if (e.code) {
		reply_failure(r, &e);
	} else if (q.follow && count == 0) {
		json_decref(page);
		wait_for_more(r, &q);
	} else {
		reply_json(r, 200, page);
	}
}

/* --- one --- */

static int take_json(void *arg, const struct store_approval *a)
{
	*(json_t **)arg = approval_json(a);
	return 0;
}

static void reply_one(struct request *r)
{
	struct error e = {0};
	json_t *one = NULL;

	if (store_approval_get(
		    fleet_of(r)->store, r->params[0], auth_scope(r), take_json, &one, &e) < 0)
		reply_failure(r, &e);
	else
		reply_json(r, 200, one);
}

void api_approvals_get(struct request *r)
{
	reply_one(r);
}

/* Who decided, for those who look later. */
static void name_client(const struct request *r, char out[BY_MAX])
{
	if (r->admin)
		(void)strcpy(out, "operator"); /* fits */
	else
		(void)snprintf(out, BY_MAX, "key %s", r->key->name); /* fits */
}

static void decide_with(struct request *r, const char *text, size_t n)
{
	json_t *body = api_body(r, text, n);
	struct approval_decider decider = {
		.by = r->admin ? APPROVAL_BY_OPERATOR : APPROVAL_BY_KEY, .key_id = auth_scope(r)};
	struct store_approval d;
	struct error e = {0};
	char by[BY_MAX];

	if (body && approval_decision_take(r, body, &d, &decider.accepts_unseen)) {
		name_client(r, by);
		d.decided_by = by;
		if (approvals_decide(fleet_of(r), r->params[0], &decider, &d, &e) < 0)
			reply_failure(r, &e);
		else
			reply_one(r);
	}
	json_decref(body);
}

void api_approvals_decide(struct request *r)
{
	request_collect(r, API_BODY_MAX, decide_with);
}

/* Takes a decision back that holds for longer. */
void api_approvals_end(struct request *r)
{
	struct error e = {0};

	if (decisions_end(fleet_of(r), r->params[0], auth_scope(r), &e) < 0)
		reply_failure(r, &e);
	else
		reply_empty(r, 204);
}
