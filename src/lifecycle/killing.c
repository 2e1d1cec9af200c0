#include "lifecycle/killing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "lifecycle/instance_end.h"
#include "lifecycle/instance_pause.h"
#include "store/sandboxes.h"

struct killing {
	struct fleet *fleet;
	char id[SANDBOX_ID_BYTES];
	const char *what;
	struct instance_waiter waiter;
};

static void kill_one(struct killing *k);

static void on_settled(void *arg, const struct error *why)
{
	kill_one(arg);
}

static int kill_paused(struct fleet *f, const char *id, struct error *e)
{
	_cleanup_(store_sandbox_freep) struct store_sandbox *row = NULL;
	int r = store_sandbox_get(f->store, id, &row, e);

	return r == 0 && row->state == STORE_PAUSED ? instance_kill_paused(f, row, e) : r;
}

/* Takes ownership of k. */
static void kill_one(struct killing *k)
{
	struct fleet *f = k->fleet;
	struct instance *i = instance_find(f, k->id), *unsettled = NULL;
	struct error e = {0};
	int r;

	if (!i)
		unsettled = instance_find_unsettled(f, k->id);
	if (unsettled && unsettled->state != INSTANCE_ENDING && !f->stopping) {
		k->waiter = (struct instance_waiter){.settled = on_settled, .arg = k};
		instance_wait(unsettled, &k->waiter);
		return;
	}
	r = i ? instance_end(i, STORE_EVENT_KILLED, &e)
	      : (unsettled ? 0 : kill_paused(f, k->id, &e));
	if (r < 0 && e.code != ERROR_NOT_FOUND)
		log_error("cannot kill a sandbox of %s: %s sandbox=%s", k->what, e.message, k->id);
	free(k);
}

int killing_begin(struct fleet *f, const char *sandbox_id, const char *what, struct error *e)
{
	struct killing *k = calloc(1, sizeof(*k));

	if (!k)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	k->fleet = f;
	k->what = what;
	(void)snprintf(k->id, sizeof(k->id), "%s", sandbox_id); /* our ids: fit */
	kill_one(k);
	return 0;
}
