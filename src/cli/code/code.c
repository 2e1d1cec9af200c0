/* `mayfly code`: cells in the code interpreter of a sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/code/code_repl.h"
#include "cli/code/code_run.h"
#include "cli/environment.h"
#include "sandbox/sandbox.h"

#define MIB UINT64_C(0x100000)

enum { KEEP_DEFAULT_S = 1800, STEM_MAX = 128 };

struct code_options {
	struct cli_common common;
	const char *language, *code, *context, *sandbox, *template, *cwd, *output;
	bool remove;
	uint64_t timeout, keep, cpus, memory, output_max;
	struct option_list env;
};

static const struct code_options defaults = {
	.template = "code-interpreter-v1", .keep = KEEP_DEFAULT_S * NS_PER_S};

static const struct option_spec options[] = {
	{"language", 'l', OPTION_STRING, "NAME",
		"python (default), javascript, typescript, bash, or another kernel's",
		offsetof(struct code_options, language), 0, 0, false},
	{"code", 'c', OPTION_STRING, "TEXT", "the cell itself, instead of a file",
		offsetof(struct code_options, code), 0, 0, false},
	{"context", 0, OPTION_STRING, "NAME",
		"name of the state to use and keep (default: default)",
		offsetof(struct code_options, context), 0, 0, false},
	{"sandbox", 0, OPTION_STRING, "ID", "use this sandbox's interpreter",
		offsetof(struct code_options, sandbox), 0, 0, false},
	{"rm", 0, OPTION_FLAG, NULL, "use a new sandbox, which ends with the cell",
		offsetof(struct code_options, remove), 0, 0, false},
	{"env", 'e', OPTION_LIST, "NAME[=VALUE]",
		"set a variable for the cell, or pass this environment's (repeatable)",
		offsetof(struct code_options, env), 0, 0, false},
	{"cwd", 'w', OPTION_STRING, "DIR", "use the context of this working directory",
		offsetof(struct code_options, cwd), 0, 0, false},
	{"timeout", 0, OPTION_DURATION, "TIME", "interrupt the cell after this time",
		offsetof(struct code_options, timeout), NS_PER_MS, INT32_MAX *NS_PER_S, false},
	{"max-output", 0, OPTION_BYTES, "SIZE", "interrupt a cell that says more",
		offsetof(struct code_options, output_max), 1, UINT64_MAX, false},
	{"output", 'o', OPTION_STRING, "DIR",
		"save images there (default: here; with --json: not at all)",
		offsetof(struct code_options, output), 0, 0, false},
	{"keep", 0, OPTION_DURATION, "TIME",
		"life of a context's sandbox after its last use (default 30m)",
		offsetof(struct code_options, keep), NS_PER_S, INT32_MAX *NS_PER_S, false},
	{"template", 'T', OPTION_STRING, "NAME",
		"template of a new sandbox (default code-interpreter-v1)",
		offsetof(struct code_options, template), 0, 0, false},
	{"cpus", 0, OPTION_NUMBER, "N", "CPUs of a new sandbox (default: the template's)",
		offsetof(struct code_options, cpus), 1, SANDBOX_CPUS_MAX, false},
	{"memory", 0, OPTION_BYTES, "SIZE", "memory of a new sandbox (default: the template's)",
		offsetof(struct code_options, memory), SANDBOX_MEMORY_MB_MIN *MIB,
		SANDBOX_MEMORY_MB_MAX *MIB, false},
	CLI_OPTION_NO_TTY,
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

/* --- languages --- */

/* Suffixes of files, and short names that the interpreter takes for the long ones as well. */
static const char *const short_names[][2] = {{"py", "python"}, {"python3", "python"},
	{"js", "javascript"}, {"mjs", "javascript"}, {"ts", "typescript"}, {"sh", "bash"},
	{"bash", "bash"}, {"r", "r"}, {"R", "r"}};

static const char *long_name(const char *name, const char *otherwise)
{
	for (size_t i = 0; i < ARRAY_SIZE(short_names); i++)
		if (strcasecmp(short_names[i][0], name) == 0)
			return short_names[i][1];
	return otherwise;
}

static const char *language_of(const struct code_options *o, const char *file)
{
	const char *dot = file ? strrchr(file, '.') : NULL;

	if (o->language)
		return long_name(o->language, o->language);
	return dot ? long_name(dot + 1, "python") : "python";
}

/* --- the source --- */

static int check_source(const char *text, size_t n, struct error *e)
{
	if (n > CODE_SOURCE_MAX)
		return error_set(e, ERROR_LIMIT, EFBIG, "a cell has at most %d MB",
			CODE_SOURCE_MAX / 1024 / 1024);
	return memchr(text, '\0', n)
		       ? error_set(e, ERROR_USAGE, EINVAL, "the cell holds a NUL: it is no text")
		       : 0;
}

static int read_stream(struct buf *to, struct error *e)
{
	ssize_t n = 1;

	while (n > 0) {
		uint8_t *at = buf_reserve(to, SINK_MAX);

		if (!at)
			return error_set(e, ERROR_LIMIT, EFBIG, "the cell is too long");
		n = read(STDIN_FILENO, at, SINK_MAX);
		if (n > 0)
			buf_commit(to, (size_t)n);
		else if (n < 0 && errno == EINTR)
			n = 1;
	}
	return n < 0 ? error_set_errno(e, ERROR_USAGE, errno, "cannot read the cell") : 0;
}

static int read_file(const char *path, struct buf *to, struct error *e)
{
	_cleanup_free_ char *data = NULL;
	size_t n = 0;
	int r = file_read(AT_FDCWD, path, CODE_SOURCE_MAX, &data, &n);

	if (r == 0)
		r = buf_add(to, data, n);
	return r < 0 ? error_set_errno(e, ERROR_USAGE, -r, "cannot read %s", path) : 0;
}

static int read_source(
	const struct code_options *o, const char *file, struct buf *to, struct error *e)
{
	int r;

	if (o->code)
		r = buf_add_str(to, o->code);
	else if (file && strcmp(file, "-") != 0)
		r = read_file(file, to, e);
	else
		r = read_stream(to, e);
	if (r < 0)
		return e->code == ERROR_NONE
			       ? error_set(e, ERROR_LIMIT, EFBIG, "the cell is too long")
			       : r;
	return buf_len(to) ? check_source((const char *)buf_head(to), buf_len(to), e) : 0;
}

/* --- running --- */

/* Of images: "plot" of dir/plot.py. */
static void stem_of(const char *file, char out[STEM_MAX])
{
	const char *slash = file ? strrchr(file, '/') : NULL;
	const char *name = slash ? slash + 1 : file;
	size_t n = name && strcmp(name, "-") != 0 ? strcspn(name, ".") : 0;

	(void)snprintf(out, STEM_MAX, "%.*s", n ? (int)n : 4, n ? name : "cell"); /* cut is fine */
}

static int run_cells(const struct code_options *o, struct code_cell *cell, const char *file,
	bool interactive, const struct code_sandbox *s, struct error *e)
{
	_cleanup_close_ int signal_fd = -1;
	char stem[STEM_MAX];
	const struct code_show_options so = {.json = o->common.json,
		.directory = o->output,
		.stem = stem,
		.output_max = o->output_max};
	struct code_show show;
	int r;

	stem_of(file, stem);
	r = code_show_open(&so, &show, e);
	if (r == 0)
		r = code_signals_open(&signal_fd, e);
	if (r == 0)
		r = interactive ? code_repl(s, cell, signal_fd, &show, e)
				: code_run(s, cell, signal_fd, &show, e);
	if (r == 0 && !interactive)
		r = code_show_failed(&show);
	code_show_close(&show);
	return r;
}

static int in_sandbox(const struct code_options *o, struct code_cell *cell, const char *file,
	bool interactive, struct error *e)
{
	const struct code_place place = {.sandbox = o->sandbox,
		.context = o->context ? o->context : "default",
		.stateless = o->remove,
		.template = o->template,
		.keep_ns = o->keep,
		.cpus = o->cpus,
		.memory = o->memory};
	struct code_sandbox s = CODE_SANDBOX_INIT;
	_cleanup_free_ char *context = NULL;
	int r = code_sandbox_open(&place, &s, e);

	if (r == 0 && o->cwd)
		r = code_context_in(&s, cell->language, o->cwd, &context, e);
	cell->context_id = context;
	if (r == 0)
		r = run_cells(o, cell, file, interactive, &s, e);
	code_sandbox_close(&s);
	return r;
}

static int check(const struct code_options *o, int argc, char **argv, struct error *e)
{
	if (argc > 1)
		return cli_no_arguments(argc - 1, argv + 1, e);
	if (o->code && argc)
		return error_set(e, ERROR_USAGE, EINVAL, "give a file or --code, not both");
	if ((o->context != NULL) + (o->sandbox != NULL) + o->remove > 1)
		return error_set(
			e, ERROR_USAGE, EINVAL, "--context, --sandbox and --rm exclude each other");
	if (o->context && !str_is_name(o->context))
		return error_set(e, ERROR_USAGE, EINVAL,
			"--context '%s': a name has up to 64 of a-z 0-9 . _ -", o->context);
	if (o->memory % MIB)
		return error_set(e, ERROR_USAGE, EINVAL, "--memory: whole MB only");
	return 0;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct code_options *o = values;
	const char *file = argc ? argv[0] : NULL;
	bool interactive = !file && !o->code && isatty(STDIN_FILENO);
	_cleanup_(buf_done) struct buf source = BUF_INIT(CODE_SOURCE_MAX + 2 * SINK_MAX);
	struct code_cell cell = {.language = language_of(o, file), .timeout_ns = o->timeout};
	struct environment env = {.count = 0};
	int r = check(o, argc, argv, e);

	if (r == 0 && interactive && o->common.json)
		r = error_set(e, ERROR_USAGE, EINVAL, "--json: give a file or --code");
	if (r == 0 && !interactive)
		r = read_source(o, file, &source, e);
	if (r == 0)
		r = environment_read(&o->env, &env, e);
	if (r == 0 && env.count) {
		cell.env = environment_json(&env);
		r = cell.env ? 0 : error_set(e, ERROR_USAGE, EINVAL, "--env: not UTF-8");
	}
	cell.source = buf_len(&source) ? (const char *)buf_head(&source) : "";
	cell.source_bytes = buf_len(&source);
	if (r == 0)
		r = in_sandbox(o, &cell, file, interactive, e);
	json_decref(cell.env);
	environment_done(&env);
	return r;
}

const struct cli_verb cli_verb_code = {
	.name = "code",
	.arguments = "[FILE|-]",
	.summary = "Run a cell in a sandbox's code interpreter",
	.description = "Prints output as it is written, then the value of the last expression. "
		       "Saves images and\n"
		       "prints their names on standard error. After an exception the exit status "
		       "is 1. ^C\n"
		       "interrupts. State stays between calls: each context has a sandbox of its "
		       "own, made at its\n"
		       "first use, with a kernel for each language. On a terminal without FILE, "
		       "cells are typed;\n"
		       "an empty line ends a cell.",
	.options = options,
	.defaults = &defaults,
	.values_bytes = sizeof(struct code_options),
	.run = run,
};
