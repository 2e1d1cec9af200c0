/* The verbs of `mayfly template`. */
#ifndef CLI_TEMPLATE_H
#define CLI_TEMPLATE_H

#include "cli/cli.h"

extern const struct cli_verb cli_verb_template_build, cli_verb_template_ls, cli_verb_template_show,
	cli_verb_template_rm, cli_verb_template_prune, cli_verb_template_run_build,
	cli_verb_template_history, cli_verb_template_tag, cli_verb_template_export,
	cli_verb_template_import;

#endif
