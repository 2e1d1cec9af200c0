#include "cli/remote/known.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "cli/remote/remote.h"

/* The daemon lists the newest first. */
static int take_served(struct known *k, struct error *e)
{
	json_t *list = NULL;
	int r = remote_try_list(&k->home, &list, e);

	k->served = json_array();
	if (r == -ECONNREFUSED)
		return 0;
	for (size_t i = json_array_size(list); i-- > 0;)
		(void)json_array_append(k->served, json_array_get(list, i)); /* shows as missing */
	json_decref(list);
	return r;
}

int known_open(struct known *ret, struct error *e)
{
	int r = home_open(NULL, &ret->home, e);

	if (r == 0)
		r = sandbox_dirs_open(ret->home.path, &ret->dirs, e);
	if (r == 0)
		r = take_served(ret, e);
	if (r == 0) {
		sandbox_dirs_collect(&ret->dirs);
		r = sandbox_list(&ret->dirs, &ret->records, &ret->count, e);
	}
	return r;
}

void known_close(struct known *k)
{
	json_decref(k->served);
	sandbox_list_free(k->records, k->count);
	sandbox_dirs_close(&k->dirs);
	home_close(&k->home);
}

const json_t *known_served(const struct known *k, const char *id)
{
	const json_t *one;
	size_t i;

	json_array_foreach(k->served, i, one)
	{
		const char *other = json_string_value(json_object_get(one, "sandboxID"));

		if (other && strcmp(other, id) == 0)
			return one;
	}
	return NULL;
}

const struct sandbox_record *known_record(const struct known *k, const char *id)
{
	for (size_t i = 0; i < k->count; i++)
		if (strcmp(k->records[i].id, id) == 0)
			return &k->records[i];
	return NULL;
}

int known_each(const struct known *k, int (*each)(void *arg, const char *id), void *arg)
{
	const json_t *one;
	size_t i;
	int r = 0;

	for (size_t n = 0; r == 0 && n < k->count; n++)
		r = each(arg, k->records[n].id);
	/* of those that have no directory: paused, or on their way */
	json_array_foreach(k->served, i, one)
	{
		const char *id = json_string_value(json_object_get(one, "sandboxID"));

		if (r == 0 && id && strlen(id) <= ROUTE_SANDBOX_ID_MAX && !known_record(k, id))
			r = each(arg, id);
	}
	return r;
}

struct search {
	const char *prefix;
	char *found;
	unsigned count;
};

static int compare(void *arg, const char *id)
{
	struct search *s = arg;

	if (!str_starts_with(id, s->prefix))
		return 0;
	if (s->count++ == 0)
		(void)strcpy(s->found, id); /* bounded by known_each and the records */
	return 0;
}

int known_find(const struct known *k, const char *prefix, char ret_id[ROUTE_SANDBOX_ID_MAX + 1],
	struct error *e)
{
	struct search s = {prefix, ret_id, 0};

	if (*prefix)
		(void)known_each(k, compare, &s); /* compare always goes on */
	if (s.count == 0)
		return error_set(
			e, ERROR_NOT_FOUND, ENOENT, "no sandbox %s runs: see mayfly ps", prefix);
	return s.count == 1
		       ? 0
		       : error_set(e, ERROR_USAGE, EINVAL,
				 "several sandboxes begin with '%s': give more of the id", prefix);
}

int known_kill(const struct known *k, const char *id, struct error *e)
{
	return known_served(k, id) ? remote_remove(&k->home, id, e) : sandbox_kill(&k->dirs, id, e);
}
