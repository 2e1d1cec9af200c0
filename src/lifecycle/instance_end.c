#include "lifecycle/instance_end.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "fleet/deadline.h"
#include "fleet/events.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "fleet/meter.h"
#include "lifecycle/fair.h"
#include "network/approvals.h"
#include "sandbox/cgroup.h"
#include "sandbox/console.h"
#include "store/sandboxes.h"

static void end_work(uv_work_t *w)
{
	struct instance *i = w->data;
	struct error e = {0};

	if (i->fleet->options.backend->end(&i->fleet->dirs, i->sandbox.id, TAKE_PTR(i->sandbox.vmm),
		    i->sandbox.pid, &e) < 0)
		log_error("%s sandbox=%s", e.message, i->sandbox.id);
}

/* Removes the row only now: if the daemon dies before, recovery finishes the job. */
static void end_done(uv_work_t *w, int status)
{
	struct instance *i = w->data;
	struct fleet *f = i->fleet;
	struct instance_waiter *waiters;
	struct error e = {0};

	if (store_sandbox_delete(f->store, i->sandbox.id, &e) < 0 && e.code != ERROR_NOT_FOUND)
		log_error("cannot remove a sandbox's row: %s sandbox=%s", e.message, i->sandbox.id);
	meter_report_late(i);
	waiters = TAKE_PTR(i->waiters);
	instance_free(i);
	instance_wake(waiters, NULL);
}

static int mark_killing(struct instance *i, struct error *e)
{
	const struct store_sandbox row = {.state = STORE_KILLING};

	return store_sandbox_update(
		i->fleet->store, i->sandbox.id, STORE_ANY_STATE, STORE_SET_STATE, &row, NULL, e);
}

static void note_end(struct instance *i, enum store_event_type type)
{
	json_t *object = i->end_reason ? json_pack("{s:s, s:s*}", "reason", i->end_reason,
						 "message", i->end_text)
				       : NULL;
	_cleanup_free_ char *details = object ? json_dumps(object, JSON_COMPACT) : NULL;

	json_decref(object);
	event_note(i->fleet, i->sandbox.id, i->key_id, i->template.id, type, details);
}

/* Sets the row to KILLING and stores the event in one commit. If that fails, only the row is set:
 * ending matters more. */
static int mark_and_note(struct instance *i, enum store_event_type type, struct error *e)
{
	struct store *s = i->fleet->store;
	int r = store_begin(s, e), marked;

	if (r < 0)
		return r;
	marked = mark_killing(i, e);
	if (marked == 0 || marked == -ENOENT)
		note_end(i, type);
	r = store_commit(s, NULL);
	if (r == 0 || (marked < 0 && marked != -ENOENT))
		return marked;
	return mark_killing(i, e);
}

int instance_end(struct instance *i, enum store_event_type type, struct error *e)
{
	struct fleet *f = i->fleet;
	int r;

	fair_let_go(i);
	meter_report(i); /* before the row says KILLING, since recovery does not report */
	r = mark_and_note(i, type, e);
	if (r < 0 && r != -ENOENT)
		return r;
	/* the row is removed even if the process does not end; then the next start ends the
	 * process */
	(void)unlinkat(i->sandbox.dirfd, BACKEND_KNOWN, 0); /* only a mark */
	instance_set_aside(i, INSTANCE_ENDING);
	agent_link_close(i->link);
	i->link = NULL;
	(void)uv_poll_stop(&i->death); /* always 0 */
	metrics_add(METRIC_ENDS, store_event_type_name(type), NULL, 1);
	approvals_sandbox_gone(i);
	deadline_changed(f);
	log_info("sandbox ends: %s sandbox=%s", store_event_type_name(type), i->sandbox.id);
	if (i->job)
		lane_cancel(i->job); /* if the job has begun, its end is awaited */
	else
		instance_finish_end(i);
	return 0;
}

void instance_finish_end(struct instance *i)
{
	/* fails only without a callback */
	(void)uv_queue_work(i->fleet->loop, &i->work, end_work, end_done);
}

/* --- death --- */

static void on_death(uv_poll_t *h, int status, int events)
{
	struct instance *i = h->data;
	static struct log_limit limit = LOG_LIMIT_INIT(20);
	struct error why = {0}, e = {0};

	(void)uv_poll_stop(h); /* always 0 */
	i->died = true;
	if (i->state != INSTANCE_RUNNING)
		return;
	meter_note_cpu(i);
	if (cgroup_explain_end(i->sandbox.dirfd, i->sandbox.id, &why)) {
		i->end_reason = "memory";
		i->end_text = strdup(why.message); /* out of memory: without */
	}
	if (i->sandbox.vmm)
		(void)vmm_is_over(i->sandbox.vmm, &why);  /* its process is dead */
	(void)console_find_panic(i->sandbox.dirfd, &why); /* keeps the first reason found */
	if (log_limited(&limit))			  /* a tenant can cause it */
		log_warn("a sandbox died: %s sandbox=%s",
			why.code == ERROR_NONE ? "its process ended" : why.message, i->sandbox.id);
	if (instance_end(i, STORE_EVENT_CRASHED, &e) < 0)
		log_error("%s sandbox=%s", e.message, i->sandbox.id);
}

int instance_watch(struct instance *i, struct error *e)
{
	int r;

	i->death.data = i;
	r = instance_watch_process(i->fleet, i->sandbox.pid, &i->death, &i->pid_fd, on_death, e);
	i->watched = r == 0;
	return r;
}
