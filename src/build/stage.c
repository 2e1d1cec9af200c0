#include "build/stage_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "base/words.h"
#include "dockerfile/path.h"

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

int stage_state_add_trigger(struct stage_state *s, const char *text)
{
	struct stage_triggers *t = &s->triggers;
	char **all;

	if (t->count == STAGE_TRIGGERS_MAX || strlen(text) > STAGE_TRIGGER_BYTES_MAX)
		return -E2BIG;
	all = reallocarray(t->items, t->count + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	t->items = all;
	all[t->count] = strdup(text);
	if (!all[t->count])
		return -ENOMEM;
	t->count++;
	return 0;
}

void stage_state_clear_triggers(struct stage_state *s)
{
	for (size_t i = 0; i < s->triggers.count; i++)
		free(s->triggers.items[i]);
	free(s->triggers.items);
	s->triggers = (struct stage_triggers){NULL, 0};
}

static int copy_triggers(const struct stage_state *from, struct stage_state *to)
{
	int r = 0;

	for (size_t i = 0; i < from->triggers.count && r == 0; i++)
		r = stage_state_add_trigger(to, from->triggers.items[i]);
	return r;
}

void stage_state_done(struct stage_state *s)
{
	vars_done(&s->env);
	stage_state_clear_triggers(s);
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
	memcpy(to->key, from->key, sizeof(to->key));
	memcpy(to->base_key, from->base_key, sizeof(to->base_key));
	to->base_deltas = from->base_deltas;
	to->entry_is_shell = from->entry_is_shell;
	to->shell = from->shell;
	if (r == 0)
		r = vars_copy(&from->env, &to->env);
	if (r == 0)
		r = copy_triggers(from, to);
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

struct expand_scope stage_scope(struct stage *s)
{
	return (struct expand_scope){get_variable, s, s->file->escape};
}

int stage_expand(struct stage *s, const char *word, char **ret, struct error *e)
{
	const struct expand_scope scope = stage_scope(s);

	return expand_word(&scope, word, ret, e);
}

int stage_of_vars(int r, struct error *e)
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

		r = stage_expand(s, step->words.items[i + 1], &value, e);
		if (r == 0)
			r = stage_of_vars(vars_set(&fresh, step->words.items[i], value), e);
	}
	for (size_t i = 0; i < fresh.count && r == 0; i++)
		r = stage_of_vars(vars_set_entry(&s->state.env, fresh.items[i]), e);
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
			r = stage_of_vars(vars_set(args, name, value), e);
	}
	return r;
}

static int do_arg(struct stage *s, const struct dockerfile_step *step, struct error *e)
{
	const struct expand_scope scope = stage_scope(s);

	return stage_take_arg(&s->args, step, &scope, s->build_args, s->global, e);
}

/* --- settings --- */

size_t stage_shell(const struct stage *s, const char *argv[STAGE_ARGV_MAX])
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

static int find_workdir(struct stage *s, const struct dockerfile_step *step,
	char path[BUILD_PATH_MAX], struct error *e)
{
	_cleanup_free_ char *word = NULL;
	int r = stage_expand(s, step->words.items[0], &word, e);

	if (r < 0)
		return r;
	return path_resolve(s->state.workdir, word, path)
		       ? 0
		       : error_set(e, ERROR_LIMIT, ENAMETOOLONG, "the path is too long");
}

static int skip_workdir(struct stage *s, const struct dockerfile_step *step, struct error *e)
{
	char path[BUILD_PATH_MAX];
	int r = find_workdir(s, step, path, e);

	if (r < 0)
		return r;
	return stage_state_set(&s->state.workdir, path) < 0 ? stage_no_memory(e) : 0;
}

static int do_workdir(struct stage *s, const struct dockerfile_step *step, struct error *e)
{
	char path[BUILD_PATH_MAX];
	struct agent_mkdir q = {
		.flags = AGENT_MKDIR_PARENTS, .mode = 0755, .user = s->state.user, .path = path};
	struct agent_event ev;
	struct machine *m;
	struct error why = {0};
	int r = find_workdir(s, step, path, e);

	if (r < 0)
		return r;
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
	int r = stage_expand(s, step->words.items[0], &word, e);

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
	const char *argv[STAGE_ARGV_MAX];
	size_t n = 0;
	int r;

	if (!step->exec)
		n = stage_shell(s, argv);
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

static int do_onbuild(struct stage *s, const struct dockerfile_step *step, struct error *e)
{
	int r = stage_state_add_trigger(&s->state, step->words.items[0]);

	if (r == -E2BIG)
		return error_set(e, ERROR_LIMIT, E2BIG,
			"more than %d instructions of ONBUILD, or one of more than %d bytes",
			STAGE_TRIGGERS_MAX, STAGE_TRIGGER_BYTES_MAX);
	return r < 0 ? stage_no_memory(e) : 0;
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
		[DOCKERFILE_RUN] = stage_run,
		[DOCKERFILE_COPY] = stage_copy,
		[DOCKERFILE_ADD] = stage_copy,
		[DOCKERFILE_ENV] = do_env,
		[DOCKERFILE_ARG] = do_arg,
		[DOCKERFILE_WORKDIR] = do_workdir,
		[DOCKERFILE_USER] = do_user,
		[DOCKERFILE_SHELL] = do_shell,
		[DOCKERFILE_ENTRYPOINT] = do_entrypoint,
		[DOCKERFILE_CMD] = do_cmd,
		[DOCKERFILE_ONBUILD] = do_onbuild,
	};

	return (steps[step->kind] ? steps[step->kind] : do_nothing)(s, step, e);
}

/* --- digests --- */

bool stage_changes_disk(const struct dockerfile_step *step)
{
	return step->kind == DOCKERFILE_RUN || step->kind == DOCKERFILE_COPY ||
	       step->kind == DOCKERFILE_ADD || step->kind == DOCKERFILE_WORKDIR;
}

static int workdir_key(
	struct stage *s, const struct dockerfile_step *step, struct step_key *k, struct error *e)
{
	char path[BUILD_PATH_MAX] = "";
	int r = find_workdir(s, step, path, e);

	step_key_text(k, path);
	step_key_text(k, s->state.user);
	return r;
}

int stage_key(struct stage *s, const struct dockerfile_step *step, char ret[STEP_KEY_BYTES],
	struct error *e)
{
	struct step_key k;
	int r, ended;

	step_key_begin(&k, dockerfile_kind_name(step->kind));
	step_key_text(&k, s->state.key);
	step_key_number(&k, step->flag_count);
	for (size_t i = 0; i < step->flag_count; i++) {
		step_key_text(&k, step->flags[i].name);
		step_key_text(&k, step->flags[i].value);
	}
	r = step->kind == DOCKERFILE_RUN       ? stage_run_key(s, step, &k, e)
	    : step->kind == DOCKERFILE_WORKDIR ? workdir_key(s, step, &k, e)
					       : stage_copy_key(s, step, &k, e);
	ended = step_key_end(&k, ret, r < 0 ? NULL : e);
	return r < 0 ? r : ended;
}

int stage_skip(struct stage *s, const struct dockerfile_step *step, struct error *e)
{
	return step->kind == DOCKERFILE_WORKDIR ? skip_workdir(s, step, e) : 0;
}
