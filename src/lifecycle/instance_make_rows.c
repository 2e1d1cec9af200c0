/* Writes the rows of new sandboxes and of those that come back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "fleet/events.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "lifecycle/allowance.h"
#include "lifecycle/instance_make_internal.h"
#include "store/sandboxes.h"

char *instance_make_dump(const json_t *object)
{
	return object ? json_dumps(object, JSON_COMPACT) : NULL;
}

static int insert_row(struct instance_maker *m, struct error *e)
{
	struct instance *i = m->instance;
	_cleanup_free_ char *metadata = instance_make_dump(m->metadata);
	_cleanup_free_ char *extra = NULL;
	const struct instance_order *o = &m->order;
	struct store_sandbox row = {
		.id = i->sandbox.id,
		.key_id = i->key_id,
		.template_id = i->template.id,
		.template_alias = m->alias ? m->alias : i->sandbox.template,
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
		.internet = i->internet,
		.network_generation = i->network_generation,
		.network_names_json = i->network_names_json,
		.secrets_json = i->secrets_json,
		.authority = i->authority,
		.iam_json = i->iam_json,
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

int instance_make_write_rows(struct fleet *f, struct instance *const *held, size_t count,
	instances_also also, void *arg, struct error *e)
{
	int r = store_begin(f->store, e);

	for (size_t n = 0; r == 0 && n < count; n++)
		r = write_row(held[n], e);
	if (r == 0 && also)
		r = also(arg, e);
	(void)fault_point("create-written"); /* tests kill the daemon here and below */
	if (r == 0)
		r = store_commit(f->store, e);
	if (r < 0)
		store_rollback(f->store);
	(void)fault_point("create-noted");
	return r;
}
