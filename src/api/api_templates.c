/* Templates, read-only (protocol section 2.13): the contents of their files, with ids and counts
 * from the store. A name works wherever an id does. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "api/api.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "image/template.h"
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

/* Whether it is a template that every E2B server has (protocol section 2.2). */
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

/* --- the list: read in a worker, since each template is a file --- */

enum { UNPAGED_MAX = 5000 };

struct listing {
	uv_work_t work;
	struct fleet *fleet;
	struct request *request;	/* NULL: the client has gone */
	struct entry *entries;		/* owned */
	uint32_t limit;			/* 0: all */
	bool defaults;			/* only default templates */
	char after[STORE_NAME_MAX + 1]; /* last name of the previous page */
	size_t count;
	int result;
	struct error why;
};

static int add_template(void *arg, const struct template *t, const struct error *damage)
{
	struct listing *l = arg;
	struct entry *p;

	if (damage)
		return 0; /* mayfly template ls shows it */
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

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static bool is_wanted(const struct listing *l, const struct entry *m)
{
	return strcmp(m->name, l->after) > 0 && (!l->defaults || is_default(m->name));
}

/* As in the original: more than these come in pages only. */
static bool is_too_long(const struct listing *l)
{
	size_t wanted = 0;

	for (size_t i = 0; i < l->count; i++)
		wanted += is_wanted(l, &l->entries[i]);
	return !l->limit && wanted > UNPAGED_MAX;
}

static void send_templates(struct listing *l)
{
	json_t *list = json_array();
	struct http_field next = {"X-Next-Token", NULL};
	const char *last = NULL;
	int r = l->result;

	if (l->count)
		qsort(l->entries, l->count, sizeof(*l->entries), by_name);
	for (size_t i = 0; r == 0 && i < l->count && !next.value; i++) {
		const struct entry *m = &l->entries[i];
		struct store_template row;

		if (!is_wanted(l, m))
			continue;
		if (l->limit && json_array_size(list) == l->limit) {
			next.value = last;
			break;
		}
		last = m->name;
		r = store_template_see(l->fleet->store, m->name, m->made_s, &row, &l->why);
		if (r == 0 && json_array_append_new(list, template_json(m, &row)) < 0)
			r = -ENOMEM;
	}
	if (r < 0) {
		(void)error_set(
			&l->why, ERROR_INTERNAL, ENOMEM, "out of memory"); /* unless already set */
		reply_failure(l->request, &l->why);
	} else {
		reply_json_fields(l->request, 200, json_incref(list), &next, next.value ? 1 : 0);
	}
	json_decref(list);
}

static void list_done(uv_work_t *w, int status)
{
	struct listing *l = w->data;

	if (l->request) {
		l->request->data = NULL;
		if (is_too_long(l))
			reply_error(l->request, 400,
				"there are more than %d templates: use GET /v2/templates",
				UNPAGED_MAX);
		else
			send_templates(l);
	}
	for (size_t i = 0; i < l->count; i++)
		entry_done(&l->entries[i]);
	free(l->entries);
	free(l);
}

static void on_done(struct request *r, bool complete)
{
	struct listing *l = r->data;

	if (l)
		l->request = NULL;
}

static void list_templates(struct request *r, bool paged, bool defaults)
{
	static const struct request_ops ops = {.done = on_done};
	struct listing *l = calloc(1, sizeof(*l));

	if (!l) {
		reply_error(r, 503, "out of memory");
		return;
	}
	if (paged) {
		l->limit = api_limit(r, API_PAGE_MAX, API_PAGE_MAX);
		if (!l->limit) {
			free(l);
			return;
		}
		/* an invalid token counts as none: the list begins at the start */
		if (uri_query_get(r->head->query, "nextToken", l->after, sizeof(l->after)) < 0)
			l->after[0] = '\0';
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
static bool load(struct request *r, struct entry *ret, struct store_template *ret_row)
{
	char name[STORE_NAME_MAX + 1];
	struct template t = {0};
	struct error e = {0};
	int err;

	if (!api_template_name(r, r->params[0], name))
		return false;
	err = template_load(&fleet_of(r)->home, name, &t, &e);
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
	reply_failure(r, &e);
	return false;
}

void api_template_get(struct request *r)
{
	struct store_template row;
	struct entry m;

	if (!load(r, &m, &row))
		return;
	reply_json(r, 200, detail_json(&m, &row));
	entry_done(&m);
}

void api_template_alias(struct request *r)
{
	struct store_template row;
	struct entry m;

	if (!load(r, &m, &row))
		return;
	reply_json(r, 200, json_pack("{s:s, s:b}", "templateID", row.id, "public", 1));
	entry_done(&m);
}

bool api_template_name(struct request *r, const char *given, char ret[STORE_NAME_MAX + 1])
{
	struct template_ref ref;
	const char *reason;
	struct error e = {0};
	int err;

	if (template_ref_parse(given, &ref, &reason) < 0) {
		reply_error(r, 400, "%s", reason);
		return false;
	}
	if (*ref.namespace || strcmp(ref.tag, "default") != 0) {
		reply_error(r, 404, "there is no template '%.200s'", given);
		return false;
	}
	err = store_template_name(fleet_of(r)->store, ref.name, ret, &e);
	if (err == -ENOENT) /* it is a name, or unknown */
		memcpy(ret, ref.name, strlen(ref.name) + 1);
	else if (err < 0)
		reply_failure(r, &e);
	return err == 0 || err == -ENOENT;
}
