/* Logs of sandboxes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/auth.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "fleet/fleet_of.h"
#include "fleet/instance.h"
#include "http/reply.h"
#include "sandbox/console.h"
#include "store/events.h"
#include "store/sandboxes.h"

enum { LOGS_MAX = 1000, LOG_PAGES = 16, SEARCH_MAX = 1024 };

/* Log entries. First come the lines of the guest's kernel, while the sandbox exists. Then comes the
 * life cycle from the store, which outlives the sandbox, so a client that follows sees its end.
 * Console lines have no times, so they get made-up ones, a millisecond apart, the last at the
 * sandbox's start. So a client that follows by time gets each line once, and a page can end between
 * any two. */
struct log_query {
	char id[ROUTE_SANDBOX_ID_MAX + 1];
	uint64_t since_ns; /* inclusive */
	uint64_t until_ns; /* exclusive */
	uint32_t limit;
	bool backward;	/* newest first */
	unsigned level; /* lowest level shown: index into level_names */
	char search[SEARCH_MAX];
	json_t *entries; /* objects {"timestamp","message","level","fields"} */
	/* About the page of events that was read last. */
	unsigned count;
	uint64_t last_id;
};

static const char *const level_names[] = {"debug", "info", "warn", "error"};

static int find_level(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(level_names); i++)
		if (strcmp(name, level_names[i]) == 0)
			return (int)i;
	return -EINVAL;
}

/* Reads the level. False: answered. */
static bool take_level(struct request *r, unsigned *ret)
{
	char name[16];
	int n = uri_query_get(r->head->query, "level", name, sizeof(name));
	int level = n == -ENOENT ? 0 : n < 0 ? n : find_level(name);

	if (level < 0)
		reply_error(r, 400, "level must be debug, info, warn or error");
	else
		*ret = (unsigned)level;
	return level >= 0;
}

static const char *level_of(enum store_event_type type)
{
	return type == STORE_EVENT_CRASHED ? "error" : "info";
}

static void add_entry(struct log_query *q, uint64_t at_ns, const char *level, const char *logger,
	const char *message)
{
	if (at_ns < q->since_ns || at_ns >= q->until_ns || (unsigned)find_level(level) < q->level ||
		(*q->search && !strstr(message, q->search)))
		return;
	/* entries that do not fit into memory are left out */
	(void)json_array_append_new(q->entries,
		json_pack("{s:o, s:s, s:s, s:{s:s}}", "timestamp", api_time(at_ns), "message",
			message, "level", level, "fields", "logger", logger));
}

static int add_event(void *arg, const struct store_event *ev)
{
	struct log_query *q = arg;
	char message[64];

	q->count++;
	q->last_id = ev->id;

	(void)snprintf(message, sizeof(message), "sandbox %s",
		store_event_type_name(ev->type)); /* names are short */
	add_entry(q, ev->at_ns, level_of(ev->type), "lifecycle", message);
	return 0;
}

static void add_console(struct log_query *q, struct fleet *f)
{
	struct instance *i = instance_find(f, q->id);
	_cleanup_free_ char *text = i ? console_tail(instance_dirfd(i)) : NULL;
	struct store_sandbox *sb = NULL;
	char *lines[LOGS_MAX], *save = NULL;
	unsigned n = 0;

	if (!text || store_sandbox_get(f->store, q->id, &sb, NULL) < 0)
		return;
	for (char *line = strtok_r(text, "\r\n", &save); line; line = strtok_r(NULL, "\r\n", &save))
		lines[n++ % LOGS_MAX] = line;
	for (unsigned k = 0, count = n < LOGS_MAX ? n : LOGS_MAX; k < count; k++) {
		unsigned before = q->backward ? k : count - 1 - k; /* number of later lines */

		add_entry(q, sb->started_ns - before * NS_PER_MS, "info", "console",
			lines[(n - 1 - before) % LOGS_MAX]);
	}
	store_sandbox_free(sb);
}

static bool is_full(const struct log_query *q)
{
	return json_array_size(q->entries) >= q->limit;
}

static int note_event(void *arg, const struct store_event *ev)
{
	*(bool *)arg = true;
	return 0;
}

bool api_find_logged(struct request *r, char id[ROUTE_SANDBOX_ID_MAX + 1])
{
	const struct store_event_filter f = {
		.key_id = auth_scope(r),
		.sandbox_id = id,
		.limit = 1,
	};
	struct store_sandbox *sb = NULL;
	bool found = false;

	if (route_sandbox_id(r->params[0], id))
		(void)store_event_list(fleet_of(r)->store, &f, note_event, &found, NULL);
	if (found)
		return true;
	sb = api_find(r); /* its events may have expired */
	found = sb;
	store_sandbox_free(sb);
	return found;
}

/* Reads page by page, since level and search may drop most of a page. */
static int add_events(struct request *r, struct log_query *q, struct error *e)
{
	struct store_event_filter f = {
		.key_id = auth_scope(r),
		.sandbox_id = q->id,
		.since_ns = q->since_ns,
		.until_ns = q->until_ns,
		.ascending = !q->backward,
		.limit = LOGS_MAX,
	};
	int err = 0;

	for (unsigned page = 0; err == 0 && page < LOG_PAGES && !is_full(q); page++) {
		q->count = 0;
		err = store_event_list(fleet_of(r)->store, &f, add_event, q, e);
		if (q->count < LOGS_MAX)
			break;
		f.cursor = q->last_id;
	}
	return err;
}

/* Gathers at most q->limit entries, in the order of the query. */
static int gather(struct request *r, struct log_query *q, struct error *e)
{
	int err;

	q->entries = json_array();
	if (!q->backward)
		add_console(q, fleet_of(r));
	err = add_events(r, q, e);
	if (q->backward && !is_full(q))
		add_console(q, fleet_of(r));
	while (json_array_size(q->entries) > q->limit)
		(void)json_array_remove(q->entries, json_array_size(q->entries) - 1); /* exists */
	return err;
}

static json_t *line_json(const json_t *entry)
{
	json_t *fields = json_object_get(entry, "fields");
	json_t *line = json_pack("{s:O, s:O, s:O}", "level", json_object_get(entry, "level"),
		"logger", json_object_get(fields, "logger"), "message",
		json_object_get(entry, "message"));
	_cleanup_free_ char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;

	json_decref(line);
	return json_pack("{s:O, s:s}", "timestamp", json_object_get(entry, "timestamp"), "line",
		text ? text : "{}");
}

void api_logs_v1(struct request *r)
{
	struct log_query q = {
		.limit = api_limit(r, LOGS_MAX, LOGS_MAX), .until_ns = STORE_NEVER_NS};
	json_t *lines, *entry;
	struct error e = {0};
	size_t n;

	if (!q.limit || !api_take_time(r, "start", NS_PER_MS, &q.since_ns) ||
		!api_find_logged(r, q.id))
		return;
	if (gather(r, &q, &e) < 0) {
		json_decref(q.entries);
		reply_failure(r, &e);
		return;
	}
	lines = json_array();
	json_array_foreach(q.entries, n, entry)(void)
		json_array_append_new(lines, line_json(entry));
	reply_json(r, 200, json_pack("{s:o, s:o}", "logs", lines, "logEntries", q.entries));
}

void api_logs_v2(struct request *r)
{
	struct log_query q = {
		.limit = api_limit(r, LOGS_MAX, LOGS_MAX), .until_ns = STORE_NEVER_NS};
	struct error e = {0};
	uint64_t cursor = 0;

	if (!q.limit || !api_take_time(r, "cursor", NS_PER_MS, &cursor) ||
		!take_level(r, &q.level) || !api_take_direction(r, &q.backward))
		return;
	if (!q.backward)
		q.since_ns = cursor;
	else if (cursor)
		q.until_ns = cursor;
	if (!api_take_query(r, "search", q.search, sizeof(q.search)) || !api_find_logged(r, q.id))
		return;
	if (gather(r, &q, &e) < 0) {
		json_decref(q.entries);
		reply_failure(r, &e);
		return;
	}
	reply_json(r, 200, json_pack("{s:o}", "logs", q.entries));
}
