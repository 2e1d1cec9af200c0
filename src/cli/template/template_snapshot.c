#include "cli/template/template_snapshot.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/str.h"
#include "cli/remote/remote.h"
#include "proto/json_tree.h"

static const char prefix[] = "snapshot:", any_tag[] = ":default";

const char *template_snapshot_word(const char *from)
{
	return str_starts_with(from, prefix) ? from + strlen(prefix) : NULL;
}

/* The tag `default` need not be said. */
static size_t length(const char *name)
{
	return strlen(name) - (str_ends_with(name, any_tag) ? strlen(any_tag) : 0);
}

static bool is_name(const char *name, const char *word)
{
	size_t n = length(name);

	return n == length(word) && strncmp(name, word, n) == 0;
}

static bool is_meant(const json_t *one, const char *word)
{
	const json_t *names = json_object_get(one, "names"), *v;
	size_t i;

	if (is_name(json_tree_text(one, "snapshotID"), word) ||
		is_name(json_tree_text(one, "templateID"), word))
		return true;
	json_array_foreach(names, i, v) if (is_name(json_string_value(v), word)) return true;
	return false;
}

static uint64_t megabytes(const json_t *one, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(one, key)) << 20;
}

static void take(const json_t *one, struct template_snapshot *ret)
{
	(void)snprintf(ret->id, sizeof(ret->id), "%s", json_tree_text(one, "templateID"));
	ret->base = (struct base_snapshot){.id = ret->id,
		.memory = json_is_true(json_object_get(one, "memory")),
		.cpus = (unsigned)json_integer_value(json_object_get(one, "cpuCount")),
		.memory_bytes = megabytes(one, "memoryMB"),
		.disk_bytes = megabytes(one, "diskSizeMB")};
}

static int choose(
	const json_t *list, const char *word, struct template_snapshot *ret, struct error *e)
{
	const json_t *one, *found = NULL;
	size_t i;

	json_array_foreach(list, i, one)
	{
		if (!is_meant(one, word))
			continue;
		if (found)
			return error_set(e, ERROR_USAGE, EINVAL,
				"keys have several snapshots '%.128s': give the id of one, its "
				"templateID in `mayfly snapshot ls --json`",
				word);
		found = one;
	}
	if (!found)
		return error_set(e, ERROR_NOT_FOUND, ENOENT,
			"there is no snapshot '%.128s': `mayfly snapshot ls` lists them", word);
	take(found, ret);
	return 0;
}

int template_snapshot_find(
	const struct home *home, const char *word, struct template_snapshot *ret, struct error *e)
{
	json_t *list = NULL;
	int r = remote_try_pages(home, "/snapshots", &list, e);

	if (r == -ECONNREFUSED) {
		r = client_no_daemon(home, e);
		error_prefix(e, "the daemon knows what snapshots there are");
	}
	if (r == 0)
		r = choose(list, word, ret, e);
	json_decref(list);
	return r;
}
