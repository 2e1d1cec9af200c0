/* Single sandboxes and lists of them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/auth.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "fleet/deadline.h"
#include "fleet/events.h"
#include "fleet/fleet_of.h"
#include "fleet/instance.h"
#include "http/reply.h"
#include "lifecycle/allowance.h"
#include "lifecycle/instance_end.h"
#include "lifecycle/instance_pause.h"
#include "proto/json_tree.h"
#include "proto/proto_json.h"
#include "proto/timestamp.h"
#include "store/keys.h"
#include "store/sandboxes.h"

#define MIB (UINT64_C(1) << 20)

enum { QUERY_MAX = 4096, REFRESH_S = 15, S_PER_HOUR = 3600 };

static bool is_shown_running(const struct store_sandbox *sb)
{
	return sb->state == STORE_RUNNING || sb->state == STORE_SNAPSHOTTING;
}

bool api_is_unresponsive(const struct store_sandbox *sb)
{
	json_t *extra = sb->state == STORE_PAUSED ? json_tree_stored(sb->extra_json) : NULL;
	bool yes = json_is_true(json_object_get(extra, STORE_EXTRA_UNRESPONSIVE));

	json_decref(extra);
	return yes;
}

/* The fields that every client with access sees. */
static json_t *described(const struct store_sandbox *sb)
{
	json_t *root = json_pack("{s:o, s:s, s:s, s:s, s:o, s:o, s:i, s:I, s:I, s:s}", "templateID",
		api_template_id_json(sb), "sandboxID", sb->id, "clientID", API_CLIENT_ID,
		"envdVersion", sb->envd_version, "startedAt", api_time(sb->started_ns), "endAt",
		api_time(sb->end_ns), "cpuCount", (int)sb->cpus, "memoryMB",
		(json_int_t)(sb->memory_bytes / MIB), "diskSizeMB",
		(json_int_t)(sb->disk_bytes / MIB), "state",
		is_shown_running(sb) ? "running" : "paused");

	/* fields that cannot be added are optional */
	if (sb->template_alias)
		(void)json_object_set_new(root, "alias", json_string(sb->template_alias));
	if (api_is_unresponsive(sb))
		(void)json_object_set_new(root, "envdUnresponsiveAtPause", json_true());
	return root;
}

/* Appends the object, of which it takes ownership, and adds the metadata as stored text: parsing
 * and rewriting it would take a hundred times as long. Returns 0, -ENOMEM or -EMSGSIZE. */
static int write_sandbox(struct buf *out, json_t *root, const struct store_sandbox *sb)
{
	int r = root ? proto_json_dump(root, out) : -ENOMEM;

	json_decref(root);
	if (r < 0 || !sb->metadata_json)
		return r;
	out->end--; /* removes the closing brace, which is added again below */
	r = buf_add_str(out, ",\"metadata\":");
	if (r == 0)
		r = buf_add_str(out, sb->metadata_json);
	return r == 0 ? buf_add_u8(out, '}') : r;
}

/* The fields that a single sandbox and a list entry share. The operator also sees the key; other
 * clients only see sandboxes of their own key. */
static json_t *described_to(const struct request *r, const struct store_sandbox *sb)
{
	_cleanup_(store_key_freep) struct store_key *key = NULL;
	json_t *root = described(sb);

	if (!r->admin)
		return root;
	/* optional here as well */
	(void)json_object_set_new(root, "keyID", json_string(sb->key_id));
	if (store_key_get(fleet_of(r)->store, sb->key_id, &key, NULL) == 0)
		(void)json_object_set_new(root, "keyName", json_string(key->name));
	return root;
}

static json_t *detailed(const struct request *r, const struct store_sandbox *sb)
{
	json_t *root = described_to(r, sb), *network, *floors, *policy, *files;

	if (sb->envd_token)
		(void)json_object_set_new(root, "envdAccessToken", json_string(sb->envd_token));
	(void)json_object_set_new(
		root, "domain", request_domain(r) ? json_string(request_domain(r)) : json_null());
	(void)json_object_set_new(root, "lifecycle",
		json_pack("{s:s, s:b}", "onTimeout", sb->auto_pause ? "pause" : "kill",
			"autoResume", sb->auto_resume));
	if (sb->state == STORE_PAUSED)
		(void)json_object_set_new(
			root, "pauseMode", json_string(sb->pause_memory ? "full" : "filesystem"));
	if (sb->internet != STORE_INTERNET_UNSAID)
		(void)json_object_set_new(root, "allowInternetAccess",
			json_boolean(sb->internet == STORE_INTERNET_ALLOWED));
	network = api_network_json(sb);
	if (network)
		(void)json_object_set_new(root, "network", network);
	floors = api_network_floors_json(r, sb);
	if (floors)
		(void)json_object_set_new(root, "networkFloors", floors);
	policy = api_policy_json(sb);
	if (policy)
		(void)json_object_set_new(root, "policy", policy);
	if (sb->secrets_json)
		(void)json_object_set_new(root, "secrets", json_tree_stored(sb->secrets_json));
	files = instance_files_outside(sb);
	if (files)
		(void)json_object_set_new(root, "recordFilesOutside", files);
	if (sb->iam_json)
		(void)json_object_set_new(root, "iam", json_tree_stored(sb->iam_json));
	return root;
}

void api_get(struct request *r)
{
	struct store_sandbox *sb = api_find(r);

	_cleanup_(buf_done) struct buf text = BUF_INIT(API_LIST_BYTES_MAX);

	if (sb && write_sandbox(&text, detailed(r, sb), sb) < 0)
		reply_error(r, 503, "out of memory");
	else if (sb)
		reply_json_text(r, 200, buf_head(&text), buf_len(&text));
	store_sandbox_free(sb);
}

/* --- lists --- */

struct listing {
	const struct request *request;
	struct buf *text;
};

static int add_listed(void *arg, const struct store_sandbox *sb)
{
	struct listing *l = arg;
	int r = buf_len(l->text) > 1 ? buf_add_u8(l->text, ',') : 0;

	return r == 0 ? write_sandbox(l->text, described_to(l->request, sb), sb) : r;
}

/* Parses the filter into pairs, which borrow from it. False: answered. */
static bool take_metadata(struct request *r, struct uri_filter *filter,
	struct store_pair pairs[URI_FILTER_MAX], struct store_sandbox_filter *f)
{
	_cleanup_free_ char *value = NULL;
	int err = uri_query_dup(r->head->query, "metadata", &value);

	if (err == 0)
		err = uri_filter_parse(value, filter);
	if (err == -ENOENT)
		return true;
	if (err < 0 || filter->count > STORE_FILTER_PAIRS_MAX) {
		reply_error(r, 400, "Error parsing metadata: at most %d encoded pairs are possible",
			STORE_FILTER_PAIRS_MAX);
		return false;
	}
	for (unsigned i = 0; i < filter->count; i++)
		pairs[i] = (struct store_pair){filter->pairs[i].key, filter->pairs[i].value};
	f->metadata = pairs;
	f->metadata_count = filter->count;
	return true;
}

static bool take_states(struct request *r, struct store_sandbox_filter *f)
{
	static const uint32_t running = STORE_STATE_BIT(STORE_RUNNING) |
					STORE_STATE_BIT(STORE_SNAPSHOTTING),
			      paused = STORE_STATE_BIT(STORE_PAUSED) |
				       STORE_STATE_BIT(STORE_PAUSING);
	char value[64], *save = NULL;
	int err = uri_query_get(r->head->query, "state", value, sizeof(value));

	f->states = 0;
	if (err >= 0)
		for (char *s = strtok_r(value, ",", &save); s; s = strtok_r(NULL, ",", &save)) {
			uint32_t bits = strcmp(s, "running") == 0  ? running
					: strcmp(s, "paused") == 0 ? paused
								   : 0;

			if (!bits)
				err = -EINVAL;
			f->states |= bits;
		}
	if (err < 0 && err != -ENOENT) {
		reply_error(r, 400, "state must be running, paused or both with a comma");
		return false;
	}
	if (!f->states)
		f->states = running | paused;
	return true;
}

static bool take_order(struct request *r, struct store_sandbox_filter *f)
{
	char value[16];
	int err = uri_query_get(r->head->query, "order", value, sizeof(value));

	f->ascending = err >= 0 && strcmp(value, "asc") == 0;
	if (err == -ENOENT || f->ascending || (err >= 0 && strcmp(value, "desc") == 0))
		return true;
	reply_error(r, 400, "order must be asc or desc");
	return false;
}

/* Makes a name with a team the id of its template. False: there is none. */
static bool resolve_team(const struct request *r, struct template_ref *ref)
{
	struct found_template t;

	if (!*ref->namespace)
		return true;
	if (find_template(fleet_of(r), r->key->id, r->admin, ref, &t, NULL) < 0)
		return false;
	memcpy(ref->name, t.row.id, sizeof(t.row.id));
	return true;
}

/* *ret_none: no sandbox can match. */
static bool take_template(struct request *r, char text[QUERY_MAX], struct template_ref *ref,
	struct store_sandbox_filter *f, bool *ret_none)
{
	const char *reason = "template is too long";
	int err = uri_query_get(r->head->query, "template", text, QUERY_MAX);

	if (err == -ENOENT)
		return true;
	if (err < 0 || template_ref_parse(text, ref, &reason) < 0) {
		reply_error(r, 400, "template: %s", reason);
		return false;
	}
	if (ref->has_tag) {
		reply_error(r, 400, "template must be given without a tag");
		return false;
	}
	*ret_none = !resolve_team(r, ref);
	f->template = ref->name;
	return true;
}

static bool take_started(struct request *r, struct store_sandbox_filter *f)
{
	char value[64];
	int err = uri_query_get(r->head->query, "startedAfter", value, sizeof(value));
	struct timestamp t;

	if (err == -ENOENT)
		return true;
	if (err < 0 || timestamp_parse(value, &t) < 0) {
		reply_error(r, 400, "startedAfter must be a time such as 2026-01-31T12:00:00Z");
		return false;
	}
	if (t.s >= (int64_t)(STORE_NEVER_NS / NS_PER_S))
		f->started_after_ns = STORE_NEVER_NS;
	else
		f->started_after_ns = t.s <= 0 ? 0 : (uint64_t)t.s * NS_PER_S + t.ns;
	return true;
}

/* count: what X-Total-Running is of, or NULL. */
static void send_list(struct request *r, const struct buf *text, const char *next,
	const struct store_sandbox_filter *count)
{
	struct http_field fields[2];
	size_t n = 0;
	char total[24];
	uint64_t running = 0;

	if (*next)
		fields[n++] = (struct http_field){"X-Next-Token", next};
	/* the list is right even without the count */
	if (count && store_sandbox_count_running(fleet_of(r)->store, count, &running, NULL) == 0) {
		(void)snprintf(total, sizeof(total), "%llu", (unsigned long long)running);
		fields[n++] = (struct http_field){"X-Total-Running", total};
	}
	reply_json_text_fields(r, 200, buf_head(text), buf_len(text), fields, n);
}

static void list(struct request *r, const struct store_sandbox_filter *f, bool paged)
{
	char next[STORE_PAGE_TOKEN_BYTES] = "";
	_cleanup_(buf_done) struct buf text = BUF_INIT(API_LIST_BYTES_MAX);
	struct listing l = {r, &text};
	struct error e = {0};
	int err = buf_add_u8(&text, '[');

	if (err == 0)
		err = store_sandbox_list(fleet_of(r)->store, f, add_listed, &l, next, &e);
	if (err == 0)
		err = buf_add_u8(&text, ']');
	if (err == -EMSGSIZE)
		(void)error_set(&e, ERROR_LIMIT, EMSGSIZE,
			"the list is longer than %d MiB: ask for it page by page, with limit",
			API_LIST_BYTES_MAX >> 20);
	else if (err < 0 && e.code == ERROR_NONE)
		(void)error_set(&e, ERROR_INTERNAL, -err, "out of memory");
	if (err < 0) {
		reply_failure(r, &e);
		return;
	}
	send_list(r, &text, paged ? next : "",
		paged && (f->states & STORE_STATE_BIT(STORE_RUNNING)) ? f : NULL);
}

void api_list_v1(struct request *r)
{
	struct store_sandbox_filter f = {
		.key_id = auth_scope(r),
		.states = STORE_STATE_BIT(STORE_RUNNING) | STORE_STATE_BIT(STORE_SNAPSHOTTING),
		.limit = STORE_LIST_MAX,
	};
	struct store_pair pairs[URI_FILTER_MAX];
	struct uri_filter filter;

	if (take_metadata(r, &filter, pairs, &f))
		list(r, &f, false);
}

void api_list_v2(struct request *r)
{
	struct store_sandbox_filter f = {.key_id = auth_scope(r)};
	struct store_pair pairs[URI_FILTER_MAX];
	struct uri_filter filter;
	struct template_ref ref;
	char token[QUERY_MAX], template[QUERY_MAX];
	bool none = false;

	if (!take_metadata(r, &filter, pairs, &f) || !take_states(r, &f) || !take_order(r, &f) ||
		!take_template(r, template, &ref, &f, &none) || !take_started(r, &f))
		return;
	f.limit = api_limit(r, API_PAGE_MAX, API_PAGE_MAX);
	if (!f.limit || !api_take_query(r, "nextToken", token, sizeof(token)))
		return;
	f.token = token;
	if (none)
		reply_json(r, 200, json_array());
	else
		list(r, &f, true);
}

/* --- changing a sandbox --- */

/* A kill that waits for a sandbox on its way between two states. */
struct waiting_kill {
	struct request *request;
	struct instance_waiter waiter;
};

static void on_kill_done(struct request *r, bool complete)
{
	struct waiting_kill *w = r->data;

	instance_unwait(fleet_of(r), &w->waiter);
	free(w);
}

static const struct request_ops kill_ops = {.done = on_kill_done};

static void on_kill_settled(void *arg, const struct error *why)
{
	struct waiting_kill *w = arg;
	struct request *r = w->request;

	free(w);
	request_set_ops(r, NULL, NULL);
	api_kill(r);
}

static void kill_later(struct request *r, struct instance *i)
{
	struct waiting_kill *w = api_calloc(r, sizeof(*w));

	if (!w)
		return;
	w->request = r;
	w->waiter = (struct instance_waiter){.settled = on_kill_settled, .arg = w};
	request_set_ops(r, &kill_ops, w);
	instance_wait(i, &w->waiter);
}

static void kill_now(struct request *r, struct instance *i, const struct store_sandbox *sb)
{
	struct error e = {0};
	int err = i ? instance_end(i, STORE_EVENT_KILLED, &e)
		    : instance_kill_paused(fleet_of(r), sb, &e);

	if (err < 0)
		reply_failure(r, &e);
	else
		reply_empty(r, 204);
	if (i && err == 0)
		i->told = true;
}

void api_kill(struct request *r)
{
	struct store_sandbox *sb = api_find(r);
	struct instance *unsettled = sb ? instance_find_unsettled(fleet_of(r), sb->id) : NULL;

	if (unsettled)
		kill_later(r, unsettled);
	else if (sb)
		kill_now(r, instance_find(fleet_of(r), sb->id), sb);
	store_sandbox_free(sb);
}

/* Sets the deadline and notes it in one commit. */
static int write_end(
	struct fleet *f, const struct store_sandbox *sb, uint64_t end_ns, struct error *e)
{
	int r = store_begin(f->store, e);

	if (r == 0)
		r = store_sandbox_set_end(f->store, sb->id, end_ns, e);
	if (r == 0) {
		event_note_end(f, sb, end_ns);
		r = store_commit(f->store, e);
	}
	if (r < 0)
		store_rollback(f->store);
	return r;
}

/* Sets the deadline; if it cannot, answers and returns false. */
static bool set_end(struct request *r, const struct store_sandbox *sb, uint64_t end_ns)
{
	struct error e = {0};
	int err;

	end_ns = allowance_clamp(fleet_of(r), sb->key_id, end_ns);
	err = write_end(fleet_of(r), sb, end_ns, &e);

	if (err == -EBUSY && sb->state == STORE_PAUSED)
		api_refuse_absent(r);
	else if (err == -EBUSY)
		reply_error(r, 409, "Sandbox \"%s\" is being %s", sb->id,
			sb->state == STORE_PAUSING ? "paused" : "killed");
	else if (err < 0)
		reply_failure(r, &e);
	if (err < 0)
		return false;
	deadline_changed(fleet_of(r));
	return true;
}

static void refuse_timeout(struct request *r)
{
	unsigned long long max_s = auth_timeout_max_ns(r) / NS_PER_S;

	if (max_s % S_PER_HOUR == 0)
		reply_error(
			r, 400, "Timeout cannot be greater than %llu hours", max_s / S_PER_HOUR);
	else
		reply_error(r, 400, "Timeout cannot be greater than %llu seconds", max_s);
}

bool api_take_seconds(
	struct request *r, const json_t *body, const char *key, bool required, int64_t *ret_s)
{
	uint64_t max_s = auth_timeout_max_ns(r) / NS_PER_S;
	int err = api_integer(body, key, ret_s);

	if (err == -EINVAL || (err == -ENOENT && required) || *ret_s > INT32_MAX) {
		reply_error(r, 400, "%s must be a number of seconds", key);
		return false;
	}
	if (*ret_s < 0) {
		reply_error(r, 400, "validation error: %s must be at least 0", key);
		return false;
	}
	if ((uint64_t)*ret_s > max_s) {
		refuse_timeout(r);
		return false;
	}
	return true;
}

bool api_take_life(
	struct request *r, const json_t *body, const char *key, bool required, int64_t *ret_s)
{
	if (!api_take_seconds(r, body, key, required, ret_s))
		return false;
	if (*ret_s > 0)
		return true;
	reply_error(r, 400, "Timeout must be greater than 0");
	return false;
}

/* api_take_seconds() from an unparsed body. */
static bool take_seconds(struct request *r, const char *text, size_t n, const char *key,
	bool required, int64_t *ret_s)
{
	json_t *body = api_body(r, text, n);
	bool ok = body && api_take_seconds(r, body, key, required, ret_s);

	json_decref(body);
	return ok;
}

static void take_timeout(struct request *r, const char *body, size_t n)
{
	struct store_sandbox *sb;
	int64_t s = 0;

	if (!take_seconds(r, body, n, "timeout", true, &s))
		return;
	sb = api_find(r);
	if (sb && set_end(r, sb, clock_realtime_ns() + (uint64_t)s * NS_PER_S))
		reply_empty(r, 204);
	store_sandbox_free(sb);
}

void api_timeout(struct request *r)
{
	request_collect(r, API_BODY_MAX, take_timeout);
}

bool api_extend(struct request *r, struct store_sandbox *sb, int64_t s)
{
	uint64_t end = clock_realtime_ns() + (uint64_t)s * NS_PER_S;

	if (end > sb->end_ns) {
		if (!set_end(r, sb, end))
			return false;
		sb->end_ns = end;
	}
	return true;
}

static void take_refresh(struct request *r, const char *body, size_t n)
{
	struct store_sandbox *sb;
	int64_t s = REFRESH_S;

	if (!take_seconds(r, body, n, "duration", false, &s))
		return;
	sb = api_find(r);
	if (sb && api_extend(r, sb, s < REFRESH_S ? REFRESH_S : s))
		reply_empty(r, 204);
	store_sandbox_free(sb);
}

void api_refresh(struct request *r)
{
	request_collect(r, API_BODY_MAX, take_refresh);
}
