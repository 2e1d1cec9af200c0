#include "fleet/runtimes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"

static const char *const built_in[] = {"python-3.12", "node-20", "deno", "base"};

enum { TEXT_MAX = 64 * 1024 };

static bool has_name(const char *entry, const char *name)
{
	size_t n = strlen(name);

	return strncmp(entry, name, n) == 0 && entry[n] == '=';
}

int runtimes_check(const struct option_list *list, struct error *e)
{
	for (unsigned i = 0; list && i < list->count; i++) {
		const char *equals = strchr(list->items[i], '=');
		_cleanup_free_ char *name =
			strndup(list->items[i], equals ? (size_t)(equals - list->items[i]) : 0);

		if (!name || !str_is_name(name) || !str_is_tagged_name(equals + 1))
			return error_set(e, ERROR_USAGE, EINVAL,
				"--runtime %.80s: must be NAME=TEMPLATE", list->items[i]);
	}
	return 0;
}

const char *runtimes_find(const struct option_list *list, const char *name)
{
	for (unsigned i = list ? list->count : 0; i-- > 0;)
		if (has_name(list->items[i], name))
			return list->items[i] + strlen(name) + 1;
	for (size_t i = 0; i < ARRAY_SIZE(built_in); i++)
		if (strcmp(built_in[i], name) == 0)
			return built_in[i];
	return NULL;
}

/* Whether no name before says the same. */
static bool is_new(const struct option_list *list, unsigned i)
{
	const char *entry = list->items[i];

	for (size_t k = 0; k < ARRAY_SIZE(built_in); k++)
		if (has_name(entry, built_in[k]))
			return false;
	for (unsigned k = 0; k < i; k++)
		if (strncmp(entry, list->items[k], strcspn(list->items[k], "=") + 1) == 0)
			return false;
	return true;
}

char *runtimes_names(const struct option_list *list)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(built_in) && r == 0; i++)
		r = buf_printf(&text, "%s%s", i ? ", " : "", built_in[i]);
	for (unsigned i = 0; list && i < list->count && r == 0; i++)
		if (is_new(list, i))
			r = buf_printf(
				&text, ", %.*s", (int)strcspn(list->items[i], "="), list->items[i]);
	return r == 0 ? strndup((const char *)buf_head(&text), buf_len(&text)) : NULL;
}
