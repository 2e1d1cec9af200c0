/* Requests that wait for a person. This file asks the question and applies the decision. The
 * protocols' files read the first bytes of the body, and send the request after the decision. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <openssl/evp.h>

#include "base/str.h"
#include "intercept/exchange_internal.h"
#include "intercept/preview.h"

enum {
	PATH_TEXT_MAX = 1024,
	PREVIEW_TEXT_MAX = 2048,
};

/* ---- begin and end ---- */

static bool is_coded(const char *coding)
{
	return coding && *coding && strcasecmp(coding, "identity") != 0;
}

static void free_hold(struct exchange_hold *h)
{
	if (!h)
		return;
	call_reader_free(h->reader);
	buf_done(&h->seen);
	free(h->method);
	free(h->path);
	free(h);
}

int exchange_hold_begin(struct exchange *x, struct exchange_request_state *q,
	const struct exchange_target *t, bool allowed)
{
	struct exchange_hold *h = calloc(1, sizeof(*h));

	if (h) {
		h->method = strdup(t->method);
		h->path = str_printf(
			"%s%s%s", t->path, t->query ? "?" : "", t->query ? t->query : "");
	}
	if (!h || !h->method || !h->path) {
		free_hold(h);
		exchange_request_fail(q, 502, "denied", "out of memory");
		return -EINVAL;
	}
	buf_init_secret(
		&h->seen, x->kind == &exchange_http1 ? CALL_BODY_MAX + exchange_judge_room() : 0);
	h->budget = x->budget;
	h->id = ++x->hold_ids;
	h->state = allowed ? EXCHANGE_HOLD_ALLOWED : EXCHANGE_HOLD_READS;
	h->body_bytes = t->body_bytes;
	if (is_coded(t->coding))
		(void)snprintf(h->coding, sizeof(h->coding), "%s", t->coding); /* or is cut */
	q->hold = h;
	if (!allowed && q->body && exchange_judge_begin(x, q, t) < 0) {
		exchange_hold_end(x, q);
		exchange_request_fail(q, 502, "denied", "out of memory");
		return -EINVAL;
	}
	return EXCHANGE_HELD;
}

void exchange_hold_end(struct exchange *x, struct exchange_request_state *q)
{
	struct exchange_hold *h = q->hold;

	q->hold = NULL;
	if (h && h->state == EXCHANGE_HOLD_ASKED)
		x->callbacks.unask(x->callbacks.arg, h->id, false);
	free_hold(h);
}

void exchange_hold_refuse(struct exchange *x, struct exchange_request_state *q)
{
	exchange_hold_end(x, q);
	if (!q->answer)
		exchange_request_fail(q, 502, "failed", "out of memory"); /* unless it has failed */
}

/* ---- the body ---- */

/* Of a body that is too large to be read before, only the first bytes are. */
static size_t left(const struct exchange_hold *h)
{
	size_t max = h->body_bytes > CALL_BODY_MAX ? PREVIEW_MAX : CALL_BODY_MAX;

	return h->taken < max ? max - h->taken : 0;
}

size_t exchange_hold_room(const struct exchange_request_state *q)
{
	if (q->hold->state == EXCHANGE_HOLD_JUDGES)
		return exchange_judge_room();
	if (q->hold->state != EXCHANGE_HOLD_READS || exchange_budget_is_blind(q))
		return 0;
	return left(q->hold) < exchange_judge_room() ? left(q->hold) : exchange_judge_room();
}

int exchange_hold_take(struct exchange_request_state *q, const void *data, size_t n)
{
	size_t room = exchange_hold_room(q);

	if (q->hold->state == EXCHANGE_HOLD_JUDGES)
		return exchange_judge_take(q, data, n);
	n = n < room ? n : room;
	if (!exchange_judge_count(q, n))
		return 0;
	q->hold->taken += n;
	return q->hold->seen.max ? buf_add(&q->hold->seen, data, n) : 0;
}

/* ---- the question ---- */

static bool add_text(EVP_MD_CTX *c, const char *text)
{
	return EVP_DigestUpdate(c, text, strlen(text) + 1);
}

/* Of texts, each with its NUL, and bytes behind them. */
static bool digest(
	const char *const *texts, const void *data, size_t n, char ret[EXCHANGE_DIGEST_BYTES])
{
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	uint8_t hash[EVP_MAX_MD_SIZE];
	bool good = c && EVP_DigestInit_ex(c, EVP_sha256(), NULL);

	for (; good && *texts; texts++)
		good = add_text(c, *texts);
	good = good && (!n || EVP_DigestUpdate(c, data, n)) && EVP_DigestFinal_ex(c, hash, NULL);
	EVP_MD_CTX_free(c);
	if (good)
		str_hex(hash, 32, ret);
	return good;
}

static bool add_digests(const struct exchange_hold *h, const struct held_headers *headers,
	const struct buf *body, struct exchange_question *question)
{
	const char *const all[] = {h->method, h->path, h->coding, headers->digest, NULL},
			  *const none[] = {NULL};

	return digest(none, h->path, strcspn(h->path, "?"), question->path_digest) &&
	       digest(all, buf_head(body), h->taken, question->digest);
}

/* Whether there is more than what was seen. */
static bool goes_on(const struct exchange_hold *h, bool complete)
{
	return !complete && (h->body_bytes < 0 || (uint64_t)h->body_bytes > h->taken);
}

/* What a person is shown, and the strings of it. */
struct shown {
	struct buf path, preview; /* "": there is none */
	struct preview about;
	const char *names[PREVIEW_NAMES_MAX];
	struct held_headers headers;
	struct exchange_call_text call;
};

/* Returns 0 or -ENOMEM. */
static int write_preview(const struct exchange_request_state *q, const struct buf *body, bool more,
	struct shown *to, struct exchange_question *question)
{
	const struct exchange_hold *h = q->hold;
	int r = preview_write(h->path, strlen(h->path), q->intercept, &to->path);
	bool cut = r > 0;

	r = r < 0 ? r
		  : preview_write_body(buf_head(body), h->coding[0] ? 0 : h->taken, more,
			    q->intercept, &to->preview, &to->about);
	for (unsigned i = 0; i < to->about.name_count; i++)
		to->names[i] = to->about.names[i];
	question->partial = cut || more || to->about.cut;
	question->hidden = to->about.hidden;
	question->hidden_names = to->names;
	question->hidden_count = to->about.name_count;
	question->unseen = to->about.wrong || (h->coding[0] && h->taken) ||
			   to->about.hidden > to->about.bytes / 4;
	return r;
}

/* Nothing if the rule that asks reads no calls. */
static int write_call(const struct exchange_request_state *q, struct exchange_call_text *text,
	struct exchange_question *question)
{
	const struct call_asked *asked = &q->hold->asked;

	if (!asked->api || (question->charge && !question->charge->asks))
		return 0;
	question->call = &text->call;
	return exchange_call_write(asked, q->intercept, text);
}

static void add_headers(const struct held_headers *headers, struct exchange_question *question)
{
	question->headers = headers->list;
	question->header_count = headers->count;
	question->action_digest = headers->action;
	question->partial = question->partial || headers->cut;
}

static const char *text_of(const struct buf *b)
{
	const char *text = (const char *)buf_head(b);

	return *text ? text : NULL;
}

/* Returns 0 or -ENOMEM. */
static int write_question(struct exchange *x, struct exchange_request_state *q, bool more,
	struct shown *to, struct exchange_question *question)
{
	const struct buf *body = x->kind->held_body(x, q);
	int r = write_preview(q, body, more, to, question);

	r = r ? r : x->kind->held_headers(x, q, &to->headers);
	if (r == 0 && !add_digests(q->hold, &to->headers, body, question))
		r = -ENOMEM;
	r = r ? r : write_call(q, &to->call, question);
	if (r < 0)
		return r;
	add_headers(&to->headers, question);
	question->unseen = question->unseen || question->partial;
	question->path = text_of(&to->path);
	question->preview = text_of(&to->preview);
	return 0;
}

/* A body that means several things is not asked about. If only budgets may ask, it may go on. */
static const char *wrong(const struct exchange_question *question, const struct shown *shown)
{
	return question->charge && !question->charge->asks ? NULL : shown->about.wrong;
}

/* Returns why it cannot be asked, or NULL. */
static const char *ask(
	struct exchange *x, struct exchange_request_state *q, bool more, int64_t body_bytes)
{
	struct exchange_hold *h = q->hold;
	struct exchange_question question = {.id = h->id,
		.rule = q->rule,
		.method = h->method,
		.coding = h->coding[0] ? h->coding : NULL,
		.body_bytes = body_bytes};
	struct shown shown = {
		.path = BUF_INIT(PATH_TEXT_MAX), .preview = BUF_INIT(PREVIEW_TEXT_MAX)};
	const char *why = NULL;

	exchange_budget_estimate(q);
	question.charge = q->charge;
	if (!exchange_budget_is_blind(q))
		why = write_question(x, q, more, &shown, &question) < 0 ? "out of memory"
									: wrong(&question, &shown);
	why = why ? why : x->callbacks.ask(x->callbacks.arg, &question);
	buf_done(&shown.path);
	buf_done(&shown.preview);
	return why;
}

static void allow(struct exchange *x, struct exchange_request_state *q)
{
	q->hold->state = EXCHANGE_HOLD_ALLOWED;
	if (!x->server_failed)
		x->kind->let_go(x, q, true);
}

int exchange_hold_ask(struct exchange *x, struct exchange_request_state *q, bool complete)
{
	struct exchange_hold *h = q->hold;
	const char *why;
	int verdict;

	if (h->state == EXCHANGE_HOLD_JUDGES) {
		verdict = exchange_judge_end(x, q, complete);
		if (verdict == 0)
			allow(x, q);
		if (verdict != EXCHANGE_HELD || h->state == EXCHANGE_HOLD_JUDGES)
			return verdict < 0 ? verdict : 0;
	}
	if (q->verdict)
		return -EINVAL;
	if (h->state != EXCHANGE_HOLD_READS || (!complete && exchange_hold_room(q)))
		return 0;
	why = ask(x, q, goes_on(h, complete),
		complete && h->body_bytes < 0 ? (int64_t)q->up : h->body_bytes);
	if (!why) {
		h->state = EXCHANGE_HOLD_ASKED;
		h->complete = complete;
		return 0;
	}
	exchange_request_fail(q, 403, "denied", why);
	return -EINVAL;
}

/* ---- the decision ---- */

static void deny(struct exchange *x, struct exchange_request_state *q, const char *reason)
{
	const struct exchange_charge *charge = q->charge;
	bool used_up = charge && charge->refused;
	char text[EXCHANGE_REASON_MAX];

	(void)snprintf(text, sizeof(text), "%s%s%s", used_up ? "" : "nobody has allowed it",
		*reason && !used_up ? ": " : "", reason); /* may be cut */
	exchange_request_fail(q, used_up && charge->retry_s ? 429 : 403, "denied", text);
	exchange_model_deny(q, q->hold->call);
	x->kind->let_go(x, q, false);
}

static struct exchange_request_state *find(struct exchange *x, uint64_t id)
{
	struct exchange_request_state *q = NULL;

	while ((q = x->kind->next_held(x, q)) && q->hold->id != id)
		;
	return q;
}

void exchange_decide(struct exchange *x, uint64_t id, bool allowed, const char *reason)
{
	struct exchange_request_state *q = x->state == EXCHANGE_GOING ? find(x, id) : NULL;

	if (!q || q->hold->state != EXCHANGE_HOLD_ASKED)
		return;
	q->hold->state = EXCHANGE_HOLD_ALLOWED; /* nobody is asked any more */
	if (allowed)
		allow(x, q);
	else
		deny(x, q, reason);
	x->kind->settle(x);
}

void exchange_note_charge(struct exchange *x, uint64_t id, const struct exchange_charged *c)
{
	struct exchange_request_state *q = x->state == EXCHANGE_GOING ? find(x, id) : NULL;
	struct exchange_charge *charge = q ? q->charge : NULL;

	if (!charge || q->hold->state != EXCHANGE_HOLD_ASKED)
		return;
	charge->charged = !c->refused;
	charge->refused = c->refused;
	charge->day = c->day;
	charge->retry_s = c->retry_s;
	(void)snprintf(
		charge->text, sizeof(charge->text), "%s", c->text ? c->text : ""); /* or cut */
}

/* The budgets are others now, or have other limits: they are charged anew. */
static int ask_again(struct exchange *x, struct exchange_request_state *q)
{
	x->callbacks.unask(x->callbacks.arg, q->hold->id, true);
	q->hold->state = EXCHANGE_HOLD_READS;
	return exchange_hold_ask(x, q, q->hold->complete) < 0 ? -EINVAL : EXCHANGE_HELD;
}

static void judge_again(struct exchange *x, struct exchange_request_state *q)
{
	const struct exchange_request r = {.method = q->hold->method,
		.path = q->hold->path,
		.has_body = q->hold->body_bytes != 0,
		.call = q->hold->call};
	bool budget = q->charge;
	int verdict;

	if (q->hold->state == EXCHANGE_HOLD_JUDGES)
		return; /* its body is to come, and it is judged then */
	verdict = exchange_request_judge(x, q, &r);
	if (verdict == EXCHANGE_HELD && q->body) { /* which nobody has read */
		exchange_request_fail(q, 403, "denied", "the policy has changed: try again");
		verdict = -EINVAL;
	}
	if (verdict == EXCHANGE_HELD && q->hold->state == EXCHANGE_HOLD_ASKED &&
		(budget || q->charge))
		verdict = ask_again(x, q);
	if (verdict == EXCHANGE_HELD ||
		(verdict == 0 && q->hold->state == EXCHANGE_HOLD_ALLOWED)) /* for a server */
		return;
	if (q->hold->state == EXCHANGE_HOLD_ASKED)
		x->callbacks.unask(x->callbacks.arg, q->hold->id, true);
	q->hold->state = EXCHANGE_HOLD_ALLOWED; /* nobody is asked any more */
	if (verdict == 0) {
		allow(x, q);
		return;
	}
	exchange_model_deny(q, q->hold->call);
	x->kind->let_go(x, q, false);
}

/* What is let go is freed, perhaps. */
static void each_held(
	struct exchange *x, void (*each)(struct exchange *x, struct exchange_request_state *q))
{
	uint64_t done = 0, most = x->hold_ids;

	while (x->state == EXCHANGE_GOING && done < most) {
		struct exchange_request_state *q = NULL, *least = NULL;

		while ((q = x->kind->next_held(x, q)))
			if (q->hold->id > done && (!least || q->hold->id < least->hold->id))
				least = q;
		if (!least)
			return;
		done = least->hold->id;
		each(x, least);
	}
}

void exchange_judge_held(struct exchange *x)
{
	each_held(x, judge_again);
	if (x->state == EXCHANGE_GOING)
		x->kind->settle(x);
}

bool exchange_is_held(const struct exchange *x)
{
	return x->state == EXCHANGE_GOING && x->kind->next_held((struct exchange *)x, NULL);
}

bool exchange_is_asked(const struct exchange *x)
{
	struct exchange_request_state *q = NULL;

	if (x->state != EXCHANGE_GOING)
		return false;
	while ((q = x->kind->next_held((struct exchange *)x, q)))
		if (q->hold->state == EXCHANGE_HOLD_ASKED ||
			q->hold->state == EXCHANGE_HOLD_ALLOWED)
			return true;
	return false;
}

/* ---- the server ---- */

bool exchange_needs_server(const struct exchange *x)
{
	struct exchange_request_state *q = NULL;

	if (x->state != EXCHANGE_GOING || !x->server_failed)
		return false;
	while ((q = x->kind->next_held((struct exchange *)x, q)))
		if (q->hold->state == EXCHANGE_HOLD_ALLOWED)
			return true;
	return false;
}

static void let_go_allowed(struct exchange *x, struct exchange_request_state *q)
{
	if (q->hold->state == EXCHANGE_HOLD_ALLOWED && !x->server_failed)
		x->kind->let_go(x, q, true);
}

static void fail_allowed(struct exchange *x, struct exchange_request_state *q)
{
	if (q->hold->state != EXCHANGE_HOLD_ALLOWED)
		return;
	exchange_request_fail(q, 502, "failed", x->server_reason);
	x->kind->let_go(x, q, false);
}

void exchange_renew_server(struct exchange *x, const char *why)
{
	if (!exchange_needs_server(x))
		return;
	buf_done(&x->out[EXCHANGE_SERVER]);
	if (!why && x->kind->renew(x) < 0)
		why = "out of memory";
	x->server_failed = x->server_lost = why != NULL;
	(void)snprintf(
		x->server_reason, sizeof(x->server_reason), "%s", why ? why : ""); /* may be cut */
	each_held(x, why ? fail_allowed : let_go_allowed);
	if (x->state == EXCHANGE_GOING)
		x->kind->settle(x);
}
