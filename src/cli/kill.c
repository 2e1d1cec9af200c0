/* `mayfly kill`: ends sandboxes. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/json.h"
#include "cli/known.h"

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
	struct known known;
	json_t *ended;	 /* ids, with --json */
	struct error *e; /* the first failure */
};

static int kill_one(struct killing *k, const char *id, struct error *e)
{
	int r = known_kill(&k->known, id, e);

	if (r < 0)
		return r;
	if (k->ended)
		(void)json_array_append_new(k->ended, json_string(id)); /* shows as missing */
	else
		printf("%s\n", id);
	return 0;
}

/* All of them, though one may fail; the first failure is reported. */
static void kill_named(struct killing *k, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		char id[ROUTE_SANDBOX_ID_MAX + 1];

		if (known_find(&k->known, argv[i], id, k->e) == 0)
			(void)kill_one(k, id, k->e);
	}
}

static int kill_any(void *arg, const char *id)
{
	struct killing *k = arg;
	struct error one = {0};

	/* one that ended by itself meanwhile is what was asked for */
	if (kill_one(k, id, &one) < 0 && one.code != ERROR_NOT_FOUND && k->e->code == ERROR_NONE)
		*k->e = one;
	return 0;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct kill_options *o = values;
	struct killing k = {.known = KNOWN_INIT, .e = e};
	int r;

	if ((argc == 0) != o->all)
		return error_set(e, ERROR_USAGE, EINVAL, "give ids of sandboxes, or --all");
	r = known_open(&k.known, e);
	if (r == 0) {
		k.ended = o->common.json ? json_array() : NULL;
		if (o->all)
			(void)known_each(&k.known, kill_any, &k); /* goes through all */
		else
			kill_named(&k, argc, argv);
		r = e->code == ERROR_NONE ? 0 : -EIO;
	}
	if (r == 0 && k.ended)
		r = json_print(json_pack("{s:O}", "ended", k.ended), e);
	json_decref(k.ended);
	known_close(&k.known);
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
