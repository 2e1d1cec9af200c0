/* `mayfly manual`: prints the manual page mayfly(1) in roff from the tables. Hidden: packagers run
 * it, and a test compares docs/man/mayfly.1 with it. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/help.h"

/* Text with roff's special characters escaped. */
static void print_text(const char *text)
{
	bool line_start = true;

	for (; *text; text++) {
		if (line_start && (*text == '.' || *text == '\''))
			fputs("\\&", stdout);
		line_start = *text == '\n';
		if (*text == '\\')
			fputs("\\e", stdout);
		else if (*text == '-')
			fputs("\\-", stdout);
		else
			putchar(*text);
	}
}

/* An empty line begins a paragraph. */
static void print_paragraphs(const char *text)
{
	const char *end;

	while ((end = strstr(text, "\n\n"))) {
		for (; text < end; text++) {
			char one[2] = {*text, '\0'};

			print_text(one);
		}
		printf("\n.PP\n");
		text = end + 2;
	}
	print_text(text);
	printf("\n");
}

static void print_option(const struct option_spec *s)
{
	printf(".TP\n");
	if (s->letter)
		printf("\\fB\\-%c\\fR, ", s->letter);
	printf("\\fB\\-\\-");
	print_text(s->name);
	printf("\\fR");
	if (s->argument)
		printf("%s\\fI%s\\fR", s->type == OPTION_OPTIONAL ? "" : " ", s->argument);
	printf("\n");
	print_text(s->help);
	printf(".\n");
}

static void print_verb(const char *path, const struct cli_verb *v)
{
	printf(".SS %s %s ", path, v->name);
	help_print_synopsis(v, stdout);
	printf("\n");
	print_text(v->summary);
	printf(".\n");
	if (v->description) {
		printf(".PP\n");
		print_paragraphs(v->description);
	}
	for (const struct option_spec *s = v->options; s && s->name; s++)
		if (!s->hidden && s->type != OPTION_HELP)
			print_option(s);
}

static const char head[] = ".TH MAYFLY 1 \"\" \"Mayfly\" \"User Commands\"\n"
			   ".SH NAME\n"
			   "mayfly \\- run commands in microVMs restored from snapshots\n"
			   ".SH SYNOPSIS\n"
			   ".B mayfly\n"
			   "\\fICOMMAND\\fR [\\fIOPTION\\fR]... [\\fIARGUMENT\\fR]...\n"
			   ".SH DESCRIPTION\n"
			   "Mayfly gives every command a microVM of its own: own kernel, own "
			   "memory, own disk. A template\n"
			   "is built and booted once; each sandbox is restored from its snapshot. "
			   "Every command takes\n"
			   "\\fB\\-\\-help\\fR.\n"
			   ".SH COMMANDS\n";

static const char tail[] =
	".SH EXIT STATUS\n"
	"\\fBmayfly run\\fR exits with the status of its command, or 128 + n when signal n ended "
	"it.\n"
	"Mayfly's own failures:\n"
	".TP\n.B 2\nThe command line is malformed.\n"
	".TP\n.B 119\nA bug, or an unexpected error of the system.\n"
	".TP\n.B 120\nThe host lacks something (\\fBmayfly doctor\\fR says what), or its KVM is "
	"too "
	"slow.\n"
	".TP\n.B 121\nThere is no such template or sandbox, or the name is taken.\n"
	".TP\n.B 122\nMore was asked for than is allowed, or memory or disk space is exhausted.\n"
	".TP\n.B 123\nThe template's image or snapshot cannot be used.\n"
	".TP\n.B 124\nA time limit passed.\n"
	".TP\n.B 125\nThe microVM ended or stopped answering.\n"
	".TP\n.B 126\nThe command cannot be executed.\n"
	".TP\n.B 127\nThe command does not exist in the sandbox.\n"
	".SH ENVIRONMENT\n"
	".TP\n.B MAYFLY_HOME\nWhere kernels, images and templates are. Default: /var/lib/mayfly "
	"for "
	"root,\nelse $XDG_DATA_HOME/mayfly, else ~/.local/share/mayfly.\n"
	".TP\n.B MAYFLY_RUN\nWhere running sandboxes are. Default: $MAYFLY_HOME/sandboxes.\n"
	".TP\n.B MAYFLY_LIBEXEC\nThe directory of mayfly\\-vmm, mayfly\\-launcher and "
	"mayfly\\-agent. Default: "
	"beside "
	"mayfly,\nelse in ../libexec/mayfly from there.\n"
	".TP\n.B MAYFLY_LOG\nWhat is logged on standard error: error, warn (default), info, "
	"debug.\n";

static int run(void *values, int argc, char **argv, struct error *e)
{
	int r = cli_no_arguments(argc, argv, e);

	if (r < 0)
		return r;
	fputs(head, stdout);
	for (const struct cli_verb *const *v = cli_verbs; *v; v++) {
		char path[64];

		if ((*v)->hidden)
			continue;
		if (!(*v)->verbs)
			print_verb("mayfly", *v);
		(void)snprintf(path, sizeof(path), "mayfly %s", (*v)->name); /* short names */
		for (const struct cli_verb *const *w = (*v)->verbs; w && *w; w++)
			if (!(*w)->hidden)
				print_verb(path, *w);
	}
	fputs(tail, stdout);
	return 0;
}

static const struct option_spec options[] = {CLI_OPTION_HELP, CLI_OPTIONS_END};

const struct cli_verb cli_verb_manual = {
	.name = "manual",
	.arguments = "",
	.summary = "Print the manual page",
	.options = options,
	.values_bytes = sizeof(struct cli_common),
	.run = run,
	.hidden = true,
};
