#include "api/template/tagged.h"

#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "api/auth.h"
#include "api/template/build_json.h"
#include "fleet/fleet_of.h"
#include "store/keys.h"
#include "store/tags.h"

/* --- finding one snapshot --- */

static int not_found(struct error *e)
{
	return error_set(e, ERROR_NOT_FOUND, ENOENT, "there is no such snapshot");
}

/* Whether tags of the one may name the other. */
static bool are_of_one_template(const struct store_snapshot *a, const struct store_snapshot *b)
{
	char of_a[STORE_SNAPSHOT_TEMPLATE_BYTES], of_b[STORE_SNAPSHOT_TEMPLATE_BYTES];

	store_snapshot_template(a, of_a);
	store_snapshot_template(b, of_b);
	return strcmp(of_a, of_b) == 0;
}

static int find_build(struct store *s, const char *key_id, const char *build_id,
	struct store_snapshot *ret, struct error *e)
{
	char id[STORE_SNAPSHOT_ID_BYTES];

	if (!snapshot_of_build_id(build_id, id))
		return not_found(e);
	return store_snapshot_find(s, key_id, id, "", ret, e);
}

static int find_tagged(struct store *s, const struct store_snapshot *one, const char *tag,
	struct store_snapshot *ret, struct error *e)
{
	char template[STORE_SNAPSHOT_TEMPLATE_BYTES];
	struct store_tag t;
	int r;

	store_snapshot_template(one, template);
	r = store_tag_get(s, template, tag, &t, e);
	return r < 0 ? r : store_snapshot_find(s, one->key_id, t.build_id, "", ret, e);
}

/* Of the snapshots that have the name of this one: the one that the tag means. */
static int find_beside(
	struct store *s, const char *tag, struct store_snapshot *ret, struct error *e)
{
	const struct store_snapshot one = *ret;
	int r;

	if (strcmp(tag, "default") == 0)
		return 0;
	r = route_is_uuid(tag) ? find_build(s, one.key_id, tag, ret, e)
			       : find_tagged(s, &one, tag, ret, e);
	return r == 0 && !are_of_one_template(&one, ret) ? not_found(e) : r;
}

int api_find_snapshot(const struct request *r, const struct template_ref *ref,
	struct store_snapshot *ret, struct error *e)
{
	struct store *s = fleet_of(r)->store;
	struct error why = {0};
	int err;

	if (!api_is_own_name(r, ref))
		return not_found(e);
	err = store_snapshot_find(s, auth_scope(r), ref->name, ref->tag, ret, &why);
	if (err == 0)
		return strcmp(ret->id, ref->name) == 0 ? find_beside(s, ref->tag, ret, e) : 0;
	if (why.code != ERROR_NOT_FOUND || !route_is_uuid(ref->tag))
		return error_set(e, why.code, why.err, "%s", why.message);
	err = find_build(s, auth_scope(r), ref->tag, ret, e);
	return err == 0 && strcmp(ret->name, ref->name) != 0 ? not_found(e) : err;
}

/* --- finding what has tags --- */

static bool is_own_template(const struct request *r, const struct template_ref *ref)
{
	struct found_template t;

	return find_template(fleet_of(r), r->key->id, r->admin, ref, &t, NULL) == 0 && t.built &&
	       (t.mine || r->admin);
}

static int take_first(void *arg, const struct store_snapshot *sn)
{
	*(struct store_snapshot *)arg = *sn;
	return 1;
}

/* By its id, by its name and tag, or else any of the name. */
static bool find_snapshots(
	const struct request *r, const struct template_ref *ref, struct store_snapshot *ret)
{
	const struct store_snapshot_filter f = {
		.key_id = auth_scope(r), .name = ref->name, .limit = 1};

	char next[STORE_PAGE_TOKEN_BYTES];

	if (api_find_snapshot(r, ref, ret, NULL) == 0)
		return true;
	return api_is_own_name(r, ref) &&
	       store_snapshot_list(fleet_of(r)->store, &f, take_first, ret, next, NULL) == 1;
}

bool tagged_find(
	struct request *r, const char *given, struct template_ref *ret_ref, struct tagged *ret)
{
	const char *reason;

	*ret = (struct tagged){.snapshots = false};
	if (template_ref_parse(given, ret_ref, &reason) == 0 && !is_own_template(r, ret_ref) &&
		find_snapshots(r, ret_ref, &ret->sn)) {
		ret->snapshots = true;
		store_snapshot_template(&ret->sn, ret->id);
		return true;
	}
	if (!api_own_template(r, given, ret_ref, &ret->t))
		return false;
	memcpy(ret->id, ret->t.row.id, sizeof(ret->t.row.id));
	return true;
}

/* --- what a snapshot is called --- */

struct names {
	const char *of;
	json_t *list;
};

static int add_name(void *arg, const struct store_tag *t)
{
	struct names *n = arg;

	return json_array_append_new(n->list, json_sprintf("%s:%s", n->of, t->tag)) < 0 ? -ENOMEM
											: 0;
}

json_t *api_snapshot_names(struct store *s, const struct store_snapshot *sn)
{
	char template[STORE_SNAPSHOT_TEMPLATE_BYTES];
	struct names n = {sn->name, json_array()};

	store_snapshot_template(sn, template);
	if (!*sn->name || store_tag_list_of(s, template, sn->id, add_name, &n, NULL) == 0)
		return n.list;
	json_decref(n.list);
	return NULL;
}
