/* `mayfly`: finds the verb, parses its options, runs it, and reports its error. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cli/clean.h"
#include "cli/help.h"
#include "cli/json.h"

int cli_print_error(const struct error *e, bool json)
{
	if (json) {
		struct error ignored = {0}; /* the status and standard error say it as well */

		(void)json_print(
			json_pack("{s:{s:s, s:o}}", "error", "code", error_code_name(e->code),
				"message", json_text(e->message)),
			&ignored);
	}
	(void)fflush(stdout); /* the order of the two; a failure shows at exit */
	clean_print_error("mayfly: ", e->message); /* it may quote a guest */
	return error_exit_status(e->code);
}

int cli_no_arguments(int argc, char **argv, struct error *e)
{
	if (argc == 0)
		return 0;
	return error_set(e, ERROR_USAGE, EINVAL, "unexpected argument '%s': see --help", argv[0]);
}

/* Whether --json was asked for on a command line that could not be parsed to the end. */
static bool wants_json(const struct cli_verb *v, int argc, char **argv)
{
	for (int i = 1; v->options && i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (v->options_first && argv[i][0] != '-')
			break;
		if (strcmp(argv[i], "--json") == 0)
			return true;
	}
	return false;
}

/* Parses options wherever they stand between the words, up to "--"; the words are gathered at the
 * front of argv. Returns how many, or -errno. */
static int parse_mixed(
	const struct cli_verb *v, int argc, char **argv, void *values, struct error *e)
{
	int words = 0, at = 0;

	while (at < argc) {
		int used;
		/* argv[at] stands where options_parse expects a program's name */
		int r = options_parse(v->options, argc - at, argv + at, values, &used, e);

		if (r < 0)
			return r;
		at += used;
		if (v->options_first || strcmp(argv[at - 1], "--") == 0)
			break;
		if (at < argc)
			argv[words++] = argv[at];
	}
	while (at < argc)
		argv[words++] = argv[at++];
	return words;
}

static int run_verb(const struct cli_verb *v, const char *path, int argc, char **argv)
{
	_cleanup_free_ char *values = calloc(1, v->values_bytes);
	struct cli_common *common = (struct cli_common *)(void *)values;
	struct error e = {0};
	bool json = wants_json(v, argc, argv);
	int r;

	if (!values) {
		(void)error_set(&e, ERROR_INTERNAL, ENOMEM, "out of memory");
		return cli_print_error(&e, json);
	}
	if (v->defaults)
		memcpy(values, v->defaults, v->values_bytes);
	r = parse_mixed(v, argc, argv, values, &e);
	if (r >= 0 && common->help) {
		help_print_verb(v, path, stdout);
		return 0;
	}
	if (r >= 0)
		r = v->run(values, r, argv, &e);
	return r < 0 ? cli_print_error(&e, json) : r;
}

static bool is_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* argv[0] is the name of the group, `path` all names up to it. */
static int dispatch(const struct cli_verb *const *verbs, const char *path, int argc, char **argv)
{
	const struct cli_verb *v;
	struct error e = {0};
	char full[64];

	if (argc < 2) {
		help_print_verbs(verbs, path, stderr);
		return error_exit_status(ERROR_USAGE);
	}
	if (is_help(argv[1])) {
		help_print_verbs(verbs, path, stdout);
		return 0;
	}
	v = cli_find_verb(verbs, argv[1]);
	if (!v) {
		(void)cli_unknown_verb(verbs, argv[1], &e);
		return cli_print_error(&e, false);
	}
	(void)snprintf(full, sizeof(full), "%s %s", path, v->name); /* names of ours are short */
	if (v->verbs)
		return dispatch(v->verbs, full, argc - 1, argv + 1);
	return run_verb(v, full, argc - 1, argv + 1);
}

/* A program started without one of the standard descriptors would get its next file there. */
static void open_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= 2);
	if (fd > 2)
		(void)close(fd); /* only a probe */
}

int main(int argc, char **argv)
{
	static char version[] = "version";
	int status;

	open_standard_fds();
	log_open("mayfly");
	if (argc >= 2 && strcmp(argv[1], "--version") == 0)
		argv[1] = version;
	status = dispatch(cli_verbs, "mayfly", argc, argv);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		if (status == 0 && errno != EPIPE) {
			(void)fprintf(
				stderr, "mayfly: cannot write the output: %s\n", strerror(errno));
			status = error_exit_status(ERROR_INTERNAL);
		}
	}
	return status;
}
