#include "network/approvals.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rate.h"
#include "base/str.h"
#include "fleet/events.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "network/activity.h"
#include "network/approval_clock.h"
#include "network/approval_link.h"
#include "network/approval_question.h"
#include "network/approval_right.h"
#include "network/budgets.h"
#include "network/decisions.h"
#include "network/watch.h"
#include "policy/network_consent.h"
#include "policy/rule_digest.h"
#include "proto/json_text.h"
#include "store/lockdown.h"
#include "store/sandboxes.h"

enum {
	BUCKETS = 1024,
	LATE_AT_ONCE = 64,
	RETRY_MS = 5000,     /* after a store error */
	OWED_MS = 1000,	     /* until a worker that reads nothing is told again */
	TIMER_MAX_MS = 5000, /* the wall clock may be set */
	LINE_MAX_BYTES = 4096,
};

/* What a worker could not be told yet. */
struct debt {
	bool allow;
	bool has_charged;
	struct budgets_said charged;
	char reason[STORE_APPROVAL_REASON_MAX + 1]; /* "": none */
};

/* A flow or request of a worker that waits for an approval. */
struct waiter {
	struct waiter *next;	 /* in its bucket, the newest first */
	struct waiter *of_asker; /* the next of its asker */
	struct asker *asker;
	uint64_t flow; /* the worker's number of it */
	struct approval_question question;
	json_t *charge;	   /* owned: budgets that it takes from when it is allowed; NULL: none */
	struct debt *debt; /* owned: it is decided, and the worker does not know; NULL: it waits */
	char id[STORE_APPROVAL_ID_BYTES];
};

/* What the sandboxes of a key share. */
struct owner {
	struct owner *next;
	unsigned askers;
	struct rate rate, charge_rate;
	char key_id[];
};

struct asker {
	struct asker *next;
	struct fleet *fleet;
	const struct instance *instance;
	const struct asker_ops *ops;
	void *arg;
	struct waiter *waiters;
	unsigned count, requests;     /* of them */
	bool told_any, told_requests; /* `waits` was */
	struct rate rate, charge_rate;
	struct owner *owner;
	struct budgets_lent *lent;  /* borrowed */
	struct rule_digests *rules; /* of the generation; NULL: not known yet */
	uint64_t generation;
	char id[SANDBOX_ID_BYTES];
};

struct approvals {
	struct fleet *fleet;
	uv_timer_t late;
	struct waiter *buckets[BUCKETS];
	struct asker *askers;
	struct owner *owners;
	struct watch *watches;
	struct approval_clock clock;
	unsigned owed;
	bool failing; /* what is late could not be ended */
	bool stopped; /* the timer is closed */
};

static struct waiter **bucket_of(struct approvals *all, const char *id)
{
	uint32_t h = 2166136261u;

	for (; *id; id++)
		h = (h ^ (unsigned char)*id) * 16777619u;
	return &all->buckets[h % BUCKETS];
}

static void set_timer(struct approvals *all);

/* --- to the worker --- */

static int put_text(struct buf *line, const char *before, const char *text)
{
	int r = buf_add_str(line, before);

	return r ? r : json_text_string(line, text, strlen(text), JSON_TEXT_ASCII);
}

/* What became of its budgets. */
static int put_charged(struct buf *line, bool allow, const struct budgets_said *c)
{
	int r = put_text(line, ",\"charged\":{\"text\":", c->text);

	return r ? r
		 : buf_printf(line, ",\"day\":%llu,\"retryAfter\":%llu,\"refused\":%s}",
			   (unsigned long long)c->day, (unsigned long long)c->retry_s,
			   allow ? "false" : "true");
}

/* reason, charged: NULL, if there is none. */
static int say(struct asker *a, uint64_t flow, bool allow, const char *reason,
	const struct budgets_said *charged)
{
	struct buf line = BUF_INIT(LINE_MAX_BYTES);
	int r = buf_printf(&line, "{\"ask\":{\"id\":%llu,\"decision\":\"%s\"",
		(unsigned long long)flow, allow ? "allow" : "deny");

	if (r == 0 && reason)
		r = put_text(&line, ",\"reason\":", reason);
	if (r == 0 && charged)
		r = put_charged(&line, allow, charged);
	r = r ? r : buf_add_str(&line, "}}");
	r = r ? r : buf_add_u8(&line, 0);
	r = r ? r : a->ops->say(a->arg, (const char *)buf_head(&line));
	buf_done(&line);
	return r;
}

/* --- waiters --- */

static void unlink_bucket(struct waiter *w)
{
	struct waiter **at = bucket_of(w->asker->fleet->approvals, w->id);

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
}

static void enter(struct waiter *w)
{
	struct waiter **at = bucket_of(w->asker->fleet->approvals, w->id);

	w->next = *at;
	*at = w;
}

/* In no bucket of an approval yet. NULL: out of memory. */
static struct waiter *add(struct asker *a, uint64_t flow)
{
	struct waiter *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->asker = a;
	w->flow = flow;
	w->of_asker = a->waiters;
	a->waiters = w;
	a->count++;
	enter(w);
	return w;
}

static void tell_waits(struct asker *a)
{
	bool any = a->count, requests = a->requests;

	if (any == a->told_any && requests == a->told_requests)
		return;
	a->told_any = any;
	a->told_requests = requests;
	a->ops->waits(a->arg, any, requests);
}

static void drop(struct waiter *w)
{
	struct waiter **at = &w->asker->waiters;
	struct asker *a = w->asker;

	unlink_bucket(w);
	while (*at != w)
		at = &(*at)->of_asker;
	*at = w->of_asker;
	a->fleet->approvals->owed -= w->debt != NULL;
	a->count--;
	a->requests -= w->question.request;
	approval_question_done(&w->question);
	json_decref(w->charge);
	free(w->debt);
	free(w);
	tell_waits(a);
}

/* A flow whose decision the worker does not know yet. It has no approval any more. Without memory
 * it waits until its time is over. */
static void owe(
	struct waiter *w, bool allow, const char *reason, const struct budgets_said *charged)
{
	struct approvals *all = w->asker->fleet->approvals;

	unlink_bucket(w);
	w->id[0] = '\0';
	enter(w);
	w->debt = calloc(1, sizeof(*w->debt));
	if (!w->debt)
		return;
	w->debt->allow = allow;
	w->debt->has_charged = charged;
	if (charged)
		w->debt->charged = *charged;
	(void)snprintf(w->debt->reason, sizeof(w->debt->reason), "%s", reason ? reason : "");
	all->owed++;
	set_timer(all);
}

static void answer(struct waiter *w, bool allow, const char *reason)
{
	struct budgets_said charged;
	bool charge = allow && w->charge;

	if (charge && budgets_charge(w->asker->instance, w->charge, true, w->asker->lent,
			      &charged) != BUDGETS_CHARGED) {
		allow = false;
		reason = charged.text;
	}
	if (say(w->asker, w->flow, allow, reason, charge ? &charged : NULL) == 0)
		drop(w);
	else
		owe(w, allow, reason, charge ? &charged : NULL);
}

/* Of a flow that does not wait. */
static void answer_flow(struct asker *a, uint64_t flow, bool allow, const char *reason,
	const struct budgets_said *charged)
{
	struct waiter *w;

	if (say(a, flow, allow, reason, charged) == 0)
		return;
	w = a->count < APPROVAL_WAITERS_MAX ? add(a, flow) : NULL;
	if (w) /* else it waits until it is late */
		owe(w, allow, reason, charged);
}

static void refuse(struct asker *a, uint64_t flow, const char *why)
{
	answer_flow(a, flow, false, why, NULL);
}

static int pay_one(struct waiter *w)
{
	const struct debt *d = w->debt;

	return say(w->asker, w->flow, d->allow, d->reason[0] ? d->reason : NULL,
		d->has_charged ? &d->charged : NULL);
}

static void pay(struct asker *a)
{
	for (struct waiter *w = a->waiters, *next; w; w = next) {
		next = w->of_asker;
		if (w->debt && pay_one(w) < 0)
			return;
		if (w->debt)
			drop(w);
	}
}

/* --- who is told --- */

static int tell(void *arg, const struct store_approval *a)
{
	struct approvals *all = arg;
	bool operators;
	json_t *record = approval_json(a), *more = approval_link_json(all->fleet, a, &operators);

	if (record) {
		activity_say(all->fleet, a->sandbox_id, a->key_id, STORE_ACTIVITY_APPROVAL,
			json_incref(record));
		event_note_more(all->fleet, a->sandbox_id, a->key_id, a->template_id,
			a->state == STORE_APPROVAL_WAITING ? STORE_EVENT_APPROVAL_REQUESTED
							   : STORE_EVENT_APPROVAL_DECIDED,
			record, more, operators);
	}
	json_decref(more);
	json_decref(record);
	watch_tell(all->watches, a->key_id);
	return 0;
}

/* The row has changed: tells the activity, webhooks and waiting requests. */
static void publish(struct approvals *all, const char *id)
{
	struct error e = {0};

	if (store_approval_get(all->fleet->store, id, NULL, tell, all, &e) < 0)
		log_error("cannot report an approval: %s approval=%s", e.message, id);
}

/* --- time --- */

static uint64_t time_of(struct approvals *all)
{
	return approval_clock_now(&all->clock, all->fleet->store);
}

static void on_late(uv_timer_t *t);

static void set_timer(struct approvals *all)
{
	uint64_t now = time_of(all), at = STORE_NEVER_NS, ms = RETRY_MS;
	struct error e = {0};
	int r;

	if (all->stopped)
		return;
	r = store_approval_next(all->fleet->store, &at, &e);
	if (r < 0)
		log_error("cannot look for approvals: %s", e.message);
	else if (at == STORE_NEVER_NS && !all->owed)
		(void)uv_timer_stop(&all->late); /* always 0 */
	if (r == 0 && at == STORE_NEVER_NS && !all->owed)
		return;
	if (r == 0 && (at > now || !all->failing))
		ms = at > now ? (at - now + NS_PER_MS - 1) / NS_PER_MS : 0;
	if (all->owed && ms > OWED_MS)
		ms = OWED_MS;
	/* cannot fail */
	(void)uv_timer_start(&all->late, on_late, ms < TIMER_MAX_MS ? ms : TIMER_MAX_MS, 0);
}

/* --- deciding --- */

static void ask_store(struct waiter *w);

/* Takes the flows that wait for the approval out of their bucket. Returns a list by `next`, oldest
 * first. */
static struct waiter *take_waiters(struct approvals *all, const char *id)
{
	struct waiter **at = bucket_of(all, id), *list = NULL, *w;

	while ((w = *at)) {
		if (strcmp(w->id, id) != 0) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		w->next = list;
		list = w;
	}
	return list;
}

static bool have_waiter(struct approvals *all, const char *id)
{
	for (const struct waiter *w = *bucket_of(all, id); w; w = w->next)
		if (strcmp(w->id, id) == 0)
			return true;
	return false;
}

static void hand_out(struct approvals *all, const char *id, const struct store_approval *d)
{
	bool allow = d->state == STORE_APPROVAL_ALLOWED, used = false;

	for (struct waiter *w = take_waiters(all, id), *next; w; w = next) {
		next = w->next;
		enter(w);
		if (used)
			ask_store(w);
		else
			answer(w, allow, d->reason);
		used = allow && d->scope == STORE_APPROVAL_ONCE;
	}
}

static bool is_request(const struct store_approval *a)
{
	json_t *asked = json_loads(a->question_json, 0, NULL);
	bool request = json_object_get(asked, "method");

	json_decref(asked);
	return request;
}

/* What is decided, and where its sandbox is. */
struct subject {
	struct fleet *fleet;
	char sandbox_id[SANDBOX_ID_BYTES];
	bool request;
	bool paused;  /* it is, or is being paused: nobody can be answered */
	bool to_disk; /* as it waited for long */
};

static void look_at_sandbox(struct subject *s)
{
	const struct instance *i = instance_find(s->fleet, s->sandbox_id);
	struct store_sandbox *row = NULL;

	if (!i)
		i = instance_find_unsettled(s->fleet, s->sandbox_id);
	if (i) {
		s->paused = i->state == INSTANCE_PAUSING;
		s->to_disk = s->paused && i->freeze.to_disk;
		return;
	}
	s->paused = store_sandbox_get(s->fleet->store, s->sandbox_id, &row, NULL) == 0 &&
		    row->state == STORE_PAUSED;
	s->to_disk = s->paused && instance_waits_on_disk(row);
	store_sandbox_free(row);
}

static int note_subject(void *arg, const struct store_approval *a)
{
	struct subject *s = arg;

	s->request = is_request(a);
	(void)snprintf(s->sandbox_id, sizeof(s->sandbox_id), "%s", a->sandbox_id); /* fits */
	return 0;
}

static bool is_persons(const struct store_approval *d)
{
	return d->state == STORE_APPROVAL_ALLOWED || d->state == STORE_APPROVAL_DENIED;
}

/* Whether the decision is kept for the next flow that asks the same, and until when. */
static bool keep_spare(const struct subject *s, bool waits, struct store_approval *d)
{
	bool counts = is_persons(d) || (d->state == STORE_APPROVAL_EXPIRED && s->to_disk);

	d->until_ns = 0;
	if (s->request || !counts || (waits && !s->paused))
		return false;
	d->until_ns = d->decided_ns + (s->paused ? APPROVAL_PAUSED_S : APPROVAL_SPARE_S) * NS_PER_S;
	return true;
}

static int settle(struct approvals *all, const char *id, const char *key_id,
	struct store_approval *d, struct error *e)
{
	struct subject s = {.fleet = all->fleet};
	bool spare = false;
	int r = store_approval_get(all->fleet->store, id, key_id, note_subject, &s, e);

	if (r < 0)
		return r;
	look_at_sandbox(&s);
	if (d->scope == STORE_APPROVAL_ONCE)
		spare = keep_spare(&s, have_waiter(all, id), d);
	r = store_approval_decide(all->fleet->store, id, key_id, d, spare, e);
	if (r < 0)
		return r;
	publish(all, id);
	if (!s.paused || s.request)
		hand_out(all, id, d);
	/* Behind the answers: a new policy asks again about what waits, which would be charged
	 * twice. */
	if (d->scope != STORE_APPROVAL_ONCE)
		decisions_made(all->fleet, id);
	set_timer(all);
	if (all->fleet->approval_over)
		all->fleet->approval_over(all->fleet, s.sandbox_id);
	return 0;
}

struct right {
	const struct approval_decider *by;
	const struct store_approval *decision;
	struct error *e;
};

/* One that is over is told from one that may not be decided. */
static int check_right(void *arg, const struct store_approval *a)
{
	struct right *r = arg;

	return a->state == STORE_APPROVAL_WAITING
		       ? approval_right_check(a->question_json, r->by, r->decision, r->e)
		       : 0;
}

int approvals_decide(struct fleet *f, const char *id, const struct approval_decider *by,
	const struct store_approval *given, struct error *e)
{
	struct store_approval d = *given;
	struct right right = {by, &d, e};
	int r;

	/* a link is a token, too */
	if (f->lockdown.approvals || (f->lockdown.keys && by->by == APPROVAL_BY_LINK))
		return error_set(
			e, ERROR_FORBIDDEN, EPERM, LOCKDOWN_TEXT ": nobody can decide now");
	r = store_approval_get(f->store, id, by->key_id, check_right, &right, e);

	d.decided_ns = time_of(f->approvals);
	return r ? r : settle(f->approvals, id, by->key_id, &d, e);
}

struct ids {
	unsigned count;
	char list[LATE_AT_ONCE][STORE_APPROVAL_ID_BYTES];
};

static int collect(void *arg, const struct store_approval *a)
{
	struct ids *ids = arg;

	(void)snprintf(ids->list[ids->count++], STORE_APPROVAL_ID_BYTES, "%s", a->id); /* fits */
	return ids->count == LATE_AT_ONCE;
}

/* Returns how many are over now. */
static unsigned settle_all(struct approvals *all, const struct ids *ids,
	enum store_approval_state state, const char *why)
{
	unsigned settled = 0;

	for (unsigned i = 0; i < ids->count; i++) {
		struct store_approval d = {
			.state = state, .decided_ns = time_of(all), .reason = why};
		struct error e = {0};

		if (settle(all, ids->list[i], NULL, &d, &e) < 0)
			log_error(
				"cannot end an approval: %s approval=%s", e.message, ids->list[i]);
		else
			settled++;
	}
	return settled;
}

void approvals_deny_all(struct fleet *f, const char *why)
{
	const struct store_approval_filter filter = {
		.states = STORE_APPROVAL_BIT(STORE_APPROVAL_WAITING), .limit = LATE_AT_ONCE};
	struct error e = {0};
	struct ids ids;
	unsigned settled;

	do {
		ids.count = 0;
		if (store_approval_list(f->store, &filter, collect, &ids, &e) < 0)
			log_error("cannot look for approvals: %s", e.message);
		settled = settle_all(f->approvals, &ids, STORE_APPROVAL_DENIED, why);
	} while (settled && ids.count == LATE_AT_ONCE && e.code == ERROR_NONE);
}

static const char gave_up[] = "the program did not wait";

/* A decision would have no effect. */
static void cancel(struct approvals *all, const char *id, const char *why)
{
	struct store_approval d = {
		.state = STORE_APPROVAL_CANCELLED, .decided_ns = time_of(all), .reason = why};
	struct error e = {0};

	if (settle(all, id, NULL, &d, &e) < 0 && e.code != ERROR_EXISTS)
		log_error("cannot cancel an approval: %s approval=%s", e.message, id);
}

/* The flow or request of a waiter is gone. judged: the policy has changed, and answers it. */
static void give_up(struct waiter *w, bool judged)
{
	struct approvals *all = w->asker->fleet->approvals;
	bool moot = (w->question.request || judged) && w->id[0];
	char id[STORE_APPROVAL_ID_BYTES];

	memcpy(id, w->id, sizeof(id));
	drop(w);
	if (moot && !have_waiter(all, id))
		cancel(all, id, judged ? "the policy has changed" : gave_up);
}

struct sweep {
	struct approvals *all;
	struct ids ids;
	uint64_t seq;
};

static int collect_lost(void *arg, const struct store_approval *a)
{
	struct sweep *s = arg;
	s->seq = a->seq;
	return is_request(a) && !have_waiter(s->all, a->id) ? collect(&s->ids, a) : 0;
}

/* The worker has reported all that wait. Requests that it did not report ended while no daemon
 * listened. */
static void cancel_lost(struct asker *a)
{
	struct sweep s = {.all = a->fleet->approvals};
	struct store_approval_filter f = {.sandbox_id = a->id,
		.states = STORE_APPROVAL_BIT(STORE_APPROVAL_WAITING),
		.limit = STORE_APPROVALS_SANDBOX_MAX};
	struct error e = {0};

	do {
		s.ids.count = 0;
		f.after = s.seq;
		if (store_approval_list(a->fleet->store, &f, collect_lost, &s, &e) < 0)
			log_error("cannot look for approvals: %s sandbox=%s", e.message, a->id);
		for (unsigned i = 0; i < s.ids.count; i++)
			cancel(s.all, s.ids.list[i], gave_up);
	} while (s.ids.count == LATE_AT_ONCE && e.code == ERROR_NONE);
}

static void on_late(uv_timer_t *t)
{
	struct approvals *all = t->data;
	struct error e = {0};
	struct ids ids = {0};

	all->failing = store_approval_late(all->fleet->store, time_of(all), LATE_AT_ONCE, collect,
			       &ids, &e) < 0;
	if (all->failing)
		log_error("cannot look for approvals: %s", e.message);
	if (settle_all(all, &ids, STORE_APPROVAL_EXPIRED, "nobody decided in time") < ids.count)
		all->failing = true;
	for (struct asker *a = all->owed ? all->askers : NULL; a; a = a->next)
		pay(a);
	set_timer(all);
}

void approvals_sandbox_gone(const struct instance *i)
{
	struct approvals *all = i->fleet->approvals;
	const struct store_approval_filter f = {.sandbox_id = i->sandbox.id,
		.states = STORE_APPROVAL_BIT(STORE_APPROVAL_WAITING),
		.limit = LATE_AT_ONCE};
	struct error e = {0};
	struct ids ids;
	unsigned settled;

	do {
		ids.count = 0;
		if (store_approval_list(all->fleet->store, &f, collect, &ids, &e) < 0)
			log_error(
				"cannot cancel approvals: %s sandbox=%s", e.message, f.sandbox_id);
		settled = settle_all(all, &ids, STORE_APPROVAL_CANCELLED, "the sandbox has ended");
	} while (settled && ids.count == LATE_AT_ONCE && e.code == ERROR_NONE);
}

/* --- asking --- */

static int answer_by(void *arg, const struct store_approval *a)
{
	*(struct store_approval *)arg = (struct store_approval){.state = a->state};
	return 0;
}

bool approvals_freeze(const struct instance *i)
{
	return network_consent_of(i->network_json).mode != CONSENT_RUN;
}

bool approvals_pause_after(const struct instance *i, uint64_t *ret_ns)
{
	struct network_consent c = network_consent_of(i->network_json);

	*ret_ns = c.pause_after_s * NS_PER_S;
	return c.mode == CONSENT_PAUSE;
}

static int found(void *arg, const struct store_approval *a)
{
	*(bool *)arg = true;
	return 0;
}

bool approvals_waiting(struct fleet *f, const char *sandbox_id)
{
	const struct store_approval_filter filter = {.sandbox_id = sandbox_id,
		.states = STORE_APPROVAL_BIT(STORE_APPROVAL_WAITING),
		.limit = 1};
	struct error e = {0};
	bool any = false;

	return store_approval_list(f->store, &filter, found, &any, &e) < 0 || any;
}

static void ask_store(struct waiter *w)
{
	struct asker *a = w->asker;
	struct approvals *all = a->fleet->approvals;
	uint64_t now = time_of(all);
	struct store_approval q = {.key_id = a->instance->key_id,
		.sandbox_id = a->id,
		.template_id = instance_template_id(a->instance),
		.rule = w->question.rule,
		.question_json = w->question.text,
		.asked_ns = now,
		.expires_ns =
			now + network_consent_of(a->instance->network_json).timeout_s * NS_PER_S};
	struct store_approval by;
	struct error e = {0};
	bool fresh = false;
	int r;

	memcpy(q.same, w->question.same, sizeof(q.same));
	memcpy(q.target, w->question.target, sizeof(q.target));
	memcpy(q.rule_digest, w->question.digest, sizeof(q.rule_digest));
	r = store_approval_take(a->fleet->store, &q, now, answer_by, &by, &e);
	if (r == 0) {
		answer(w, by.state == STORE_APPROVAL_ALLOWED,
			by.state == STORE_APPROVAL_ALLOWED   ? NULL
			: by.state == STORE_APPROVAL_EXPIRED ? "nobody decided in time"
							     : "a person has denied it already");
		return;
	}
	unlink_bucket(w);
	r = r == -ENOENT ? store_approval_ask(a->fleet->store, &q, w->id, &fresh, &e) : r;
	enter(w);
	if (r < 0) {
		answer(w, false, e.message);
		return;
	}
	if (fresh)
		publish(all, w->id);
	set_timer(all);
}

static struct asker *asker_of(const struct approvals *all, const char *sandbox_id)
{
	struct asker *a = all->askers;

	while (a && strcmp(a->id, sandbox_id) != 0)
		a = a->next;
	return a;
}

void approvals_ask_again(const struct instance *i)
{
	struct asker *a = asker_of(i->fleet->approvals, i->sandbox.id);

	for (struct waiter *w = a ? a->waiters : NULL, *next; w; w = next) {
		next = w->of_asker;
		if (!w->debt)
			ask_store(w);
	}
}

/* The question, about the rule as it is now. */
static int make_question(
	struct asker *a, const json_t *said, const char *budget, struct approval_question *ret)
{
	uint64_t generation = a->instance->network_generation;
	uint8_t digest[RULE_DIGEST_BYTES];
	char rule[STORE_APPROVAL_RULE_MAX + 1];
	struct rules_ask ask;

	if (!a->rules || a->generation != generation) {
		rule_digests_free(a->rules);
		a->rules = decisions_rules(a->instance);
		a->generation = generation;
	}
	if (!a->rules)
		return -ENOMEM;
	approval_question_rule(said, rule);
	rule_digests_get(a->rules, rule, digest);
	ask = rule_digests_ask(a->rules, rule);
	return approval_question_make(said, budget, &ask, digest, ret);
}

/* budget: how much of it is used; NULL: no budget. */
static void begin(struct asker *a, uint64_t flow, const json_t *said, const char *budget)
{
	struct approval_question q;
	struct waiter *w = NULL;

	if (make_question(a, said, budget, &q) == 0 && !(w = add(a, flow)))
		approval_question_done(&q);
	if (!w) {
		refuse(a, flow, "the question cannot be read");
		return;
	}
	w->question = q;
	w->charge = json_incref(json_object_get(said, "charge"));
	a->requests += q.request;
	ask_store(w); /* may answer at once */
	tell_waits(a);
}

/* Why it is not asked; NULL: it is. */
static const char *too_much(struct asker *a)
{
	uint64_t now = clock_monotonic_ns();

	if (a->fleet->lockdown.approvals)
		return LOCKDOWN_TEXT;
	if (a->count >= APPROVAL_WAITERS_MAX)
		return "too much of the sandbox waits for a person";
	if (!rate_take(&a->rate, APPROVALS_PER_SECOND, now))
		return "the sandbox asks too often";
	return rate_take(&a->owner->rate, APPROVALS_KEY_PER_SECOND, now)
		       ? NULL
		       : "the sandboxes of this API key ask too often";
}

/* A request that takes from budgets: these are asked first. */
static void charge(struct asker *a, uint64_t flow, const json_t *said)
{
	struct budgets_said charged;
	uint64_t now = clock_monotonic_ns();
	enum budgets_verdict v;
	const char *why;

	if (!rate_take(&a->charge_rate, BUDGETS_PER_SECOND, now) ||
		!rate_take(&a->owner->charge_rate, BUDGETS_KEY_PER_SECOND, now)) {
		refuse(a, flow, "more requests a second than budgets are counted for");
		return;
	}
	v = budgets_charge(a->instance, json_object_get(said, "charge"), false, a->lent, &charged);
	if (v == BUDGETS_ASK && (why = too_much(a)))
		refuse(a, flow, why);
	else if (v == BUDGETS_ASK)
		begin(a, flow, said, charged.text);
	else
		answer_flow(a, flow, v == BUDGETS_CHARGED, charged.text, &charged);
}

static struct waiter *find(const struct asker *a, uint64_t flow)
{
	struct waiter *w = a->waiters;

	while (w && w->flow != flow)
		w = w->of_asker;
	return w;
}

void asker_take(struct asker *a, const json_t *said)
{
	json_int_t id = json_integer_value(json_object_get(said, "id"));
	const char *why;
	struct waiter *w;

	if (json_is_true(json_object_get(said, "all")))
		cancel_lost(a);
	if (id < 1)
		return;
	w = find(a, (uint64_t)id);
	if (json_is_true(json_object_get(said, "end"))) {
		if (w)
			give_up(w, json_is_true(json_object_get(said, "judged")));
	} else if (!w && json_object_get(said, "charge")) {
		charge(a, (uint64_t)id, said);
	} else if (!w && (why = too_much(a))) {
		refuse(a, (uint64_t)id, why);
	} else if (!w) { /* else it was told twice */
		begin(a, (uint64_t)id, said, NULL);
	}
}

static struct owner *owner_get(struct approvals *all, const char *key_id)
{
	struct owner *o = all->owners;
	size_t bytes = strlen(key_id) + 1;

	while (o && strcmp(o->key_id, key_id) != 0)
		o = o->next;
	if (!o) {
		o = calloc(1, sizeof(*o) + bytes);
		if (!o)
			return NULL;
		memcpy(o->key_id, key_id, bytes);
		o->next = all->owners;
		all->owners = o;
	}
	o->askers++;
	return o;
}

static void owner_put(struct approvals *all, struct owner *o)
{
	struct owner **at = &all->owners;

	if (--o->askers)
		return;
	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	free(o);
}

struct asker *asker_open(
	struct instance *i, const struct asker_ops *ops, void *arg, struct budgets_lent *lent)
{
	struct asker *a = calloc(1, sizeof(*a));
	struct owner *owner = a ? owner_get(i->fleet->approvals, i->key_id) : NULL;

	if (!owner) {
		free(a);
		return NULL;
	}
	*a = (struct asker){.next = i->fleet->approvals->askers,
		.fleet = i->fleet,
		.instance = i,
		.ops = ops,
		.arg = arg,
		.lent = lent,
		.owner = owner};
	memcpy(a->id, i->sandbox.id, sizeof(a->id));
	a->fleet->approvals->askers = a;
	return a;
}

void asker_close(struct asker *a)
{
	struct asker **at;

	if (!a)
		return;
	for (at = &a->fleet->approvals->askers; *at != a;)
		at = &(*at)->next;
	*at = a->next;
	while (a->waiters && a->fleet->stopping)
		drop(a->waiters); /* they wait on, for the next daemon */
	while (a->waiters)
		give_up(a->waiters, false);
	owner_put(a->fleet->approvals, a->owner);
	rule_digests_free(a->rules);
	free(a);
}

struct watch **approvals_watches(struct fleet *f)
{
	return &f->approvals->watches;
}

/* --- start and stop --- */

int approvals_start(struct fleet *f, struct error *e)
{
	struct approvals *all = calloc(1, sizeof(*all));

	if (!all)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	all->fleet = f;
	(void)uv_timer_init(f->loop, &all->late); /* cannot fail */
	all->late.data = all;
	f->approvals = all;
	approval_clock_start(&all->clock, f->store);
	set_timer(all);
	return 0;
}

void approvals_stop(struct fleet *f)
{
	if (!f->approvals || f->approvals->stopped)
		return;
	f->approvals->stopped = true;
	uv_close((uv_handle_t *)&f->approvals->late, NULL);
}

void approvals_free(struct fleet *f)
{
	free(f->approvals);
	f->approvals = NULL;
}
