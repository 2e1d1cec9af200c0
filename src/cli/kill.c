/* `mayfly kill`: ends sandboxes. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/json.h"
#include "daemon/sandbox_dir.h"
#include "image/home.h"

struct kill_options {
	struct cli_common common;
	bool all;
};

static const struct option_spec options[] = {
	{"all", 0, OPTION_FLAG, NULL, "end all sandboxes", offsetof(struct kill_options, all), 0, 0,
		false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

struct killing {
	struct sandbox_dirs dirs;
	json_t *ended; /* ids, with --json */
};

static int kill_one(struct killing *k, const char *id, struct error *e)
{
	int r = sandbox_kill(&k->dirs, id, e);

	if (r < 0)
		return r;
	if (k->ended)
		(void)json_array_append_new(k->ended, json_string(id)); /* shows as missing */
	else
		printf("%s\n", id);
	return 0;
}

static int kill_named(struct killing *k, int argc, char **argv, struct error *e)
{
	/* all of them, though one may fail; the first failure is reported */
	for (int i = 0; i < argc; i++) {
		char id[SANDBOX_ID_BYTES];

		if (sandbox_find(&k->dirs, argv[i], id, e) == 0)
			(void)kill_one(k, id, e);
	}
	return e->code == ERROR_NONE ? 0 : -EIO;
}

static int kill_all(struct killing *k, struct error *e)
{
	struct sandbox_record *list = NULL;
	size_t count = 0;
	int r = sandbox_list(&k->dirs, &list, &count, e);

	for (size_t i = 0; r == 0 && i < count; i++) {
		struct error one = {0};

		/* one that ended by itself meanwhile is what was asked for */
		if (kill_one(k, list[i].id, &one) < 0 && one.code != ERROR_NOT_FOUND &&
			e->code == ERROR_NONE)
			*e = one;
	}
	sandbox_list_free(list, count);
	return e->code == ERROR_NONE ? r : -EIO;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct kill_options *o = values;
	struct killing k = {.dirs = SANDBOX_DIRS_INIT};
	struct home home = HOME_INIT;
	int r;

	if ((argc == 0) != o->all)
		return error_set(e, ERROR_USAGE, EINVAL, "give ids of sandboxes, or --all");
	r = home_open(NULL, &home, e);
	if (r == 0)
		r = sandbox_dirs_open(home.path, &k.dirs, e);
	if (r == 0) {
		k.ended = o->common.json ? json_array() : NULL;
		sandbox_dirs_collect(&k.dirs);
		r = o->all ? kill_all(&k, e) : kill_named(&k, argc, argv, e);
	}
	if (r == 0 && k.ended)
		r = json_print(json_pack("{s:O}", "ended", k.ended), e);
	json_decref(k.ended);
	sandbox_dirs_close(&k.dirs);
	home_close(&home);
	return r;
}

const struct cli_verb cli_verb_kill = {
	.name = "kill",
	.arguments = "ID...",
	.summary = "End sandboxes",
	.description = "The beginning of an id is enough where only one sandbox has it. The "
		       "microVM ends at\n"
		       "once, with everything in it; what ran it (mayfly run) exits with status "
		       "125. Ended\n"
		       "ids are printed.",
	.options = options,
	.values_bytes = sizeof(struct kill_options),
	.run = run,
};
