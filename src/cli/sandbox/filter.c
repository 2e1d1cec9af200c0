#include "cli/sandbox/filter.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

static bool has_key(const struct row *r, const char *value)
{
	const char *id = json_string_value(json_object_get(r->served, "keyID"));

	return strcmp(row_key(r), value) == 0 || (id && strcmp(id, value) == 0);
}

static bool has_state(const struct row *r, const char *value)
{
	return (strcmp(value, "paused") == 0) == row_is_paused(r);
}

static bool has_template(const struct row *r, const char *value)
{
	const char *id = json_string_value(json_object_get(r->served, "templateID"));

	return strcmp(row_template(r), value) == 0 || (id && strcmp(id, value) == 0);
}

/* "K=V", or "K" for any value. */
static bool has_metadata(const struct row *r, const char *value)
{
	size_t n = strcspn(value, "=");
	const char *key;
	json_t *v;

	json_object_foreach(row_metadata(r), key, v) if (strlen(key) == n &&
							 memcmp(key, value, n) == 0 &&
							 json_is_string(v)) return !value[n] ||
		strcmp(json_string_value(v), value + n + 1) == 0;
	return false;
}

/* A name with what stands between it and the value. */
static const struct kind {
	const char *prefix;
	bool (*holds)(const struct row *r, const char *value);
} kinds[] = {
	{"key=", has_key},
	{"state=", has_state},
	{"template=", has_template},
	{"metadata=", has_metadata},
	{"metadata.", has_metadata},
};

static const struct kind *find_kind(const char *item, const char **ret_value)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (str_starts_with(item, kinds[i].prefix)) {
			*ret_value = item + strlen(kinds[i].prefix);
			return &kinds[i];
		}
	return NULL;
}

static int check_item(const char *item, struct error *e)
{
	const char *value = "";
	const struct kind *k = find_kind(item, &value);

	if (!k || !*value)
		return error_set(e, ERROR_USAGE, EINVAL,
			"--filter %s: expected key=NAME, metadata.K=V, state=running|paused or "
			"template=NAME",
			item);
	if (k->holds == has_state && strcmp(value, "running") != 0 && strcmp(value, "paused") != 0)
		return error_set(e, ERROR_USAGE, EINVAL,
			"--filter %s: the state is running or paused", item);
	return 0;
}

int filter_check(const struct filter *f, struct error *e)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < f->items.count; i++)
		r = check_item(f->items.items[i], e);
	return r;
}

bool filter_selects(const struct filter *f, const struct row *r)
{
	bool by_state = false;

	for (unsigned i = 0; i < f->items.count; i++) {
		const char *value;
		const struct kind *k = find_kind(f->items.items[i], &value);

		if (!k->holds(r, value))
			return false;
		by_state |= k->holds == has_state;
	}
	return f->all || by_state || !row_is_paused(r);
}
