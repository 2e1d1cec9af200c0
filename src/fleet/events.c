#include "fleet/events.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "fleet/fleet.h"
#include "proto/timestamp.h"
#include "store/sandboxes.h"
#include "store/webhooks.h"

enum { TTL_DAYS = 30 };

/* E2B knows only `killed` for every end; `kill_reason` tells them apart. */
static const struct {
	const char *type, *label, *reason;
} words[STORE_EVENT_TYPES_] = {
	[STORE_EVENT_CREATED] = {"created", "create", NULL},
	[STORE_EVENT_STARTED] = {"started", "start", NULL},
	[STORE_EVENT_PAUSED] = {"paused", "pause", NULL},
	[STORE_EVENT_RESUMED] = {"resumed", "resume", NULL},
	[STORE_EVENT_UPDATED] = {"updated", "update", NULL},
	[STORE_EVENT_CHECKPOINTED] = {"checkpointed", "checkpoint", NULL},
	[STORE_EVENT_FORKED] = {"forked", "fork", NULL},
	[STORE_EVENT_KILLED] = {"killed", "kill", "request"},
	[STORE_EVENT_TIMED_OUT] = {"killed", "kill", "timeout"},
	[STORE_EVENT_CRASHED] = {"killed", "kill", "crash"},
	[STORE_EVENT_APPROVAL_REQUESTED] = {"approval.requested", "request", NULL},
	[STORE_EVENT_APPROVAL_DECIDED] = {"approval.decided", "decide", NULL},
};

static bool is_approval(enum store_event_type type)
{
	return type == STORE_EVENT_APPROVAL_REQUESTED || type == STORE_EVENT_APPROVAL_DECIDED;
}

/* "sandbox.lifecycle.killed" for the types killed, timed_out and crashed, and so on; those of
 * approvals as they are. */
static void webhook_type(enum store_event_type type, char out[WEBHOOK_TYPE_BYTES])
{
	const char *word = words[type].type ? words[type].type : store_event_type_name(type);

	(void)snprintf(out, WEBHOOK_TYPE_BYTES, "%s%s",
		is_approval(type) ? "" : "sandbox.lifecycle.", word); /* fits */
}

/* Takes ownership of data (NULL: none). */
static json_t *record(const char *type, const char *label, uint64_t at_ns, json_t *data)
{
	char id[STR_UUID_BYTES], time[TIMESTAMP_BYTES];

	if (str_random_uuid(id) < 0) {
		json_decref(data);
		return NULL;
	}
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:i}", "id", id, "version", "v2",
		"type", type, "timestamp", timestamp_format_ns(at_ns, time), "event_category",
		"lifecycle", "event_label", label, "event_data", data ? data : json_object(),
		"events_ttl_days", TTL_DAYS);
}

static char *print(json_t *root)
{
	char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;

	json_decref(root);
	return text;
}

/* The record of an event (protocol section 6) as JSON, malloc'ed; NULL when out of memory. build_id
 * is the build that the sandbox was made from, or NULL. */
static char *webhook_payload(const struct store_event *ev, const char *build_id, const json_t *more)
{
	json_t *data = ev->details_json ? json_loads(ev->details_json, 0, NULL) : NULL, *root, *ids;
	char type[WEBHOOK_TYPE_BYTES];

	if (!data)
		data = json_object();
	if (words[ev->type].reason)
		(void)json_object_set_new(data, "kill_reason", json_string(words[ev->type].reason));
	if (more)
		(void)json_object_update(data, (json_t *)more); /* only read */
	webhook_type(ev->type, type);
	root = record(type, words[ev->type].label ? words[ev->type].label : type, ev->at_ns, data);
	/* a sandbox has one execution, and its key is its team */
	ids = json_pack("{s:s, s:s, s:s?, s:s?, s:s}", "sandbox_id", ev->sandbox_id,
		"sandbox_execution_id", ev->sandbox_id, "sandbox_template_id", ev->template_id,
		"sandbox_build_id", build_id, "sandbox_team_id", ev->key_id);
	if (root && is_approval(ev->type))
		(void)json_object_set_new(root, "event_category", json_string("approval"));
	if (root && ids)
		(void)json_object_update(root, ids); /* fields that do not fit are left out */
	json_decref(ids);
	return print(root);
}

char *webhook_test_payload(uint64_t at_ns)
{
	return print(record("webhook.test", "test", at_ns, NULL));
}

void event_queued(struct fleet *f)
{
	f->events_changed(f->events_arg);
}

static void note(struct fleet *f, const char *id, const char *key_id, const char *template,
	enum store_event_type type, const char *details_json, const json_t *more)
{
	const struct store_event ev = {
		.type = type,
		.at_ns = clock_realtime_ns(),
		.sandbox_id = id,
		.key_id = key_id,
		.template_id = template,
		.details_json = details_json,
	};
	/* the row exists: events are stored in the commit that makes or changes it */
	_cleanup_(store_sandbox_freep) struct store_sandbox *sb = NULL;
	_cleanup_free_ char *payload = NULL;
	unsigned receivers = 0;
	struct error e = {0};
	int r;

	(void)store_sandbox_get(f->store, id, &sb, NULL); /* without a row it has no build */
	payload = webhook_payload(&ev, sb ? sb->build_id : NULL, more);
	r = payload ? store_event_publish(f->store, &ev, payload, ev.at_ns, &receivers, &e)
		    : error_set(&e, ERROR_INTERNAL, ENOMEM, "out of memory");

	if (receivers)
		event_queued(f);
	if (r < 0)
		log_warn("cannot note that a sandbox was %s: %s sandbox=%s",
			store_event_type_name(type), e.message, id);
}

void event_note(struct fleet *f, const char *id, const char *key_id, const char *template,
	enum store_event_type type, const char *details_json)
{
	note(f, id, key_id, template, type, details_json, NULL);
}

void event_note_more(struct fleet *f, const char *id, const char *key_id, const char *template,
	enum store_event_type type, const json_t *details, const json_t *more)
{
	_cleanup_free_ char *text = details ? json_dumps(details, JSON_COMPACT) : NULL;

	note(f, id, key_id, template, type, text, more);
}
