/* Templates that clients built (protocol sections 2.13 and 11.6): shows one with its builds, makes
 * it public or private, deletes it. */
#include "api/template/api_catalog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/auth.h"
#include "api/template/build_json.h"
#include "api/template/tagged.h"
#include "base/array.h"
#include "base/clock.h"
#include "catalog/catalog.h"
#include "catalog/jobs.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "store/builds.h"
#include "store/keys.h"
#include "store/tags.h"

/* --- as JSON --- */

/* The build that `default` names, else the newest that is ready, else the newest. */
static int find_shown(struct store *s, const char *template_id, const struct store_build *last,
	struct store_build *ret)
{
	struct store_tag tag;

	if (store_tag_get(s, template_id, "default", &tag, NULL) == 0 &&
		store_build_get(s, tag.build_id, ret, NULL) == 0)
		return 0;
	if (store_build_last(s, template_id, STORE_BUILD_READY, ret, NULL) < 0)
		*ret = *last;
	return 0;
}

json_t *api_catalog_json(struct fleet *f, const struct store_catalog *c)
{
	struct store_build *b = calloc(2, sizeof(*b));
	json_t *json = NULL;

	if (b && store_build_last(f->store, c->id, STORE_BUILD_STATUSES_, &b[0], NULL) == 0 &&
		find_shown(f->store, c->id, &b[0], &b[1]) == 0)
		json = build_template_json(c, &b[1], &b[0]);
	free(b);
	return json;
}

struct builds {
	json_t *list;
	uint32_t limit;
	uint64_t last_seq;
	bool more;
};

static int add_build(void *arg, const struct store_build *b)
{
	struct builds *x = arg;

	if (json_array_size(x->list) == x->limit) {
		x->more = true;
		return 1;
	}
	x->last_seq = b->seq;
	return json_array_append_new(x->list, build_of_template_json(b)) < 0 ? -ENOMEM : 0;
}

void api_catalog_get(struct request *r, const struct store_catalog *c)
{
	struct builds x = {.list = NULL, .limit = api_limit(r, API_PAGE_MAX, API_PAGE_MAX)};
	struct http_field field = {"X-Next-Token", NULL};
	unsigned long long before = 0;
	struct error e = {0};
	char next[32];
	json_t *json;

	if (!x.limit || !api_take_number(r, "nextToken", "Invalid next token", INT64_MAX, &before))
		return;
	x.list = json_array();
	if (store_build_list(fleet_of(r)->store, c->id, before, x.limit + 1, add_build, &x, &e) <
		0) {
		json_decref(x.list);
		reply_failure(r, &e);
		return;
	}
	json = api_catalog_json(fleet_of(r), c);
	if (json_object_set_new(json, "builds", x.list) <
		0) { /* takes the list, whatever it returns */
		json_decref(json);
		reply_error(r, 503, "out of memory");
		return;
	}
	if (x.more) {
		(void)snprintf(
			next, sizeof(next), "%llu", (unsigned long long)x.last_seq); /* fits */
		field.value = next;
	}
	reply_json_fields(r, 200, json, &field, x.more);
}

/* --- changes --- */

static void change_public(struct request *r, const char *text, size_t n, bool with_names)
{
	json_t *body = api_body(r, text, n);
	struct tagged of;
	const struct store_catalog *row = &of.t.row;
	struct template_ref ref;
	struct error e = {0};
	bool public = false, ok = body && tagged_find(r, r->params[0], &ref, &of);

	public = ok && row->public;
	ok = ok && api_take_flag(r, body, "public", &public);
	json_decref(body);
	if (!ok)
		return;
	if (of.snapshots)
		reply_error(r, 400, "a snapshot cannot be made public");
	else if (public != row->public && store_catalog_set_public(fleet_of(r)->store, row->id,
						  public, clock_realtime_ns(), &e) < 0)
		reply_failure(r, &e);
	else if (with_names)
		reply_json(r, 200, json_pack("{s:[s]}", "names", row->name));
	else
		reply_empty(r, 200);
}

static void change_v1(struct request *r, const char *text, size_t n)
{
	change_public(r, text, n, false);
}

static void change_v2(struct request *r, const char *text, size_t n)
{
	change_public(r, text, n, true);
}

void api_template_change_v1(struct request *r)
{
	request_collect(r, API_BODY_MAX, change_v1);
}

void api_template_change_v2(struct request *r)
{
	request_collect(r, API_BODY_MAX, change_v2);
}

/* The builds of a template, to remove their files when the rows are gone. */
struct doomed {
	char (*ids)[STORE_UUID_BYTES]; /* owned */
	size_t count;
};

static int add_doomed(void *arg, const struct store_build *b)
{
	struct doomed *d = arg;
	void *more = array_grow(d->ids, d->count, sizeof(*d->ids));

	if (!more)
		return -ENOMEM;
	d->ids = more;
	memcpy(d->ids[d->count++], b->id, sizeof(b->id));
	return 0;
}

static int remove_template(struct fleet *f, const char *id, struct error *e)
{
	struct doomed d = {.ids = NULL};
	int r = store_build_list(f->store, id, 0, UINT32_MAX, add_doomed, &d, e);

	if (r < 0)
		(void)error_set(e, ERROR_NO_SPACE, -r, "out of memory"); /* unless already set */
	else
		r = store_catalog_remove(f->store, id, e);
	if (r == 0)
		jobs_cancel(f, id);
	for (size_t i = 0; i < d.count && r == 0; i++)
		catalog_drop(f, d.ids[i]);
	free(d.ids);
	return r;
}

void api_catalog_delete(struct request *r, const struct store_catalog *c)
{
	struct fleet *f = fleet_of(r);
	struct error e = {0};
	uint64_t running = 0, paused = 0;

	if (store_catalog_count_sandboxes(f->store, c->id, &running, &paused, &e) < 0)
		reply_failure(r, &e);
	else if (running || paused)
		reply_error(r, 400,
			"cannot delete template '%s' because there are %s sandboxes using it",
			c->id, running ? "running" : "paused");
	else if (remove_template(f, c->id, &e) < 0)
		reply_failure(r, &e);
	else
		reply_empty(r, 204);
}
