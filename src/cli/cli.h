/* The frame of the command line: a table of verbs, each with a table of options.
 *
 * main.c finds the verb, parses its options into a struct of the verb's, and calls it. Help, shell
 * completion and the manual are printed from the same tables.
 *
 * A verb's values begin with struct cli_common. Its function returns an exit status (0 or more), or
 * -errno with e filled, which main.c prints as one line and turns into a status
 * (error_exit_status). */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/options.h"

struct cli_common {
	bool help;
	bool json; /* stays false for verbs without --json */
};

struct cli_verb {
	const char *name;
	const char *arguments;	 /* behind the options in the usage line, or "" */
	const char *summary;	 /* one line */
	const char *description; /* more of it for --help and the manual, or NULL */
	const struct option_spec *options;
	const void *defaults; /* of the values */
	size_t values_bytes;
	/* argv: the words that are no options, without the verb. */
	int (*run)(void *values, int argc, char **argv, struct error *e);
	const struct cli_verb *const *verbs; /* a group of verbs instead of a function */
	bool options_first; /* options end at the first word that is none: the rest is a command */
	bool hidden;
};

/* The entries that every table of options begins or ends with. */
#define CLI_OPTION_HELP                                                                            \
	{                                                                                          \
		"help", 'h', OPTION_HELP, NULL, "print this help",                                 \
			offsetof(struct cli_common, help), 0, 0, false                             \
	}
#define CLI_OPTION_JSON                                                                            \
	{                                                                                          \
		"json", 0, OPTION_FLAG, NULL, "print JSON for programs",                           \
			offsetof(struct cli_common, json), 0, 0, false                             \
	}
/* Where -t would have no meaning: it is the terminal in every verb that has it. */
#define CLI_OPTION_NO_TTY                                                                          \
	{                                                                                          \
		.name = "tty", .letter = 't', .type = OPTION_REFUSED, .hidden = true,              \
		.help = "means a terminal, as in run and exec; the template is -T NAME"            \
	}
#define CLI_OPTIONS_END                                                                            \
	{                                                                                          \
		.name = NULL                                                                       \
	}

/* All verbs in the order of the help; NULL ends this and every other table of them. */
extern const struct cli_verb *const cli_verbs[];

/* The verbs, one file each. */
extern const struct cli_verb cli_verb_pause, cli_verb_resume, cli_verb_checkpoint,
	cli_verb_rollback, cli_verb_fork, cli_verb_diff, cli_verb_snapshot;
extern const struct cli_verb cli_verb_run, cli_verb_ps, cli_verb_kill, cli_verb_logs,
	cli_verb_template, cli_verb_doctor, cli_verb_version, cli_verb_completion, cli_verb_help,
	cli_verb_manual, cli_verb_serve, cli_verb_keys, cli_verb_tiers, cli_verb_usage,
	cli_verb_create, cli_verb_exec, cli_verb_shell, cli_verb_port, cli_verb_cp, cli_verb_ls,
	cli_verb_webhooks, cli_verb_code;

/* NULL when there is none. */
const struct cli_verb *cli_find_verb(const struct cli_verb *const *verbs, const char *name);

/* ERROR_USAGE for a word that is no verb, with the nearest one. */
int cli_unknown_verb(const struct cli_verb *const *verbs, const char *word, struct error *e);

/* ERROR_USAGE for words that a verb does not take. */
int cli_no_arguments(int argc, char **argv, struct error *e);

/* Prints an error: one line on standard error, and an object on standard output with json. Returns
 * the exit status. */
int cli_print_error(const struct error *e, bool json);

#endif
