/* `mayfly ls`: lists files of a sandbox. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/remote/remote_files.h"
#include "cli/table.h"

struct ls_options {
	struct cli_common common;
	bool long_form, all;
	const char *user;
};

static const struct option_spec options[] = {
	{"long", 'l', OPTION_FLAG, NULL, "with permissions, owner, size and time",
		offsetof(struct ls_options, long_form), 0, 0, false},
	{"all", 'a', OPTION_FLAG, NULL, "also names that begin with a dot",
		offsetof(struct ls_options, all), 0, 0, false},
	{"user", 'u', OPTION_STRING, "NAME", "user to look as (default: the template's)",
		offsetof(struct ls_options, user), 0, 0, false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

static int compare(const void *a, const void *b)
{
	return strcmp(remote_entry_text(*(json_t *const *)a, "name"),
		remote_entry_text(*(json_t *const *)b, "name"));
}

/* Of a file the file itself; sorted by name. */
static int gather(struct remote_files *f, const char *path, json_t **ret, struct error *e)
{
	json_t *entry = NULL;
	int r = remote_files_stat(f, path, &entry, e);

	if (r == 0 && remote_entry_kind(entry) == REMOTE_DIRECTORY)
		r = remote_files_list(f, path, ret, e);
	else if (r == 0)
		*ret = json_pack("[O]", entry);
	json_decref(entry);
	return r;
}

static json_t *select_sorted(const json_t *list, bool all)
{
	size_t n = json_array_size(list), count = 0;
	_cleanup_free_ json_t **sorted = calloc(n + 1, sizeof(*sorted));
	json_t *ret = json_array();

	for (size_t i = 0; sorted && i < n; i++) {
		json_t *one = json_array_get(list, i);

		if (all || n == 1 || remote_entry_text(one, "name")[0] != '.')
			sorted[count++] = one;
	}
	if (sorted)
		qsort(sorted, count, sizeof(*sorted), compare);
	for (size_t i = 0; i < count; i++)
		(void)json_array_append(ret, sorted[i]); /* shows as missing */
	return ret;
}

static int print_long(const json_t *list, struct error *e)
{
	struct table t = {.columns = 6};
	json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		const char *link = remote_entry_text(one, "symlinkTarget"),
			   *time = remote_entry_text(one, "modifiedTime");
		_cleanup_free_ char *name = str_printf(
			"%s%s%s", remote_entry_text(one, "name"), *link ? " -> " : "", link);
		char size[24], when[21];
		const char *const cells[] = {remote_entry_text(one, "permissions"),
			remote_entry_text(one, "owner"), remote_entry_text(one, "group"), size,
			when, name ? name : ""};

		(void)snprintf(size, sizeof(size), "%llu",
			(unsigned long long)remote_entry_size(one)); /* fits */
		(void)snprintf(when, sizeof(when), "%.19s%s", time, *time ? "Z" : "");
		table_add(&t, cells);
	}
	return table_print(&t) < 0 ? error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory") : 0;
}

static int print(const struct ls_options *o, const json_t *list, struct error *e)
{
	json_t *sorted = select_sorted(list, o->all || o->common.json), *one;
	size_t i;
	int r = 0;

	if (o->common.json)
		return json_print(sorted, e);
	if (o->long_form)
		r = print_long(sorted, e);
	else
		json_array_foreach(sorted, i, one) table_print_name(remote_entry_text(one, "name"));
	json_decref(sorted);
	return r;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct ls_options *o = values;
	struct remote remote = REMOTE_INIT;
	struct remote_files files = {.remote = &remote};
	json_t *list = NULL;
	char *colon;
	int r;

	if (argc != 1)
		return error_set(e, ERROR_USAGE, EINVAL,
			"give one sandbox, with a path or without: mayfly ls ID[:PATH]");
	colon = strchr(argv[0], ':');
	if (colon)
		*colon = '\0';
	r = remote_open(argv[0], &remote, e);
	remote.user = o->user;
	if (r == 0)
		r = gather(&files, colon && colon[1] ? colon + 1 : ".", &list, e);
	if (r == 0)
		r = print(o, list, e);
	json_decref(list);
	remote_files_close(&files);
	remote_close(&remote);
	return r;
}

const struct cli_verb cli_verb_ls = {
	.name = "ls",
	.arguments = "ID[:PATH]",
	.summary = "List files of a sandbox of the daemon",
	.description =
		"Without a path, lists the user's home. With --json, prints the API's entries.",
	.options = options,
	.values_bytes = sizeof(struct ls_options),
	.run = run,
};
