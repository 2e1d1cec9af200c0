/* Making a sandbox without making the loop wait.
 *
 *	WORKER    a thread resumes the VM that was claimed from the pool, or checks the template's
 *		  files and starts one
 *	AGENT     HELLO and IDENTITY are queued on the agent's connection
 *	(end)     the IDENTITY's reply came: row in the store, RUNNING, `made` is called; or
 *		  anything failed: what there is of the sandbox is ended, `made` is called with
 *		  the reason
 *
 * A maker whose client went (instance_maker_cancel) goes on to the end of its step. */
#include <errno.h>
#include <stdatomic.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "fleet/allowance.h"
#include "sandbox/console.h"
#include "fleet/fleet.h"
#include "sandbox/identity.h"
#include "fleet/instances.h"
#include "fleet/meter.h"
#include "base/metrics.h"
#include "fleet/places.h"
#include "fleet/pool.h"
#include "fleet/revocation.h"
#include "image/workdir.h"
#include "store/keys.h"

#define MEMORY_STEP (UINT64_C(128) << 20)

enum {
	TOKEN_RAW = (INSTANCE_TOKEN_BYTES - 1) / 2,
	BOOT_STEP_MS = 50,
	WORD_STEP_MS = 20,
	WORD_STEPS = 50,
};

struct instance_maker {
	struct instance *instance;
	struct instance_order order; /* borrows from `template` and the references below */
	char *template;
	json_t *metadata, *env, *network;
	struct sandbox_origin origin; /* fd is ours; -1: the template */
	bool resumed;		      /* its row is there already */
	bool booting;		      /* the agent is not there yet: asked again and again */
	bool held;		      /* `made` was told; for instances_admit() */
	uint64_t created_ns;	      /* CLOCK_REALTIME */
	uint64_t begin_ns;	      /* CLOCK_MONOTONIC */
	instance_made made;	      /* NULL: cancelled */
	void *arg;
	bool hello_done;
	struct identity identity;
	uv_timer_t limit; /* of a boot: every BOOT_STEP_MS; of waiting for a word: WORD_STEP_MS */
	unsigned word_steps;
	int result;	       /* of the worker */
	bool boots;	       /* its worker is a job of the lane of boots */
	atomic_bool cancelled; /* for that worker */
	struct error why;
};

static void on_limit_closed(uv_handle_t *h)
{
	struct instance_maker *m = h->data;

	json_decref(m->metadata);
	json_decref(m->env);
	json_decref(m->network);
	cleanup_close_p(&m->origin.fd);
	free(m->template);
	free(m);
}

/* The maker goes, and with it the duty to call. Who waits for one that was not made hears of it when
 * nothing of it is left: before, they would find it again. */
static void dismiss(struct instance_maker *m, struct instance *made, const struct error *why)
{
	instance_made call = m->made;
	void *arg = m->arg;
	struct instance_waiter *waiters = made ? TAKE_PTR(made->waiters) : NULL;
	struct fleet *f = m->instance->fleet;
	pid_t pid = made ? made->sandbox.pid : 0;

	m->instance->maker = NULL;
	f->making--;
	m->made = NULL;
	uv_close((uv_handle_t *)&m->limit, on_limit_closed);
	if (call)
		call(arg, made, why);
	instance_wake(waiters, NULL);
	pool_handed_out(f->pool, pid);
}

/* --- ending early --- */

static void end_work(uv_work_t *w)
{
	struct instance *i = w->data;

	(void)i->fleet->options.backend->end(&i->fleet->dirs, i->sandbox.id,
		TAKE_PTR(i->sandbox.vmm), i->sandbox.pid, NULL); /* recovery finds the rest */
}

static void end_done(uv_work_t *w, int status)
{
	struct instance *i = w->data;
	struct instance_waiter *waiters = TAKE_PTR(i->waiters);
	_cleanup_free_ struct error *failure = TAKE_PTR(i->failure);

	instance_free(i);
	instance_wake(waiters, failure);
}

/* Nothing of it is in the store yet. */
static void give_up(struct instance_maker *m, const struct error *why)
{
	struct instance *i = m->instance;
	struct error failure = *why;

	if (why->code == ERROR_NONE)
		(void)error_set(&failure, ERROR_INTERNAL, ECANCELED, "nobody waits for it");
	if (m->made) /* the handler says it loudly if it is our fault */
		log_debug("cannot make a sandbox: %s template=%s", why->message, m->template);
	if (!m->order.look)
		metrics_add(METRIC_CREATES,
			why->code == ERROR_NONE ? "cancelled" : error_code_name(why->code), NULL,
			1);
	agent_link_close(i->link);
	i->link = NULL;
	dismiss(m, NULL, &failure);
	i->failure = malloc(sizeof(*i->failure));
	if (i->failure) /* else they look again, and may try */
		*i->failure = failure;
	if (!*i->sandbox.id || i->sandbox.dirfd < 0) {
		end_done(&i->work, 0);
		return;
	}
	instance_set_aside(i, INSTANCE_ENDING);
	if (uv_queue_work(i->fleet->loop, &i->work, end_work, end_done) < 0)
		end_done(&i->work, 0); /* cannot fail with a function */
}

void instance_maker_cancel(struct instance_maker *m)
{
	m->made = NULL;
	atomic_store(&m->cancelled, true);
	if (m->boots)
		lane_cancel(&m->instance->boot);
}

void instance_maker_stop(struct instance_maker *m)
{
	instance_maker_cancel(m);
	if (m->held)
		instance_drop(m->instance);
}

/* --- readiness --- */

static char *dump(const json_t *object)
{
	return object ? json_dumps(object, JSON_COMPACT) : NULL;
}

static int insert_row(struct instance_maker *m, struct error *e)
{
	struct instance *i = m->instance;
	_cleanup_free_ char *metadata = dump(m->metadata);
	_cleanup_free_ char *extra = NULL;
	const struct instance_order *o = &m->order;
	struct store_sandbox row = {
		.id = i->sandbox.id,
		.key_id = i->key_id,
		.template_id = i->template.id,
		.template_alias = i->sandbox.template,
		.build_id = *i->template.build_id ? i->template.build_id : NULL,
		.state = STORE_RUNNING,
		.created_ns = m->created_ns,
		.started_ns = i->started_ns,
		.resumed_ns = i->started_ns,
		.end_ns = allowance_clamp(i->fleet, i->key_id, i->started_ns + o->timeout_ns),
		.timeout_ns = o->timeout_ns,
		.secure = o->secure,
		.auto_pause = o->auto_pause,
		.auto_pause_memory = o->auto_pause_memory,
		.auto_resume = o->auto_resume,
		.metadata_json = metadata,
		.env_json = i->env_json,
		.envd_token = i->envd_token,
		.traffic_token = i->traffic_token,
		.envd_version = INSTANCE_ENVD_VERSION,
		.network_json = i->network_json,
		.cpus = i->sandbox.cpus,
		.memory_bytes = i->sandbox.memory_bytes,
		.disk_bytes = i->sandbox.disk_bytes,
		.vmm_pid = i->sandbox.pid,
		.vmm_start = i->vmm_start,
	};
	int r;

	row.extra_json = extra = instance_extra(i, o->transient, false);
	r = store_sandbox_insert(i->fleet->store, &row, e);
	explicit_bzero(&row, sizeof(row));
	return r;
}

static int update_row(struct instance_maker *m, struct error *e)
{
	struct instance *i = m->instance;
	_cleanup_free_ char *extra = instance_extra(i, false, false);
	const struct store_sandbox row = {
		.state = STORE_RUNNING,
		.extra_json = extra,
		.resumed_ns = i->started_ns,
		.end_ns = allowance_clamp(i->fleet, i->key_id, i->started_ns + m->order.timeout_ns),
		.vmm_pid = i->sandbox.pid,
		.vmm_start = i->vmm_start,
		.auto_pause = m->order.auto_pause,
		.auto_pause_memory = m->order.auto_pause_memory,
		.auto_resume = m->order.auto_resume,
	};

	return store_sandbox_update(i->fleet->store, i->sandbox.id, STORE_STATE_BIT(STORE_PAUSED),
		STORE_SET_STATE | STORE_SET_RESUMED | STORE_SET_END | STORE_SET_VMM |
			STORE_SET_AUTO_PAUSE | (extra ? STORE_SET_EXTRA : 0),
		&row, NULL, e);
}

static int write_row(struct instance *i, struct error *e)
{
	int r;

	if (i->died)
		return error_set(e, ERROR_SANDBOX, EIO, "the sandbox died");
	if (i->revoked)
		return error_set(e, ERROR_FORBIDDEN, EACCES, "its API key was revoked");
	r = i->maker->resumed ? update_row(i->maker, e) : insert_row(i->maker, e);
	if (r == 0 && !i->maker->resumed)
		r = store_template_spawned(i->fleet->store, i->template.id, i->started_ns, e);
	if (r == 0 && *i->maker->order.once.word)
		r = store_creation_add(i->fleet->store, i->key_id, &i->maker->order.once,
			i->sandbox.id, i->maker->created_ns, e);
	if (r == 0)
		event_note(i->fleet, i->sandbox.id, i->key_id, i->template.id,
			i->maker->resumed ? STORE_EVENT_RESUMED : STORE_EVENT_CREATED, NULL);
	return r;
}

static int write_rows(struct fleet *f, struct instance *const *held, size_t count, struct error *e)
{
	int r = store_begin(f->store, e);

	for (size_t n = 0; r == 0 && n < count; n++)
		r = write_row(held[n], e);
	(void)fault_point("create-written"); /* where the daemon may die, as below */
	if (r == 0)
		r = store_commit(f->store, e);
	if (r < 0)
		store_rollback(f->store);
	(void)fault_point("create-noted");
	return r;
}

static void admit_one(struct instance *i)
{
	struct instance_maker *m = i->maker;
	struct fleet *f = i->fleet;

	/* its files are in the sandbox's layers now; what is left is found by recovery */
	if (m->resumed)
		(void)workdir_remove(f->home.area_fd[HOME_PAUSED], i->sandbox.id);
	instance_enter(i);
	meter_start(i);
	instances_deadline_changed(f);
	log_info("sandbox is ready sandbox=%s template=%s ms=%llu", i->sandbox.id,
		i->sandbox.template,
		(unsigned long long)((clock_monotonic_ns() - m->begin_ns) / NS_PER_MS));
	metrics_add(METRIC_CREATES, "ok", NULL, 1);
	metrics_observe(METRIC_CREATE_SECONDS, NULL,
		(double)(clock_monotonic_ns() - m->begin_ns) / NS_PER_S);
	dismiss(m, i, NULL);
	instance_sample(i);
}

int instances_admit(struct fleet *f, struct instance *const *held, size_t count, struct error *e)
{
	int r = write_rows(f, held, count, e);

	for (size_t n = 0; r == 0 && n < count; n++)
		admit_one(held[n]);
	if (r == 0)
		allowance_enforce_key(f, held[0]->key_id); /* may end them; all are of one key */
	return r;
}

void instance_drop(struct instance *i)
{
	const struct error why = {.code = ERROR_INTERNAL, .err = ECANCELED, .message = "dropped"};

	if (i->maker) /* else it was as the daemon stopped */
		give_up(i->maker, &why);
}

static void hold(struct instance_maker *m)
{
	instance_made made = m->made;

	m->held = true;
	m->made = NULL;
	(void)uv_timer_stop(&m->limit); /* always 0 */
	made(m->arg, m->instance, NULL);
}

static void ready(struct instance_maker *m)
{
	struct instance *i = m->instance;
	struct error e = {0};
	int r;

	i->started_ns = clock_realtime_ns();
	i->vmm_start = instance_process_start(i->sandbox.pid);
	r = instance_watch(i, &e);
	if (r == 0 && m->order.hold) {
		hold(m);
		return;
	}
	if (r == 0)
		r = instances_admit(i->fleet, &i, 1, &e);
	if (r < 0)
		give_up(m, &e);
}

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

static void on_event(struct agent_link *l, const struct agent_event *ev, void *arg)
{
	struct instance *i = arg;
	struct instance_maker *m = i->maker;
	struct error e = {0};
	int r;

	if (!m) {
		if (ev->type == AGENT_METRICS && i->samples.asked) /* each is written down */
			instance_take_metrics(i, &ev->metrics);
		return;
	}
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
		ready(m);
	else if (r != 0)
		give_up(m, &e);
}

/* The microVM's own word tells more than a broken connection, and may come after it; its kernel's
 * tells most. A sandbox that is no microVM has none. */
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
	if (console_find_panic(i->sandbox.dirfd, &word))
		m->why = word;
	give_up(m, &m->why);
}

static void on_lost(struct agent_link *l, const struct error *lost, void *arg)
{
	struct instance *i = arg;
	struct instance_maker *m = i->maker;
	const struct error why = *lost;

	agent_link_close(i->link); /* opened again for the next sample, and by on_boot_step */
	i->link = NULL;
	if (!m || m->held) {
		i->samples.asked = false;
		return;
	}
	if (m->booting && !m->hello_done && why.err == ECONNREFUSED)
		return;
	m->why = why;
	(void)uv_timer_start(&m->limit, on_word_step, 0, WORD_STEP_MS); /* has a callback: starts */
}

static const struct agent_link_ops link_ops = {.event = on_event, .lost = on_lost};

int instance_open_link(struct instance *i, struct error *e)
{
	return agent_link_open(i->fleet->loop, i->sandbox.dirfd, &link_ops, i, &i->link, e);
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

static int speak_to_agent(struct instance *i, struct error *e)
{
	char **env = instance_environment(i);
	int r = env ? instance_open_link(i, e)
		    : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");

	if (r == 0)
		r = queue_identity(i, env, e);
	if (r == 0)
		agent_link_send(i->link);
	for (char **p = env; p && *p; p++)
		free(*p);
	free(env);
	return r;
}

/* --- the worker --- */

/* True when it is a VM of the pool, and runs. One that died meanwhile does no harm. */
static bool resume_claimed(struct instance *i)
{
	const struct backend *b = i->fleet->options.backend;
	struct error e = {0};

	if (!*i->sandbox.id)
		return false;
	if (b->resume(&i->sandbox, i->maker->order.metadata, &e) == 0)
		return true;
	log_info("a VM of the pool cannot be used: %s sandbox=%s", e.message, i->sandbox.id);
	(void)b->end(&i->fleet->dirs, i->sandbox.id, TAKE_PTR(i->sandbox.vmm), i->sandbox.pid,
		NULL); /* recovery finds the rest */
	backend_sandbox_done(&i->sandbox);
	return false;
}

/* A boot is given up when nobody waits for it any more. */
static int on_progress(void *opaque, const char *stage, int percent, const char *line)
{
	struct instance_maker *m = opaque;

	return atomic_load(&m->cancelled) ? -ECANCELED : 0;
}

static void make(struct instance *i)
{
	struct instance_maker *m = i->maker;
	const struct progress progress = {on_progress, m};
	const struct sandbox_options o = {
		.id = m->resumed ? i->returning : NULL,
		.origin = m->origin.fd >= 0 ? &m->origin : NULL,
		.template = m->order.template,
		.cpus = m->order.cpus,
		.memory_bytes = m->order.memory_bytes,
		.disk_bytes = m->order.disk_bytes,
		.metadata = m->order.metadata,
		.hidden = m->order.look,
		.progress = &progress,
	};
	struct fleet *f = i->fleet;

	if (!resume_claimed(i))
		m->result = f->options.backend->make(&f->home, &f->dirs, &o, &i->sandbox, &m->why);
}

static void make_work(uv_work_t *w)
{
	make(w->data);
}

static void on_limit(uv_timer_t *t)
{
	struct instance_maker *m = t->data;
	struct error why = {0};

	(void)error_set(&why, ERROR_TIMEOUT, ETIMEDOUT, "the sandbox did not become ready in %d s",
		INSTANCE_READY_S); /* filled is enough */
	if (console_find_panic(m->instance->sandbox.dirfd, &why))
		why.code = ERROR_SANDBOX;
	give_up(m, &why);
}

/* While the guest boots, nothing listens. */
static void on_boot_step(uv_timer_t *t)
{
	struct instance_maker *m = t->data;
	struct instance *i = m->instance;
	struct error why = {0};

	if (clock_monotonic_ns() - m->begin_ns > INSTANCE_READY_S * NS_PER_S)
		on_limit(t);
	else if (!i->link && speak_to_agent(i, &why) < 0)
		give_up(m, &why);
}

static void after_make(struct instance *i)
{
	struct instance_maker *m = i->maker;
	struct error why = m->why;

	if (m->result < 0 && why.code == ERROR_NONE)
		(void)error_set(&why, ERROR_INTERNAL, -m->result, "cannot make a sandbox");
	if (m->result < 0 || !m->made || speak_to_agent(i, &why) < 0) {
		give_up(m, &why);
		return;
	}
	if (m->booting)
		(void)uv_timer_start(&m->limit, on_boot_step, BOOT_STEP_MS, BOOT_STEP_MS);
	else
		(void)uv_timer_start(&m->limit, on_limit, INSTANCE_READY_S * 1000, 0);
}

static void make_done(uv_work_t *w, int status)
{
	after_make(w->data);
}

static void boot_work(struct lane_job *j)
{
	make(j->data);
}

static void boot_done(struct lane_job *j, bool cancelled)
{
	struct instance *i = j->data;

	if (cancelled)
		i->maker->result = -ECANCELED;
	i->maker->boots = false;
	after_make(i);
}

/* --- starting --- */

static char *new_token(void)
{
	uint8_t raw[TOKEN_RAW];
	char *token = malloc(INSTANCE_TOKEN_BYTES);

	if (token && getrandom(raw, sizeof(raw), 0) == sizeof(raw)) {
		str_hex(raw, sizeof(raw), token);
		explicit_bzero(raw, sizeof(raw));
		return token;
	}
	free(token);
	return NULL;
}

static bool copied(char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return !from || *to;
}

/* Everything as it was. */
static int fill_paused(struct instance *i, const struct store_sandbox *row)
{
	(void)snprintf(i->returning, sizeof(i->returning), "%s", row->id); /* one of ours: fits */
	return copied(&i->key_id, row->key_id) && copied(&i->env_json, row->env_json) &&
			       copied(&i->network_json, row->network_json) &&
			       copied(&i->envd_token, row->envd_token) &&
			       copied(&i->traffic_token, row->traffic_token)
		       ? 0
		       : -ENOMEM;
}

static int fill_instance(struct instance *i, const struct instance_order *o)
{
	if (o->paused)
		return fill_paused(i, o->paused);
	i->transient = o->transient;
	i->key_id = strdup(o->key_id);
	i->env_json = json_object_size(o->env) ? dump(o->env) : NULL;
	i->network_json = o->network ? dump(o->network) : NULL;
	i->envd_token = o->secure ? new_token() : NULL;
	i->traffic_token = o->public_traffic ? NULL : new_token();
	if (!i->key_id || (o->secure && !i->envd_token) ||
		(!o->public_traffic && !i->traffic_token) || (o->network && !i->network_json) ||
		(json_object_size(o->env) && !i->env_json))
		return -ENOMEM;
	return 0;
}

static void take_sizes(struct instance_order *to, const struct store_sandbox *row)
{
	to->cpus = row->cpus;
	to->memory_bytes = row->memory_bytes;
	to->disk_bytes = row->disk_bytes;
}

static struct instance_maker *new_maker(struct instance *i, const struct instance_order *o)
{
	struct instance_maker *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->origin.fd = -1;
	m->template = strdup(o->paused ? o->paused->template_alias : o->template);
	if (o->origin) {
		m->origin = *o->origin;
		m->origin.fd = fcntl(o->origin->fd, F_DUPFD_CLOEXEC, 3);
	}
	if (!m->template || (o->origin && m->origin.fd < 0)) {
		cleanup_close_p(&m->origin.fd);
		free(m->template);
		free(m);
		return NULL;
	}
	m->instance = i;
	m->order = *o;
	m->order.paused = NULL; /* as it was then; no longer the caller's either */
	m->order.origin = NULL;
	m->order.template = m->template;
	m->order.metadata = m->metadata = json_incref(o->metadata);
	m->order.env = m->env = json_incref(o->env);
	m->order.network = m->network = json_incref(o->network);
	m->resumed = o->paused != NULL;
	m->booting = o->origin && !o->origin->memory;
	if (o->paused)
		take_sizes(&m->order, o->paused);
	m->created_ns = clock_realtime_ns();
	m->begin_ns = clock_monotonic_ns();
	(void)uv_timer_init(i->fleet->loop, &m->limit); /* cannot fail */
	m->limit.data = m;
	return m;
}

/* What a new sandbox would have, against what its key may have. */
static int check_max(const struct instance_order *o, const struct sandbox_sizes *s, struct error *e)
{
	char have[16], may[16];

	if (o->origin && (s->cpus > o->max.cpus || s->memory_bytes > o->max.memory_bytes ||
				 s->disk_bytes > o->max.disk_bytes))
		return error_set(e, ERROR_LIMIT, ERANGE,
			"it has %u CPUs and %s of memory, more than this key may have now: ask for "
			"a "
			"higher limit",
			s->cpus, str_format_bytes(s->memory_bytes, have));

	if (s->cpus > o->max.cpus)
		return error_set(e, ERROR_LIMIT, ERANGE,
			"template '%s' has %u CPUs and this key's maximum is %u: give cpuCount",
			o->template, s->cpus, o->max.cpus);
	if (s->memory_bytes > o->max.memory_bytes)
		return error_set(e, ERROR_LIMIT, ERANGE,
			"template '%s' has %s of memory and this key's maximum is %s: give "
			"memoryMB",
			o->template, str_format_bytes(s->memory_bytes, have),
			str_format_bytes(o->max.memory_bytes, may));
	if (s->disk_bytes > o->max.disk_bytes)
		return error_set(e, ERROR_LIMIT, ERANGE,
			"template '%s' has a disk of %s and this key's maximum is %s: use a "
			"smaller "
			"template",
			o->template, str_format_bytes(s->disk_bytes, have),
			str_format_bytes(o->max.disk_bytes, may));
	return 0;
}

static int reserve(struct instance *i, const struct sandbox_sizes *s, struct error *e)
{
	int r = places_take_host(i->fleet, s, 1, e);

	if (r == 0)
		i->promised = *s;
	return r;
}

/* A VM of the pool with its place on the host, or else a place. */
static int claim(struct instance *i, const struct stock_key *k, bool usual, struct error *e)
{
	if (!pool_claim(i->fleet->pool, k, usual, &i->sandbox))
		return reserve(i, &k->sizes, e);
	i->promised = k->sizes;
	return 0;
}

/* What is paused has its sizes, and was allowed to; a new one may have been allowed to before its
 * key's limits were lowered. */
static int reserve_again(struct instance *i, const struct instance_order *o, struct error *e)
{
	const struct store_sandbox *row = o->paused;
	const struct stock_key k = {
		.template = o->template,
		.snapshot = o->snapshot_id,
		.sizes.cpus = row ? row->cpus : o->cpus,
		.sizes.memory_bytes = row ? row->memory_bytes : o->memory_bytes,
		.sizes.disk_bytes = row ? row->disk_bytes : o->disk_bytes,
	};
	const char *id = row ? row->template_id : o->template_id;
	const char *build = row ? row->build_id : o->build_id;

	(void)snprintf(i->template.id, sizeof(i->template.id), "%s", id); /* of the store: fits */
	(void)snprintf(i->template.build_id, sizeof(i->template.build_id), "%s",
		build ? build : ""); /* as above */
	if (!row && !o->look && check_max(o, &k.sizes, e) < 0)
		return -e->err;
	if (o->places)
		return 0; /* taken when nothing can fail any more */
	return k.snapshot ? claim(i, &k, true, e) : reserve(i, &k.sizes, e);
}

/* Before anything is made: the sizes, which the order names from now on, and a place on the host.
 */
static int admit(struct instance *i, struct instance_order *o, struct error *e)
{
	struct fleet *f = i->fleet;
	const struct sandbox_options so = {.template = o->template,
		.cpus = o->cpus,
		.memory_bytes = o->memory_bytes,
		.disk_bytes = o->disk_bytes};
	struct stock_key k = {.template = o->template};
	bool usual = !o->cpus && !o->memory_bytes && !o->disk_bytes;
	int r = f->options.backend->measure(&f->home, &so, &k.sizes, &k.made_s, e);

	if (r == 0)
		r = check_max(o, &k.sizes, e);
	if (r == 0)
		r = store_template_see(f->store, o->template, k.made_s, &i->template, e);
	if (r == 0)
		r = claim(i, &k, usual, e);
	if (r < 0)
		return r;
	o->cpus = k.sizes.cpus;
	o->memory_bytes = k.sizes.memory_bytes;
	o->disk_bytes = k.sizes.disk_bytes;
	return 0;
}

/* Sizes for which a template has no snapshot yet take a boot of it, so they come in steps, and not many
 * at once. */
static int check_boot(struct fleet *f, const struct instance_order *o, struct error *e)
{
	if (o->memory_bytes % MEMORY_STEP)
		return error_set(e, ERROR_LIMIT, EINVAL,
			"memoryMB must be a multiple of %d, or the template's own",
			(int)(MEMORY_STEP >> 20));
	if (lane_count_of(&f->boots, o->key_id) >= BOOTS_KEY_WAITING)
		return error_set(e, ERROR_TOO_MANY, EBUSY,
			"%d sandboxes of this key wait for a template to be booted with their "
			"sizes: "
			"try again when they are there",
			BOOTS_KEY_WAITING);
	return 0;
}

static bool must_boot(const struct fleet *f, const struct instance_order *o)
{
	const struct backend *b = f->options.backend;
	const struct sandbox_options so = {.template = o->template,
		.cpus = o->cpus,
		.memory_bytes = o->memory_bytes,
		.disk_bytes = o->disk_bytes};

	return !o->origin && b->must_boot && b->must_boot(&f->home, &so);
}

static void start_making(struct fleet *f, struct instance *i, bool boots)
{
	if (!boots) {
		(void)uv_queue_work(
			f->loop, &i->work, make_work, make_done); /* fails without a function */
		return;
	}
	i->maker->boots = true;
	i->boot = (struct lane_job){
		.key_id = i->key_id, .run = boot_work, .done = boot_done, .data = i};
	lane_add(&f->boots, &i->boot);
}

int instances_make(struct fleet *f, const struct instance_order *order, instance_made made,
	void *arg, struct instance_maker **ret, struct error *e)
{
	struct instance_order o = *order;
	struct instance *i;
	bool boots;
	int r;

	if (f->stopping)
		return error_set(e, ERROR_HOST, ESHUTDOWN, "the daemon is stopping");
	if (f->making >= INSTANCES_MAKING_MAX)
		return error_set(e, ERROR_NO_SPACE, EBUSY,
			"%d sandboxes are being made at the moment: try again",
			INSTANCES_MAKING_MAX);
	i = instance_new(f);
	if (!i)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	r = o.origin ? reserve_again(i, &o, e) : admit(i, &o, e);
	boots = r == 0 && must_boot(f, &o);
	if (boots)
		r = check_boot(f, &o, e);
	if (r < 0) {
		if (!o.look)
			metrics_add(
				METRIC_CREATES, e ? error_code_name(e->code) : "internal", NULL, 1);
		instance_free(i);
		return r;
	}
	i->maker = fill_instance(i, &o) < 0 ? NULL : new_maker(i, &o);
	if (!i->maker) {
		instance_free(i);
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	}
	i->maker->made = made;
	i->maker->arg = arg;
	i->revoked = revocation_of(f, i->key_id);
	if (o.places) {
		i->promised = o.places->sizes;
		o.places->count--;
	}
	f->making++;
	*ret = i->maker;
	start_making(f, i, boots);
	return 0;
}
