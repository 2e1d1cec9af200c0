#include "network/activity_lifecycle.h"

#include "base/cleanup.h"
#include "fleet/fleet.h"
#include "network/activity.h"
#include "network/activity_process.h"
#include "proto/json_tree.h"
#include "store/events.h"
#include "store/sandboxes.h"

static const char *const words[STORE_EVENT_TYPES_] = {
	[STORE_EVENT_CREATED] = "created",
	[STORE_EVENT_STARTED] = "started",
	[STORE_EVENT_PAUSED] = "paused",
	[STORE_EVENT_RESUMED] = "resumed",
	[STORE_EVENT_UPDATED] = "policyChanged",
	[STORE_EVENT_CHECKPOINTED] = "snapshot",
	[STORE_EVENT_FORKED] = "forked",
	[STORE_EVENT_KILLED] = "ended",
	[STORE_EVENT_TIMED_OUT] = "ended",
	[STORE_EVENT_CRASHED] = "ended",
};

static bool is_end(enum store_event_type type)
{
	return type == STORE_EVENT_KILLED || type == STORE_EVENT_TIMED_OUT ||
	       type == STORE_EVENT_CRASHED;
}

/* Why it ended: "killed", or what the one who ended it said. */
static void add_end(json_t *said, const struct store_event *ev, const json_t *details)
{
	const char *reason = json_string_value(json_object_get(details, "reason"));

	(void)json_object_set_new(
		said, "reason", json_string(reason ? reason : store_event_type_name(ev->type)));
	(void)json_object_set(said, "message", json_object_get(details, "message"));
}

/* Another deadline, or another policy, whose generation the row has. */
static void add_update(struct fleet *f, json_t *said, const struct store_event *ev, json_t *until)
{
	_cleanup_(store_sandbox_freep) struct store_sandbox *sb = NULL;

	if (until) {
		(void)json_object_set_new(said, "event", json_string("timeoutChanged"));
		(void)json_object_set(said, "until", until);
	} else if (store_sandbox_get(f->store, ev->sandbox_id, &sb, NULL) == 0) {
		(void)json_object_set_new(
			said, "generation", json_integer((json_int_t)sb->network_generation));
	}
}

/* What does not fit into memory is left out. */
void activity_lifecycle(struct fleet *f, const struct store_event *ev)
{
	json_t *said, *details;

	if (!words[ev->type])
		return;
	said = json_pack("{s:s, s:s*}", "event", words[ev->type], "template",
		ev->type == STORE_EVENT_CREATED ? ev->template_id : NULL);
	details = json_tree_stored(ev->details_json);
	if (said && is_end(ev->type))
		add_end(said, ev, details);
	if (said && ev->type == STORE_EVENT_UPDATED)
		add_update(f, said, ev, json_object_get(details, "set_timeout"));
	if (is_end(ev->type))
		activity_processes_gone(f, ev->sandbox_id);
	activity_say(f, ev->sandbox_id, ev->key_id, STORE_ACTIVITY_LIFECYCLE, said);
	json_decref(details);
}

void activity_rolled_back(
	struct fleet *f, const char *sandbox_id, const char *key_id, const char *snapshot)
{
	activity_processes_gone(f, sandbox_id);
	activity_say(f, sandbox_id, key_id, STORE_ACTIVITY_LIFECYCLE,
		json_pack("{s:s, s:s}", "event", "rolledBack", "snapshot", snapshot));
}
