/* Snapshots of sandboxes, and forks. A fork takes an unnamed snapshot, makes the children from it,
 * and removes it. The children keep links to the files that they need. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/auth.h"
#include "api/unplaced.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "fleet/events.h"
#include "fleet/fleet_of.h"
#include "fleet/instance.h"
#include "fleet/places.h"
#include "fleet/removal.h"
#include "http/reply.h"
#include "image/workdir.h"
#include "lifecycle/instance_make.h"
#include "lifecycle/instance_pause.h"
#include "proto/json_tree.h"
#include "proto/route.h"
#include "sandbox/stack.h"
#include "store/kept.h"
#include "store/keys.h"
#include "store/sandboxes.h"
#include "store/snapshots.h"

enum { FORK_MAX = 100, FORK_S = 15, QUERY_MAX = 512 };

/* --- names --- */

/* Its oldest name is its id for clients, so that further tags do not change that. */
static json_t *snapshot_json(struct store *s, const struct store_snapshot *sn)
{
	json_t *names = api_snapshot_names(s, sn);
	json_t *id = json_array_size(names) ? json_incref(json_array_get(names, 0))
					    : json_sprintf("%s:default", sn->id);

	return json_pack("{s:o, s:s, s:o, s:s, s:o, s:I, s:b, s:i, s:I, s:I}", "snapshotID", id,
		"templateID", sn->id, "names", names, "sandboxID", sn->sandbox_id, "createdAt",
		api_time(sn->created_ns), "sizeBytes", (json_int_t)sn->own_bytes, "memory",
		sn->memory, "cpuCount", (int)sn->cpus, "memoryMB",
		(json_int_t)(sn->memory_bytes >> 20), "diskSizeMB",
		(json_int_t)(sn->disk_bytes >> 20));
}

static void remove_files(struct fleet *f, const char *id)
{
	/* the next start removes a directory without a row */
	(void)workdir_remove(f->home.area_fd[HOME_SNAPSHOTS], id);
}

/* --- making a snapshot --- */

struct snapshotting {
	struct api_deferred *deferred;
	struct store_snapshot row;
	char tag[TEMPLATE_TAG_MAX + 1];
};

static struct store_snapshot new_row(const struct store_sandbox *sb, const struct template_ref *ref)
{
	struct store_snapshot sn = {
		.created_ns = clock_realtime_ns(),
		.cpus = sb->cpus,
		.memory_bytes = sb->memory_bytes,
		.disk_bytes = sb->disk_bytes,
	};

	/* all were checked against the same limits when they were stored */
	(void)snprintf(sn.key_id, sizeof(sn.key_id), "%s", sb->key_id);
	(void)snprintf(sn.sandbox_id, sizeof(sn.sandbox_id), "%s", sb->id);
	(void)snprintf(sn.template_id, sizeof(sn.template_id), "%s", sb->template_id);
	(void)snprintf(sn.template_alias, sizeof(sn.template_alias), "%s",
		sb->template_alias ? sb->template_alias : sb->template_id);
	(void)snprintf(sn.name, sizeof(sn.name), "%s", ref->name);
	return sn;
}

static int record(
	struct instance *i, const struct snapshotting *sn, uint64_t kept_bytes, struct error *e)
{
	const struct store_snapshot *row = &sn->row;
	struct fleet *f = i->fleet;
	int r = store_begin(f->store, e);

	if (r == 0)
		r = store_snapshot_insert(f->store, row, sn->tag, e);
	if (r == 0)
		r = store_kept_note_snapshot(f->store, row->id, kept_bytes, e);
	if (r == 0) {
		event_note(f, instance_id(i), instance_key_id(i), instance_template_id(i),
			STORE_EVENT_CHECKPOINTED, NULL);
		r = store_commit(f->store, e);
	}
	if (r < 0)
		store_rollback(f->store);
	return r;
}

static void on_snapshot(
	void *arg, struct instance *i, const struct backend_snapshot *done, const struct error *why)
{
	struct snapshotting *s = arg;
	struct request *r = api_deferred_take(s->deferred);
	struct fleet *f = i->fleet;
	struct error e = done ? (struct error){0} : *why;
	int err = done ? 0 : -EIO;

	if (done) {
		s->row.own_bytes = done->own_bytes;
		err = record(i, s, done->kept_bytes, &e);
		if (err < 0)
			remove_files(f, s->row.id);
		(void)fault_point("snapshot-recorded"); /* tests kill the daemon here and below */
	}
	if (r && err < 0)
		reply_failure(r, &e);
	else if (r)
		reply_json(r, 201, snapshot_json(f->store, &s->row));
	free(s);
}

/* Of a sandbox whose snapshot is being made. */
static void refuse_busy(struct request *r, const char *id, const char *done)
{
	reply_error(r, 409, "Sandbox '%s' cannot be %s while in 'snapshotting' state", id, done);
}

static void start_snapshot(
	struct request *r, struct instance *i, const struct store_snapshot *row, const char *tag)
{
	struct snapshotting *s = api_calloc(r, sizeof(*s));
	struct error e = {0};

	if (s)
		s->deferred = api_defer(r);
	if (!s || !s->deferred) { /* answered */
		free(s);
		return;
	}
	s->row = *row;
	(void)snprintf(s->tag, sizeof(s->tag), "%s", tag); /* fits */
	if (instance_snapshot(i, s->row.id, COPY_KEPT | (row->memory ? COPY_MEMORY : 0),
		    on_snapshot, s, &e) < 0) {
		(void)api_deferred_take(s->deferred); /* it is r */
		free(s);
		if (e.code == ERROR_BUSY)
			refuse_busy(r, instance_id(i), "snapshotted");
		else
			reply_failure(r, &e);
	}
}

/* The name is optional: without, ref->name is empty. */
static bool take_name(struct request *r, const json_t *body, struct template_ref *ref)
{
	const json_t *v = json_object_get(body, "name");
	const char *reason = "name must be a string";

	*ref = (struct template_ref){.tag = "default"};
	if (!v || json_is_null(v))
		return true;
	if (json_is_string(v) && template_ref_parse_new(json_string_value(v), ref, &reason) == 0)
		return api_check_namespace(r, ref);
	reply_error(r, 400, "Invalid name: %s", reason);
	return false;
}

/* Finds the client's running sandbox and its row. Returns NULL if it answered the request. */
static struct instance *find_source(
	struct request *r, const char *after, struct store_sandbox **ret)
{
	*ret = api_find(r);
	return *ret ? api_find_running_else(r, *ret, "Sandbox", after) : NULL;
}

static void take_snapshot(struct request *r, const char *text, size_t n)
{
	json_t *body = api_body(r, text, n);
	struct template_ref ref;
	bool memory = true;
	bool ok = body && take_name(r, body, &ref) && api_take_flag(r, body, "memory", &memory);
	struct store_sandbox *sb = NULL;
	struct instance *i =
		ok ? find_source(r, "cannot be snapshotted while in 'paused' state", &sb) : NULL;

	if (i && auth_may_keep(r, sb, true)) {
		struct store_snapshot row = new_row(sb, &ref);

		row.memory = memory;
		if (str_random_id(row.id, sizeof(row.id)) < 0)
			reply_error(r, 500, "no random numbers");
		else
			start_snapshot(r, i, &row, ref.tag);
	}
	store_sandbox_free(sb);
	json_decref(body);
}

void api_snapshot(struct request *r)
{
	request_collect(r, API_BODY_MAX, take_snapshot);
}

/* --- listing, deleting --- */

struct listing {
	struct store *store;
	json_t *list;
};

static int add_snapshot(void *arg, const struct store_snapshot *sn)
{
	const struct listing *l = arg;

	return json_array_append_new(l->list, snapshot_json(l->store, sn)) < 0 ? -ENOMEM : 0;
}

/* The filter `name`: NAME, or NAME:TAG. False: answered. */
static bool take_listed_name(
	struct request *r, struct template_ref *ref, struct store_snapshot_filter *f)
{
	char text[QUERY_MAX];
	const char *reason;

	if (!api_take_query(r, "name", text, sizeof(text)))
		return false;
	if (!*text)
		return true;
	if (template_ref_parse(text, ref, &reason) < 0) {
		reply_error(r, 400, "name: %s", reason);
		return false;
	}
	if (!api_check_namespace(r, ref))
		return false;
	f->name = ref->name;
	f->tag = ref->has_tag ? ref->tag : NULL;
	return true;
}

static bool take_filter(struct request *r, char sandbox[QUERY_MAX], char token[QUERY_MAX],
	struct template_ref *ref, struct store_snapshot_filter *f)
{
	f->key_id = auth_scope(r);
	f->limit = api_limit(r, API_PAGE_MAX, API_PAGE_MAX);
	if (!f->limit || !api_take_query(r, "sandboxID", sandbox, QUERY_MAX) ||
		!api_take_query(r, "nextToken", token, QUERY_MAX) || !take_listed_name(r, ref, f))
		return false;
	f->sandbox_id = *sandbox ? sandbox : NULL;
	f->token = token;
	return true;
}

void api_snapshots_list(struct request *r)
{
	char sandbox[QUERY_MAX], token[QUERY_MAX];
	char next[STORE_PAGE_TOKEN_BYTES] = "";
	struct store_snapshot_filter f = {0};
	struct template_ref ref;
	struct http_field field = {"X-Next-Token", next};
	struct listing l = {fleet_of(r)->store, NULL};
	struct error e = {0};

	if (!take_filter(r, sandbox, token, &ref, &f))
		return;
	l.list = json_array();
	if (store_snapshot_list(l.store, &f, add_snapshot, &l, next, &e) < 0) {
		json_decref(l.list);
		reply_failure(r, &e);
		return;
	}
	reply_json_fields(r, 200, l.list, &field, *next ? 1 : 0);
}

/* Frees the disk space in a worker. */
static void remove_later(struct fleet *f, const char *id)
{
	struct removal *m = removal_new(f, HOME_SNAPSHOTS, id);

	if (m)
		removal_start(m, NULL);
	else
		remove_files(f, id);
}

/* Only the operator deletes those of the operator: mayfly template rm. */
static void delete_template(struct request *r, const struct template_ref *ref)
{
	struct found_template t;
	struct error e = {0};
	int err = find_template(fleet_of(r), r->key->id, r->admin, ref, &t, &e);

	if (err == 0 && t.built && (t.mine || r->admin))
		api_catalog_delete(r, &t.row);
	else if (err == 0 && t.built)
		reply_error(r, 403, "you don't have access to template '%s'", ref->name);
	else if (err == 0 || e.code == ERROR_NOT_FOUND)
		reply_error(r, 404, "template '%.200s' not found", r->params[0]);
	else
		reply_failure(r, &e);
}

void api_template_delete(struct request *r)
{
	const char *reason = NULL;
	struct store_snapshot sn;
	struct template_ref ref;
	struct error e = {0};
	int err = template_ref_parse(r->params[0], &ref, &reason);

	if (err < 0) {
		reply_error(r, 400, "%s", reason);
		return;
	}
	if (!api_check_namespace(r, &ref))
		return;
	err = api_find_snapshot(r, &ref, &sn, &e);
	if (err == 0)
		err = store_snapshot_delete(fleet_of(r)->store, sn.id, &e);
	if (err == 0) {
		(void)fault_point("snapshot-deleted");
		remove_later(fleet_of(r), sn.id);
		reply_empty(r, 204);
	} else if (e.code == ERROR_NOT_FOUND) {
		delete_template(r, &ref);
	} else {
		reply_failure(r, &e);
	}
}

/* --- forking --- */

struct fork {
	struct api_deferred *deferred;
	struct fleet *fleet;
	struct store_sandbox *parent; /* as it was; anew when the snapshot is made */
	char id[STORE_SNAPSHOT_ID_BYTES];
	uint64_t timeout_ns;
	unsigned count, reported, ready;
	struct sandbox_sizes max; /* the key's limits */
	struct instance_places places;
	struct instance *children[FORK_MAX];
	struct error why; /* the first failure */
};

static void fork_free(struct fork *f)
{
	places_give_back(f->fleet, &f->places);
	store_sandbox_free(f->parent);
	free(f);
}

static json_t *children_json(const struct request *r, const struct fork *f)
{
	json_t *list = json_array();

	for (unsigned n = 0; n < f->count; n++) {
		struct store_sandbox *sb = NULL;

		/* a child that died at once is still an answer */
		if (store_sandbox_get(fleet_of(r)->store, instance_id(f->children[n]), &sb, NULL) ==
			0)
			(void)json_array_append_new(
				list, json_pack("{s:o}", "sandbox", api_sandbox_json(r, sb)));
		store_sandbox_free(sb);
	}
	return list;
}

static void drop_all(struct fork *f)
{
	for (unsigned n = 0; n < f->ready; n++)
		instance_drop(f->children[n]);
}

/* Finishes when all children have reported. */
static void finish_fork(struct fork *f)
{
	struct request *r = api_deferred_take(f->deferred);
	struct fleet *fleet = f->fleet;

	(void)fault_point("fork-made");
	remove_later(fleet, f->id);
	if (f->ready < f->count || !r ||
		instances_admit(fleet, f->children, f->count, NULL, NULL, &f->why) < 0) {
		drop_all(f);
		if (r)
			api_reply_unplaced(r, &f->why);
	} else {
		(void)fault_point("fork-admitted");
		event_note(fleet, f->parent->id, f->parent->key_id, f->parent->template_id,
			STORE_EVENT_FORKED, NULL);
		reply_json(r, 201, children_json(r, f));
	}
	fork_free(f);
}

static void on_child(void *arg, struct instance *i, const struct error *why)
{
	struct fork *f = arg;

	if (i)
		f->children[f->ready++] = i;
	else if (f->why.code == ERROR_NONE)
		f->why = *why;
	if (++f->reported == f->count)
		finish_fork(f);
}

/* Makes the children like the parent, but with their own tokens. */
static void make_children(struct fork *f, int origin_fd)
{
	const struct store_sandbox *p = f->parent;
	const struct sandbox_origin origin = {.fd = origin_fd, .memory = true};
	json_t *iam = json_tree_stored(p->iam_json);
	json_t *files = instance_files_outside(p);
	char shown_id[STORE_SNAPSHOT_ID_BYTES];
	struct instance_order o = {
		.origin = &origin,
		.hold = true,
		.places = &f->places,
		.key_id = p->key_id,
		.template = p->template_alias ? p->template_alias : p->template_id,
		.template_id = p->template_id,
		.build_id = p->build_id,
		.cpus = p->cpus,
		.memory_bytes = p->memory_bytes,
		.disk_bytes = p->disk_bytes,
		.max = f->max,
		.timeout_ns = f->timeout_ns,
		.secure = p->secure,
		.auto_pause = p->auto_pause,
		.auto_pause_memory = p->auto_pause_memory,
		.auto_resume = p->auto_resume,
		.metadata = json_tree_stored(p->metadata_json),
		.env = json_tree_stored(p->env_json),
		.network = json_tree_stored(p->network_json),
		.internet = p->internet,
		.network_generation = p->network_generation,
		.network_names_json = p->network_names_json,
		.secrets = json_tree_stored(p->secrets_json),
		.iam = iam,
		.files_outside = files,
		.authority = p->authority,
		.public_traffic = p->traffic_token == NULL,
	};
	unsigned count = f->count;

	instance_snapshot_of(p, shown_id);
	o.shown_id = *shown_id ? shown_id : NULL;
	for (unsigned n = 0; n < count; n++) {
		struct instance_maker *ignored; /* all or none, so none is cancelled */
		struct error e = f->why;

		/* after one was refused, the rest need not begin */
		if (e.code != ERROR_NONE ||
			instances_make(f->fleet, &o, on_child, f, &ignored, &e) < 0)
			on_child(f, NULL, &e);
	}
	json_decref(o.metadata);
	json_decref(o.env);
	json_decref(o.network);
	json_decref(o.secrets);
	json_decref(iam);
	json_decref(files);
}

/* Its network may have been changed while the snapshot was made. */
static int read_parent(struct fork *f, struct error *e)
{
	struct store_sandbox *sb = NULL;
	int r = store_sandbox_get(f->fleet->store, f->parent->id, &sb, e);

	if (r < 0)
		return r;
	f->places.key_id = sb->key_id;
	store_sandbox_free(f->parent);
	f->parent = sb;
	return 0;
}

static void on_fork_snapshot(
	void *arg, struct instance *i, const struct backend_snapshot *done, const struct error *why)
{
	struct fork *f = arg;
	_cleanup_close_ int fd = -1;
	struct error e = {0};

	if (done && read_parent(f, &e) == 0)
		fd = stack_open(f->fleet->home.area_fd[HOME_SNAPSHOTS], f->id, false, &e);
	if (fd >= 0) {
		make_children(f, fd);
		return;
	}
	f->why = done ? e : *why;
	f->reported = f->count;
	finish_fork(f);
}

static void start_fork(
	struct request *r, struct instance *i, struct store_sandbox *sb, unsigned count, int64_t s)
{
	struct fork *f = api_calloc(r, sizeof(*f));
	struct error e = {0};

	if (f)
		f->deferred = api_defer(r);
	if (!f || !f->deferred) { /* answered */
		free(f);
		store_sandbox_free(sb);
		return;
	}
	f->fleet = fleet_of(r);
	f->parent = sb;
	f->count = count;
	f->timeout_ns = (uint64_t)s * NS_PER_S;
	f->max = auth_sizes_max(r);
	f->places = (struct instance_places){.key_id = sb->key_id,
		.sizes = {sb->cpus, sb->memory_bytes, sb->disk_bytes},
		.count = count};
	/* takes all places before anything is made */
	if (places_reserve(fleet_of(r), &f->places, &e) < 0 ||
		str_random_id(f->id, sizeof(f->id)) < 0 ||
		instance_snapshot(i, f->id, COPY_MEMORY, on_fork_snapshot, f, &e) < 0) {
		(void)api_deferred_take(f->deferred); /* it is r */
		if (e.code == ERROR_NONE)
			(void)error_set(&e, ERROR_INTERNAL, EIO, "no random numbers");
		if (e.code == ERROR_BUSY)
			refuse_busy(r, instance_id(i), "forked");
		else
			reply_failure(r, &e);
		fork_free(f);
	}
}

static bool take_count(struct request *r, const json_t *body, unsigned *ret)
{
	int64_t count = 1;

	if (api_integer(body, "count", &count) == -EINVAL || count < 1 || count > FORK_MAX) {
		if (count > FORK_MAX)
			reply_error(r, 400, "Count cannot be greater than %d", FORK_MAX);
		else
			reply_error(r, 400, "Count must be at least 1");
		return false;
	}
	*ret = (unsigned)count;
	return true;
}

static void take_fork(struct request *r, const char *text, size_t n)
{
	json_t *body = api_body(r, text, n);
	int64_t s = FORK_S;
	unsigned count = 1;
	bool ok =
		body && api_take_life(r, body, "timeout", false, &s) && take_count(r, body, &count);
	struct store_sandbox *sb = NULL;
	struct instance *i =
		ok ? find_source(r, "is paused and cannot be forked; resume it first", &sb) : NULL;

	json_decref(body);
	if (i && (!sb->auto_pause || auth_may_promise(r, sb->key_id, count)) &&
		auth_may_create(r, count))
		start_fork(r, i, sb, count, s);
	else
		store_sandbox_free(sb);
}

void api_fork(struct request *r)
{
	request_collect(r, API_BODY_MAX, take_fork);
}
