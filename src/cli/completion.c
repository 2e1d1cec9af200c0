/* `mayfly completion SHELL`: prints completion scripts from the tables. The scripts ask for names
 * of sandboxes and templates at completion time. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/cli.h"

typedef void (*verb_fn)(const struct cli_verb *group, const struct cli_verb *v);

static void each_verb(verb_fn fn)
{
	for (const struct cli_verb *const *v = cli_verbs; *v; v++) {
		if ((*v)->hidden)
			continue;
		if (!(*v)->verbs)
			fn(NULL, *v);
		for (const struct cli_verb *const *w = (*v)->verbs; w && *w; w++)
			if (!(*w)->hidden)
				fn(*v, *w);
	}
}

static bool takes_sandbox(const struct cli_verb *v)
{
	return strstr(v->arguments, "ID") != NULL;
}

/* Not an id alone: what follows is a path. */
static bool takes_path(const struct cli_verb *v)
{
	return strstr(v->arguments, ":PATH") != NULL;
}

static bool takes_template(const struct cli_verb *v)
{
	return strstr(v->arguments, "TEMPLATE") != NULL;
}

/* Text inside single quotes of a shell; characters of `special` get a backslash. */
static void print_text(const char *text, const char *special)
{
	for (; *text; text++) {
		if (*text == '\'') {
			fputs("'\\''", stdout);
			continue;
		}
		if (strchr(special, *text))
			putchar('\\');
		putchar(*text);
	}
}

static void print_names(const struct cli_verb *const *verbs)
{
	for (; *verbs; verbs++)
		if (!(*verbs)->hidden)
			printf("%s ", (*verbs)->name);
}

/* --- bash --- */

static void bash_verb(const struct cli_verb *group, const struct cli_verb *v)
{
	printf("\t'%s%s%s') words='", group ? group->name : "", group ? " " : "", v->name);
	for (const struct option_spec *s = v->options; s->name; s++)
		if (!s->hidden)
			printf("--%s ", s->name);
	printf("'");
	if (takes_sandbox(v))
		printf("; [[ $cur == -* ]] || words=$(mayfly ps -aq 2>/dev/null%s)%s",
			takes_path(v) ? " | sed s/$/:/" : "",
			takes_path(v) ? "; compopt -o nospace" : "");
	if (takes_template(v))
		printf("; [[ $cur == -* ]] || words=$(mayfly template ls -q 2>/dev/null)");
	printf(" ;;\n");
}

static void print_bash(void)
{
	printf("# bash completion of mayfly: source it, or put it into\n"
	       "# /usr/share/bash-completion/completions/mayfly\n"
	       "_mayfly() {\n"
	       "\tlocal cur=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
	       "\tlocal verb=${COMP_WORDS[1]} at=2 words=''\n"
	       "\tCOMPREPLY=()\n");
	for (const struct cli_verb *const *v = cli_verbs; *v; v++) {
		if (!(*v)->verbs)
			continue;
		printf("\tif [[ $verb == %s ]]; then\n"
		       "\t\tif ((COMP_CWORD == 2)); then\n\t\t\tCOMPREPLY=($(compgen -W '",
			(*v)->name);
		print_names((*v)->verbs);
		printf("' -- \"$cur\"))\n\t\t\treturn\n\t\tfi\n"
		       "\t\tverb=\"$verb ${COMP_WORDS[2]}\"\n\t\tat=3\n\tfi\n");
	}
	printf("\tif ((COMP_CWORD == 1)); then\n\t\tCOMPREPLY=($(compgen -W '");
	print_names(cli_verbs);
	printf("' -- \"$cur\"))\n\t\treturn\n\tfi\n"
	       "\tlocal i\n\tfor ((i = at; i < COMP_CWORD; i++)); do\n"
	       "\t\t[[ ${COMP_WORDS[i]} == -- ]] && { compopt -o default; return; }\n\tdone\n"
	       "\tif [[ $previous == --template || $previous == -T ]]; then\n"
	       "\t\tCOMPREPLY=($(compgen -W \"$(mayfly template ls -q 2>/dev/null)\" -- "
	       "\"$cur\"))\n"
	       "\t\treturn\n\tfi\n"
	       "\tcase $verb in\n");
	each_verb(bash_verb);
	printf("\tesac\n"
	       "\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
	       "\t[[ $COMPREPLY || $cur == -* ]] || compopt -o default\n"
	       "}\n"
	       "complete -F _mayfly mayfly\n");
}

/* --- zsh --- */

static void zsh_argument(const struct option_spec *s)
{
	if (!s->argument || s->type == OPTION_OPTIONAL)
		return;
	if (strcmp(s->name, "template") == 0)
		printf(":%s:_mayfly_templates", s->argument);
	else if (strcmp(s->argument, "FILE") == 0 || strcmp(s->argument, "DIR") == 0)
		printf(":%s:_files", s->argument);
	else
		printf(":%s: ", s->argument);
}

static void zsh_option(const struct option_spec *s)
{
	const char *repeat = s->type == OPTION_LIST ? "*" : "";

	if (s->letter) {
		printf(" \\\n\t\t'%s-%c", repeat, s->letter);
		printf("[");
		print_text(s->help, "[]:");
		printf("]");
		zsh_argument(s);
		printf("'");
	}
	printf(" \\\n\t\t'%s--%s[", repeat, s->name);
	print_text(s->help, "[]:");
	printf("]");
	zsh_argument(s);
	printf("'");
}

static void zsh_verb(const struct cli_verb *group, const struct cli_verb *v)
{
	printf("\t%s%s%s) _arguments -S", group ? group->name : "", group ? "-" : "", v->name);
	for (const struct option_spec *s = v->options; s->name; s++)
		if (!s->hidden)
			zsh_option(s);
	if (takes_sandbox(v))
		printf(" \\\n\t\t'*:sandbox:_mayfly_%s'", takes_path(v) ? "files" : "sandboxes");
	else if (takes_template(v))
		printf(" \\\n\t\t'*:template:_mayfly_templates'");
	else
		printf(" \\\n\t\t'*::argument:_normal'");
	printf(" ;;\n");
}

static void zsh_describe(const struct cli_verb *const *verbs)
{
	for (; *verbs; verbs++) {
		if ((*verbs)->hidden)
			continue;
		printf(" '%s:", (*verbs)->name);
		print_text((*verbs)->summary, ":");
		printf("'");
	}
}

static void print_zsh(void)
{
	printf("#compdef mayfly\n"
	       "# zsh completion of mayfly: put it into a directory of $fpath as _mayfly\n"
	       "_mayfly_sandboxes() { compadd -- ${(f)\"$(mayfly ps -aq 2>/dev/null)\"} }\n"
	       "_mayfly_files() { compadd -S : -- ${(f)\"$(mayfly ps -aq 2>/dev/null)\"}; _files "
	       "}\n"
	       "_mayfly_templates() { compadd -- ${(f)\"$(mayfly template ls -q 2>/dev/null)\"} }\n"
	       "_mayfly() {\n"
	       "\tlocal verb=$words[2]\n"
	       "\tlocal -a commands\n"
	       "\tif ((CURRENT == 2)); then\n\t\tcommands=(");
	zsh_describe(cli_verbs);
	printf(")\n\t\t_describe command commands\n\t\treturn\n\tfi\n\tshift "
	       "words\n\t((CURRENT--))\n");
	for (const struct cli_verb *const *v = cli_verbs; *v; v++) {
		if (!(*v)->verbs)
			continue;
		printf("\tif [[ $verb == %s ]]; then\n\t\tif ((CURRENT == 2)); then\n"
		       "\t\t\tcommands=(",
			(*v)->name);
		zsh_describe((*v)->verbs);
		printf(")\n\t\t\t_describe command commands\n\t\t\treturn\n\t\tfi\n"
		       "\t\tverb=$verb-$words[2]\n\t\tshift words\n\t\t((CURRENT--))\n\tfi\n");
	}
	printf("\tcase $verb in\n");
	each_verb(zsh_verb);
	printf("\tesac\n}\n_mayfly \"$@\"\n");
}

/* --- fish --- */

static void fish_condition(const struct cli_verb *group, const struct cli_verb *v)
{
	printf("complete -c mayfly -n '");
	if (group)
		printf("__fish_seen_subcommand_from %s; and ", group->name);
	printf("__fish_seen_subcommand_from %s'", v->name);
}

static void fish_verb(const struct cli_verb *group, const struct cli_verb *v)
{
	for (const struct option_spec *s = v->options; s->name; s++) {
		if (s->hidden)
			continue;
		fish_condition(group, v);
		printf(" -l %s", s->name);
		if (s->letter)
			printf(" -s %c", s->letter);
		if (s->argument && strcmp(s->name, "template") == 0)
			printf(" -x -a '(mayfly template ls -q 2>/dev/null)'");
		else if (s->argument)
			printf(" -r");
		printf(" -d '");
		print_text(s->help, "");
		printf("'\n");
	}
	if (takes_sandbox(v) || takes_template(v)) {
		fish_condition(group, v);
		printf(" %s -a '(mayfly %s -q 2>/dev/null%s)'\n", takes_path(v) ? "-F" : "-f",
			takes_sandbox(v) ? "ps -a" : "template ls",
			takes_path(v) ? " | sed s/\\$/:/" : "");
	}
}

static void fish_describe(const struct cli_verb *group, const struct cli_verb *const *verbs)
{
	for (const struct cli_verb *const *v = verbs; *v; v++) {
		if ((*v)->hidden)
			continue;
		printf("complete -c mayfly -f -n '");
		if (!group) {
			printf("__fish_use_subcommand");
		} else {
			printf("__fish_seen_subcommand_from %s; and not "
			       "__fish_seen_subcommand_from ",
				group->name);
			print_names(verbs);
		}
		printf("' -a %s -d '", (*v)->name);
		print_text((*v)->summary, "");
		printf("'\n");
	}
}

static void print_fish(void)
{
	printf("# fish completion of mayfly: put it into ~/.config/fish/completions/mayfly.fish\n");
	fish_describe(NULL, cli_verbs);
	for (const struct cli_verb *const *v = cli_verbs; *v; v++)
		if ((*v)->verbs)
			fish_describe(*v, (*v)->verbs);
	each_verb(fish_verb);
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	static const struct {
		const char *name;
		void (*print)(void);
	} shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};

	for (size_t i = 0; argc == 1 && i < ARRAY_SIZE(shells); i++)
		if (strcmp(argv[0], shells[i].name) == 0) {
			shells[i].print();
			return 0;
		}
	return error_set(
		e, ERROR_USAGE, EINVAL, "completion of which shell? One of bash, zsh, fish");
}

static const struct option_spec options[] = {CLI_OPTION_HELP, CLI_OPTIONS_END};

const struct cli_verb cli_verb_completion = {
	.name = "completion",
	.arguments = "bash|zsh|fish",
	.summary = "Print a completion script for a shell",
	.options = options,
	.values_bytes = sizeof(struct cli_common),
	.run = run,
};
