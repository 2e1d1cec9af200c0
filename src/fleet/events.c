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
#include "proto/json_tree.h"
#include "proto/timestamp.h"
#include "store/sandboxes.h"
#include "store/webhooks.h"

enum {
	TTL_DAYS = 30,
	METADATA_MAX = 1024, /* bytes of metadata in an event */
};
#define TYPE_PREFIX "sandbox.lifecycle."

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
	[STORE_EVENT_INVOCATION] = {"agent.invocation.finished", "finish", NULL},
};

static bool is_approval(enum store_event_type type)
{
	return type == STORE_EVENT_APPROVAL_REQUESTED || type == STORE_EVENT_APPROVAL_DECIDED;
}

static bool is_life_cycle(enum store_event_type type)
{
	return event_life_cycle() & STORE_EVENT_BIT(type);
}

void event_type_word(enum store_event_type type, char out[WEBHOOK_TYPE_BYTES])
{
	const char *word = words[type].type ? words[type].type : store_event_type_name(type);

	(void)snprintf(out, WEBHOOK_TYPE_BYTES, "%s%s", is_life_cycle(type) ? TYPE_PREFIX : "",
		word); /* fits */
}

uint32_t event_types_of(const char *word)
{
	char have[WEBHOOK_TYPE_BYTES];
	uint32_t types = 0;

	for (unsigned i = 0; i < STORE_EVENT_TYPES_; i++) {
		event_type_word(i, have);
		if (strcmp(have, word) == 0)
			types |= STORE_EVENT_BIT(i);
	}
	return types;
}

uint32_t event_life_cycle(void)
{
	return ~(STORE_EVENT_BIT(STORE_EVENT_APPROVAL_REQUESTED) |
		 STORE_EVENT_BIT(STORE_EVENT_APPROVAL_DECIDED) |
		 STORE_EVENT_BIT(STORE_EVENT_INVOCATION));
}

/* Takes ownership of data (NULL: none). */
static json_t *record(
	const char *id, const char *type, const char *label, uint64_t at_ns, json_t *data)
{
	char time[TIMESTAMP_BYTES];

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

json_t *event_json(const struct store_event *ev)
{
	json_t *data = json_tree_stored(ev->details_json), *root, *ids;
	char type[WEBHOOK_TYPE_BYTES], id[STR_UUID_BYTES];

	if (!data)
		data = json_object();
	if (words[ev->type].reason)
		(void)json_object_set_new(data, "kill_reason", json_string(words[ev->type].reason));
	event_type_word(ev->type, type);
	/* an id for a row that has none; the same at every call */
	(void)snprintf(id, sizeof(id), "00000000-0000-4000-8000-%012llx",
		(unsigned long long)(ev->id & 0xffffffffffff));
	root = record(ev->uuid ? ev->uuid : id, type,
		words[ev->type].label ? words[ev->type].label : type, ev->at_ns, data);
	/* a sandbox has one execution, and its key is its team */
	ids = json_pack("{s:s, s:s, s:s?, s:s?, s:s}", "sandbox_id", ev->sandbox_id,
		"sandbox_execution_id", ev->sandbox_id, "sandbox_template_id", ev->template_id,
		"sandbox_build_id", ev->build_id, "sandbox_team_id", ev->key_id);
	if (root && is_approval(ev->type))
		(void)json_object_set_new(root, "event_category", json_string("approval"));
	if (root && ev->type == STORE_EVENT_INVOCATION)
		(void)json_object_set_new(root, "event_category", json_string("agent"));
	if (root && ids)
		(void)json_object_update(root, ids); /* fields that do not fit are left out */
	json_decref(ids);
	return root;
}

char *webhook_test_payload(uint64_t at_ns)
{
	char id[STR_UUID_BYTES];

	return str_random_uuid(id) < 0 ? NULL
				       : print(record(id, "webhook.test", "test", at_ns, NULL));
}

/* --- what an event tells about its sandbox --- */

static bool ends_execution(enum store_event_type type, const json_t *data)
{
	return (type == STORE_EVENT_PAUSED || words[type].reason) &&
	       !json_is_true(json_object_get(data, "paused"));
}

static void add_execution(json_t *data, const struct store_sandbox *sb, uint64_t now)
{
	uint64_t ms = now > sb->resumed_ns ? (now - sb->resumed_ns) / NS_PER_MS : 0;
	char time[TIMESTAMP_BYTES];

	(void)json_object_set_new(data, "execution",
		json_pack("{s:s, s:i, s:I, s:I}", "started_at",
			timestamp_format_ns(sb->resumed_ns, time), "vcpu_count", (int)sb->cpus,
			"memory_mb", (json_int_t)(sb->memory_bytes / (1024 * 1024)),
			"execution_time", (json_int_t)ms));
}

/* Adds as much metadata as fits, so that a stored event stays small. */
static void add_metadata(json_t *data, const struct store_sandbox *sb)
{
	if (!sb->metadata_json || strlen(sb->metadata_json) <= METADATA_MAX)
		(void)json_object_set_new(data, "sandbox_metadata",
			sb->metadata_json ? json_tree_stored(sb->metadata_json) : json_object());
	else
		(void)json_object_set_new(data, "sandbox_metadata_omitted", json_true());
}

/* Returns the event's data as JSON, malloc'ed. Members that do not fit into memory are left out. */
static char *describe(const struct store_event *ev, const struct store_sandbox *sb)
{
	json_t *data = json_tree_stored(ev->details_json);

	if (!data)
		data = json_object();
	if (sb)
		add_metadata(data, sb);
	if (sb && ends_execution(ev->type, data))
		add_execution(data, sb, ev->at_ns);
	return print(data);
}

void event_queued(struct fleet *f)
{
	f->events_changed(f->events_arg);
}

/* What webhooks get. */
static char *payload_of(const struct store_event *ev, const json_t *more)
{
	json_t *root = event_json(ev);

	if (root && more) /* which is only read */
		(void)json_object_update(json_object_get(root, "event_data"), (json_t *)more);
	return print(root);
}

static void note(struct fleet *f, const char *id, const char *key_id, const char *template,
	enum store_event_type type, const char *details_json, const json_t *more, bool operators)
{
	char uuid[STR_UUID_BYTES];
	struct store_event ev = {
		.type = type,
		.at_ns = clock_realtime_ns(),
		.sandbox_id = id,
		.key_id = key_id,
		.template_id = template,
		.details_json = details_json,
	};
	/* the row exists: events are stored in the commit that makes or changes it */
	_cleanup_(store_sandbox_freep) struct store_sandbox *sb = NULL;
	_cleanup_free_ char *payload = NULL, *data = NULL, *whole = NULL;
	unsigned receivers = 0;
	struct error e = {0};
	int r;

	(void)store_sandbox_get(f->store, id, &sb, NULL); /* without a row it has no build */
	ev.details_json = data = describe(&ev, sb);
	ev.build_id = sb ? sb->build_id : NULL;
	ev.uuid = str_random_uuid(uuid) < 0 ? NULL : uuid;
	payload = data && ev.uuid ? payload_of(&ev, operators ? NULL : more) : NULL;
	if (payload && operators && more)
		ev.operator_payload = whole = payload_of(&ev, more); /* or the others' */
	r = payload ? store_event_publish(f->store, &ev, payload, ev.at_ns, &receivers, &e)
		    : error_set(&e, ERROR_INTERNAL, ENOMEM, "out of memory");

	if (receivers)
		event_queued(f);
	if (f->event_noted)
		f->event_noted(f, &ev);
	if (r < 0)
		log_warn("cannot note that a sandbox was %s: %s sandbox=%s",
			store_event_type_name(type), e.message, id);
}

void event_note(struct fleet *f, const char *id, const char *key_id, const char *template,
	enum store_event_type type, const char *details_json)
{
	note(f, id, key_id, template, type, details_json, NULL, false);
}

void event_note_more(struct fleet *f, const char *id, const char *key_id, const char *template,
	enum store_event_type type, const json_t *details, const json_t *more, bool operators)
{
	_cleanup_free_ char *text = details ? json_dumps(details, JSON_COMPACT) : NULL;

	note(f, id, key_id, template, type, text, more, operators);
}

void event_note_end(struct fleet *f, const struct store_sandbox *sb, uint64_t end_ns)
{
	char time[TIMESTAMP_BYTES], details[64];

	timestamp_format_ns(end_ns, time);
	(void)snprintf(details, sizeof(details), "{\"set_timeout\":\"%s\"}", time); /* fits */
	event_note(f, sb->id, sb->key_id, sb->template_id, STORE_EVENT_UPDATED, details);
}
