#include "catalog/find.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "catalog/catalog.h"
#include "fleet/fleet.h"
#include "image/template.h"
#include "store/builds.h"
#include "store/tags.h"

static void take(struct found_template *ret, const char *key_id)
{
	ret->built = true;
	ret->mine = strcmp(ret->row.key_id, key_id) == 0;
	(void)snprintf(ret->name, sizeof(ret->name), "%s", ret->row.name); /* fits */
}

/* Whether a call found something, did not, or failed. */
static int outcome(int r, const struct error *why, struct error *e)
{
	if (r == 0 || why->code == ERROR_NOT_FOUND)
		return r == 0;
	return error_set(e, why->code, why->err, "%s", why->message);
}

/* Returns 1 when found; the same below. */
static int find_built(struct fleet *f, const char *key_id, bool all, const char *word,
	struct found_template *ret, struct error *e)
{
	struct error why = {0};
	int r = outcome(store_catalog_find(f->store, key_id, word, &ret->row, &why), &why, e);

	error_clear(&why);
	if (r == 0)
		r = outcome(store_catalog_get(f->store, word, &ret->row, &why), &why, e);
	if (r <= 0)
		return r;
	take(ret, key_id);
	if (!ret->mine && !ret->row.public && !all)
		return error_set(e, ERROR_FORBIDDEN, EACCES,
			"you don't have access to template '%.128s'", word);
	return 1;
}

/* The operator's templates with tags are templates of their own, called NAME:TAG. */
static int find_operators(struct fleet *f, const struct template_ref *ref,
	struct found_template *ret, struct error *e)
{
	bool tagged = strcmp(ref->tag, "default") != 0;
	char word[sizeof(ref->name) + sizeof(ref->tag) + 1];
	int fd, r;

	(void)snprintf(word, sizeof(word), "%s%s%s", ref->name, tagged ? ":" : "",
		tagged ? ref->tag : ""); /* fits */
	r = tagged ? -ENOENT : store_template_name(f->store, word, ret->name, e);
	if (r == 0)
		return 1;
	if (r != -ENOENT)
		return r;
	/* directories of builds are found by their tags only */
	fd = route_is_uuid(word) ? -ENOENT : template_open(&f->home, word, NULL);
	if (fd < 0)
		return 0;
	(void)close(fd); /* a directory */
	/* all of it, as it could be opened */
	(void)snprintf(ret->name, sizeof(ret->name), "%.64s", word);
	return 1;
}

static int find_in_team(struct fleet *f, const char *key_id, bool all,
	const struct template_ref *ref, struct found_template *ret, struct error *e)
{
	struct error why = {0};
	int r = store_catalog_find_in_team(
		f->store, ref->namespace, ref->name, key_id, all, &ret->row, &why);

	r = outcome(r, &why, e);
	error_clear(&why);
	if (r == 0)
		return error_set(e, ERROR_NOT_FOUND, ENOENT, "template '%.64s/%.64s' not found",
			ref->namespace, ref->name);
	if (r < 0)
		return r;
	take(ret, key_id);
	return 0;
}

int find_template(struct fleet *f, const char *key_id, bool all, const struct template_ref *ref,
	struct found_template *ret, struct error *e)
{
	int r;

	*ret = (struct found_template){.built = false};
	if (*ref->namespace)
		return find_in_team(f, key_id, all, ref, ret, e);
	r = find_built(f, key_id, all, ref->name, ret, e);
	if (r == 0)
		r = find_operators(f, ref, ret, e);
	if (r == 0 && !route_is_uuid(ref->name)) { /* the caller's error says more */
		(void)snprintf(ret->name, sizeof(ret->name), "%s", ref->name); /* fits */
		return 0;
	}
	if (r == 0)
		return error_set(
			e, ERROR_NOT_FOUND, ENOENT, "template '%.64s' not found", ref->name);
	return r < 0 ? r : 0;
}

bool find_tag_fits(const struct found_template *t, const struct template_ref *ref)
{
	return t->built || strcmp(ref->tag, "default") == 0 || strchr(t->name, ':');
}

static int no_tag(const struct found_template *t, const struct template_ref *ref, struct error *e)
{
	return error_set(e, ERROR_NOT_FOUND, ENOENT,
		"template '%.128s' with tag '%.128s' not found", t->name, ref->tag);
}

/* A build that is ready may be called by its id, with a tag or without. */
static int find_build(struct fleet *f, const struct found_template *t,
	const struct template_ref *ref, char ret[STORE_NAME_MAX + 1], struct error *e)
{
	struct store_build b = {0};
	struct error why = {0};
	int r = outcome(store_build_get(f->store, ref->tag, &b, &why), &why, e);

	if (r < 0)
		return r;
	if (r == 0 || strcmp(b.template_id, t->row.id) != 0 || !catalog_keep(f, &b))
		return no_tag(t, ref, e);
	memcpy(ret, b.id, sizeof(b.id));
	return 0;
}

int find_directory(struct fleet *f, const struct found_template *t, const struct template_ref *ref,
	char ret[STORE_NAME_MAX + 1], struct error *e)
{
	struct store_tag tag = {0};
	struct error why = {0};
	int r;

	if (!find_tag_fits(t, ref))
		return no_tag(t, ref, e);
	if (!t->built) {
		memcpy(ret, t->name, strlen(t->name) + 1);
		return 0;
	}
	if (route_is_uuid(ref->tag))
		return find_build(f, t, ref, ret, e);
	r = outcome(store_tag_get(f->store, t->row.id, ref->tag, &tag, &why), &why, e);
	if (r <= 0)
		return r < 0 ? r : no_tag(t, ref, e);
	memcpy(ret, tag.build_id, sizeof(tag.build_id));
	return 0;
}
