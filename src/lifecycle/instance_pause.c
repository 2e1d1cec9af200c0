#include "lifecycle/instance_pause.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "fleet/deadline.h"
#include "fleet/events.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "fleet/kept.h"
#include "fleet/meter.h"
#include "fleet/removal.h"
#include "image/workdir.h"
#include "lifecycle/fair.h"
#include "lifecycle/freeze.h"
#include "lifecycle/instance_end.h"
#include "network/approvals.h"
#include "sandbox/agent_call.h"
#include "sandbox/footprint.h"
#include "sandbox/stack.h"
#include "store/kept.h"
#include "store/sandboxes.h"
#include "store/snapshots.h"

enum { ANSWER_S = 3 }; /* how long an agent may take to answer before a pause */

struct operation {
	struct instance *instance;
	struct lane_job job;
	uv_work_t work;			    /* work after the job */
	bool memory, healthy;		    /* for a pause */
	bool limited;			    /* by the maxima of bytes kept */
	bool unresponsive;		    /* the agent did not answer */
	char name[STORE_SNAPSHOT_ID_BYTES]; /* of the new snapshot, or the one to go back to */
	struct backend_snapshot snapshot;
	uint64_t kept_bytes; /* what the state takes on disk */
	instance_told told;
	instance_snapshotted snapshotted;
	void *arg;
	int result;
	struct error why;
};

/* Writes a state change and its event in one commit: webhooks get both or none. */
static int change(struct fleet *f, const struct store_event *ev, uint32_t from, unsigned set,
	const struct store_sandbox *row, uint64_t kept_bytes, struct error *e)
{
	int r = store_begin(f->store, e);

	if (r == 0)
		r = store_sandbox_update(f->store, ev->sandbox_id, from, set, row, NULL, e);
	if (r == 0 && kept_bytes)
		r = store_kept_note_paused(f->store, ev->sandbox_id, kept_bytes, e);
	if (r == 0) {
		event_note(
			f, ev->sandbox_id, ev->key_id, ev->template_id, ev->type, ev->details_json);
		r = store_commit(f->store, e);
	}
	if (r < 0)
		store_rollback(f->store);
	return r;
}

/* --- pauses and snapshots --- */

/* A frozen sandbox goes on first. The place was checked at the request, but others may have used
 * the bytes since. */
static int admit(struct lane_job *j)
{
	struct operation *op = j->data;

	op->result = freeze_let_go(op->instance, &op->why);
	if (op->result == 0)
		op->result = kept_admit(op->instance->fleet, j->key_id, op->limited, &op->why);
	return op->result;
}

static struct operation *begin(struct instance *i, enum store_sandbox_state state, bool memory,
	bool served, struct error *e)
{
	const struct store_sandbox row = {.state = state, .pause_memory = memory};
	unsigned set = STORE_SET_STATE | (state == STORE_PAUSING ? STORE_SET_PAUSE_MEMORY : 0);
	struct operation *op;

	if (!served) {
		(void)error_set(e, ERROR_HOST, ENOSYS,
			"this backend has no snapshots"); /* only fills the error */
		return NULL;
	}
	if (i->job) {
		(void)error_set(e, ERROR_BUSY, EBUSY,
			"a snapshot of the sandbox is being made: try again when it is done");
		return NULL;
	}
	if (kept_check_disk(i->fleet, e) < 0)
		return NULL;
	op = calloc(1, sizeof(*op));
	if (!op) {
		(void)error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
		return NULL;
	}
	fair_let_go(i);
	op->instance = i;
	op->work.data = op->job.data = op;
	op->job.key_id = i->key_id;
	op->job.admit = admit;
	op->job.promise.bytes = i->sandbox.memory_bytes + i->sandbox.disk_bytes;
	op->job.promise.writes = i->sandbox.memory_bytes; /* its disk's deltas are there */
	op->memory = memory;
	if (store_sandbox_update(i->fleet->store, i->sandbox.id, STORE_STATE_BIT(STORE_RUNNING),
		    set, &row, NULL, e) < 0) {
		free(op);
		return NULL;
	}
	i->job = &op->job;
	return op;
}

static void note_cancelled(struct operation *op)
{
	if (op->result == 0 || op->result == -EAGAIN) /* else it was refused */
		op->result = error_set(&op->why, ERROR_NOT_FOUND, ECANCELED,
			"the sandbox ends"); /* or the daemon stops */
}

static void back_to_running(struct instance *i)
{
	const struct store_sandbox row = {.state = STORE_RUNNING};
	struct error e = {0};

	if (store_sandbox_update(i->fleet->store, i->sandbox.id,
		    STORE_STATE_BIT(STORE_PAUSING) | STORE_STATE_BIT(STORE_SNAPSHOTTING),
		    STORE_SET_STATE, &row, NULL, &e) < 0)
		log_error("%s sandbox=%s", e.message, i->sandbox.id);
}

/* Does what waited for the job. The job is done, and the instance still exists. */
static void release(struct instance *i)
{
	struct error e = {0};

	i->job = NULL;
	if (i->fleet->stopping && i->state != INSTANCE_ENDING) {
		back_to_running(i);
		instance_free(i); /* lets go of a living microVM */
		return;
	}
	if (i->state == INSTANCE_ENDING) {
		instance_finish_end(i);
		return;
	}
	back_to_running(i);
	if (i->state == INSTANCE_PAUSING)
		instance_enter(i);
	if (i->died && instance_end(i, STORE_EVENT_CRASHED, &e) < 0)
		log_error("%s sandbox=%s", e.message, i->sandbox.id);
	deadline_changed(i->fleet);
	freeze_look(i);
	instance_settled(i);
}

/* --- pausing --- */

static void finish_pause(struct operation *op, const struct error *why)
{
	instance_told told = op->told;
	void *arg = op->arg;
	struct error copy = why ? *why : (struct error){0};

	free(op);
	if (told)
		told(arg, why ? &copy : NULL);
}

static void fail_pause(struct operation *op)
{
	log_warn(
		"cannot pause a sandbox: %s sandbox=%s", op->why.message, op->instance->sandbox.id);
	release(op->instance);
	finish_pause(op, &op->why);
}

static void end_work(uv_work_t *w)
{
	struct operation *op = w->data;
	struct instance *i = op->instance;
	struct error e = {0};

	if (i->fleet->options.backend->end(&i->fleet->dirs, i->sandbox.id, TAKE_PTR(i->sandbox.vmm),
		    i->sandbox.pid, &e) < 0)
		log_error("%s sandbox=%s", e.message, i->sandbox.id); /* recovery tries again */
}

static void end_done(uv_work_t *w, int status)
{
	struct operation *op = w->data;
	struct instance *i = op->instance;
	struct instance_waiter *waiters = TAKE_PTR(i->waiters);

	meter_report_late(i); /* of the network, while the pause was noted */
	instance_free(i);
	finish_pause(op, NULL);
	instance_wake(waiters, NULL);
}

/* Writing the row as paused failed: the sandbox goes on. */
static void undo_work(uv_work_t *w)
{
	struct operation *op = w->data;
	struct instance *i = op->instance;
	struct fleet *f = i->fleet;
	struct error e = {0};

	if (f->options.backend->settle(i->sandbox.dirfd, &e) < 0)
		log_error("%s sandbox=%s", e.message, i->sandbox.id);
	(void)workdir_remove(f->home.area_fd[HOME_PAUSED], i->sandbox.id); /* or recovery does it */
}

static void undo_done(uv_work_t *w, int status)
{
	fail_pause(w->data);
}

/* A state that cannot be loaded must not replace a running one. */
static int check_snapshot(struct operation *op, int fd, struct error *e)
{
	struct instance *i = op->instance;
	const struct sandbox_origin origin = {.fd = fd, .memory = op->memory};
	const struct sandbox_options o = {
		.origin = &origin,
		.template = i->sandbox.template,
		.cpus = i->sandbox.cpus,
		.memory_bytes = i->sandbox.memory_bytes,
		.disk_bytes = i->sandbox.disk_bytes,
	};

	return i->fleet->options.backend->check(&o, e);
}

/* The snapshot's files become the paused state. */
static int copy_snapshot(struct operation *op, struct error *e)
{
	struct instance *i = op->instance;
	const struct home *h = &i->fleet->home;
	_cleanup_(workdir_abort) struct workdir w = WORKDIR_INIT;
	_cleanup_close_ int from = stack_open(h->area_fd[HOME_SNAPSHOTS], op->name, false, e);
	int r = from < 0 ? from : workdir_hold(from, "snapshot", e);

	if (r == 0)
		r = check_snapshot(op, from, e);
	if (r == 0)
		r = workdir_begin(h->area_fd[HOME_PAUSED], i->sandbox.id, "paused sandbox", &w, e);
	if (r == 0)
		r = stack_clone_snapshot(from, w.fd, e);
	if (r == 0)
		r = fault_disk("rollback-composed", e);
	if (r == 0)
		r = workdir_commit(&w, e);
	if (r < 0)
		return r;
	r = fault_disk("rollback-committed", e);
	if (r < 0) /* it goes on, without a paused state */
		(void)workdir_remove(h->area_fd[HOME_PAUSED], i->sandbox.id);
	return r;
}

static int note_paused(struct operation *op, struct error *e)
{
	struct instance *i = op->instance;
	_cleanup_free_ char *extra = instance_extra(i, false, op->unresponsive);
	const struct store_sandbox row = {.state = STORE_PAUSED,
		.end_ns = clock_realtime_ns(),
		.vmm_pid = 0,
		.extra_json = extra};
	const struct store_event ev = {
		.type = STORE_EVENT_PAUSED,
		.sandbox_id = i->sandbox.id,
		.key_id = i->key_id,
		.template_id = i->template.id,
		.details_json = op->memory ? NULL : "{\"memory\":false}",
	};

	return change(i->fleet, &ev, STORE_STATE_BIT(STORE_PAUSING),
		STORE_SET_STATE | STORE_SET_END | STORE_SET_VMM | (extra ? STORE_SET_EXTRA : 0),
		&row, op->kept_bytes, e);
}

static bool agent_answers(const struct instance *i)
{
	struct agent_conn *c = NULL;
	int r = agent_connect_ready(
		i->sandbox.dirfd, clock_monotonic_ns() + ANSWER_S * NS_PER_S, &c, NULL);

	agent_close(c);
	return r == 0;
}

/* Runs in a worker. */
static int pause_now(struct operation *op)
{
	struct instance *i = op->instance;
	struct fleet *f = i->fleet;

	op->unresponsive = !agent_answers(i);
	if (op->unresponsive && (op->healthy || !op->memory))
		return error_set(&op->why, ERROR_HOST, ETIMEDOUT,
			"the sandbox's agent does not answer: it goes on; try again, or pause it "
			"with its memory and without requireHealthyGuest");
	return f->options.backend->pause(i->sandbox.dirfd, op->memory, f->home.area_fd[HOME_PAUSED],
		i->sandbox.id, &op->why);
}

static void run_pause(struct lane_job *j)
{
	struct operation *op = j->data;
	struct instance *i = op->instance;
	struct fleet *f = i->fleet;

	op->result = *op->name ? copy_snapshot(op, &op->why) : pause_now(op);
	if (op->result == 0)
		op->kept_bytes = footprint_of(&f->home, HOME_PAUSED, i->sandbox.id);
}

static void pause_done(struct lane_job *j, bool cancelled)
{
	struct operation *op = j->data;
	struct instance *i = op->instance;
	struct fleet *f = i->fleet;

	if (cancelled)
		note_cancelled(op);
	if (op->result < 0) {
		fail_pause(op);
		return;
	}
	meter_report(i);
	if (note_paused(op, &op->why) < 0) {
		(void)uv_queue_work(f->loop, &op->work, undo_work, undo_done);
		return;
	}
	(void)fault_point("pause-noted"); /* tests kill the daemon here and at the points below */
	(void)uv_poll_stop(&i->death);	  /* always 0 */
	agent_link_close(i->link);
	i->link = NULL;
	log_info("sandbox is paused sandbox=%s memory=%d", i->sandbox.id, op->memory);
	(void)uv_queue_work(f->loop, &op->work, end_work, end_done); /* cannot fail */
}

static int pause_to(struct instance *i, unsigned how, const char *snapshot_id, instance_told told,
	void *arg, struct error *e)
{
	struct operation *op =
		begin(i, STORE_PAUSING, how & PAUSE_MEMORY, i->fleet->options.backend->pause, e);

	if (!op)
		return -e->err;
	(void)snprintf(op->name, sizeof(op->name), "%s", snapshot_id); /* from the store: fits */
	op->healthy = how & PAUSE_HEALTHY;
	op->limited = how & PAUSE_LIMITED;
	op->told = told;
	op->arg = arg;
	i->goes_back = *op->name;
	instance_set_aside(i, INSTANCE_PAUSING);
	deadline_changed(i->fleet);
	op->job.run = run_pause;
	op->job.done = pause_done;
	lane_add(&i->fleet->lane, &op->job);
	return 0;
}

int instance_pause(struct instance *i, unsigned how, instance_told told, void *arg, struct error *e)
{
	return pause_to(i, how, "", told, arg, e);
}

int instance_roll_back(struct instance *i, const char *snapshot_id, bool memory, instance_told told,
	void *arg, struct error *e)
{
	return pause_to(i, memory ? PAUSE_MEMORY : 0, snapshot_id, told, arg, e);
}

/* --- killing a paused one --- */

static void forget(struct fleet *f, const char *id)
{
	struct error e = {0};

	(void)fault_point("kill-removed");
	if (store_sandbox_delete(f->store, id, &e) < 0 && e.code != ERROR_NOT_FOUND)
		log_error("cannot remove a sandbox's row: %s sandbox=%s", e.message, id);
}

/* Cancels the paused sandbox's waiting approvals, and tells clients that follow its activity. It
 * has no instance. */
static void cancel_approvals(struct fleet *f, const char *id)
{
	struct instance gone = {.fleet = f};

	(void)snprintf(gone.sandbox.id, sizeof(gone.sandbox.id), "%s", id); /* from a row: fits */
	approvals_sandbox_gone(&gone);
}

int instance_kill_paused(struct fleet *f, const struct store_sandbox *sb, struct error *e)
{
	const struct store_sandbox row = {.state = STORE_KILLING};
	const struct store_event ev = {
		.type = STORE_EVENT_KILLED,
		.sandbox_id = sb->id,
		.key_id = sb->key_id,
		.template_id = sb->template_id,
		.details_json = "{\"paused\":true}",
	};
	struct removal *m = removal_new(f, HOME_PAUSED, sb->id);
	int r;

	if (!m)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	r = change(f, &ev, STORE_STATE_BIT(STORE_PAUSED), STORE_SET_STATE, &row, 0, e);
	if (r < 0) {
		removal_free(m);
		return r;
	}
	(void)fault_point("kill-noted");
	cancel_approvals(f, sb->id);
	removal_start(m, forget);
	return 0;
}

/* --- snapshots --- */

static void run_snapshot(struct lane_job *j)
{
	struct operation *op = j->data;
	struct instance *i = op->instance;

	op->result = i->fleet->options.backend->snapshot(i->sandbox.dirfd, op->memory,
		i->fleet->home.area_fd[HOME_SNAPSHOTS], op->name, &op->snapshot, &op->why);
	if (op->result == 0)
		op->snapshot.kept_bytes = footprint_of(&i->fleet->home, HOME_SNAPSHOTS, op->name);
}

static void snapshot_done(struct lane_job *j, bool cancelled)
{
	struct operation *op = j->data;
	struct instance *i = op->instance;

	if (cancelled)
		note_cancelled(op);
	if (op->result == 0)
		log_info("snapshot of a sandbox sandbox=%s stop_us=%llu held_us=%llu bytes=%llu",
			i->sandbox.id, (unsigned long long)(op->snapshot.stop_ns / NS_PER_US),
			(unsigned long long)(op->snapshot.held_ns / NS_PER_US),
			(unsigned long long)op->snapshot.own_bytes);
	else
		log_warn("cannot make a snapshot: %s sandbox=%s", op->why.message, i->sandbox.id);
	/* before anything that may end the instance: the callback may want to look at it */
	op->snapshotted(op->arg, i, op->result == 0 ? &op->snapshot : NULL, &op->why);
	release(i);
	free(op);
}

int instance_snapshot(struct instance *i, const char *name, unsigned how,
	instance_snapshotted snapshotted, void *arg, struct error *e)
{
	struct operation *op = begin(
		i, STORE_SNAPSHOTTING, how & COPY_MEMORY, i->fleet->options.backend->snapshot, e);

	if (!op)
		return -e->err;
	(void)snprintf(op->name, sizeof(op->name), "%s", name); /* our own new name: fits */
	op->snapshotted = snapshotted;
	op->arg = arg;
	op->limited = how & COPY_KEPT;
	op->job.promise.states = op->limited;
	op->job.run = run_snapshot;
	op->job.done = snapshot_done;
	lane_add(&i->fleet->lane, &op->job);
	return 0;
}
