/* The frame of the command line: a table of verbs, each with a table of options.
 *
 * main.c finds the verb, parses its options into a struct of the verb, and calls it. Help, shell
 * completion and the manual are printed from the same tables.
 *
 * The values of a verb begin with struct cli_common. Its function returns an exit status (0 or
 * more), or -errno with e filled. main.c prints such an error as one line and converts it to a
 * status (error_exit_status). */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/options.h"

struct cli_common {
	bool help;
	bool json; /* always false for verbs without --json */
};

struct cli_verb {
	const char *name;
	const char *arguments;	 /* after the options in the usage line, or "" */
	const char *summary;	 /* one line */
	const char *description; /* the text after the summary in --help and the manual, or NULL */
	const struct option_spec *options;
	const void *defaults; /* for the values */
	size_t values_bytes;
	/* argv: the words that are not options, without the verb. */
	int (*run)(void *values, int argc, char **argv, struct error *e);
	const struct cli_verb *const *verbs; /* a group of verbs has these and no function */
	bool options_first; /* options end at the first other word; the rest is a command */
	bool hidden;
};

/* For verbs that start jailed processes. The values have a `const char *jail` for
 * jailed_configure(). */
#define CLI_OPTION_JAIL(type)                                                                      \
	{                                                                                          \
		"jail", 0, OPTION_STRING, "on|off",                                                \
			"off: start processes that no namespace keeps from this host",             \
			offsetof(type, jail), 0, 0, false                                          \
	}

/* Entries that begin or end every table of options. */
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
/* For verbs in which -t has no meaning: elsewhere it always means the terminal. */
#define CLI_OPTION_NO_TTY                                                                          \
	{                                                                                          \
		.name = "tty", .letter = 't', .type = OPTION_REFUSED, .hidden = true,              \
		.help = "means a terminal, as in run and exec; the template is -T NAME"            \
	}
#define CLI_OPTIONS_END                                                                            \
	{                                                                                          \
		.name = NULL                                                                       \
	}

/* All verbs, in the order of the help. NULL ends this and every other table of verbs. */
extern const struct cli_verb *const cli_verbs[];

/* The verbs, one file each. */
extern const struct cli_verb cli_verb_pause, cli_verb_resume, cli_verb_checkpoint,
	cli_verb_rollback, cli_verb_fork, cli_verb_diff, cli_verb_snapshot;
extern const struct cli_verb cli_verb_run, cli_verb_ps, cli_verb_kill, cli_verb_logs,
	cli_verb_template, cli_verb_doctor, cli_verb_version, cli_verb_completion, cli_verb_help,
	cli_verb_manual, cli_verb_serve, cli_verb_keys, cli_verb_tiers, cli_verb_usage,
	cli_verb_create, cli_verb_exec, cli_verb_shell, cli_verb_port, cli_verb_cp, cli_verb_ls,
	cli_verb_secrets, cli_verb_agents, cli_verb_webhooks, cli_verb_code, cli_verb_timeout,
	cli_verb_inspect, cli_verb_stats, cli_verb_network, cli_verb_policy, cli_verb_activity,
	cli_verb_approvals, cli_verb_lockdown;

/* NULL if there is none. */
const struct cli_verb *cli_find_verb(const struct cli_verb *const *verbs, const char *name);

/* ERROR_USAGE for a word that is not a verb, with the nearest one. */
int cli_unknown_verb(const struct cli_verb *const *verbs, const char *word, struct error *e);

/* ERROR_USAGE if there are words, for a verb that takes none. */
int cli_no_arguments(int argc, char **argv, struct error *e);

/* Prints an error: one line on standard error, and with json also an object on standard output.
 * Returns the exit status. */
int cli_print_error(const struct error *e, bool json);

#endif
