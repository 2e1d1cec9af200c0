/* Talks to the agent of a sandbox that is being made: tells it its identity, or finds out why it
 * does not answer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "fleet/sample.h"
#include "lifecycle/instance_make_internal.h"
#include "network/environment.h"
#include "network/trust.h"
#include "sandbox/cgroup.h"
#include "sandbox/console.h"

enum { BOOT_STEP_MS = 50, WORD_STEP_MS = 20, WORD_STEPS = 50 };

static int take_identity(struct instance *i, const struct agent_identity_reply *m, struct error *e)
{
	int r = identity_take(&i->maker->identity, agent_link_conn(i->link), m, e);

	if (r == 0)
		agent_link_send(i->link);
	return r;
}

int instance_agent_refusal(const struct agent_event *ev, struct error *e)
{
	if (ev->type == AGENT_ERROR && ev->error.class == AGENT_ERR_UNSUPPORTED)
		return error_set(e, ERROR_INCOMPATIBLE, EOPNOTSUPP,
			"the sandbox's agent is of an older Mayfly and cannot list what is there: "
			"build its template again and make a new sandbox");
	return agent_event_error(ev, e);
}

/* If this failed, programs do not trust the certificates of intercepted hosts. The sandbox works
 * otherwise. */
static void on_trusted(void *arg, const struct error *why)
{
	static struct log_limit limit = LOG_LIMIT_INIT(20);
	const struct error nobody = {0};
	struct instance_maker *m = arg;

	if (why && log_limited(&limit)) /* a tenant's image may cause it */
		log_warn("cannot give a guest its authorities: %s sandbox=%s", why->message,
			m->instance->sandbox.id);
	if (m->made)
		instance_make_ready(m);
	else
		instance_make_give_up(m, &nobody);
}

/* The guest has its identity: does the last step before the sandbox is ready. */
static void finish(struct instance_maker *m)
{
	if (m->order.look || !trust_is_wanted(m->instance))
		instance_make_ready(m);
	else
		trust_install(m->instance, false, on_trusted, m);
}

static void on_event(struct agent_link *l, const struct agent_event *ev, void *arg)
{
	struct instance *i = arg;
	struct instance_maker *m = i->maker;
	struct error e = {0};
	int r;

	if (!m->hello_done && ev->type == AGENT_HELLO_REPLY) {
		r = identity_take_hello(&m->identity, &ev->hello, m->template, &e);
		m->hello_done = true;
	} else if (m->hello_done && ev->type == AGENT_IDENTITY_REPLY) {
		r = take_identity(i, &ev->identity, &e);
	} else if (m->hello_done && m->order.look && ev->type == AGENT_OK) {
		r = 1; /* frozen */
	} else {
		r = instance_agent_refusal(ev, &e);
	}
	if (r > 0 && m->made)
		finish(m);
	else if (r != 0)
		instance_make_give_up(m, &e);
}

/* Looks for a better reason than the broken or refused connection: the last message of the microVM,
 * which may arrive later, or, better still, that it ran out of memory or its kernel panicked. A
 * native sandbox, in tests, has none of these. */
static void on_word_step(uv_timer_t *t)
{
	struct instance_maker *m = t->data;
	const struct instance *i = m->instance;
	struct error word = {0};

	if (i->sandbox.vmm && !vmm_is_over(i->sandbox.vmm, &word) && ++m->word_steps < WORD_STEPS)
		return;
	if (word.code != ERROR_NONE)
		m->why = word;
	memset(&word, 0, sizeof(word));
	if (cgroup_explain_end(i->sandbox.dirfd, i->sandbox.id, &word) ||
		console_find_panic(i->sandbox.dirfd, &word))
		m->why = word;
	instance_make_give_up(m, &m->why);
}

void instance_make_give_up_lost(struct instance_maker *m, const struct error *why)
{
	if (!m->made || why->code != ERROR_SANDBOX || !m->instance->sandbox.vmm) {
		instance_make_give_up(m, why);
		return;
	}
	m->why = *why;
	(void)uv_timer_start(&m->limit, on_word_step, 0, WORD_STEP_MS); /* cannot fail */
}

static void on_lost(struct agent_link *l, const struct error *lost, void *arg)
{
	struct instance *i = arg;
	struct instance_maker *m = i->maker;
	const struct error why = *lost;

	if (m->held)
		return;
	if (m->booting && !m->hello_done && why.err == ECONNREFUSED)
		return;
	if (i->trust) /* it would make the sandbox ready */
		i->trust_close(TAKE_PTR(i->trust), false);
	instance_make_give_up_lost(m, &why);
}

static int queue_identity(struct instance *i, char **env, struct error *e)
{
	struct identity_of of = {
		.itself = i->maker->resumed && !i->maker->booting,
		.hostname = i->sandbox.id,
		.user = i->sandbox.user,
		.workdir = i->sandbox.workdir,
		.env = (const char *const *)env,
		.disk_bytes = i->sandbox.grow ? i->sandbox.disk_bytes : 0,
	};

	if (i->maker->order.look)
		return identity_queue_look(agent_link_conn(i->link), e);
	while (env[of.env_count])
		of.env_count++;
	return identity_queue(&i->maker->identity, agent_link_conn(i->link), &of, e);
}

static const struct agent_link_ops maker_ops = {.event = on_event, .lost = on_lost};

int instance_make_speak(struct instance *i, struct error *e)
{
	char **env = environment_of(i);
	int r;

	i->maker_ops = &maker_ops;
	r = env ? instance_open_link(i, e) : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	if (r == 0)
		r = queue_identity(i, env, e);
	if (r == 0)
		agent_link_send(i->link);
	environment_free(env);
	return r;
}

static void on_limit(uv_timer_t *t)
{
	struct instance_maker *m = t->data;
	struct error why = {0};

	(void)error_set(&why, ERROR_TIMEOUT, ETIMEDOUT, "the sandbox did not become ready in %d s",
		INSTANCE_READY_S); /* only the filled error matters */
	if (console_find_panic(m->instance->sandbox.dirfd, &why))
		why.code = ERROR_SANDBOX;
	instance_make_give_up(m, &why);
}

/* Asks again: nothing listens while the guest boots. */
static void on_boot_step(uv_timer_t *t)
{
	struct instance_maker *m = t->data;
	struct instance *i = m->instance;
	struct error why = {0};

	if (clock_monotonic_ns() - m->begin_ns > INSTANCE_READY_S * NS_PER_S)
		on_limit(t);
	else if (!i->link && instance_make_speak(i, &why) < 0)
		instance_make_give_up_lost(m, &why);
}

void instance_make_await(struct instance_maker *m)
{
	if (m->booting)
		(void)uv_timer_start(&m->limit, on_boot_step, BOOT_STEP_MS, BOOT_STEP_MS);
	else
		(void)uv_timer_start(&m->limit, on_limit, INSTANCE_READY_S * 1000, 0);
}
