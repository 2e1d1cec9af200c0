#include "api/template/tagged.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/auth.h"
#include "api/template/build_json.h"
#include "fleet/fleet_of.h"
#include "store/keys.h"

/* --- finding one snapshot --- */

struct search {
	const char *build_id;
	struct store_snapshot *ret;
	bool found;
};

static int take_if_build(void *arg, const struct store_snapshot *sn)
{
	struct search *x = arg;
	char id[STORE_UUID_BYTES];

	build_id_of_snapshot(sn->id, id);
	if (x->build_id && strcmp(id, x->build_id) != 0)
		return 0;
	*x->ret = *sn;
	x->found = true;
	return 1;
}

static int not_found(struct error *e)
{
	return error_set(e, ERROR_NOT_FOUND, ENOENT, "there is no such snapshot");
}

/* Finds the newest that the filter selects; with build_id, the one of that build. */
static int find_among(struct store *s, struct store_snapshot_filter f, const char *build_id,
	struct store_snapshot *ret, struct error *e)
{
	struct search x = {.build_id = build_id, .ret = ret};
	char next[STORE_PAGE_TOKEN_BYTES];
	int r;

	f.limit = STORE_SNAPSHOTS_LIST_MAX;
	r = store_snapshot_list(s, &f, take_if_build, &x, next, e);
	if (r < 0)
		return r;
	return x.found ? 0 : not_found(e);
}

/* Of the snapshots that have the name of this one: the one that the tag means. */
static int find_beside(
	struct store *s, const char *tag, struct store_snapshot *ret, struct error *e)
{
	const struct store_snapshot one = *ret;
	const struct store_snapshot_filter f = {
		.key_id = one.key_id, .name = one.name, .tag = route_is_uuid(tag) ? NULL : tag};
	char own[STORE_UUID_BYTES];

	build_id_of_snapshot(one.id, own);
	if (strcmp(tag, "default") == 0 || strcmp(tag, one.tag) == 0 || strcmp(tag, own) == 0)
		return 0;
	return *one.name ? find_among(s, f, f.tag ? NULL : tag, ret, e) : not_found(e);
}

int api_find_snapshot(const struct request *r, const struct template_ref *ref,
	struct store_snapshot *ret, struct error *e)
{
	struct store *s = fleet_of(r)->store;
	const struct store_snapshot_filter f = {.key_id = auth_scope(r), .name = ref->name};
	struct error why = {0};
	int err;

	if (!api_is_own_name(r, ref))
		return not_found(e);
	err = store_snapshot_find(s, auth_scope(r), ref->name, ref->tag, ret, &why);
	if (err == 0)
		return strcmp(ret->id, ref->name) == 0 ? find_beside(s, ref->tag, ret, e) : 0;
	if (why.code == ERROR_NOT_FOUND && route_is_uuid(ref->tag))
		return find_among(s, f, ref->tag, ret, e);
	return error_set(e, why.code, why.err, "%s", why.message);
}

/* --- finding what has tags --- */

static bool is_own_template(const struct request *r, const struct template_ref *ref)
{
	struct found_template t;

	return find_template(fleet_of(r), r->key->id, r->admin, ref, &t, NULL) == 0 && t.built &&
	       (t.mine || r->admin);
}

/* By its id, by its name and tag, or else any of the name. */
static bool find_snapshots(
	const struct request *r, const struct template_ref *ref, struct store_snapshot *ret)
{
	const struct store_snapshot_filter f = {.key_id = auth_scope(r), .name = ref->name};

	if (api_find_snapshot(r, ref, ret, NULL) == 0)
		return true;
	return api_is_own_name(r, ref) && find_among(fleet_of(r)->store, f, NULL, ret, NULL) == 0;
}

bool tagged_find(
	struct request *r, const char *given, struct template_ref *ret_ref, struct tagged *ret)
{
	const char *reason;

	*ret = (struct tagged){.snapshots = false};
	if (template_ref_parse(given, ret_ref, &reason) == 0 && !is_own_template(r, ret_ref) &&
		find_snapshots(r, ret_ref, &ret->sn)) {
		ret->snapshots = true;
		return true;
	}
	return api_own_template(r, given, ret_ref, &ret->t);
}

/* --- reading --- */

struct lister {
	int (*each)(void *arg, const struct store_tag *tag);
	void *arg;
};

static int give(void *arg, const struct store_snapshot *sn)
{
	const struct lister *l = arg;
	struct store_tag t = {.seq = sn->created_ns,
		.at_ns = sn->created_ns,
		.build_created_ns = sn->created_ns,
		.build_finished_ns = sn->created_ns};

	(void)snprintf(t.tag, sizeof(t.tag), "%s", *sn->tag ? sn->tag : "default"); /* fits */
	build_id_of_snapshot(sn->id, t.build_id);
	memcpy(t.id, t.build_id, sizeof(t.id));
	return l->each(l->arg, &t);
}

/* tag NULL: all. */
static int list_snapshots(struct store *s, const struct store_snapshot *sn, const char *tag,
	struct lister *l, struct error *e)
{
	const struct store_snapshot_filter f = {.key_id = sn->key_id,
		.name = sn->name,
		.tag = tag,
		.limit = STORE_SNAPSHOTS_LIST_MAX};
	char next[STORE_PAGE_TOKEN_BYTES];

	if (!*sn->name)
		return tag && strcmp(tag, "default") != 0 ? 0 : give(l, sn);
	return store_snapshot_list(s, &f, give, l, next, e);
}

int tagged_list(struct store *s, const struct tagged *t,
	int (*each)(void *arg, const struct store_tag *tag), void *arg, struct error *e)
{
	struct lister l = {each, arg};

	return t->snapshots ? list_snapshots(s, &t->sn, NULL, &l, e)
			    : store_tag_list(s, t->t.row.id, each, arg, e);
}

int tagged_history(struct store *s, const struct tagged *t, const char *tag, uint64_t before_seq,
	uint32_t limit, int (*each)(void *arg, const struct store_tag *tag), void *arg,
	struct error *e)
{
	struct lister l = {each, arg};

	if (!t->snapshots)
		return store_tag_history(s, t->t.row.id, tag, before_seq, limit, each, arg, e);
	return before_seq ? 0 : list_snapshots(s, &t->sn, tag, &l, e); /* there is only one */
}

static int take_tag(void *arg, const struct store_tag *tag)
{
	*(struct store_tag *)arg = *tag;
	return 1;
}

int tagged_get(struct store *s, const struct tagged *t, const char *tag, struct store_tag *ret,
	struct error *e)
{
	struct lister l = {take_tag, ret};
	int r;

	if (!t->snapshots)
		return store_tag_get(s, t->t.row.id, tag, ret, e);
	r = list_snapshots(s, &t->sn, tag, &l, e);
	if (r == 0)
		return error_set(e, ERROR_NOT_FOUND, ENOENT, "there is no tag '%.128s'", tag);
	return r < 0 ? r : 0;
}

int tagged_remove(struct store *s, const struct tagged *t, const char *tag, struct error *e)
{
	struct error why = {0};
	int r;

	if (t->snapshots)
		return *t->sn.name ? store_snapshot_unname(s, t->sn.key_id, t->sn.name, tag, e) : 0;
	r = store_tag_remove(s, t->t.row.id, tag, &why);
	if (r == 0 || why.code == ERROR_NOT_FOUND)
		return 0;
	return error_set(e, why.code, why.err, "%s", why.message);
}
