#include "lifecycle/instance_obtain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "fleet/deadline.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "fleet/limits.h"
#include "lifecycle/allowance.h"
#include "lifecycle/instance_make.h"
#include "lifecycle/revocation.h"
#include "store/sandboxes.h"

struct obtaining {
	struct fleet *fleet;
	char id[SANDBOX_ID_BYTES];
	struct obtain_options options;
	struct instance_waiter waiter;
	bool waits;    /* the waiter is in an instance's list */
	bool resuming; /* our own maker is at work */
	bool resumed;
	instance_obtained obtained; /* NULL: nobody waits any more */
	void *arg;
	bool *returned; /* tells a running instance_obtain() that it was answered */
};

static void answer(struct obtaining *o, struct instance *i, const struct error *why)
{
	instance_obtained obtained = o->obtained;
	void *arg = o->arg;
	bool resumed = o->resumed;

	if (o->returned)
		*o->returned = true;
	free(o);
	if (obtained)
		obtained(arg, i, resumed, why);
}

static void look(struct obtaining *o);

static void on_settled(void *arg, const struct error *why)
{
	struct obtaining *o = arg;

	o->waits = false;
	if (why)
		answer(o, NULL, why);
	else
		look(o);
}

/* It is back, and nobody waits for it any more. */
static void end_unwanted(const struct obtaining *o)
{
	uint64_t end_ns = clock_realtime_ns() + o->options.unwanted_ns;
	struct error e = {0};

	if (store_sandbox_set_end(o->fleet->store, o->id, end_ns, &e) < 0)
		log_error("cannot set a sandbox's deadline: %s sandbox=%s", e.message, o->id);
	deadline_changed(o->fleet);
}

static void on_resumed(void *arg, struct instance *i, const struct error *why)
{
	struct obtaining *o = arg;

	o->resuming = false;
	o->resumed = i != NULL;
	if (i && !o->obtained && o->options.unwanted_ns)
		end_unwanted(o);
	answer(o, i, why);
}

/* Whether its key may run it. The allowance applies even to the operator: a sandbox brought back
 * without one would be paused again at once. */
static int check_resume(struct obtaining *o, const struct store_sandbox *row, struct error *e)
{
	int r = allowance_check(o->fleet, row->key_id, e);

	if (r == 0 && revocation_of(o->fleet, row->key_id))
		r = error_set(e, ERROR_FORBIDDEN, EACCES, "the sandbox's API key was revoked");
	return r < 0 || o->options.entitled ? r : limits_check_places(o->fleet, row->key_id, 1, e);
}

/* Clamps the timeout: it may date from before the key's limit was lowered. */
static uint64_t timeout_of(const struct obtaining *o, const struct store_sandbox *row)
{
	uint64_t ns = o->options.timeout_ns ? o->options.timeout_ns : row->timeout_ns;
	struct store_limits l;

	if (o->options.entitled || limits_of_key(o->fleet, row->key_id, &l, NULL) < 0)
		return ns;
	return l.max_timeout_ns && l.max_timeout_ns < ns ? l.max_timeout_ns : ns;
}

/* Every resume begins here, whoever asks for it. The paused state stays as it is, row and
 * directory, until the sandbox is back. */
static int start_resume(struct obtaining *o, const struct store_sandbox *row, struct error *e)
{
	struct fleet *f = o->fleet;
	_cleanup_close_ int fd = openat(f->home.area_fd[HOME_PAUSED], row->id,
		O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const struct sandbox_origin origin = {
		.fd = fd, .memory = row->pause_memory && o->options.memory};
	const struct instance_order order = {
		.paused = row,
		.origin = &origin,
		.key_id = row->key_id,
		.timeout_ns = timeout_of(o, row),
		.auto_pause = o->options.at_end == OBTAIN_AS_BEFORE
				      ? row->auto_pause
				      : o->options.at_end == OBTAIN_TO_PAUSE,
		.auto_pause_memory = row->auto_pause_memory,
		.auto_resume = row->auto_resume,
	};
	struct instance_maker *ignored;

	if (check_resume(o, row, e) < 0)
		return -e->err;
	if (fd < 0)
		return error_set_errno(
			e, ERROR_BAD_SNAPSHOT, errno, "the state of the paused sandbox is missing");
	return instances_make(f, &order, on_resumed, o, &ignored, e);
}

static void look_at_row(struct obtaining *o)
{
	struct store_sandbox *row = NULL;
	struct error e = {0};
	int r = store_sandbox_get(o->fleet->store, o->id, &row, &e);

	if (r == 0 && row->state != STORE_PAUSED)
		r = error_set(&e, ERROR_BUSY, EBUSY, "the sandbox is being killed");
	else if (r == 0 && !o->options.resume)
		r = error_set(&e, ERROR_BUSY, EBUSY, "the sandbox is paused");
	if (r == 0)
		r = start_resume(o, row, &e);
	o->resuming = r == 0;
	store_sandbox_free(row);
	if (r < 0)
		answer(o, NULL, &e);
}

static void look(struct obtaining *o)
{
	struct instance *i = instance_find(o->fleet, o->id);

	if (i) {
		answer(o, i, NULL);
		return;
	}
	i = instance_find_unsettled(o->fleet, o->id);
	if (!i) {
		look_at_row(o);
		return;
	}
	o->waiter = (struct instance_waiter){.settled = on_settled, .arg = o};
	o->waits = true;
	instance_wait(i, &o->waiter);
}

void instance_obtain(struct fleet *f, const char *id, const struct obtain_options *options,
	instance_obtained obtained, void *arg, struct obtaining **ret)
{
	static const struct error no_memory = {
		.code = ERROR_INTERNAL, .err = ENOMEM, .message = "out of memory"};
	struct obtaining *o = strlen(id) < SANDBOX_ID_BYTES ? calloc(1, sizeof(*o)) : NULL;
	bool returned = false;

	*ret = NULL;
	if (!o) {
		obtained(arg, NULL, false, &no_memory);
		return;
	}
	o->fleet = f;
	strcpy(o->id, id); /* checked above */
	o->options = *options;
	o->obtained = obtained;
	o->arg = arg;
	o->returned = &returned;
	look(o);
	if (returned)
		return;
	o->returned = NULL;
	*ret = o;
}

void obtaining_cancel(struct obtaining *o)
{
	if (!o)
		return;
	o->obtained = NULL;
	if (!o->waits)
		return; /* freed when the maker answers */
	instance_unwait(o->fleet, &o->waiter);
	free(o);
}
