/* Tags of templates. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/auth.h"
#include "api/template/build_json.h"
#include "base/clock.h"
#include "base/str.h"
#include "catalog/catalog.h"
#include "catalog/find.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "proto/json_tree.h"
#include "store/builds.h"
#include "store/keys.h"
#include "store/tags.h"

enum {
	TAGS_AT_ONCE = 64,
	GROUP_ASSIGNMENTS = 6, /* defaults and maxima of lists */
	GROUP_ASSIGNMENTS_MAX = 50,
	GROUP_TAGS = 25,
	GROUP_TAGS_MAX = 100,
	ASSIGNMENTS = 50,
	ASSIGNMENTS_MAX = 100,
	SEARCH_MAX = 129,
	CURSOR_MAX = 512,
};

/* --- which template --- */

/* Finds a template of the client, by name or id, from a reference with or without a tag. Returns
 * false if it answered the request. */
static bool find_own(
	struct request *r, const char *given, struct template_ref *ref, struct found_template *ret)
{
	if (!api_resolve_template(r, given, ref, ret))
		return false;
	if (ret->built && (ret->mine || r->admin))
		return true;
	if (ret->built)
		reply_error(r, 403, "you don't have access to template '%.64s'", ref->name);
	else
		reply_error(r, 404, "template '%.64s' not found: the operator's have no tags",
			ref->name);
	return false;
}

/* --- assigning and removing --- */

struct change {
	struct fleet *fleet;
	const char *template_id, *build_id; /* NULL: removes */
	char (*tags)[TEMPLATE_TAG_MAX + 1]; /* owned */
	size_t count;
	char old[TAGS_AT_ONCE][STORE_UUID_BYTES]; /* builds that lost a tag */
	size_t old_count;
};

static bool take_tags(struct request *r, const json_t *body, struct change *c)
{
	const json_t *list = json_object_get(body, "tags"), *v;
	size_t n = json_array_size(list), i;

	if (n < 1)
		reply_error(r, 400, "At least one tag is required");
	else if (n > TAGS_AT_ONCE)
		reply_error(r, 400, "there are more than %d tags", TAGS_AT_ONCE);
	if (n < 1 || n > TAGS_AT_ONCE)
		return false;
	c->tags = api_calloc(r, n * sizeof(*c->tags));
	if (!c->tags)
		return false;
	json_array_foreach(list, i, v) if (!api_take_tag(r, v, c->tags[c->count++])) return false;
	return true;
}

static int change_one(struct change *c, const char *tag, struct error *e)
{
	struct store *s = c->fleet->store;
	struct store_tag old = {0};
	bool had = store_tag_get(s, c->template_id, tag, &old, NULL) == 0;
	int r;

	if (had && c->build_id && strcmp(old.build_id, c->build_id) == 0)
		return 0;
	r = c->build_id
		    ? store_tag_assign(s, c->template_id, tag, c->build_id, clock_realtime_ns(), e)
		    : store_tag_remove(s, c->template_id, tag, e);
	if (r == 0 && had)
		memcpy(c->old[c->old_count++], old.build_id, sizeof(old.build_id));
	return r;
}

/* All or none. */
static int change(struct change *c, struct error *e)
{
	struct store *s = c->fleet->store;
	int r = store_begin(s, e);

	for (size_t i = 0; i < c->count && r == 0; i++)
		r = change_one(c, c->tags[i], e);
	if (r == 0)
		r = store_commit(s, e);
	if (r < 0)
		store_rollback(s);
	for (size_t i = 0; i < c->old_count && r == 0; i++)
		catalog_drop_later(c->fleet, c->old[i]);
	return r;
}

static json_t *tags_json(const struct change *c)
{
	json_t *list = json_array();

	for (size_t i = 0; i < c->count; i++)
		(void)json_array_append_new(list, json_string(c->tags[i])); /* shows */
	return list;
}

static void assign(struct request *r, const char *text, size_t n)
{
	struct change c = {.fleet = fleet_of(r)};
	json_t *body = api_body(r, text, n);
	char build_id[STORE_NAME_MAX + 1];
	struct found_template t;
	struct template_ref ref;
	struct error e = {0};

	if (body && take_tags(r, body, &c) &&
		find_own(r, json_tree_text(body, "target"), &ref, &t)) {
		c.template_id = t.row.id;
		c.build_id = build_id;
		if (find_directory(c.fleet, &t, &ref, build_id, &e) < 0 || change(&c, &e) < 0)
			reply_failure(r, &e);
		else
			reply_json(r, 201,
				json_pack(
					"{s:s, s:o}", "buildID", build_id, "tags", tags_json(&c)));
	}
	free(c.tags);
	json_decref(body);
}

void api_tags_assign(struct request *r)
{
	request_collect(r, API_BODY_MAX, assign);
}

static bool is_default_among(const struct change *c)
{
	for (size_t i = 0; i < c->count; i++)
		if (strcmp(c->tags[i], "default") == 0)
			return true;
	return false;
}

static void remove_tags(struct request *r, const char *text, size_t n)
{
	struct change c = {.fleet = fleet_of(r)};
	json_t *body = api_body(r, text, n);
	struct found_template t;
	struct template_ref ref;
	struct error e = {0};

	if (body && take_tags(r, body, &c) && find_own(r, json_tree_text(body, "name"), &ref, &t)) {
		c.template_id = t.row.id;
		if (is_default_among(&c))
			reply_error(r, 400, "Cannot delete the 'default' tag");
		else if (change(&c, &e) < 0)
			reply_failure(r, &e);
		else
			reply_empty(r, 204);
	}
	free(c.tags);
	json_decref(body);
}

void api_tags_remove(struct request *r)
{
	request_collect(r, API_BODY_MAX, remove_tags);
}

/* --- reading --- */

static int add_tag(void *arg, const struct store_tag *t)
{
	return json_array_append_new(arg, json_pack("{s:s, s:s, s:o}", "tag", t->tag, "buildID",
						  t->build_id, "createdAt", api_time(t->at_ns))) < 0
		       ? -ENOMEM
		       : 0;
}

/* Takes ownership of the JSON. */
static void reply_list(struct request *r, int err, json_t *json, struct error *e)
{
	if (err == 0) {
		reply_json(r, 200, json);
		return;
	}
	json_decref(json);
	(void)error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory"); /* unless already set */
	reply_failure(r, e);
}

void api_tags_list(struct request *r)
{
	struct found_template t;
	struct template_ref ref;
	struct error e = {0};
	json_t *list;

	if (!find_own(r, r->params[0], &ref, &t))
		return;
	list = json_array();
	reply_list(r, store_tag_list(fleet_of(r)->store, t.row.id, add_tag, list, &e), list, &e);
}

static int count_tag(void *arg, const struct store_tag *t)
{
	(*(json_int_t *)arg)++;
	return 0;
}

void api_tags_count(struct request *r)
{
	struct found_template t;
	struct template_ref ref;
	struct error e = {0};
	json_int_t total = 0;

	if (!find_own(r, r->params[0], &ref, &t))
		return;
	if (store_tag_list(fleet_of(r)->store, t.row.id, count_tag, &total, &e) < 0)
		reply_failure(r, &e);
	else
		reply_json(r, 200, json_pack("{s:I}", "total", total));
}

void api_tags_exists(struct request *r)
{
	char text[TEMPLATE_TAG_MAX * 2], tag[TEMPLATE_TAG_MAX + 1];
	struct found_template t;
	struct store_tag row;
	struct template_ref ref;
	struct error e = {0};
	json_t *given;
	bool good;
	int err;

	if (uri_query_get(r->head->query, "tag", text, sizeof(text)) < 0) {
		reply_error(r, 400, "tag must be given: of at most %d bytes", TEMPLATE_TAG_MAX);
		return;
	}
	given = json_string(text);
	good = api_take_tag(r, given, tag) && find_own(r, r->params[0], &ref, &t);
	json_decref(given);
	if (!good)
		return;
	err = store_tag_get(fleet_of(r)->store, t.row.id, tag, &row, &e);
	if (err < 0 && e.code != ERROR_NOT_FOUND)
		reply_failure(r, &e);
	else
		reply_json(
			r, 200, json_pack("{s:b, s:s}", "exists", err == 0, "normalizedTag", tag));
}

/* A number in the query. False: answered. */
static bool take_count(
	struct request *r, const char *name, unsigned otherwise, unsigned max, unsigned *ret)
{
	unsigned long long v = otherwise;
	int err = uri_query_u64(r->head->query, name, max, &v);

	*ret = (unsigned)v;
	if ((err == 0 || err == -ENOENT) && v > 0)
		return true;
	reply_error(r, 400, "%s must be a number from 1 to %u", name, max);
	return false;
}

/* --- assignments of one tag --- */

struct assignments {
	json_t *list;
	unsigned limit;
	uint64_t last_seq;
	bool more;
};

static int add_assignment(void *arg, const struct store_tag *t)
{
	struct assignments *a = arg;

	if (json_array_size(a->list) == a->limit) {
		a->more = true;
		return 1;
	}
	a->last_seq = t->seq;
	return json_array_append_new(a->list, build_assignment_json(t)) < 0 ? -ENOMEM : 0;
}

/* One more than the limit tells whether there are more. */
static int list_assignments(struct fleet *f, const char *template_id, const char *tag,
	uint64_t before, struct assignments *a, struct error *e)
{
	int r;

	a->list = json_array();
	r = store_tag_history(
		f->store, template_id, tag, before, a->limit + 1, add_assignment, a, e);
	return r < 0 ? r : 0;
}

void api_tag_assignments(struct request *r)
{
	struct assignments a = {.list = NULL};
	unsigned long long before = 0;
	struct found_template t;
	struct store_tag row;
	struct template_ref ref;
	struct error e = {0};

	if (!take_count(r, "limit", ASSIGNMENTS, ASSIGNMENTS_MAX, &a.limit) ||
		!api_take_number(r, "cursor", INT64_MAX, &before) ||
		!find_own(r, r->params[0], &ref, &t))
		return;
	if (store_tag_get(fleet_of(r)->store, t.row.id, r->params[1], &row, &e) < 0 ||
		list_assignments(fleet_of(r), t.row.id, row.tag, before, &a, &e) < 0) {
		json_decref(a.list);
		reply_failure(r, &e);
		return;
	}
	reply_json(r, 200,
		json_pack("{s:o, s:o}", "data", a.list, "nextCursor",
			a.more ? json_sprintf("%llu", (unsigned long long)a.last_seq)
			       : json_null()));
}

/* --- groups --- */

enum order { LATEST_DESC, LATEST_ASC, NAME_ASC, NAME_DESC, ORDERS_ };

struct groups {
	struct store_tag *items; /* owned */
	size_t count;
	char search[SEARCH_MAX];
};

static int collect_tag(void *arg, const struct store_tag *t)
{
	struct groups *g = arg;

	if (!strstr(t->tag, g->search))
		return 0;
	g->items[g->count++] = *t; /* the store limits their number */
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct store_tag *)a)->tag, ((const struct store_tag *)b)->tag);
}

static int by_name_desc(const void *a, const void *b)
{
	return by_name(b, a);
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = ((const struct store_tag *)a)->seq, y = ((const struct store_tag *)b)->seq;

	return (x > y) - (x < y);
}

static int by_time_desc(const void *a, const void *b)
{
	return by_time(b, a);
}

static bool take_order(struct request *r, enum order *ret)
{
	static const char *const names[ORDERS_] = {
		"latest_desc", "latest_asc", "name_asc", "name_desc"};
	char text[16];
	int n = uri_query_get(r->head->query, "sort", text, sizeof(text));

	*ret = LATEST_DESC;
	if (n == -ENOENT)
		return true;
	for (unsigned i = 0; n > 0 && i < ORDERS_; i++)
		if (strcmp(text, names[i]) == 0) {
			*ret = i;
			return true;
		}
	reply_error(r, 400, "sort must be latest_desc, latest_asc, name_asc or name_desc");
	return false;
}

static json_t *group_json(struct request *r, const char *template_id, const struct store_tag *tag,
	unsigned limit, struct error *e)
{
	struct assignments a = {.limit = limit};

	if (list_assignments(fleet_of(r), template_id, tag->tag, 0, &a, e) < 0) {
		json_decref(a.list);
		return NULL;
	}
	return json_pack(
		"{s:s, s:o, s:b}", "tag", tag->tag, "assignments", a.list, "hasMore", a.more);
}

/* From behind the tag that the cursor names; a page of them. */
static void reply_groups(struct request *r, const char *template_id, const struct groups *g,
	const char *cursor, unsigned tags, unsigned limit)
{
	json_t *list = json_array(), *next = NULL;
	struct error e = {0};
	size_t i = 0;

	for (size_t k = 0; *cursor && k < g->count; k++)
		if (strcmp(g->items[k].tag, cursor) == 0)
			i = k + 1;
	for (; i < g->count && e.code == ERROR_NONE; i++) {
		if (json_array_size(list) == tags) {
			next = json_string(g->items[i - 1].tag);
			break;
		}
		if (json_array_append_new(
			    list, group_json(r, template_id, &g->items[i], limit, &e)) < 0)
			(void)error_set(&e, ERROR_NO_SPACE, ENOMEM,
				"out of memory"); /* unless already set */
	}
	if (e.code != ERROR_NONE) {
		json_decref(list);
		reply_failure(r, &e);
		return;
	}
	reply_json(r, 200,
		json_pack("{s:o, s:o}", "tags", list, "nextCursor", next ? next : json_null()));
}

void api_tags_groups(struct request *r)
{
	static int (*const orders[ORDERS_])(const void *, const void *) = {
		by_time_desc, by_time, by_name, by_name_desc};
	struct groups g = {.items = NULL};
	char cursor[SEARCH_MAX];
	unsigned limit, tags;
	enum order order;
	struct found_template t;
	struct template_ref ref;
	struct error e = {0};

	if (!take_count(r, "assignmentLimit", GROUP_ASSIGNMENTS, GROUP_ASSIGNMENTS_MAX, &limit) ||
		!take_count(r, "tagsLimit", GROUP_TAGS, GROUP_TAGS_MAX, &tags) ||
		!take_order(r, &order) ||
		!api_take_query(r, "search", g.search, sizeof(g.search)) ||
		!api_take_query(r, "tagsCursor", cursor, sizeof(cursor)) ||
		!find_own(r, r->params[0], &ref, &t))
		return;
	g.items = api_calloc(r, (STORE_TAGS_MAX + 1) * sizeof(*g.items));
	if (!g.items)
		return;
	if (store_tag_list(fleet_of(r)->store, t.row.id, collect_tag, &g, &e) < 0) {
		reply_failure(r, &e);
	} else {
		qsort(g.items, g.count, sizeof(*g.items), orders[order]);
		reply_groups(r, t.row.id, &g, cursor, tags, limit);
	}
	free(g.items);
}
