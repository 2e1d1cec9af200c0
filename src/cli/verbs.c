/* The table of verbs, and the search in it. */
#include "cli/cli.h"

#include <errno.h>
#include <string.h>

#include "cli/suggest.h"

const struct cli_verb *const cli_verbs[] = {
	&cli_verb_run,
	&cli_verb_create,
	&cli_verb_exec,
	&cli_verb_shell,
	&cli_verb_code,
	&cli_verb_cp,
	&cli_verb_ls,
	&cli_verb_port,
	&cli_verb_ps,
	&cli_verb_inspect,
	&cli_verb_stats,
	&cli_verb_timeout,
	&cli_verb_network,
	&cli_verb_policy,
	&cli_verb_activity,
	&cli_verb_approvals,
	&cli_verb_kill,
	&cli_verb_logs,
	&cli_verb_pause,
	&cli_verb_resume,
	&cli_verb_checkpoint,
	&cli_verb_rollback,
	&cli_verb_fork,
	&cli_verb_diff,
	&cli_verb_snapshot,
	&cli_verb_template,
	&cli_verb_agents,
	&cli_verb_serve,
	&cli_verb_lockdown,
	&cli_verb_keys,
	&cli_verb_secrets,
	&cli_verb_webhooks,
	&cli_verb_tiers,
	&cli_verb_usage,
	&cli_verb_doctor,
	&cli_verb_version,
	&cli_verb_completion,
	&cli_verb_help,
	&cli_verb_manual,
	NULL,
};

const struct cli_verb *cli_find_verb(const struct cli_verb *const *verbs, const char *name)
{
	for (; *verbs; verbs++)
		if (strcmp((*verbs)->name, name) == 0)
			return *verbs;
	return NULL;
}

int cli_unknown_verb(const struct cli_verb *const *verbs, const char *word, struct error *e)
{
	struct suggest s = suggest_for(word);

	if (*word == '-')
		return error_set(
			e, ERROR_USAGE, EINVAL, "unknown option %s: see mayfly --help", word);
	for (; *verbs; verbs++)
		if (!(*verbs)->hidden)
			suggest_offer(&s, (*verbs)->name);
	if (s.best)
		return error_set(e, ERROR_USAGE, EINVAL, "unknown command '%s': did you mean '%s'?",
			word, s.best);
	return error_set(e, ERROR_USAGE, EINVAL, "unknown command '%s': see mayfly --help", word);
}
