/* `mayfly template history|tag`. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/json.h"
#include "cli/table.h"
#include "cli/template/template.h"
#include "image/home.h"
#include "image/template.h"
#include "image/workdir.h"

enum { STEP_SHOWN = 100 };

static void add_row(struct table *t, const json_t *one)
{
	const char *step = json_string_value(json_object_get(one, "step"));
	json_int_t bytes = json_integer_value(json_object_get(one, "bytes"));
	char text[STEP_SHOWN], size[16] = "-";
	const char *const row[] = {size, text};

	(void)snprintf(text, sizeof(text), "%s", step ? step : ""); /* may be cut */
	if (bytes > 0)
		(void)str_format_bytes((uint64_t)bytes, size);
	table_add(t, row);
}

static int print_history(bool json, const char *text, struct error *e)
{
	static const char *const heading[] = {"SIZE", "STEP"};
	struct table t = {.columns = ARRAY_SIZE(heading)};
	json_t *all = *text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : json_array(), *one;
	size_t i;

	if (!json_is_array(all)) {
		json_decref(all);
		return error_set(e, ERROR_BAD_IMAGE, EINVAL, "its history is damaged");
	}
	if (json)
		return json_print(all, e);
	table_add(&t, heading);
	json_array_foreach(all, i, one) add_row(&t, one);
	json_decref(all);
	return table_print(&t) < 0 ? error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory") : 0;
}

static int history_run(void *values, int argc, char **argv, struct error *e)
{
	const struct cli_common *o = values;
	_cleanup_free_ char *text = NULL;
	struct home home = HOME_INIT;
	int r;

	if (argc != 1)
		return error_set(e, ERROR_USAGE, EINVAL, "give the name of one template");
	r = home_open(NULL, &home, e);
	if (r == 0)
		r = template_history(&home, argv[0], &text, e);
	if (r == 0 && !*text && !o->json)
		r = error_set(e, ERROR_NOT_FOUND, ENOENT,
			"template '%s' was not built from a Dockerfile, so it has no steps",
			argv[0]);
	if (r == 0)
		r = print_history(o->json, text, e);
	home_close(&home);
	return r;
}

static const struct option_spec history_options[] = {
	CLI_OPTION_JSON, CLI_OPTION_HELP, CLI_OPTIONS_END};

const struct cli_verb cli_verb_template_history = {
	.name = "history",
	.arguments = "TEMPLATE",
	.summary = "List the steps that a template was built in",
	.description = "Shows how much each step wrote to the disk, first step first.",
	.options = history_options,
	.values_bytes = sizeof(struct cli_common),
	.run = history_run,
};

static int tag_run(void *values, int argc, char **argv, struct error *e)
{
	struct home home = HOME_INIT;
	int r;

	if (argc != 2)
		return error_set(e, ERROR_USAGE, EINVAL, "give a template and its other name");
	r = workdir_check_name(argv[1], e);
	if (r == 0)
		r = home_open(NULL, &home, e);
	if (r == 0 && strcmp(argv[0], argv[1]) != 0)
		r = template_clone(&home, argv[0], argv[1], e);
	home_close(&home);
	return r;
}

static const struct option_spec tag_options[] = {CLI_OPTION_HELP, CLI_OPTIONS_END};

const struct cli_verb cli_verb_template_tag = {
	.name = "tag",
	.arguments = "TEMPLATE NAME[:TAG]",
	.summary = "Give a template another name",
	.description = "Both names share the same files, which take no more space. Replaces a "
		       "template that has the\nname already; its sandboxes go on.",
	.options = tag_options,
	.values_bytes = sizeof(struct cli_common),
	.run = tag_run,
};
