/* Makes a sandbox without blocking the loop.
 *
 *	WORKER    a thread resumes the VM claimed from the pool, or checks the template's files
 *		  and starts a VM
 *	AGENT     HELLO and IDENTITY are queued on the agent's connection
 *	(end)     the reply to IDENTITY came: the row is written, the state is RUNNING, `made` is
 *		  called. Or something failed: what exists of the sandbox is ended, `made` is
 *		  called with the reason
 *
 * A maker whose client went away (instance_maker_cancel) completes its current step first. */
#include "lifecycle/instance_make.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/str.h"
#include "fleet/deadline.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "fleet/meter.h"
#include "fleet/places.h"
#include "fleet/pool.h"
#include "fleet/sample.h"
#include "image/workdir.h"
#include "lifecycle/allowance.h"
#include "lifecycle/instance_end.h"
#include "lifecycle/instance_make_internal.h"
#include "lifecycle/revocation.h"
#include "network/egress.h"
#include "network/network.h"
#include "network/reports.h"
#include "sandbox/console.h"
#include "sandbox/identity.h"
#include "sandbox/sandbox_dir.h"
#include "store/keys.h"
#include "store/sandboxes.h"

enum {
	TOKEN_RAW = (INSTANCE_TOKEN_BYTES - 1) / 2,
};

static void on_limit_closed(uv_handle_t *h)
{
	struct instance_maker *m = h->data;

	json_decref(m->metadata);
	json_decref(m->env);
	json_decref(m->network);
	cleanup_close_p(&m->origin.fd);
	free(m->template);
	free(m->alias);
	free(m);
}

/* Calls `made` and frees the maker. On failure, waiters are notified only after everything of the
 * sandbox is gone, so a retry cannot find it. */
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
		TAKE_PTR(i->sandbox.vmm), i->sandbox.pid, NULL); /* recovery finds what is left */
}

static void end_done(uv_work_t *w, int status)
{
	struct instance *i = w->data;
	struct instance_waiter *waiters = TAKE_PTR(i->waiters);
	_cleanup_free_ struct error *failure = TAKE_PTR(i->failure);

	instance_free(i);
	instance_wake(waiters, failure);
}

static void note_failure(struct fleet *f, const char *result)
{
	metrics_add(METRIC_CREATES, result, NULL, 1);
	f->not_made++;
}

/* Gives up a sandbox that has nothing in the store yet. */
void instance_make_give_up(struct instance_maker *m, const struct error *why)
{
	struct instance *i = m->instance;
	struct error failure = *why;

	if (why->code == ERROR_NONE)
		(void)error_set(&failure, ERROR_INTERNAL, ECANCELED, "nobody waits for it");
	if (m->made) /* if it is our fault, the handler logs it at a higher level */
		log_debug("cannot make a sandbox: %s template=%s", why->message, m->template);
	if (!m->order.look)
		note_failure(i->fleet,
			why->code == ERROR_NONE ? "cancelled" : error_code_name(why->code));
	agent_link_close(i->link);
	i->link = NULL;
	if (i->trust)
		i->trust_close(TAKE_PTR(i->trust), false);
	dismiss(m, NULL, &failure);
	i->failure = malloc(sizeof(*i->failure));
	if (i->failure) /* without it, waiters look again and may retry */
		*i->failure = failure;
	if (!*i->sandbox.id || i->sandbox.dirfd < 0) {
		end_done(&i->work, 0);
		return;
	}
	instance_set_aside(i, INSTANCE_ENDING);
	if (uv_queue_work(i->fleet->loop, &i->work, end_work, end_done) < 0)
		end_done(&i->work, 0); /* cannot fail: it has a callback */
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

static void admit_one(struct instance *i)
{
	struct instance_maker *m = i->maker;
	struct fleet *f = i->fleet;

	/* the sandbox's layers hold its files now; recovery finds what is left */
	if (m->resumed)
		(void)workdir_remove(f->home.area_fd[HOME_PAUSED], i->sandbox.id);
	instance_enter(i);
	meter_start(i);
	deadline_changed(f);
	log_info("sandbox is ready sandbox=%s template=%s ms=%llu", i->sandbox.id,
		i->sandbox.template,
		(unsigned long long)((clock_monotonic_ns() - m->begin_ns) / NS_PER_MS));
	metrics_add(METRIC_CREATES, "ok", NULL, 1);
	i->fleet->made++;
	metrics_observe(METRIC_CREATE_SECONDS, NULL,
		(double)(clock_monotonic_ns() - m->begin_ns) / NS_PER_S);
	dismiss(m, i, NULL);
	/* without it, an older database would end the sandbox */
	(void)backend_mark_as(i->sandbox.dirfd, BACKEND_KNOWN, NULL);
	instance_sample(i);
	reports_begin(i);
}

int instances_admit(struct fleet *f, struct instance *const *held, size_t count,
	instances_also also, void *arg, struct error *e)
{
	int r = instance_make_write_rows(f, held, count, also, arg, e);

	for (size_t n = 0; r == 0 && n < count; n++)
		admit_one(held[n]);
	if (r == 0)
		allowance_enforce_key(f, held[0]->key_id); /* may end them; all have the same key */
	return r;
}

void instance_drop(struct instance *i)
{
	const struct error why = {.code = ERROR_INTERNAL, .err = ECANCELED, .message = "dropped"};

	if (i->maker) /* NULL if the daemon was stopping */
		instance_make_give_up(i->maker, &why);
}

static void hold(struct instance_maker *m)
{
	instance_made made = m->made;

	m->held = true;
	m->made = NULL;
	(void)uv_timer_stop(&m->limit); /* always 0 */
	made(m->arg, m->instance, NULL);
}

void instance_make_ready(struct instance_maker *m)
{
	struct instance *i = m->instance;
	struct error e = {0};
	int r;

	i->started_ns = clock_realtime_ns();
	i->vmm_start = process_start_ticks(i->sandbox.pid);
	r = instance_watch(i, &e);
	if (r == 0 && m->order.hold) {
		hold(m);
		return;
	}
	if (r == 0)
		r = instances_admit(i->fleet, &i, 1, NULL, NULL, &e);
	if (r < 0)
		instance_make_give_up(m, &e);
}

/* --- the worker --- */

/* True for a pool VM that now runs. One that died in the meantime does no harm. */
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
		NULL); /* recovery finds what is left */
	backend_sandbox_done(&i->sandbox);
	return false;
}

/* Gives up a boot when nobody waits for it any more. */
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

static void after_make(struct instance *i)
{
	struct instance_maker *m = i->maker;
	struct error why = m->why;

	if (m->result < 0 && why.code == ERROR_NONE)
		(void)error_set(&why, ERROR_INTERNAL, -m->result, "cannot make a sandbox");
	if (m->result < 0 || !m->made || instance_make_speak(i, &why) < 0) {
		instance_make_give_up_lost(m, &why);
		return;
	}
	if (i->sandbox.egress_fd > 0)
		egress_begin(i);
	instance_make_await(m);
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

/* Restores everything from the row. */
static int fill_paused(struct instance *i, const struct store_sandbox *row)
{
	json_t *files = instance_files_outside(row);

	i->files_outside_json = files ? instance_make_dump(files) : NULL; /* else none are told */
	json_decref(files);
	(void)snprintf(i->returning, sizeof(i->returning), "%s", row->id); /* our own id: fits */
	instance_snapshot_of(row, i->snapshot_id);
	i->internet = row->internet;
	i->network_generation = row->network_generation;
	return copied(&i->key_id, row->key_id) && copied(&i->env_json, row->env_json) &&
			       copied(&i->network_json, row->network_json) &&
			       copied(&i->network_names_json, row->network_names_json) &&
			       copied(&i->secrets_json, row->secrets_json) &&
			       copied(&i->authority, row->authority) &&
			       copied(&i->iam_json, row->iam_json) &&
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
	if (o->shown_id)
		(void)snprintf(
			i->snapshot_id, sizeof(i->snapshot_id), "%s", o->shown_id); /* fits */
	i->key_id = strdup(o->key_id);
	i->env_json = json_object_size(o->env) ? instance_make_dump(o->env) : NULL;
	i->network_json = o->network ? instance_make_dump(o->network) : NULL;
	i->secrets_json = json_object_size(o->secrets) ? instance_make_dump(o->secrets) : NULL;
	i->iam_json = o->iam ? instance_make_dump(o->iam) : NULL;
	i->files_outside_json = o->files_outside ? instance_make_dump(o->files_outside) : NULL;
	i->internet = o->internet;
	i->network_generation = o->network_generation ? o->network_generation : 1;
	i->envd_token = o->secure ? new_token() : NULL;
	i->traffic_token = o->public_traffic ? NULL : new_token();
	if (!i->key_id || (o->secure && !i->envd_token) ||
		(!o->public_traffic && !i->traffic_token) || (o->network && !i->network_json) ||
		(json_object_size(o->env) && !i->env_json) ||
		(json_object_size(o->secrets) && !i->secrets_json) || (o->iam && !i->iam_json) ||
		(o->files_outside && !i->files_outside_json) ||
		!copied(&i->authority, o->authority) ||
		!copied(&i->network_names_json, o->network_names_json))
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
	m->alias = o->alias ? strdup(o->alias) : NULL;
	if (!m->template || !m->alias != !o->alias || (o->origin && m->origin.fd < 0)) {
		cleanup_close_p(&m->origin.fd);
		free(m->template);
		free(m->alias);
		free(m);
		return NULL;
	}
	m->instance = i;
	m->order = *o;
	m->order.paused = NULL; /* we copied what we need, and the caller may free it */
	m->order.origin = NULL;
	m->order.network_names_json = NULL;
	m->order.authority = NULL;
	m->order.secrets = NULL;
	m->order.template = m->template;
	m->order.alias = m->alias;
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

static void start_making(struct fleet *f, struct instance *i, bool boots)
{
	if (!boots) {
		(void)uv_queue_work(
			f->loop, &i->work, make_work, make_done); /* cannot fail: has a function */
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
	if (f->status != FLEET_READY && !o.look)
		return error_set(e, ERROR_NO_SPACE, EBUSY,
			"this host takes no sandboxes at the moment: its operator set it so");
	if (f->making >= INSTANCES_MAKING_MAX)
		return error_set(e, ERROR_NO_SPACE, EBUSY,
			"%d sandboxes are being made at the moment: try again",
			INSTANCES_MAKING_MAX);
	i = instance_new(f);
	if (!i)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	r = instance_make_take_place(i, &o, e);
	boots = r == 0 && instance_make_must_boot(f, &o);
	if (boots)
		r = instance_make_check_boot(f, &o, e);
	if (r < 0) {
		if (!o.look)
			note_failure(f, e ? error_code_name(e->code) : "internal");
		instance_free(i);
		return r;
	}
	r = fill_instance(i, &o);
	if (r == 0 && !o.paused)
		r = network_prepare(i, e);
	if (r == 0)
		i->maker = new_maker(i, &o);
	if (!i->maker) {
		instance_free(i);
		return e && e->code != ERROR_NONE
			       ? r
			       : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
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
