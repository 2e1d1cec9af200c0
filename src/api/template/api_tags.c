/* Tags of templates, and of snapshots (tagged.h). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/auth.h"
#include "api/template/build_json.h"
#include "api/template/tagged.h"
#include "base/array.h"
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

/* --- assigning and removing --- */

struct change {
	struct fleet *fleet;
	struct tagged of;
	char build_id[STORE_NAME_MAX + 1];  /* "": removes */
	char (*tags)[TEMPLATE_TAG_MAX + 1]; /* owned */
	size_t count;
	char old[TAGS_AT_ONCE][STORE_UUID_BYTES]; /* builds that lost a tag */
	size_t old_count;
};

static bool has_tag(const struct change *c, const char *tag)
{
	for (size_t i = 0; i < c->count; i++)
		if (strcmp(c->tags[i], tag) == 0)
			return true;
	return false;
}

/* Each once. */
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
	json_array_foreach(list, i, v)
	{
		char tag[TEMPLATE_TAG_MAX + 1];

		if (!api_take_tag(r, v, tag))
			return false;
		if (!has_tag(c, tag))
			memcpy(c->tags[c->count++], tag, sizeof(tag));
	}
	return true;
}

static int change_one(struct change *c, const char *tag, struct error *e)
{
	struct store *s = c->fleet->store;
	struct store_tag old = {0};
	struct error why = {0};
	bool had = store_tag_get(s, c->of.id, tag, &old, &why) == 0;
	int r;

	if (!had && why.code != ERROR_NOT_FOUND)
		return error_set(e, why.code, why.err, "%s", why.message);
	if (had ? strcmp(old.build_id, c->build_id) == 0 : !*c->build_id)
		return 0; /* it is so already */
	r = *c->build_id ? store_tag_assign(s, c->of.id, tag, c->build_id, clock_realtime_ns(), e)
			 : store_tag_remove(s, c->of.id, tag, e);
	if (r == 0 && had && !c->of.snapshots)
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

/* The build that the target means. */
static int find_target(
	const struct request *r, struct change *c, const struct template_ref *ref, struct error *e)
{
	int err;

	if (!c->of.snapshots)
		return find_directory(c->fleet, &c->of.t, ref, c->build_id, e);
	err = api_find_snapshot(r, ref, &c->of.sn, e);
	if (err == 0)
		memcpy(c->build_id, c->of.sn.id, sizeof(c->of.sn.id));
	return err;
}

static void reply_assigned(struct request *r, struct change *c, const struct template_ref *ref)
{
	char build[STORE_UUID_BYTES];
	struct error e = {0};

	if (find_target(r, c, ref, &e) < 0 || change(c, &e) < 0) {
		reply_failure(r, &e);
		return;
	}
	build_id_of_tag(c->build_id, build);
	reply_json(r, 201, json_pack("{s:s, s:o}", "buildID", build, "tags", tags_json(c)));
}

static void assign(struct request *r, const char *text, size_t n)
{
	struct change c = {.fleet = fleet_of(r)};
	json_t *body = api_body(r, text, n);
	struct template_ref ref;

	if (body && take_tags(r, body, &c) &&
		tagged_find(r, json_tree_text(body, "target"), &ref, &c.of))
		reply_assigned(r, &c, &ref);
	free(c.tags);
	json_decref(body);
}

void api_tags_assign(struct request *r)
{
	request_collect(r, API_BODY_MAX, assign);
}

static void remove_tags(struct request *r, const char *text, size_t n)
{
	struct change c = {.fleet = fleet_of(r)};
	json_t *body = api_body(r, text, n);
	struct template_ref ref;
	struct error e = {0};

	if (!body || !take_tags(r, body, &c) ||
		!tagged_find(r, json_tree_text(body, "name"), &ref, &c.of))
		; /* answered */
	else if (strcmp(ref.tag, "default") != 0)
		reply_error(r, 400,
			"Template name should not contain a tag, use the 'tags' field instead");
	else if (has_tag(&c, "default"))
		reply_error(r, 400, "Cannot delete the 'default' tag");
	else if (change(&c, &e) < 0)
		reply_failure(r, &e);
	else
		reply_empty(r, 204);
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
	return json_array_append_new(arg, build_tag_json(t)) < 0 ? -ENOMEM : 0;
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
	struct tagged t;
	struct template_ref ref;
	struct error e = {0};
	json_t *list;

	if (!tagged_find(r, r->params[0], &ref, &t))
		return;
	list = json_array();
	reply_list(r, store_tag_list(fleet_of(r)->store, t.id, add_tag, list, &e), list, &e);
}

static int count_tag(void *arg, const struct store_tag *t)
{
	(*(json_int_t *)arg)++;
	return 0;
}

void api_tags_count(struct request *r)
{
	struct tagged t;
	struct template_ref ref;
	struct error e = {0};
	json_int_t total = 0;

	if (!tagged_find(r, r->params[0], &ref, &t))
		return;
	if (store_tag_list(fleet_of(r)->store, t.id, count_tag, &total, &e) < 0)
		reply_failure(r, &e);
	else
		reply_json(r, 200, json_pack("{s:I}", "total", total));
}

void api_tags_exists(struct request *r)
{
	char text[TEMPLATE_TAG_MAX * 2], tag[TEMPLATE_TAG_MAX + 1];
	struct tagged t;
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
	good = api_take_tag(r, given, tag) && tagged_find(r, r->params[0], &ref, &t);
	json_decref(given);
	if (!good)
		return;
	err = store_tag_get(fleet_of(r)->store, t.id, tag, &row, &e);
	if (err < 0 && e.code != ERROR_NOT_FOUND)
		reply_failure(r, &e);
	else
		reply_json(
			r, 200, json_pack("{s:b, s:s}", "exists", err == 0, "normalizedTag", tag));
}

/* Tags are in lower case. */
static void fold(char *s)
{
	size_t n = 0;

	for (const char *p = s + strspn(s, " \t\r\n"); *p; p++)
		s[n++] = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
	while (n && strchr(" \t\r\n", s[n - 1]))
		n--;
	s[n] = '\0';
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
static int list_assignments(struct fleet *f, const struct tagged *of, const char *tag,
	uint64_t before, struct assignments *a, struct error *e)
{
	int r;

	a->list = json_array();
	r = store_tag_history(f->store, of->id, tag, before, a->limit + 1, add_assignment, a, e);
	return r < 0 ? r : 0;
}

void api_tag_assignments(struct request *r)
{
	struct assignments a = {.limit = api_limit(r, ASSIGNMENTS_MAX, ASSIGNMENTS)};
	unsigned long long before = 0;
	char tag[TEMPLATE_TAG_MAX + 1];
	struct tagged t;
	struct store_tag row;
	struct template_ref ref;
	struct error e = {0};

	if (!a.limit || !api_take_number(r, "cursor", "Invalid cursor", INT64_MAX, &before) ||
		!tagged_find(r, r->params[0], &ref, &t))
		return;
	(void)snprintf(tag, sizeof(tag), "%s", r->params[1]); /* none is longer */
	fold(tag);
	if (store_tag_get(fleet_of(r)->store, t.id, tag, &row, &e) < 0 ||
		list_assignments(fleet_of(r), &t, row.tag, before, &a, &e) < 0) {
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

static const char *const order_names[ORDERS_] = {
	"latest_desc", "latest_asc", "name_asc", "name_desc"};

struct groups {
	struct store_tag *items; /* owned */
	size_t count;
	char search[SEARCH_MAX];
	enum order order;
	struct store_tag after;	    /* where the page before ended; tag "": the first page */
	unsigned tags, assignments; /* limits */
};

static int collect_tag(void *arg, const struct store_tag *t)
{
	struct groups *g = arg;

	struct store_tag *more;

	if (!strstr(t->tag, g->search))
		return 0;
	more = array_grow(g->items, g->count, sizeof(*more));
	if (!more)
		return -ENOMEM;
	g->items = more;
	g->items[g->count++] = *t;
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

	return x == y ? by_name(a, b) : (x > y) - (x < y);
}

static int by_time_desc(const void *a, const void *b)
{
	return by_time(b, a);
}

static int (*const orders[ORDERS_])(const void *, const void *) = {
	by_time_desc, by_time, by_name, by_name_desc};

static bool find_order(const char *name, enum order *ret)
{
	for (unsigned i = 0; i < ORDERS_; i++)
		if (strcmp(name, order_names[i]) == 0) {
			*ret = i;
			return true;
		}
	return false;
}

static bool refuse(struct request *r, const char *message)
{
	reply_error(r, 400, "%s", message);
	return false;
}

static bool take_order(struct request *r, enum order *ret)
{
	char text[16];
	int n = uri_query_get(r->head->query, "sort", text, sizeof(text));

	*ret = LATEST_DESC;
	if (n == -ENOENT || (n > 0 && find_order(text, ret)))
		return true;
	return refuse(r, "sort must be latest_desc, latest_asc, name_asc or name_desc");
}

/* A number in the query, moved into its range. */
static bool take_count(
	struct request *r, const char *name, unsigned otherwise, unsigned max, unsigned *ret)
{
	char text[24];
	int n = uri_query_get(r->head->query, name, text, sizeof(text));
	const char *digits = n > 0 && *text == '-' ? text + 1 : text;
	unsigned long long v;

	*ret = otherwise;
	if (n == -ENOENT)
		return true;
	if (n <= 0 || !*digits || digits[strspn(digits, "0123456789")]) {
		reply_error(r, 400, "%s must be a number from 1 to %u", name, max);
		return false;
	}
	v = digits > text ? 0 : strtoull(digits, NULL, 10); /* or the maximum */
	*ret = v < 1 ? 1 : v > max ? max : (unsigned)v;
	return true;
}

/* A cursor is SORT:SEQ:TAG of a page's last tag. That one may be gone when the next page begins. */
static json_t *cursor_json(enum order order, const struct store_tag *last)
{
	return json_sprintf(
		"%s:%llu:%s", order_names[order], (unsigned long long)last->seq, last->tag);
}

static bool parse_cursor(char *text, enum order *ret_order, struct store_tag *ret)
{
	char *seq = strchr(text, ':'), *tag = seq ? strchr(seq + 1, ':') : NULL;

	if (!tag || !tag[1] || strlen(tag + 1) > STORE_TAG_MAX)
		return false;
	*seq++ = '\0';
	*tag++ = '\0';
	memcpy(ret->tag, tag, strlen(tag) + 1);
	return find_order(text, ret_order) && str_parse_u64(seq, &ret->seq) == 0;
}

static bool take_cursor(struct request *r, struct groups *g)
{
	char text[CURSOR_MAX];
	int n = uri_query_get(r->head->query, "tagsCursor", text, sizeof(text));
	enum order order;

	if (n == -ENOENT || n == 0)
		return true;
	if (n < 0 || !parse_cursor(text, &order, &g->after))
		return refuse(r, "Invalid cursor");
	return order == g->order ||
	       refuse(r, "Cursor was issued for a different sort; clear the cursor and restart");
}

static bool take_groups(struct request *r, struct groups *g)
{
	if (!take_count(r, "assignmentLimit", GROUP_ASSIGNMENTS, GROUP_ASSIGNMENTS_MAX,
		    &g->assignments) ||
		!take_count(r, "tagsLimit", GROUP_TAGS, GROUP_TAGS_MAX, &g->tags) ||
		!take_order(r, &g->order) || !take_cursor(r, g) ||
		!api_take_query(r, "search", g->search, sizeof(g->search)))
		return false;
	fold(g->search);
	return true;
}

static json_t *group_json(struct request *r, const struct tagged *of, const struct store_tag *tag,
	unsigned limit, struct error *e)
{
	struct assignments a = {.limit = limit};

	if (list_assignments(fleet_of(r), of, tag->tag, 0, &a, e) < 0) {
		json_decref(a.list);
		return NULL;
	}
	return json_pack(
		"{s:s, s:o, s:b}", "tag", tag->tag, "assignments", a.list, "hasMore", a.more);
}

static int add_group(struct request *r, const struct tagged *of, const struct groups *g, size_t i,
	json_t *list, struct error *e)
{
	json_t *group = group_json(r, of, &g->items[i], g->assignments, e);

	if (json_array_append_new(list, group) == 0)
		return 0;
	return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory"); /* unless already set */
}

static void reply_groups(struct request *r, const struct tagged *of, const struct groups *g)
{
	json_t *list = json_array(), *next = NULL;
	struct error e = {0};
	size_t i = 0;

	while (*g->after.tag && i < g->count && orders[g->order](&g->items[i], &g->after) <= 0)
		i++;
	for (; i < g->count && !next && e.code == ERROR_NONE; i++)
		if (json_array_size(list) == g->tags)
			next = cursor_json(g->order, &g->items[i - 1]);
		else
			(void)add_group(r, of, g, i, list, &e); /* e says it */
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
	struct groups g = {.items = NULL};
	struct tagged t;
	struct template_ref ref;
	struct error e = {0};

	if (!take_groups(r, &g) || !tagged_find(r, r->params[0], &ref, &t))
		return;
	if (store_tag_list(fleet_of(r)->store, t.id, collect_tag, &g, &e) < 0) {
		(void)error_set(
			&e, ERROR_NO_SPACE, ENOMEM, "out of memory"); /* unless already set */
		reply_failure(r, &e);
	} else {
		if (g.count)
			qsort(g.items, g.count, sizeof(*g.items), orders[g.order]);
		reply_groups(r, &t, &g);
	}
	free(g.items);
}
