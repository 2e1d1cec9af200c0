/* Templates: the operator's, and those that clients built (api_catalog.h). The operator's are read
 * from files; the store has their ids and counts. A name works wherever an id does. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "api/api.h"
#include "api/auth.h"
#include "api/template/api_catalog.h"
#include "api/template/build_json.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "image/template.h"
#include "store/catalog.h"
#include "store/keys.h"
#include "store/snapshots.h"
#include "store/templates.h"

/* Data from a template's files. */
struct entry {
	char *name, *description; /* owned */
	uint64_t made_s;
	uint32_t cpus, memory_mb, disk_mb;
};

static int fill_entry(struct entry *m, const struct template *t)
{
	*m = (struct entry){
		.name = strdup(t->name),
		.description = strdup(t->config.description ? t->config.description : ""),
		.made_s = t->created_s,
		.cpus = t->config.cpus,
		.memory_mb = t->config.memory_mb,
		.disk_mb = t->config.disk_mb,
	};
	return m->name && m->description ? 0 : -ENOMEM;
}

static void entry_done(struct entry *m)
{
	free(m->name);
	free(m->description);
}

static json_t *common_json(const struct entry *m, const struct store_template *row)
{
	json_t *time = api_time(m->made_s * NS_PER_S);

	return json_pack("{s:s, s:[s], s:[s], s:b, s:O, s:o, s:o, s:I}", "templateID", row->id,
		"names", m->name, "aliases", m->name, "public", 1, "createdAt", time, "updatedAt",
		time, "lastSpawnedAt",
		row->last_spawned_ns ? api_time(row->last_spawned_ns) : json_null(), "spawnCount",
		(json_int_t)row->spawn_count);
}

static json_t *sizes_json(const struct entry *m, const struct store_template *row)
{
	return json_pack("{s:s, s:i, s:i, s:i, s:s}", "buildID", row->build_id, "cpuCount",
		(int)m->cpus, "memoryMB", (int)m->memory_mb, "diskSizeMB", (int)m->disk_mb,
		"envdVersion", INSTANCE_ENVD_VERSION);
}

/* Takes ownership of both. */
static json_t *join(json_t *a, json_t *b)
{
	if (!a || !b || json_object_update(a, b) < 0) {
		json_decref(a);
		a = NULL;
	}
	json_decref(b);
	return a;
}

/* Whether it is a template that every E2B server has. */
static bool is_default(const char *name)
{
	static const char *const names[] = {"base", "code-interpreter-v1"};

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static json_t *template_json(const struct entry *m, const struct store_template *row)
{
	json_t *more = json_pack("{s:s, s:I, s:n, s:b}", "buildStatus", "ready", "buildCount",
		(json_int_t)row->build_count, "createdBy", "isDefault", is_default(m->name));

	if (more && *m->description) /* if it does not fit, it is left out */
		(void)json_object_set_new(more, "description", json_string(m->description));
	return join(join(common_json(m, row), sizes_json(m, row)), more);
}

static json_t *detail_json(const struct entry *m, const struct store_template *row)
{
	json_t *time = api_time(m->made_s * NS_PER_S);
	json_t *build = json_pack("{s:s, s:O, s:O, s:o}", "status", "ready", "createdAt", time,
		"updatedAt", time, "finishedAt", time);

	build = join(build, sizes_json(m, row));
	return join(template_json(m, row), build ? json_pack("{s:[o]}", "builds", build) : NULL);
}

/* --- the list: the operator's are read in a worker, since each template is a file --- */

enum { UNPAGED_MAX = 5000, TOKEN_BYTES = STORE_NAME_MAX + STORE_TEMPLATE_ID_BYTES + 2 };

/* One template of a list. Lists are sorted by name. Of equal names the operator's comes first, and
 * clients' templates follow by id. */
struct item {
	char *order;		   /* owned */
	const struct entry *entry; /* the operator's, or NULL */
	struct store_catalog built;
};

struct listing {
	uv_work_t work;
	struct fleet *fleet;
	struct request *request; /* NULL: the client has gone */
	struct entry *entries;	 /* owned; the operator's */
	struct item *items;	 /* owned; all that are wanted */
	uint32_t limit;		 /* 0: all */
	bool defaults;		 /* only default templates */
	char after[TOKEN_BYTES]; /* order of the last on the previous page */
	size_t count, item_count;
	int result;
	struct error why;
};

/* Builds of clients have names that are UUIDs. */
static int add_template(void *arg, const struct template *t, const struct error *damage)
{
	struct listing *l = arg;
	struct entry *p;

	if (damage || route_is_uuid(t->name))
		return 0; /* mayfly template ls shows damage */
	p = realloc(l->entries, (l->count + 1) * sizeof(*p));
	if (!p)
		return -ENOMEM;
	l->entries = p;
	return fill_entry(&p[l->count++], t);
}

static void list_work(uv_work_t *w)
{
	struct listing *l = w->data;

	l->result = template_each(&l->fleet->home, add_template, l, &l->why);
}

static int add_item(struct listing *l, const struct entry *entry, const struct store_catalog *built)
{
	struct item *more = array_grow(l->items, l->item_count, sizeof(*more));
	char *order =
		str_printf("%s:%s", entry ? entry->name : built->name, entry ? "" : built->id);

	if (more)
		l->items = more;
	if (!more || !order) {
		free(order);
		return -ENOMEM;
	}
	if (strcmp(order, l->after) <= 0) {
		free(order);
		return 0;
	}
	more[l->item_count++] = (struct item){.order = order, .entry = entry};
	if (built)
		more[l->item_count - 1].built = *built;
	return 0;
}

static int add_built(void *arg, const struct store_catalog *c)
{
	return add_item(arg, NULL, c);
}

static int by_order(const void *a, const void *b)
{
	return strcmp(((const struct item *)a)->order, ((const struct item *)b)->order);
}

static int gather(struct listing *l, struct error *e)
{
	int r = l->result;

	for (size_t i = 0; r == 0 && i < l->count; i++)
		if (!l->defaults || is_default(l->entries[i].name))
			r = add_item(l, &l->entries[i], NULL);
	if (r == 0 && !l->defaults)
		r = store_catalog_list(l->fleet->store, auth_scope(l->request), add_built, l, e);
	if (l->item_count)
		qsort(l->items, l->item_count, sizeof(*l->items), by_order);
	return r;
}

static int add_json(struct listing *l, const struct item *i, json_t *list, struct error *e)
{
	struct store_template row;
	int r = 0;

	if (i->entry)
		r = store_template_see(l->fleet->store, i->entry->name, i->entry->made_s, &row, e);
	if (r < 0)
		return r;
	return json_array_append_new(list, i->entry ? template_json(i->entry, &row)
						    : api_catalog_json(l->fleet, &i->built)) < 0
		       ? -ENOMEM
		       : 0;
}

/* Takes ownership of list on success. */
static int send_templates(struct listing *l, json_t *list, struct error *e)
{
	size_t count = l->item_count;
	bool more = l->limit && count > l->limit;
	struct http_field next = {"X-Next-Token", NULL};
	int r = 0;

	if (more) {
		count = l->limit;
		next.value = l->items[count - 1].order;
	}
	for (size_t i = 0; i < count && r == 0; i++)
		r = add_json(l, &l->items[i], list, e);
	if (r == 0)
		reply_json_fields(l->request, 200, list, &next, more);
	return r;
}

static void reply_listing(struct listing *l)
{
	json_t *list = json_array();
	int r = gather(l, &l->why);

	if (r == 0 && !l->limit && l->item_count > UNPAGED_MAX) {
		json_decref(list); /* as in the original */
		reply_error(l->request, 400,
			"there are more than %d templates: use GET /v2/templates", UNPAGED_MAX);
		return;
	}
	if (r == 0)
		r = send_templates(l, list, &l->why);
	if (r == 0)
		return;
	json_decref(list);
	(void)error_set(&l->why, ERROR_INTERNAL, ENOMEM, "out of memory"); /* unless already set */
	reply_failure(l->request, &l->why);
}

static void list_done(uv_work_t *w, int status)
{
	struct listing *l = w->data;

	if (l->request) {
		l->request->data = NULL;
		reply_listing(l);
	}
	for (size_t i = 0; i < l->count; i++)
		entry_done(&l->entries[i]);
	for (size_t i = 0; i < l->item_count; i++)
		free(l->items[i].order);
	free(l->items);
	free(l->entries);
	free(l);
}

static void on_done(struct request *r, bool complete)
{
	struct listing *l = r->data;

	if (l)
		l->request = NULL;
}

/* Events and webhooks call the key's id a team's. */
static bool is_own_team(const struct request *r, const char *team)
{
	return strcmp(team, r->key->id) == 0 ||
	       store_team_is(fleet_of(r)->store, r->key->team_id, team);
}

/* Clients may say their team; the operator sees the templates of all. */
static bool check_team(struct request *r)
{
	char team[STORE_NAME_MAX + 1];
	int n = uri_query_get(r->head->query, "teamID", team, sizeof(team));

	if (n == -ENOENT || n == 0 || r->admin || (n > 0 && is_own_team(r, team)))
		return true;
	reply_error(r, 400, "Team ID param mismatch with the API key");
	return false;
}

/* The order of an item: NAME:ID, or NAME: of the operator's. */
static bool take_after(struct request *r, char ret[TOKEN_BYTES])
{
	int n = uri_query_get(r->head->query, "nextToken", ret, TOKEN_BYTES);
	const char *id = n > 0 ? strrchr(ret, ':') : NULL;

	if (n == -ENOENT)
		ret[0] = '\0';
	if (n == -ENOENT || n == 0)
		return true;
	if (id && (!id[1] || strlen(id + 1) == STORE_TEMPLATE_ID_BYTES - 1))
		return true;
	reply_error(r, 400, "Invalid next token");
	return false;
}

static bool take_page(struct request *r, struct listing *l)
{
	l->limit = api_limit(r, API_PAGE_MAX, API_PAGE_MAX);
	return l->limit && take_after(r, l->after);
}

static void list_templates(struct request *r, bool paged, bool defaults)
{
	static const struct request_ops ops = {.done = on_done};
	struct listing *l = api_calloc(r, sizeof(*l));

	if (!l)
		return;
	if (!check_team(r) || (paged && !take_page(r, l))) {
		free(l);
		return;
	}
	l->defaults = defaults;
	l->work.data = l;
	l->fleet = fleet_of(r);
	l->request = r;
	request_set_ops(r, &ops, l);
	(void)uv_queue_work(fleet_of(r)->loop, &l->work, list_work, list_done); /* cannot fail */
}

void api_templates_list(struct request *r)
{
	list_templates(r, false, false);
}

void api_templates_page(struct request *r)
{
	list_templates(r, true, false);
}

void api_templates_default(struct request *r)
{
	list_templates(r, false, true);
}

/* --- a single template --- */

/* Reads a small file at once. False: answered. Free ret->name. */
static bool load(
	struct request *r, const char *name, struct entry *ret, struct store_template *ret_row)
{
	struct template t = {0};
	struct error e = {0};
	int err = template_load(&fleet_of(r)->home, name, &t, &e);

	if (err == 0) {
		err = fill_entry(ret, &t);
		template_done(&t);
		if (err == 0)
			err = store_template_see(
				fleet_of(r)->store, name, ret->made_s, ret_row, &e);
		if (err == 0)
			return true;
		entry_done(ret);
	}
	if (e.code == ERROR_NOT_FOUND) /* what the template's own text adds is for the operator */
		reply_error(r, 404, "template '%s' not found", name);
	else
		reply_failure(r, &e);
	return false;
}

/* A snapshot is a template, too. */
static bool is_snapshot(struct request *r, struct store_snapshot *ret)
{
	struct template_ref ref;
	const char *reason;

	return template_ref_parse(r->params[0], &ref, &reason) == 0 &&
	       api_find_snapshot(r, &ref, ret, NULL) == 0;
}

static bool resolve(struct request *r, const char *given, bool any_team,
	struct template_ref *ret_ref, struct found_template *ret)
{
	const char *reason;
	struct error e = {0};

	if (template_ref_parse(given, ret_ref, &reason) < 0) {
		reply_error(r, 400, "%s", reason);
		return false;
	}
	if (!any_team && !api_check_namespace(r, ret_ref))
		return false;
	if (find_template(fleet_of(r), r->key->id, r->admin, ret_ref, ret, &e) < 0) {
		reply_failure(r, &e);
		return false;
	}
	return true;
}

/* False: answered. */
static bool check_tag(struct request *r, const char *given, const struct template_ref *ref,
	const struct found_template *t)
{
	if (find_tag_fits(t, ref))
		return true;
	reply_error(r, 404, "template '%.200s' not found", given);
	return false;
}

/* For names of the client's own team. False: answered. */
static bool find_named(struct request *r, const char *given, struct template_ref *ret_ref,
	struct found_template *ret)
{
	return resolve(r, given, false, ret_ref, ret) && check_tag(r, given, ret_ref, ret);
}

void api_template_get(struct request *r)
{
	struct store_template row;
	struct store_snapshot sn;
	struct found_template t;
	struct template_ref ref;
	struct entry m;

	if (is_snapshot(r, &sn)) {
		reply_json(r, 200,
			build_snapshot_json(&sn, api_snapshot_names(fleet_of(r)->store, &sn)));
		return;
	}
	if (!find_named(r, r->params[0], &ref, &t))
		return;
	if (t.built) {
		api_catalog_get(r, &t.row);
	} else if (load(r, t.name, &m, &row)) {
		reply_json(r, 200, detail_json(&m, &row));
		entry_done(&m);
	}
}

/* Whether the name with its tag is taken. */
static void reply_built(
	struct request *r, const struct found_template *t, const struct template_ref *ref)
{
	char dir[STORE_NAME_MAX + 1];
	struct error e = {0};

	if (!t->mine && !r->admin)
		reply_error(r, 403, "you don't have access to template '%s'", ref->name);
	else if (!ref->has_tag || find_directory(fleet_of(r), t, ref, dir, &e) == 0)
		reply_json(r, 200,
			json_pack("{s:s, s:b}", "templateID", t->row.id, "public", t->row.public));
	else if (e.code == ERROR_NOT_FOUND)
		reply_error(
			r, 404, "tag '%s' does not exist for template '%s'", ref->tag, ref->name);
	else
		reply_failure(r, &e);
}

static bool reply_snapshot(struct request *r)
{
	struct store_snapshot sn;

	if (!is_snapshot(r, &sn))
		return false;
	reply_json(r, 200, json_pack("{s:s, s:b}", "templateID", sn.id, "public", 0));
	return true;
}

void api_template_alias(struct request *r)
{
	struct store_template row;
	struct found_template t;
	struct template_ref ref;
	struct entry m;

	if (reply_snapshot(r) || !find_named(r, r->params[0], &ref, &t))
		return;
	if (t.built) {
		reply_built(r, &t, &ref);
	} else if (load(r, t.name, &m, &row)) {
		reply_json(r, 200, json_pack("{s:s, s:b}", "templateID", row.id, "public", 1));
		entry_done(&m);
	}
}

bool api_own_template(struct request *r, const char *given, struct template_ref *ret_ref,
	struct found_template *ret)
{
	_cleanup_close_ int fd = -1;

	if (!find_named(r, given, ret_ref, ret))
		return false;
	if (ret->built && (ret->mine || r->admin))
		return true;
	if (ret->built || (fd = template_open(&fleet_of(r)->home, ret->name, NULL)) >= 0)
		reply_error(r, 403, "you don't have access to template '%s'", ret_ref->name);
	else
		reply_error(r, 404, "template '%s' not found", ret_ref->name);
	return false;
}

bool api_usable_template(struct request *r, const char *given, struct template_ref *ret_ref,
	struct found_template *ret)
{
	return resolve(r, given, true, ret_ref, ret) && check_tag(r, given, ret_ref, ret);
}
