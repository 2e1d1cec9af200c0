/* RUN. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "build/bare_user.h"
#include "build/mounts.h"
#include "sandbox/bare_command.h"

enum { SCRIPT_BYTES_MAX = 2 << 20 };

/* The variables of a command: arguments of the build, and over them the stage's own. */
static int command_env(struct stage *s, struct vars *ret, struct error *e)
{
	int r = vars_copy(&s->args, ret);

	for (size_t i = 0; i < s->state.env.count && r == 0; i++)
		r = vars_set_entry(ret, s->state.env.items[i]);
	return stage_of_vars(r, e);
}

/* A single heredoc is the script itself; others are the shell's to read. malloc'ed. */
static char *shell_text(const struct dockerfile_step *step)
{
	struct buf text = BUF_INIT(SCRIPT_BYTES_MAX);
	int r = 0;

	if (step->heredoc_count == 1 && step->words.items[0][0] == '<' &&
		!strpbrk(step->words.items[0], " \t"))
		return strdup(step->heredocs[0].text);
	r = buf_add_str(&text, step->words.items[0]);
	for (size_t i = 0; i < step->heredoc_count && r == 0; i++)
		r = buf_printf(&text, "\n%s%s", step->heredocs[i].text, step->heredocs[i].name);
	if (r == 0)
		r = buf_add_u8(&text, 0);
	if (r < 0)
		buf_done(&text);
	return r < 0 ? NULL : (char *)text.data; /* nothing was consumed */
}

static int run_command(struct stage *s, struct machine *m, const struct vars *env,
	const char *const *argv, size_t count, struct error *e)
{
	const struct agent_exec x = {.user = s->state.user,
		.cwd = s->state.workdir,
		.tag = "",
		.argv = {.array = argv, .count = (uint32_t)count},
		.env = {.array = (const char *const *)env->items, .count = (uint32_t)env->count}};
	int status = 0,
	    r = machine_run(m, &x, STAGE_STEP_S, s->ops.output, s->ops.opaque, &status, e);

	if (r == 0 && status < 0)
		return error_set(
			e, ERROR_TIMEOUT, ETIMEDOUT, "it took longer than %d s", STAGE_STEP_S);
	if (r == 0 && status)
		return error_set(
			e, ERROR_BAD_IMAGE, EIO, "the command ended with status %d", status);
	return r;
}

/* A variable may hold a secret. */
static void done_with(struct vars *env)
{
	for (size_t i = 0; i < env->count; i++)
		explicit_bzero(env->items[i], strlen(env->items[i]));
	vars_done(env);
}

static int run_argv(struct stage *s, const struct dockerfile_step *step, const char *const *argv,
	size_t count, struct error *e)
{
	struct vars env = {NULL, 0};
	struct mounts *mounts = NULL;
	struct machine *m;
	int r = s->ops.machine(s->ops.opaque, &m, e), ended;

	if (r == 0)
		r = command_env(s, &env, e);
	if (r == 0)
		r = stage_add_trust(s, m, &env, e);
	if (r == 0)
		r = mounts_begin(s, step, m, &env, &mounts, e);
	if (r == 0)
		r = run_command(s, m, &env, argv, count, e);
	ended = mounts_end(mounts, r < 0 ? NULL : e);
	done_with(&env);
	return r < 0 ? r : ended;
}

/* A heredoc that begins with #! is a program. */
static int run_program(
	struct stage *s, const struct dockerfile_step *step, const char *text, struct error *e)
{
	static const char path[] = "/run/mayfly-step";
	const char *argv[] = {path};
	struct machine *m;
	int r = s->ops.machine(s->ops.opaque, &m, e);

	if (r == 0)
		r = machine_write(m, path, 0755, false, text, strlen(text), e);
	return r < 0 ? r : run_argv(s, step, argv, 1, e);
}

static int run_bare_line(struct stage *s, const struct dockerfile_step *step, struct error *e)
{
	_cleanup_free_ char *line = strdup(step->bare_line);
	const char *argv[WORDS_MAX];
	int n = line ? bare_command_split(line, argv) : -ENOMEM;

	if (n < 0)
		return stage_no_memory(e);
	return n ? run_argv(s, step, argv, (size_t)n, e)
		 : error_set(e, ERROR_BAD_IMAGE, EINVAL,
			   "the image has no /bin/sh, so a command must be plain words: a program "
			   "of the image and its arguments");
}

/* What is no Dockerfile's runs without a shell, too. */
static int run_script(struct stage *s, const struct dockerfile_step *step, struct error *e)
{
	struct machine *m;
	int r = s->ops.machine(s->ops.opaque, &m, e), shell = r < 0 ? r : machine_has_shell(m, e);

	if (shell < 0)
		return shell;
	if (shell)
		return run_argv(s, step, step->words.items, step->words.count, e);
	return step->bare_user ? bare_user_make(m, step->bare_user, e) : run_bare_line(s, step, e);
}

int stage_run(struct stage *s, const struct dockerfile_step *step, struct error *e)
{
	const char *argv[STAGE_ARGV_MAX];
	_cleanup_free_ char *text = NULL;
	size_t n;

	if (step->bare_user || step->bare_line)
		return run_script(s, step, e);
	if (step->exec)
		return run_argv(s, step, step->words.items, step->words.count, e);
	text = shell_text(step);
	if (!text)
		return stage_no_memory(e);
	if (step->heredoc_count && str_starts_with(text, "#!"))
		return run_program(s, step, text, e);
	n = stage_shell(s, argv);
	argv[n++] = text;
	return run_argv(s, step, argv, n, e);
}

static void add_words(struct step_key *k, const struct words *w)
{
	step_key_number(k, w->count);
	for (size_t i = 0; i < w->count; i++)
		step_key_text(k, w->items[i]);
}

int stage_run_key(
	struct stage *s, const struct dockerfile_step *step, struct step_key *k, struct error *e)
{
	struct vars env = {NULL, 0};
	int r = command_env(s, &env, e);

	step_key_number(k, step->exec);
	add_words(k, &step->words);
	add_words(k, &s->state.shell);
	step_key_number(k, step->heredoc_count);
	for (size_t i = 0; i < step->heredoc_count; i++) {
		step_key_text(k, step->heredocs[i].name);
		step_key_text(k, step->heredocs[i].text);
	}
	step_key_vars(k, &env);
	step_key_text(k, s->state.user);
	step_key_text(k, s->state.workdir);
	vars_done(&env);
	return r < 0 ? r : mounts_key(s, step, k, e);
}
