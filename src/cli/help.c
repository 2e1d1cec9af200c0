#include "cli/help.h"

#include <errno.h>
#include <string.h>

void help_print_synopsis(const struct cli_verb *v, FILE *f)
{
	fprintf(f, "%s%s%s", v->verbs ? "COMMAND" : "[OPTION]...", *v->arguments ? " " : "",
		v->arguments);
}

void help_print_verbs(const struct cli_verb *const *verbs, const char *path, FILE *f)
{
	fprintf(f, "usage: %s COMMAND [OPTION]... [ARGUMENT]...\n", path);
	if (verbs == cli_verbs)
		fprintf(f, "\nSandboxes for AI agents: every command runs in its own microVM.\n");
	fprintf(f, "\n");
	for (; *verbs; verbs++)
		if (!(*verbs)->hidden)
			fprintf(f, "  %-12s %s\n", (*verbs)->name, (*verbs)->summary);
	fprintf(f, "\n`%s COMMAND --help` says more.\n", path);
}

void help_print_verb(const struct cli_verb *v, const char *path, FILE *f)
{
	fprintf(f, "usage: %s ", path);
	help_print_synopsis(v, f);
	fprintf(f, "\n\n%s%s\n", v->summary, v->summary[strlen(v->summary) - 1] == '.' ? "" : ".");
	if (v->description)
		fprintf(f, "\n%s\n", v->description);
	fprintf(f, "\n");
	options_print(v->options, f);
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct cli_verb *const *verbs = cli_verbs;
	const struct cli_verb *v = NULL;
	char path[64] = "mayfly";

	for (int i = 0; i < argc; i++) {
		v = verbs ? cli_find_verb(verbs, argv[i]) : NULL;
		if (!v && verbs)
			return cli_unknown_verb(verbs, argv[i], e);
		if (!v)
			return cli_no_arguments(1, argv + i, e);
		/* names of ours are short */
		(void)snprintf(path + strlen(path), sizeof(path) - strlen(path), " %s", v->name);
		verbs = v->verbs;
	}
	if (verbs)
		help_print_verbs(verbs, path, stdout);
	else
		help_print_verb(v, path, stdout);
	return 0;
}

static const struct option_spec options[] = {CLI_OPTION_HELP, CLI_OPTIONS_END};

const struct cli_verb cli_verb_help = {
	.name = "help",
	.arguments = "[COMMAND]...",
	.summary = "Say what a command does and which options it has",
	.options = options,
	.values_bytes = sizeof(struct cli_common),
	.run = run,
};
