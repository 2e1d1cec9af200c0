/* `mayfly tiers`: what a month includes, and what more costs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/admin/ask.h"
#include "cli/admin/listing.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/table.h"

#define UNSET UINT64_MAX

struct set_options {
	struct cli_common common;
	uint64_t minutes;
	const char *price, *currency, *stop;
};

static const struct set_options set_defaults = {.minutes = UNSET};

static const struct option_spec set_options[] = {
	{"included-minutes", 0, OPTION_NUMBER, "N",
		"minutes of sandboxes' life included in a calendar month (UTC)",
		offsetof(struct set_options, minutes), 0, INT32_MAX, false},
	{"price", 0, OPTION_STRING, "PRICE", "of a minute more, such as 0.0025",
		offsetof(struct set_options, price), 0, 0, false},
	{"currency", 0, OPTION_STRING, "WORD", "of the price, such as EUR",
		offsetof(struct set_options, currency), 0, 0, false},
	{"hard-stop", 0, OPTION_STRING, "yes|no",
		"whether sandboxes stop once the minutes are used up",
		offsetof(struct set_options, stop), 0, 0, false},
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

static int set_run(void *values, int argc, char **argv, struct error *e)
{
	const struct set_options *o = values;
	json_t *body;
	int r = argc ? cli_no_arguments(argc - 1, argv + 1, e)
		     : error_set(e, ERROR_USAGE, EINVAL, "give the name of a tier");

	if (r < 0)
		return r;
	if (strcmp(argv[0], "none") == 0)
		return error_set(e, ERROR_USAGE, EINVAL, "'none' is no tier: it stands for none");
	body = json_object();
	/* what is missing shows as unset */
	if (o->minutes != UNSET)
		(void)json_object_set_new(
			body, "includedMinutes", json_integer((json_int_t)o->minutes));
	r = json_add_text(body, "pricePerMinute", o->price, "the price", e);
	r = r ? r : json_add_text(body, "currency", o->currency, "the currency", e);
	r = r ? r : ask_add_choice(body, "hardStop", "hard-stop", o->stop, e);
	if (r == 0)
		r = ask_one("PUT", "/tiers", argv[0], body, e);
	json_decref(body);
	return r;
}

static const struct cli_verb set_verb = {
	.name = "set",
	.arguments = "NAME",
	.summary = "Make or change a tier",
	.description =
		"Values that are not given stay as they were, or are 0 for a new tier. mayfly keys "
		"create|set --tier gives a tier to keys. With a hard stop, when the included "
		"minutes are used up, new sandboxes are refused (403) and running ones are paused.",
	.options = set_options,
	.defaults = &set_defaults,
	.values_bytes = sizeof(struct set_options),
	.run = set_run,
};

/* --- ls, rm --- */

static void print_one(struct table *t, const json_t *one)
{
	char minutes[32], price[64];
	const char *const row[] = {ask_text(one, "name"), minutes, price,
		json_is_true(json_object_get(one, "hardStop")) ? "yes" : "no"};

	(void)snprintf(minutes, sizeof(minutes), "%lld",
		(long long)json_integer_value(json_object_get(one, "includedMinutes")));
	(void)snprintf(price, sizeof(price), "%s %s", ask_text(one, "pricePerMinute"),
		ask_text(one, "currency")); /* cut is fine */
	table_add(t, row);
}

static int ls_run(void *values, int argc, char **argv, struct error *e)
{
	static const char *const heading[] = {"NAME", "INCLUDED MINUTES", "PRICE", "HARD STOP"};
	static const struct listing l = {"/tiers", heading, ARRAY_SIZE(heading), print_one};
	const struct cli_common *o = values;

	return listing_run(&l, argc, argv, o->json, e);
}

static int rm_run(void *values, int argc, char **argv, struct error *e)
{
	int r = argc ? 0 : error_set(e, ERROR_USAGE, EINVAL, "give names: see mayfly tiers ls");

	for (int i = 0; r == 0 && i < argc; i++) {
		r = ask_one("DELETE", "/tiers", argv[i], NULL, e);
		if (r == 0)
			printf("%s\n", argv[i]);
	}
	return r;
}

static const struct option_spec ls_options[] = {CLI_OPTION_JSON, CLI_OPTION_HELP, CLI_OPTIONS_END};
static const struct option_spec rm_options[] = {CLI_OPTION_HELP, CLI_OPTIONS_END};

static const struct cli_verb ls_verb = {
	.name = "ls",
	.arguments = "",
	.summary = "List the tiers",
	.options = ls_options,
	.values_bytes = sizeof(struct cli_common),
	.run = ls_run,
};

static const struct cli_verb rm_verb = {
	.name = "rm",
	.arguments = "NAME...",
	.summary = "Remove tiers that no key has",
	.options = rm_options,
	.values_bytes = sizeof(struct cli_common),
	.run = rm_run,
};

static const struct cli_verb *const verbs[] = {&set_verb, &ls_verb, &rm_verb, NULL};

const struct cli_verb cli_verb_tiers = {
	.name = "tiers",
	.arguments = "",
	.summary = "Set the usage included each month, and the price of more",
	.verbs = verbs,
};
