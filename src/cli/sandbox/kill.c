/* `mayfly kill`: ends sandboxes. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/remote/known.h"
#include "cli/sandbox/filter.h"

struct kill_options {
	struct cli_common common;
	struct filter filter; /* of those that --all means */
	bool all, yes;
};

static const struct option_spec options[] = {
	{"all", 0, OPTION_FLAG, NULL, "end all that run; asks first",
		offsetof(struct kill_options, all), 0, 0, false},
	CLI_OPTION_FILTER(struct kill_options),
	{"yes", 'y', OPTION_FLAG, NULL, "do not ask", offsetof(struct kill_options, yes), 0, 0,
		false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

struct killing {
	const struct kill_options *options;
	struct known known;
	unsigned selected; /* by --all and --filter */
	json_t *ended;	   /* ids, with --json */
	struct error *e;   /* the first failure */
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

static bool is_selected(const struct killing *k, const char *id)
{
	const struct row r = row_of(&k->known, id);

	return filter_selects(&k->options->filter, &r);
}

static int count_selected(void *arg, const char *id)
{
	struct killing *k = arg;

	k->selected += is_selected(k, id);
	return 0;
}

static int kill_selected(void *arg, const char *id)
{
	struct killing *k = arg;
	struct error one = {0};

	if (!is_selected(k, id))
		return 0;
	/* one that ended by itself meanwhile is what was asked for */
	if (kill_one(k, id, &one) < 0 && one.code != ERROR_NOT_FOUND && k->e->code == ERROR_NONE)
		*k->e = one;
	return 0;
}

/* Whether the user wants what --all means. */
static bool confirm(const struct killing *k)
{
	_cleanup_free_ char *line = NULL;
	size_t size = 0;

	if (k->options->yes || !k->selected)
		return true;
	fprintf(stderr, "End %u sandbox%s? [y/N] ", k->selected, k->selected == 1 ? "" : "es");
	if (getline(&line, &size, stdin) > 0 && (*line == 'y' || *line == 'Y'))
		return true;
	fprintf(stderr, "mayfly: none was ended\n");
	return false;
}

/* 1: the user does not want it. */
static int kill_all(struct killing *k)
{
	(void)known_each(&k->known, count_selected, k); /* goes through all, as the next */
	if (!confirm(k))
		return 1;
	(void)known_each(&k->known, kill_selected, k);
	return 0;
}

static int check(const struct kill_options *o, int argc, struct error *e)
{
	if ((argc == 0) != o->all)
		return error_set(e, ERROR_USAGE, EINVAL, "give ids of sandboxes, or --all");
	if (o->filter.items.count && !o->all)
		return error_set(e, ERROR_USAGE, EINVAL, "--filter goes with --all");
	if (o->all && !o->yes && !isatty(STDIN_FILENO))
		return error_set(e, ERROR_USAGE, EINVAL,
			"--all needs --yes where there is no terminal to ask on");
	return filter_check(&o->filter, e);
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	struct killing k = {.options = values, .known = KNOWN_INIT, .e = e};
	int r = check(k.options, argc, e), refused = 0;

	if (r < 0)
		return r;
	r = known_open(&k.known, e);
	if (r == 0) {
		k.ended = k.options->common.json ? json_array() : NULL;
		if (k.options->all)
			refused = kill_all(&k);
		else
			kill_named(&k, argc, argv);
		r = e->code == ERROR_NONE ? refused : -EIO;
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
	.description = "The beginning of an id is enough if only one sandbox has it. The microVM "
		       "ends at once,\n"
		       "with everything in it; a mayfly run that started it exits with status 125. "
		       "Prints the ids\n"
		       "that it ended. --all ends what mayfly ps lists with the same filters. It "
		       "ends paused\n"
		       "sandboxes only with --filter state=paused.",
	.options = options,
	.values_bytes = sizeof(struct kill_options),
	.run = run,
};
