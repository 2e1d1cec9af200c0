#include "invocation/invocations.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "fleet/events.h"
#include "fleet/fleet.h"
#include "fleet/limits.h"
#include "fleet/meter.h"
#include "invocation/invocations_internal.h"

enum { AGAIN_MS = 50, FULL_SLOTS = 256 };

static const char interrupted[] =
	"the server was stopped or died while the agent ran: invoke it again";

/* --- the list --- */

static void enter(struct invocations *all, struct invocation *v)
{
	v->all = all;
	*all->last = v;
	all->last = &v->next;
}

static void leave(struct invocation *v)
{
	struct invocation **p = &v->all->first;

	while (*p != v)
		p = &(*p)->next;
	*p = v->next;
	if (!*p)
		v->all->last = p;
}

static bool is_same(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

/* --- taking turns --- */

static void stop_running(struct invocation *v)
{
	struct invocation **p = &v->all->running;

	while (*p && *p != v)
		p = &(*p)->next_running;
	if (*p)
		*p = v->next_running;
}

enum full { FULL_KEY, FULL_AGENT, FULL_SESSION, FULL_KINDS_ };

/* Keys, agents and sessions without a free place, so that each is checked once a round. A hash
 * table; of two in one slot the later one stays. */
struct round {
	const struct invocation *full[FULL_KINDS_][FULL_SLOTS];
};

static unsigned hash(unsigned h, const char *text)
{
	while (*text)
		h = h * 31 + (uint8_t)*text++;
	return h;
}

static const struct invocation **slot(struct round *r, enum full kind, const struct invocation *v)
{
	unsigned h = hash(0, kind == FULL_KEY ? v->order.key_id : v->order.agent_id);

	if (kind == FULL_SESSION)
		h = hash(h, v->order.session);
	return &r->full[kind][h % FULL_SLOTS];
}

/* Both have sessions. */
static bool is_same_session(const struct invocation *a, const struct invocation *b)
{
	return is_same(a->order.agent_id, b->order.agent_id) &&
	       is_same(a->order.session, b->order.session);
}

static bool is_full(struct round *r, enum full kind, const struct invocation *v)
{
	const struct invocation *o = *slot(r, kind, v);

	if (!o)
		return false;
	if (kind == FULL_KEY)
		return is_same(o->order.key_id, v->order.key_id);
	return kind == FULL_SESSION ? is_same_session(o, v)
				    : is_same(o->order.agent_id, v->order.agent_id);
}

/* Whether the agent and the session have a place for the invocation. Otherwise e says what it waits
 * for. */
static bool has_turn(struct round *r, const struct invocation *v, struct error *e)
{
	unsigned max = v->order.concurrency ? v->order.concurrency : INVOCATIONS_AGENT_MAX, n = 0;

	if (is_full(r, FULL_AGENT, v) || (v->order.session && is_full(r, FULL_SESSION, v)))
		return false;
	for (const struct invocation *o = v->all->running; o; o = o->next_running) {
		if (!is_same(o->order.agent_id, v->order.agent_id))
			continue;
		n++;
		if (v->order.session && o->order.session && is_same_session(o, v)) {
			*slot(r, FULL_SESSION, v) = v;
			(void)error_set(e, ERROR_TOO_MANY, EBUSY,
				"another invocation of this session runs");
			return false;
		}
	}
	if (n < max)
		return true;
	*slot(r, FULL_AGENT, v) = v;
	(void)error_set(e, ERROR_TOO_MANY, EBUSY, "%u invocation%s of the agent run%s already", n,
		n == 1 ? "" : "s", n == 1 ? "s" : "");
	return false;
}

static bool has_place(struct round *r, const struct invocation *v, struct error *e)
{
	if (v->order.unlimited || limits_check_places(v->all->fleet, v->order.key_id, 1, e) == 0)
		return true;
	*slot(r, FULL_KEY, v) = v;
	return false;
}

static void on_again(uv_timer_t *t);

static void ask_again(struct invocations *all, unsigned ms)
{
	if (!all->waiting || all->stopping)
		return;
	(void)uv_timer_start(&all->again, on_again, ms, 0); /* has a callback */
}

static void take_turn(struct round *r, struct invocation *v)
{
	struct error e = {0};

	if (!v->order.unlimited && is_full(r, FULL_KEY, v))
		return;
	if (!has_turn(r, v, &e) || !has_place(r, v, &e)) {
		if (e.code != ERROR_NONE)
			v->why = e;
		return;
	}
	v->all->waiting--;
	v->next_running = v->all->running;
	v->all->running = v;
	invocation_start(v);
}

static void on_again(uv_timer_t *t)
{
	struct invocations *all = t->data;
	struct round r = {0};

	/* none leaves the list within this */
	for (struct invocation *v = all->first; v; v = v->next)
		if (v->state == INVOCATION_QUEUED)
			take_turn(&r, v);
	ask_again(all, AGAIN_MS); /* other sandboxes of the key may end */
}

void invocation_wait(struct invocation *v, const struct error *why)
{
	v->state = INVOCATION_QUEUED;
	v->why = *why;
	v->all->waiting++;
	stop_running(v);
	ask_again(v->all, AGAIN_MS);
}

static void on_queue_over(uv_timer_t *t)
{
	struct invocation *v = t->data;
	struct outcome o = {.status = -1};

	if (v->state != INVOCATION_QUEUED) {			     /* its sandbox is being made */
		(void)uv_timer_start(t, on_queue_over, AGAIN_MS, 0); /* has a callback */
		return;
	}
	outcome_set(&o, INVOCATION_BUSY,
		"the invocation found no place within %.3g s (%s): try again later, or let it wait "
		"longer (queue)",
		(double)v->order.queue_ns / (double)NS_PER_S, v->why.message);
	invocation_over(v, &o);
}

/* --- the end --- */

static void on_closed(uv_handle_t *h)
{
	struct invocation *v = h->data;

	buf_done(&v->errors);
	buf_done(&v->kept);
	free(v);
}

/* What it used, if its sandbox is still there. The network's part may lack the last second. */
static void take_usage(struct invocation *v, struct store_invocation *row)
{
	struct instance *i = *v->sandbox_id ? instance_find(v->all->fleet, v->sandbox_id) : NULL;

	if (!i)
		return;
	meter_note_cpu(i);
	row->metered = true;
	row->cpu_us = (i->meter.cpu_ns - v->before.cpu_ns) / NS_PER_US;
	row->in_bytes = i->meter.egress_in_bytes - v->before.egress_in_bytes;
	row->out_bytes = i->meter.egress_out_bytes - v->before.egress_out_bytes;
}

static void write_row(struct invocation *v)
{
	const struct outcome *o = &v->outcome;
	struct store_invocation row = {.id = v->id,
		.ended_ns = clock_realtime_ns(),
		.code = invocation_code_name(o->code),
		.message = *o->message ? o->message : NULL,
		.status = o->status,
		.printed = v->printed,
		.output = buf_head(&v->kept),
		.output_bytes = buf_len(&v->kept),
		.errors = buf_head(&v->errors),
		.errors_bytes = buf_len(&v->errors)};
	/* A row whose texts the store refuses ends without them. */
	const struct store_invocation bare = {
		.id = row.id, .ended_ns = row.ended_ns, .code = row.code, .status = row.status};
	struct store *s = v->all->fleet->store;
	struct error e = {0};

	take_usage(v, &row);
	if (store_invocation_finish(s, &row, &e) == 0)
		return;
	log_error("cannot store the whole outcome of an invocation: %s invocation=%s", e.message,
		v->id);
	error_clear(&e);
	if (store_invocation_finish(s, &bare, &e) < 0) /* the next start ends it */
		log_error("cannot store the outcome of an invocation: %s invocation=%s", e.message,
			v->id);
}

static void tell(struct invocation *v)
{
	const struct invocation_end end = {.outcome = v->outcome,
		.duration_ns = v->begin_ns ? clock_monotonic_ns() - v->begin_ns : 0,
		.printed = v->printed,
		.errors = (const char *)buf_head(&v->errors),
		.errors_bytes = buf_len(&v->errors),
		.again_s = v->outcome.code == INVOCATION_BUSY};

	if (v->ops)
		v->ops->ended(v->arg, &end);
}

/* For webhooks: nobody waits for its answer. */
static void note(const struct invocation *v)
{
	const char *sandbox = *v->sandbox_id ? v->sandbox_id : v->id;
	json_t *details = json_pack("{s:s, s:s, s:i, s:s, s:I, s:s*}", "invocation_id", v->id,
		"agent", v->order.agent, "version", (int)v->order.version, "code",
		invocation_code_name(v->outcome.code), "exit_code", (json_int_t)v->outcome.status,
		"message", *v->outcome.message ? v->outcome.message : NULL);

	event_note_more(v->all->fleet, sandbox, v->order.key_id, v->order.agent_id,
		STORE_EVENT_INVOCATION, details, NULL, false);
	json_decref(details);
}

static void deliver(struct invocation *v)
{
	struct invocations *all = v->all;

	write_row(v);
	if (v->order.async)
		note(v);
	tell(v);
	invocation_let_go(v);
	stop_running(v);
	leave(v);
	if (v->order.release)
		v->order.release(v->order.owner);
	uv_close((uv_handle_t *)&v->timer, on_closed);
	ask_again(all, 0);
}

static void on_deliver(uv_timer_t *t)
{
	deliver(t->data);
}

void invocation_over(struct invocation *v, const struct outcome *o)
{
	if (v->state == INVOCATION_OVER)
		return;
	if (v->state == INVOCATION_QUEUED)
		v->all->waiting--;
	v->state = INVOCATION_OVER;
	v->outcome = *o;
	/* A sandbox that is ready in this turn would bring it back. */
	invocation_stop_making(v);
	(void)uv_timer_start(&v->timer, on_deliver, 0, 0); /* has a callback */
}

void invocation_cancel(struct invocation *v)
{
	struct outcome o = {.status = -1};

	if (!v)
		return;
	v->ops = NULL;
	outcome_set(&o, INVOCATION_CANCELLED, "the client went away before the answer was there");
	invocation_over(v, &o);
}

/* --- entering --- */

static int check_bytes(size_t key, size_t all, struct error *e)
{
	bool of_key = key > INVOCATIONS_INPUT_KEY_MAX;

	if (!of_key && all <= INVOCATIONS_INPUT_MAX)
		return 0;
	return error_set(e, ERROR_TOO_MANY, ENOBUFS,
		"the waiting and running requests of %s have more than %d MiB: try again later",
		of_key ? "this key" : "all keys",
		(of_key ? INVOCATIONS_INPUT_KEY_MAX : INVOCATIONS_INPUT_MAX) >> 20);
}

static int check_room(
	const struct invocations *all, const struct invocation_order *o, struct error *e)
{
	size_t bytes = o->bytes, all_bytes = o->bytes;
	unsigned waiting = 0;

	for (const struct invocation *v = all->first; v; v = v->next) {
		all_bytes += v->order.bytes;
		if (!is_same(v->order.key_id, o->key_id))
			continue;
		bytes += v->order.bytes;
		waiting += v->state == INVOCATION_QUEUED;
	}
	if (waiting >= INVOCATIONS_QUEUE_KEY_MAX || all->waiting >= INVOCATIONS_QUEUE_MAX)
		return error_set(e, ERROR_TOO_MANY, ENOBUFS,
			"%u invocations of %s wait already: try again later",
			waiting >= INVOCATIONS_QUEUE_KEY_MAX ? waiting : all->waiting,
			waiting >= INVOCATIONS_QUEUE_KEY_MAX ? "this key" : "all keys");
	return check_bytes(bytes, all_bytes, e);
}

static int add_row(struct invocations *all, const struct invocation *v, struct error *e)
{
	const struct store_invocation row = {.id = v->id,
		.key_id = v->order.key_id,
		.agent_id = v->order.agent_id,
		.agent = v->order.agent,
		.version = v->order.version,
		.session = v->order.session,
		.async = v->order.async,
		.asked_ns = clock_realtime_ns()};

	return store_invocation_add(all->fleet->store, &row, e);
}

int invocation_begin(struct fleet *f, const struct invocation_order *o,
	const struct invocation_ops *ops, void *arg, struct invocation **ret, struct error *e)
{
	struct invocations *all = f->invocations;
	struct invocation *v = calloc(1, sizeof(*v));
	struct round round = {0};
	int r = v ? check_room(all, o, e) : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");

	if (r == 0) {
		v->order = *o;
		v->ops = ops;
		v->arg = arg;
		buf_init(&v->errors, STORE_INVOCATION_ERRORS_MAX);
		buf_init(&v->kept, STORE_INVOCATION_OUTPUT_MAX);
		memcpy(v->id, "inv_", sizeof("inv_"));
		r = str_random_id(v->id + 4, sizeof(v->id) - 4);
		if (r < 0)
			(void)error_set(e, ERROR_INTERNAL, -r, "no random numbers"); /* returned */
	}
	if (r == 0)
		r = add_row(all, v, e);
	if (r < 0) {
		free(v);
		return r;
	}
	enter(all, v);
	(void)uv_timer_init(f->loop, &v->timer); /* cannot fail */
	v->timer.data = v;
	(void)uv_timer_start(&v->timer, on_queue_over, o->queue_ns / NS_PER_MS, 0);
	all->waiting++;
	take_turn(&round, v);
	if (v->state == INVOCATION_QUEUED)
		ask_again(all, AGAIN_MS);
	*ret = v;
	return 0;
}

const char *invocation_id(const struct invocation *v)
{
	return v->id;
}

const char *invocation_sandbox(const struct invocation *v)
{
	return v->sandbox_id;
}

void invocation_resume(struct invocation *v)
{
	if (!v->paused)
		return;
	v->paused = false;
	if (v->program)
		program_resume(v->program);
	if (v->web)
		web_resume(v->web);
}

/* --- start and stop --- */

int invocations_start(struct fleet *f, struct error *e)
{
	struct invocations *all = calloc(1, sizeof(*all));
	unsigned lost = 0;
	int r;

	if (!all)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	r = store_invocation_fail_open(f->store, clock_realtime_ns(),
		invocation_code_name(INVOCATION_INTERRUPTED), interrupted, &lost, e);
	if (r < 0) {
		free(all);
		return r;
	}
	if (lost)
		log_info("%u invocations were interrupted by the end of the last daemon", lost);
	all->fleet = f;
	all->last = &all->first;
	(void)uv_timer_init(f->loop, &all->again); /* cannot fail */
	all->again.data = all;
	f->invocations = all;
	return 0;
}

void invocations_stop(struct fleet *f)
{
	struct invocations *all = f->invocations;
	struct outcome o = {.status = -1};

	if (!all || all->stopping)
		return;
	all->stopping = true;
	outcome_set(&o, INVOCATION_INTERRUPTED, "%s", interrupted);
	while (all->first) {
		invocation_over(all->first, &o);
		deliver(all->first);
	}
	uv_close((uv_handle_t *)&all->again, NULL);
}

void invocations_free(struct fleet *f)
{
	free(f->invocations);
	f->invocations = NULL;
}
