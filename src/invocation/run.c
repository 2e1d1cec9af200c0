/* One invocation from its turn to its end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "fleet/deadline.h"
#include "fleet/fleet.h"
#include "fleet/meter.h"
#include "invocation/invocations_internal.h"
#include "lifecycle/instance_end.h"
#include "proto/json_tree.h"
#include "store/activity.h"
#include "store/sandboxes.h"

enum { RECORDS_MAX = 200, LAST_WORD_MS = 500 };

#define WEB_FAILED 400 /* and above: it says that it failed */

/* --- the end --- */

struct denial {
	char host[256], rule[80];
};

static int find_denial(void *arg, const struct store_activity *a)
{
	struct denial *d = arg;
	json_t *record = json_tree_stored(a->record);
	const char *name = json_tree_text(record, "name");

	/* what others wanted of it has a direction */
	if (strcmp(json_tree_text(record, "verdict"), "denied") == 0 &&
		!*json_tree_text(record, "direction")) {
		(void)snprintf(d->host, sizeof(d->host), "%s",
			*name ? name : json_tree_text(record, "address"));
		(void)snprintf(d->rule, sizeof(d->rule), "rule %s", json_tree_text(record, "rule"));
	}
	json_decref(record);
	return 0;
}

static struct outcome_facts facts_of(struct invocation *v, struct denial *d)
{
	const uint32_t kinds = STORE_ACTIVITY_BIT(STORE_ACTIVITY_FLOW) |
			       STORE_ACTIVITY_BIT(STORE_ACTIVITY_REQUEST);

	*d = (struct denial){0};
	/* without its records it just failed */
	(void)store_activity_list(v->all->fleet->store, v->sandbox_id, kinds, v->activity,
		RECORDS_MAX, find_denial, d, NULL);
	return (struct outcome_facts){
		.errors = (const char *)buf_head(&v->errors),
		.errors_bytes = buf_len(&v->errors),
		.printed = v->printed,
		.memory_bytes = v->memory_bytes,
		.timeout_ns = v->order.timeout_ns,
		.denied = *d->host ? d->host : NULL,
		.denied_rule = d->rule,
	};
}

static void over(struct invocation *v, enum invocation_code code, const char *message)
{
	struct outcome o = {.status = -1};

	if (code != INVOCATION_OK)
		outcome_set(&o, code, "%s", message);
	else
		o.status = 0;
	invocation_over(v, &o);
}

static void on_limit(uv_timer_t *t)
{
	struct invocation *v = t->data;
	struct denial d;
	const struct outcome_facts f = facts_of(v, &d);
	struct outcome o;

	outcome_timeout(&o, &f);
	v->late = true;
	invocation_over(v, &o);
}

/* --- its program --- */

static void keep(struct invocation *v, const uint8_t *data, size_t n)
{
	size_t room = STORE_INVOCATION_OUTPUT_MAX - buf_len(&v->kept);

	v->printed += n;
	if (v->order.async)
		(void)buf_add(&v->kept, data, n < room ? n : room); /* it is cut without memory */
}

static void hear(struct invocation *v, bool errors, const uint8_t *data, size_t n)
{
	if (v->state != INVOCATION_RUNNING)
		return;
	if (errors)
		(void)buf_add_last(&v->errors, data, n); /* as much as there is memory for */
	else
		keep(v, data, n);
	if (!v->ops || v->ops->output(v->arg, errors, data, n))
		return;
	v->paused = true;
	program_pause(v->program);
	if (v->web)
		web_pause(v->web);
}

static void on_output(void *arg, bool errors, const uint8_t *data, size_t n)
{
	struct invocation *v = arg;

	/* what a program that listens prints is no answer */
	hear(v, errors || v->order.port, data, n);
}

/* What a program that ended had not done yet, as far as that is known; or NULL. */
static const char *not_done(const struct invocation *v, const struct agent_exit *how)
{
	bool unread = how->flags & AGENT_EXIT_UNREAD && v->order.input_bytes;

	if (!program_was_started(v->program))
		return NULL;
	if (v->order.port)
		return v->web && web_was_reached(v->web) ? NULL : "it listened on its port";
	return unread ? "it read its input" : NULL;
}

static void on_ended(void *arg, const struct agent_exit *how, bool oom)
{
	struct invocation *v = arg;
	struct denial d;
	struct outcome_facts f = facts_of(v, &d);
	struct outcome o;

	f.oom = oom;
	f.before = not_done(v, how);
	outcome_of_exit(&o, how, &f);
	if (v->order.port && (o.code == INVOCATION_OK || o.code == INVOCATION_NO_ANSWER))
		outcome_set(&o, INVOCATION_NO_ANSWER,
			"the agent's program ended before it had answered: it must listen on port "
			"%u and stay",
			v->order.port);
	invocation_over(v, &o);
}

static void on_failed(void *arg, const struct error *why)
{
	struct invocation *v = arg;

	over(v,
		why->code == ERROR_SANDBOX    ? INVOCATION_SANDBOX_ENDED
		: why->code == ERROR_TOO_MANY ? INVOCATION_BUSY
					      : INVOCATION_NOT_STARTED,
		why->message);
}

/* --- a program that listens --- */

static void on_answered(void *arg, unsigned status, const char *content_type)
{
	struct invocation *v = arg;

	v->web_status = status;
	if (status < WEB_FAILED && v->ops && v->ops->typed && v->state == INVOCATION_RUNNING)
		v->ops->typed(v->arg, content_type);
}

/* What comes with a failure tells why, and is no answer. */
static void on_data(void *arg, const uint8_t *data, size_t n)
{
	struct invocation *v = arg;

	hear(v, v->web_status >= WEB_FAILED, data, n);
}

static void on_complete(void *arg)
{
	struct invocation *v = arg;
	struct denial d;
	struct outcome_facts f;
	struct outcome o;

	if (v->web_status < WEB_FAILED) {
		over(v, INVOCATION_OK, NULL);
		return;
	}
	f = facts_of(v, &d);
	outcome_of_answer(&o, v->web_status, &f);
	invocation_over(v, &o);
}

static void on_no_answer(uv_timer_t *t)
{
	struct invocation *v = t->data;
	struct outcome o = {.status = -1};

	outcome_set(&o, INVOCATION_NO_ANSWER, "the agent's program gave no answer: %s", v->broken);
	invocation_over(v, &o);
}

/* If it has ended, that tells more, and comes soon. */
static void on_broken(void *arg, const char *why)
{
	struct invocation *v = arg;

	v->broken = why;
	if (v->state == INVOCATION_RUNNING)
		(void)uv_timer_start(&v->timer, on_no_answer, LAST_WORD_MS, 0);
}

static void on_started(void *arg)
{
	static const struct web_ops ops = {.answered = on_answered,
		.data = on_data,
		.ended = on_complete,
		.failed = on_broken};
	struct invocation *v = arg;
	const struct web_order o = {.port = v->order.port,
		.content_type = v->order.content_type,
		.body = v->order.input,
		.body_bytes = v->order.input_bytes,
		.session = v->order.session};

	if (!v->order.port)
		return;
	v->web = web_open(v->all->fleet, v->sandbox_id, &o, &ops, v);
	if (!v->web)
		over(v, INVOCATION_NOT_STARTED, "out of memory");
}

/* --- its sandbox --- */

static int note_run(void *arg, struct error *e)
{
	const struct invocation *v = arg;

	return store_invocation_run(v->all->fleet->store, v->id, v->sandbox_id, v->started_ns, e);
}

static void run(struct invocation *v, struct instance *i)
{
	static const struct program_ops ops = {
		.started = on_started, .output = on_output, .ended = on_ended, .failed = on_failed};
	const struct program_order o = {.command = v->order.command,
		.dir = v->order.dir,
		.user = v->order.user,
		.env = v->order.env,
		.fresh = v->order.fresh,
		.input = v->order.input,
		.input_bytes = v->order.port ? 0 : v->order.input_bytes,
		.stays = v->order.port};
	struct error e = {0};

	(void)snprintf(v->sandbox_id, sizeof(v->sandbox_id), "%s", instance_id(i)); /* same size */
	v->memory_bytes = i->sandbox.memory_bytes;
	v->state = INVOCATION_RUNNING;
	v->begin_ns = clock_monotonic_ns();
	(void)uv_timer_start(&v->timer, on_limit, v->order.timeout_ns / NS_PER_MS, 0);
	v->program = program_open(i, &o, &ops, v, &e);
	v->started_ns = clock_realtime_ns();
	if (!v->program)
		over(v, INVOCATION_NOT_STARTED, e.message);
}

static bool is_for_later(const struct error *why)
{
	return why->code == ERROR_TOO_MANY || why->code == ERROR_NO_SPACE;
}

static void refused(struct invocation *v, const struct error *why)
{
	if (is_for_later(why))
		invocation_wait(v, why);
	else
		over(v, INVOCATION_NO_SANDBOX, why->message);
}

/* The program gets its prompt before the sandbox has a row, which takes longer than all else that
 * this thread does for an invocation. If the daemon dies between, the next one ends the sandbox,
 * since nobody can know of it yet. */
static void on_made(void *arg, struct instance *i, const struct error *why)
{
	struct invocation *v = arg;
	struct fleet *f = v->all->fleet;
	struct error e = {0};

	v->maker = NULL;
	if (!i) {
		refused(v, why);
		return;
	}
	if (!instance_is_revoked(i)) /* else it is refused below */
		run(v, i);
	/* tests kill the daemon here, or let the disk fail */
	if (fault_disk("invocation-prompted", &e) == 0 &&
		instances_admit(f, &i, 1, note_run, v, &e) == 0)
		return;
	over(v, INVOCATION_NO_SANDBOX, e.message);
	instance_drop(i);
}

static void make(struct invocation *v)
{
	struct instance_order o = *v->order.sandbox;
	struct error e = {0};

	o.timeout_ns = v->order.timeout_ns + INVOCATION_GRACE_S * NS_PER_S;
	o.hold = true;
	o.transient = !v->order.session;
	o.auto_pause = v->order.session;
	if (instances_make(v->all->fleet, &o, on_made, v, &v->maker, &e) < 0)
		refused(v, &e);
}

/* --- sessions --- */

/* Sets the life of a session's sandbox, whatever it was before. */
static void set_end(struct invocation *v, uint64_t after_ns)
{
	struct fleet *f = v->all->fleet;
	struct error e = {0};

	if (store_sandbox_set_end(f->store, v->sandbox_id, clock_realtime_ns() + after_ns, &e) < 0)
		log_error(
			"cannot set a session's deadline: %s sandbox=%s", e.message, v->sandbox_id);
	deadline_changed(f);
}

static void on_obtained(void *arg, struct instance *i, bool resumed, const struct error *why)
{
	struct invocation *v = arg;
	struct error e = {0};

	v->obtaining = NULL;
	if (!i) {
		refused(v, why);
		return;
	}
	/* without it, a denial of an earlier invocation may be blamed */
	(void)store_activity_newest(v->all->fleet->store, instance_id(i), &v->activity, NULL);
	run(v, i);
	meter_note_cpu(i); /* now the program has its prompt: reading /proc takes some time */
	v->before = i->meter;
	if (note_run(v, &e) < 0)
		log_error(
			"cannot store that an invocation runs: %s invocation=%s", e.message, v->id);
	set_end(v, v->order.timeout_ns + INVOCATION_GRACE_S * NS_PER_S);
}

void invocation_start(struct invocation *v)
{
	const struct obtain_options o = {.resume = true,
		.memory = true,
		.timeout_ns = v->order.timeout_ns + INVOCATION_GRACE_S * NS_PER_S,
		.unwanted_ns = v->order.idle_ns,
		.entitled = v->order.unlimited};
	char id[SANDBOX_ID_BYTES] = "";
	struct error e = {0};

	v->state = INVOCATION_MAKING;
	if (v->order.session && invocation_find_session(v, id, &e) < 0)
		over(v, INVOCATION_NO_SANDBOX, e.message);
	else if (*id)
		instance_obtain(v->all->fleet, id, &o, on_obtained, v, &v->obtaining);
	else
		make(v);
}

void invocation_stop_making(struct invocation *v)
{
	if (v->maker)
		instance_maker_cancel(v->maker);
	if (v->obtaining)
		obtaining_cancel(v->obtaining);
	v->maker = NULL;
	v->obtaining = NULL;
}

/* --- afterwards --- */

static bool keeps_sandbox(const struct invocation *v)
{
	switch (v->outcome.code) {
	case INVOCATION_OK:
	case INVOCATION_FAILED:
	case INVOCATION_CRASHED_AT_START:
	case INVOCATION_NO_ANSWER:
	case INVOCATION_NETWORK_DENIED:
	case INVOCATION_CANCELLED:
	case INVOCATION_INTERRUPTED:
		return v->order.session && !v->late && invocation_has_agent(v);
	default:
		return false;
	}
}

void invocation_let_go(struct invocation *v)
{
	struct fleet *f = v->all->fleet;
	struct instance *i;
	struct error e = {0};

	web_close(v->web);
	program_close(v->program);
	v->web = NULL;
	v->program = NULL;
	i = *v->sandbox_id ? instance_find(f, v->sandbox_id) : NULL;
	if (!i)
		return;
	if (keeps_sandbox(v))
		set_end(v, v->order.idle_ns);
	else if (instance_end(i, STORE_EVENT_KILLED, &e) < 0) /* its deadline ends it */
		log_error("%s sandbox=%s", e.message, v->sandbox_id);
}
