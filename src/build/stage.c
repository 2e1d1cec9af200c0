#include "build/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "build/copy.h"
#include "build/path.h"
#include "image/words.h"

enum {
	ARGV_MAX = SPLIT_WORDS_MAX + 1,
	SCRIPT_BYTES_MAX = 2 << 20,
};

int stage_no_memory(struct error *e)
{
	return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
}

/* --- what a stage hands on --- */

int stage_state_init(struct stage_state *s)
{
	*s = (struct stage_state){.image_fd = -1,
		.user = strdup("root"),
		.workdir = strdup("/"),
		.entry = strdup(""),
		.command = strdup(""),
		.network = strdup("")};
	return s->user && s->workdir && s->entry && s->command && s->network ? 0 : -ENOMEM;
}

void stage_state_done(struct stage_state *s)
{
	vars_done(&s->env);
	free(s->user);
	free(s->workdir);
	free(s->entry);
	free(s->command);
	free(s->network);
	cleanup_close_p(&s->image_fd);
	*s = (struct stage_state){.image_fd = -1};
}

int stage_state_set(char **slot, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(*slot);
	*slot = copy;
	return 0;
}

int stage_state_copy(const struct stage_state *from, struct stage_state *to)
{
	int r = stage_state_init(to);

	to->disk_mb = from->disk_mb;
	to->entry_is_shell = from->entry_is_shell;
	to->shell = from->shell;
	if (r == 0)
		r = vars_copy(&from->env, &to->env);
	if (r == 0)
		r = stage_state_set(&to->user, from->user);
	if (r == 0)
		r = stage_state_set(&to->workdir, from->workdir);
	if (r == 0)
		r = stage_state_set(&to->entry, from->entry);
	if (r == 0)
		r = stage_state_set(&to->command, from->command);
	if (r == 0)
		r = stage_state_set(&to->network, from->network);
	to->image_fd = r == 0 ? fcntl(from->image_fd, F_DUPFD_CLOEXEC, 3) : -1;
	return r == 0 && to->image_fd < 0 ? -errno : r;
}

/* --- variables --- */

static const char *get_variable(void *opaque, const char *name)
{
	const struct stage *s = opaque;
	const char *value = vars_get(&s->state.env, name);

	return value ? value : vars_get(&s->args, name);
}

static struct expand_scope scope_of(struct stage *s)
{
	return (struct expand_scope){get_variable, s, s->file->escape};
}

static int expand(struct stage *s, const char *word, char **ret, struct error *e)
{
	const struct expand_scope scope = scope_of(s);

	return expand_word(&scope, word, ret, e);
}

static int of_vars(int r, struct error *e)
{
	if (r == -E2BIG)
		return error_set(e, ERROR_LIMIT, E2BIG, "more than %d variables", VARS_MAX);
	return r < 0 ? stage_no_memory(e) : 0;
}

/* All values are expanded before the first is set. */
static int do_env(struct stage *s, const struct dockerfile_step *step, struct error *e)
{
	struct vars fresh = {NULL, 0};
	int r = 0;

	for (size_t i = 0; i < step->words.count && r == 0; i += 2) {
		_cleanup_free_ char *value = NULL;

		r = expand(s, step->words.items[i + 1], &value, e);
		if (r == 0)
			r = of_vars(vars_set(&fresh, step->words.items[i], value), e);
	}
	for (size_t i = 0; i < fresh.count && r == 0; i++)
		r = of_vars(vars_set_entry(&s->state.env, fresh.items[i]), e);
	vars_done(&fresh);
	return r;
}

int stage_take_arg(struct vars *args, const struct dockerfile_step *step,
	const struct expand_scope *scope, const struct vars *build_args, const struct vars *global,
	struct error *e)
{
	int r = 0;

	for (size_t i = 0; i < step->words.count && r == 0; i++) {
		const char *word = step->words.items[i], *equals = strchr(word, '=');
		_cleanup_free_ char *name = strndup(word, strcspn(word, "=")), *own = NULL;
		const char *value = name ? vars_get(build_args, name) : NULL;

		if (!name)
			return stage_no_memory(e);
		if (!value && equals) {
			r = expand_word(scope, equals + 1, &own, e);
			value = own;
		} else if (!value) {
			value = vars_get(global, name);
		}
		if (r == 0 && value)
			r = of_vars(vars_set(args, name, value), e);
	}
	return r;
}

static int do_arg(struct stage *s, const struct dockerfile_step *step, struct error *e)
{
	const struct expand_scope scope = scope_of(s);

	return stage_take_arg(&s->args, step, &scope, s->build_args, s->global, e);
}

/* --- RUN --- */

/* The variables of a command: arguments of the build, and over them the stage's own. */
static int command_env(struct stage *s, struct vars *ret, struct error *e)
{
	int r = vars_copy(&s->args, ret);

	for (size_t i = 0; i < s->state.env.count && r == 0; i++)
		r = vars_set_entry(ret, s->state.env.items[i]);
	return of_vars(r, e);
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

static size_t shell_words(const struct stage *s, const char *argv[ARGV_MAX])
{
	const struct words *w = &s->state.shell;

	if (w->count == 0) {
		argv[0] = "/bin/sh";
		argv[1] = "-c";
		return 2;
	}
	memcpy(argv, w->items, w->count * sizeof(*argv));
	return w->count;
}

static int run_argv(struct stage *s, const char *const *argv, size_t count, struct error *e)
{
	struct vars env = {NULL, 0};
	struct agent_exec x = {.user = s->state.user,
		.cwd = s->state.workdir,
		.tag = "",
		.argv = {.array = argv, .count = (uint32_t)count}};
	struct machine *m;
	int status = 0, r = s->ops.machine(s->ops.opaque, &m, e);

	if (r == 0)
		r = command_env(s, &env, e);
	x.env = (struct agent_strings){
		.array = (const char *const *)env.items, .count = (uint32_t)env.count};
	if (r == 0)
		r = machine_run(m, &x, STAGE_STEP_S, s->ops.output, s->ops.opaque, &status, e);
	vars_done(&env);
	if (r == 0 && status < 0)
		return error_set(
			e, ERROR_TIMEOUT, ETIMEDOUT, "it took longer than %d s", STAGE_STEP_S);
	if (r == 0 && status)
		return error_set(
			e, ERROR_BAD_IMAGE, EIO, "the command ended with status %d", status);
	return r;
}

/* A heredoc that begins with #! is a program. */
static int run_program(struct stage *s, const char *text, struct error *e)
{
	static const char path[] = "/run/mayfly-step";
	const char *argv[] = {path};
	struct machine *m;
	int r = s->ops.machine(s->ops.opaque, &m, e);

	if (r == 0)
		r = machine_write(m, path, 0755, false, text, strlen(text), e);
	return r < 0 ? r : run_argv(s, argv, 1, e);
}

static int do_run(struct stage *s, const struct dockerfile_step *step, struct error *e)
{
	const char *argv[ARGV_MAX];
	_cleanup_free_ char *text = NULL;
	size_t n;

	if (dockerfile_flag(step, "mount"))
		return error_set(e, ERROR_USAGE, ENOTSUP, "--mount is not supported yet");
	if (step->exec)
		return run_argv(s, step->words.items, step->words.count, e);
	text = shell_text(step);
	if (!text)
		return stage_no_memory(e);
	if (step->heredoc_count && str_starts_with(text, "#!"))
		return run_program(s, text, e);
	n = shell_words(s, argv);
	argv[n++] = text;
	return run_argv(s, argv, n, e);
}

/* --- COPY and ADD --- */

struct expanded {
	char **items;
	size_t count;
};

static void expanded_done(struct expanded *x)
{
	for (size_t i = 0; i < x->count; i++)
		free(x->items[i]);
	free(x->items);
}

static int expand_all(
	struct stage *s, const struct dockerfile_step *step, struct expanded *ret, struct error *e)
{
	int r = 0;

	ret->items = calloc(step->words.count, sizeof(*ret->items));
	if (!ret->items)
		return stage_no_memory(e);
	for (; ret->count < step->words.count && r == 0; ret->count += r == 0)
		r = expand(s, step->words.items[ret->count], &ret->items[ret->count], e);
	return r;
}

static int parse_mode(const char *text, struct copy *c, struct error *e)
{
	char *end;

	c->has_mode = true;
	c->mode = (uint32_t)strtoul(text, &end, 8);
	if (*end || end == text || c->mode > 07777)
		return error_set(
			e, ERROR_USAGE, EINVAL, "--chmod=%.60s: must be octal, as 0755", text);
	return 0;
}

/* A number alone is its group, too. malloc'ed. */
static char *owner_of(const char *text)
{
	if (*text && text[strspn(text, "0123456789")] == '\0')
		return str_printf("%s:%s", text, text);
	return strdup(text);
}

static int copy_heredoc(struct stage *s, const struct copy *c, const struct dockerfile_heredoc *h,
	bool several, const char *to, struct error *e)
{
	const struct expand_scope scope = scope_of(s);
	_cleanup_free_ char *text = NULL;
	int r = 0;

	if (h->expand)
		r = expand_text(&scope, h->text, &text, e);
	return r < 0 ? r : copy_text(c, h->name, text ? text : h->text, several, to, e);
}

static bool is_url(const char *word)
{
	return strstr(word, "://") || str_starts_with(word, "git@");
}

static int copy_words(struct stage *s, const struct dockerfile_step *step, const struct copy *c,
	const struct expanded *words, struct error *e)
{
	size_t last = words->count - 1;
	bool several = last > 1;
	int r = 0;

	for (size_t i = 0; i < last && r == 0; i++) {
		const struct dockerfile_heredoc *h = dockerfile_heredoc(step, i);

		if (h)
			r = copy_heredoc(s, c, h, several, words->items[last], e);
		else if (step->kind == DOCKERFILE_ADD && is_url(words->items[i]))
			r = error_set(e, ERROR_USAGE, ENOTSUP,
				"%.200s: ADD fetches nothing yet: put the file into the build's "
				"directory",
				words->items[i]);
		else
			r = copy_files(c, words->items[i], several, words->items[last], e);
	}
	return r;
}

static int do_copy(struct stage *s, const struct dockerfile_step *step, struct error *e)
{
	const char *from = dockerfile_flag(step, "from"), *chown = dockerfile_flag(step, "chown"),
		   *chmod = dockerfile_flag(step, "chmod");
	struct copy c = {.workdir = s->state.workdir, .no_archives = step->kind == DOCKERFILE_ADD};
	_cleanup_free_ char *owner = NULL, *mode = NULL, *whole = NULL;
	struct expanded words = {NULL, 0};
	int r;

	if (dockerfile_flag(step, "checksum"))
		return error_set(e, ERROR_USAGE, ENOTSUP,
			"--checksum is for files of the network, and ADD fetches nothing yet: put "
			"the file into the build's directory");
	r = s->ops.machine(s->ops.opaque, &c.machine, e);
	if (r == 0)
		r = s->ops.files(s->ops.opaque, from ? from : "", &c.from, e);
	if (r == 0)
		r = expand_all(s, step, &words, e);
	if (r == 0 && chown)
		r = expand(s, chown, &owner, e);
	if (r == 0 && chmod)
		r = expand(s, chmod, &mode, e);
	if (r == 0 && mode)
		r = parse_mode(mode, &c, e);
	if (r == 0 && owner) {
		whole = owner_of(owner);
		c.owner = whole;
		r = whole ? 0 : stage_no_memory(e);
	}
	if (r == 0)
		r = copy_words(s, step, &c, &words, e);
	expanded_done(&words);
	return r;
}

/* --- settings --- */

static int do_workdir(struct stage *s, const struct dockerfile_step *step, struct error *e)
{
	_cleanup_free_ char *word = NULL;
	char path[BUILD_PATH_MAX];
	struct agent_mkdir q = {
		.flags = AGENT_MKDIR_PARENTS, .mode = 0755, .user = s->state.user, .path = path};
	struct agent_event ev;
	struct machine *m;
	struct error why = {0};
	int r = expand(s, step->words.items[0], &word, e);

	if (r < 0)
		return r;
	if (!path_resolve(s->state.workdir, word, path))
		return error_set(e, ERROR_LIMIT, ENAMETOOLONG, "the path is too long");
	r = s->ops.machine(s->ops.opaque, &m, e);
	if (r < 0)
		return r;
	r = machine_call(m, AGENT_MKDIR, &q, AGENT_ENTRY, &ev, &why);
	if (r < 0 && why.code != ERROR_EXISTS)
		return error_set(e, why.code, why.err, "%s", why.message);
	return stage_state_set(&s->state.workdir, path) < 0 ? stage_no_memory(e) : 0;
}

static int do_user(struct stage *s, const struct dockerfile_step *step, struct error *e)
{
	char *word = NULL;
	int r = expand(s, step->words.items[0], &word, e);

	if (r < 0)
		return r;
	free(s->state.user);
	s->state.user = word;
	if (!*word || strlen(word) > 255)
		return error_set(e, ERROR_USAGE, EINVAL, "the user's name is empty or too long");
	return 0;
}

/* The words of CMD or ENTRYPOINT, for a shell; "" for none. malloc'ed. */
static int command_line(
	struct stage *s, const struct dockerfile_step *step, char **ret, struct error *e)
{
	struct buf line = BUF_INIT(CONFIG_TEXT_MAX);
	const char *argv[ARGV_MAX];
	size_t n = 0;
	int r;

	if (!step->exec)
		n = shell_words(s, argv);
	for (size_t i = 0; i < step->words.count; i++) /* of the shell form, one */
		argv[n++] = step->words.items[i];
	r = words_join(&line, argv, n);
	if (r == 0)
		r = buf_add_u8(&line, 0);
	if (r < 0) {
		buf_done(&line);
		return error_set(
			e, ERROR_LIMIT, -r, "the command is longer than %d bytes", CONFIG_TEXT_MAX);
	}
	*ret = (char *)line.data; /* nothing was consumed */
	return 0;
}

/* An entry point takes no command of the base. */
static int do_entrypoint(struct stage *s, const struct dockerfile_step *step, struct error *e)
{
	char *line = NULL;
	int r = command_line(s, step, &line, e);

	if (r < 0)
		return r;
	free(s->state.entry);
	s->state.entry = line;
	s->state.entry_is_shell = !step->exec;
	if (!s->command_is_own && stage_state_set(&s->state.command, "") < 0)
		return stage_no_memory(e);
	return 0;
}

static int do_cmd(struct stage *s, const struct dockerfile_step *step, struct error *e)
{
	char *line = NULL;
	int r = command_line(s, step, &line, e);

	if (r < 0)
		return r;
	free(s->state.command);
	s->state.command = line;
	s->command_is_own = true;
	return 0;
}

static int do_shell(struct stage *s, const struct dockerfile_step *step, struct error *e)
{
	s->state.shell = step->words;
	return 0;
}

static int do_nothing(struct stage *s, const struct dockerfile_step *step, struct error *e)
{
	char text[80];

	(void)snprintf(text, sizeof(text), "%s means nothing to a template",
		dockerfile_kind_name(step->kind)); /* fits */
	s->ops.note(s->ops.opaque, step->line, text);
	return 0;
}

int stage_step(struct stage *s, const struct dockerfile_step *step, struct error *e)
{
	static int (*const steps[DOCKERFILE_KINDS_])(
		struct stage *, const struct dockerfile_step *, struct error *) = {
		[DOCKERFILE_RUN] = do_run,
		[DOCKERFILE_COPY] = do_copy,
		[DOCKERFILE_ADD] = do_copy,
		[DOCKERFILE_ENV] = do_env,
		[DOCKERFILE_ARG] = do_arg,
		[DOCKERFILE_WORKDIR] = do_workdir,
		[DOCKERFILE_USER] = do_user,
		[DOCKERFILE_SHELL] = do_shell,
		[DOCKERFILE_ENTRYPOINT] = do_entrypoint,
		[DOCKERFILE_CMD] = do_cmd,
	};

	return (steps[step->kind] ? steps[step->kind] : do_nothing)(s, step, e);
}
