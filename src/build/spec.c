#include "build/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "image/template.h"
#include "base/words.h"
#include "proto/json_tree.h"

/* Runs its second word in a login shell: in bash, like E2B, if the image has it. */
static const char login_script[] =
	"if command -v bash >/dev/null 2>&1; then exec bash -l -c \"$1\"; fi; exec sh -l -c \"$1\"";

/* Makes the user that its second word names, with a home and the right to become root, unless it
 * exists. For a number no user is made. It fails if a template can have no user of the name. */
static const char user_script[] =
	"set -e; n=$1; case $n in root|root:*|[0-9]*) exit 0;; esac\n"
	"has() {\n" /* whether a line is of the name and the pattern; an image may lack grep */
	"  [ -f \"$1\" ] || return 1\n"
	"  while IFS= read -r l || [ -n \"$l\" ]; do case $l in \"$3\"$2) return 0;; esac; done "
	"<\"$1\"\n"
	"  return 1\n"
	"}\n"
	"end() {\n" /* ends the last line */
	"  [ -f \"$1\" ] || return 0\n"
	"  while IFS= read -r l; do l=; done <\"$1\"\n"
	"  [ -z \"$l\" ] || echo >>\"$1\"\n"
	"}\n"
	"none() { echo \"there is no user $n, and none of this name can be made\" >&2; exit 1; }\n"
	"case $n in ''|-*|*[!a-z0-9_-]*) has /etc/passwd ':*' \"${n%%:*}\" || none; exit 0;; esac\n"
	"if ! has /etc/passwd ':*' \"$n\"; then\n"
	"  [ ${#n} -le 32 ] || none\n"
	"  end /etc/passwd; end /etc/group; end /etc/shadow\n"
	"  id=1000\n"
	"  while has /etc/passwd \"*:*:$id:*\" || has /etc/group \"*:*:$id:*\"; do id=$((id+1)); "
	"done\n"
	"  s=/bin/sh; [ ! -x /bin/bash ] || s=/bin/bash\n"
	"  echo \"$n:x:$id:$id::/home/$n:$s\" >>/etc/passwd\n"
	"  has /etc/group ':*' \"$n\" || echo \"$n:x:$id:\" >>/etc/group\n"
	"  [ ! -f /etc/shadow ] || echo \"$n:*:19000:0:99999:7:::\" >>/etc/shadow\n"
	"  mkdir -p \"/home/$n\"; [ ! -d /etc/skel ] || cp -R /etc/skel/. \"/home/$n/\"\n"
	"  chown -R \"$id:$id\" \"/home/$n\"\n"
	"fi\n"
	"if [ -d /etc/sudoers.d ] && [ \"$2\" = sudo ]; then\n"
	"  echo \"$n ALL=(ALL:ALL) NOPASSWD: ALL\" >\"/etc/sudoers.d/$n\"\n"
	"  chmod 440 \"/etc/sudoers.d/$n\"\n"
	"fi";

struct writer {
	struct spec *s;
	struct arena *arena;
	struct dockerfile_stage *stage;
	const char *user; /* the current one; of the arena */
	struct error *e;
	bool failed;
	bool forced; /* the step that is written, and those after it */
};

/* --- pieces --- */

static int malformed(struct error *e, const char *what)
{
	return error_set(e, ERROR_USAGE, EINVAL, "the build's specification: %s", what);
}

/* Quotes a text so that a Dockerfile takes it literally: quotes, escape characters, and variables
 * unless they are to be expanded. */
static const char *quoted(struct writer *w, const char *text, bool expand)
{
	char *copy = arena_take(w->arena, 2 * strlen(text) + 1), *p = copy;

	if (!copy) {
		w->failed = true;
		return "";
	}
	for (; *text; text++) {
		if (strchr("\\\"'", *text) || (*text == '$' && !expand))
			*p++ = '\\';
		*p++ = *text;
	}
	return copy;
}

static const char *kept(struct writer *w, const char *text)
{
	const char *copy = arena_copy(w->arena, text, strlen(text));

	w->failed |= !copy;
	return copy ? copy : "";
}

static struct dockerfile_step *add_step(struct writer *w, enum dockerfile_kind kind,
	unsigned number, const char *text, size_t words)
{
	struct dockerfile_steps *steps = &w->stage->steps;
	struct dockerfile_step *all = arena_grow(
				       w->arena, steps->items, steps->count, sizeof(*all)),
			       *step;
	const char **items = arena_take(w->arena, words * sizeof(*items));

	if (!all || !items) {
		w->failed = true;
		return NULL;
	}
	steps->items = all;
	step = &all[steps->count++];
	*step = (struct dockerfile_step){.kind = kind,
		.line = number,
		.text = kept(w, text),
		.force = w->forced,
		.words = {items, words}};
	w->s->file.step_count++;
	return step;
}

static void add_word(struct writer *w, enum dockerfile_kind kind, unsigned number, const char *text,
	const char *word)
{
	struct dockerfile_step *step = add_step(w, kind, number, text, 1);

	if (step)
		step->words.items[0] = word;
}

/* A command of a shell, with up to two arguments. */
static struct dockerfile_step *add_script(struct writer *w, unsigned number, const char *text,
	const char *script, const char *first, const char *second)
{
	struct dockerfile_step *step = add_step(w, DOCKERFILE_RUN, number, text, 6);

	if (!step)
		return NULL;
	step->bare_user = script == user_script ? first : NULL;
	step->bare_line = script == login_script ? first : NULL;
	step->exec = true;
	step->words.items[0] = "/bin/sh";
	step->words.items[1] = "-c";
	step->words.items[2] = script;
	step->words.items[3] = "sh";
	step->words.items[4] = first;
	step->words.items[5] = second;
	return step;
}

static void become(struct writer *w, unsigned number, const char *text, const char *user)
{
	add_word(w, DOCKERFILE_USER, number, text, quoted(w, user, false));
}

/* --- the steps --- */

static const char *arg(const json_t *args, size_t i)
{
	const char *s = json_string_value(json_array_get(args, i));

	return s ? s : "";
}

static void set_flag(
	struct writer *w, struct dockerfile_step *step, const char *name, const char *value)
{
	step->flags[step->flag_count++] = (struct dockerfile_flag){name, quoted(w, value, false)};
}

/* What a command downloads, which stays out of the image. Any user may write there. */
static void add_cache(struct writer *w, struct dockerfile_step *step, const char *id)
{
	_cleanup_free_ char *value =
		str_printf("type=cache,mode=0777,target=" SPEC_CACHE_DIR ",id=%s", id);

	step->flags = arena_take(w->arena, sizeof(*step->flags));
	if (step->flags && value)
		set_flag(w, step, "mount", value);
	else
		w->failed = true;
}

/* As another user only for this command. */
static void add_run(struct writer *w, unsigned number, const char *text, const json_t *json)
{
	const json_t *args = json_object_get(json, "args");
	const char *user = arg(args, 1), *cache = json_tree_word(json, "cache");
	struct dockerfile_step *step;

	if (*user)
		become(w, number, text, user);
	step = add_script(w, number, text, login_script, kept(w, arg(args, 0)), "");
	if (step && cache)
		add_cache(w, step, cache);
	if (*user)
		become(w, number, text, w->user);
}

static void add_env(struct writer *w, unsigned number, const char *text, const json_t *args)
{
	size_t n = json_array_size(args);
	struct dockerfile_step *step = add_step(w, DOCKERFILE_ENV, number, text, n + n % 2);

	for (size_t i = 0; step && i < n + n % 2; i++)
		step->words.items[i] =
			i % 2 ? quoted(w, arg(args, i), true) : kept(w, arg(args, i));
}

static void add_user(struct writer *w, unsigned number, const char *text, const json_t *args)
{
	const char *sudo = strcmp(arg(args, 1), "true") == 0 ? "sudo" : "";

	become(w, number, text, "root");
	add_script(w, number, text, user_script, kept(w, arg(args, 0)), sudo);
	w->user = kept(w, arg(args, 0));
	become(w, number, text, w->user);
}

/* Returns the length of the folder before the first pattern. The archive only has files that match
 * the pattern, so the whole folder can be copied. */
static size_t plain_bytes(const char *source)
{
	size_t n = strcspn(source, "*?[{");

	if (!source[n])
		return n;
	while (n && source[n - 1] != '/')
		n--;
	return n;
}

static const char *owner_of(struct writer *w, const char *given)
{
	_cleanup_free_ char *both = NULL;

	if (!*given)
		given = w->user;
	if (strchr(given, ':'))
		return kept(w, given);
	both = str_printf("%s:%s", given, given);
	return kept(w, both ? both : given);
}

/* The step whose directory has the files: this one, or an earlier one with the same archive. */
static unsigned unpacked_at(struct writer *w, unsigned number, const char *files)
{
	for (size_t i = 0; i < w->s->step_count; i++)
		if (strcmp(w->s->steps[i].files, files) == 0)
			return w->s->steps[i].number;
	w->s->steps[w->s->step_count++] = (struct spec_step){number, files};
	return number;
}

static int add_copy(struct writer *w, unsigned number, const char *text, const json_t *step)
{
	const json_t *args = json_object_get(step, "args");
	const char *source = arg(args, 0), *files = json_tree_word(step, "files");
	bool context = json_is_true(json_object_get(step, "context"));
	struct dockerfile_step *s = add_step(w, DOCKERFILE_COPY, number, text, 2);
	_cleanup_free_ char *path = NULL;

	if (!s || (!files && !context))
		return s ? malformed(w->e, "COPY without files") : -ENOMEM;
	path = context ? strdup(source)
		       : str_printf("%u/%.*s", unpacked_at(w, number, files),
				 (int)plain_bytes(source), source);
	if (!path)
		return -ENOMEM;
	s->flags = arena_take(w->arena, 2 * sizeof(*s->flags));
	if (!s->flags)
		return -ENOMEM;
	s->words.items[0] = quoted(w, path, false);
	s->words.items[1] = quoted(w, *arg(args, 1) ? arg(args, 1) : ".", false);
	set_flag(w, s, "chown", owner_of(w, arg(args, 2)));
	if (*arg(args, 3))
		set_flag(w, s, "chmod", arg(args, 3));
	return 0;
}

/* For people: the kind and the first words. */
static void write_text(const json_t *step, char out[160])
{
	const json_t *args = json_object_get(step, "args");
	int n = snprintf(out, 160, "%s", json_tree_word(step, "type"));

	for (size_t i = 0; i < json_array_size(args) && i < 2 && n < 160; i++)
		n += snprintf(out + n, (size_t)(160 - n), " %s", arg(args, i)); /* may be cut */
}

static int add_one(struct writer *w, unsigned number, const json_t *step)
{
	const char *type = json_tree_word(step, "type");
	const json_t *args = json_object_get(step, "args");
	char text[160];

	if (!type || json_array_size(args) == 0 || json_array_size(args) > SPLIT_WORDS_MAX)
		return malformed(w->e, "a step without type or arguments");
	write_text(step, text);
	if (strcmp(type, "RUN") == 0)
		add_run(w, number, text, step);
	else if (strcmp(type, "ENV") == 0)
		add_env(w, number, text, args);
	else if (strcmp(type, "USER") == 0)
		add_user(w, number, text, args);
	else if (strcmp(type, "WORKDIR") == 0)
		add_word(w, DOCKERFILE_WORKDIR, number, text, quoted(w, arg(args, 0), true));
	else if (strcmp(type, "COPY") == 0)
		return add_copy(w, number, text, step);
	else
		return malformed(w->e, "a step of an unknown type");
	return 0;
}

/* --- the base --- */

/* What an image wants to run means nothing here. */
static void clear_commands(struct writer *w)
{
	struct dockerfile_step *step = add_step(w, DOCKERFILE_ENTRYPOINT, 0, "", 0);

	if (step)
		step->exec = true;
	step = add_step(w, DOCKERFILE_CMD, 0, "", 0);
	if (step)
		step->exec = true;
}

static uint32_t number_of(const json_t *root, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(root, key));

	return v > 0 && v <= UINT32_MAX ? (uint32_t)v : 0;
}

static void begin_on_image(struct writer *w, const char *image)
{
	_cleanup_free_ char *from = str_printf("docker://%s", image);

	w->stage->base = quoted(w, from ? from : "", false);
	w->user = "user";
	clear_commands(w);
	add_word(w, DOCKERFILE_USER, 0, "USER root", "root");
	add_script(w, 0, "the user", user_script, "user", "sudo");
	add_word(w, DOCKERFILE_USER, 0, "USER user", "user");
	add_word(w, DOCKERFILE_WORKDIR, 0, "WORKDIR /home/user", "/home/user");
}

static int load_base(
	struct writer *w, const struct home *home, const char *name, struct template *t)
{
	return w->s->snapshot.id ? base_snapshot_load(home, &w->s->snapshot, t, w->e)
				 : template_load(home, name, t, w->e);
}

/* Where the commands of a template begin. malloc'ed. */
static char *directory_of(const struct image_config *c)
{
	if (*c->workdir)
		return strdup(c->workdir);
	return strcmp(c->user, "root") == 0 ? strdup("/root") : str_printf("/home/%s", c->user);
}

static int join(const char *const *words, size_t n, char **ret, struct error *e)
{
	struct buf line = BUF_INIT(CONFIG_TEXT_MAX);
	int r = words_join(&line, words, n);

	if (r == 0)
		r = buf_add_u8(&line, 0);
	if (r < 0) {
		buf_done(&line);
		return error_set(e, ERROR_LIMIT, -r, "the start command is too long");
	}
	*ret = (char *)line.data; /* nothing was consumed */
	return 0;
}

static bool changes_directory(const json_t *root)
{
	const json_t *step;
	size_t i;

	json_array_foreach(json_object_get(root, "steps"), i, step)
	{
		const char *type = json_tree_word(step, "type");

		if (type && strcmp(type, "WORKDIR") == 0)
			return true;
	}
	return false;
}

/* As with E2B, what the base starts begins where it did, whatever WORKDIR the build has. */
static int inherit_commands(struct writer *w, const struct image_config *c, const char *directory)
{
	const char *const words[] = {"/bin/sh", "-c", "cd \"$0\" && exec /bin/sh -c \"$1\"",
		directory, c->start_command};

	if (w->s->start || w->s->ready)
		return 0;
	if (*c->ready_command)
		w->s->ready = kept(w, c->ready_command);
	return *c->start_command && changes_directory(w->s->root)
		       ? join(words, ARRAY_SIZE(words), &w->s->inherited, w->e)
		       : 0;
}

/* Or a snapshot. */
static int begin_on_template(struct writer *w, const struct home *home, const char *name)
{
	_cleanup_free_ char *directory = NULL;
	struct template t = {0};
	int r = load_base(w, home, name, &t);

	if (r < 0)
		return r;
	w->stage->base = quoted(w, name, false);
	w->user = kept(w, t.config.user);
	w->s->on_template = true;
	directory = directory_of(&t.config);
	r = directory ? inherit_commands(w, &t.config, directory) : -ENOMEM;
	if (r == 0 && !*t.config.workdir) /* commands begin in the home there */
		add_word(w, DOCKERFILE_WORKDIR, 0, "WORKDIR", quoted(w, directory, false));
	template_done(&t);
	return r;
}

static void take_snapshot(struct spec *s, const json_t *base)
{
	s->snapshot = (struct base_snapshot){.id = json_tree_word(base, "snapshot"),
		.memory = !json_is_false(json_object_get(base, "memory")),
		.cpus = number_of(base, "cpus"),
		.memory_bytes = (uint64_t)number_of(base, "memoryMB") << 20,
		.disk_bytes = (uint64_t)number_of(base, "diskMB") << 20};
}

static int begin(struct writer *w, const struct home *home)
{
	const json_t *base = json_object_get(w->s->root, "base");
	const char *image = json_tree_word(base, "image"), *name = json_tree_word(base, "template");

	w->s->auth = json_tree_word(base, "auth");
	w->s->own_registry = json_is_true(json_object_get(base, "own"));
	if (w->s->auth && *w->s->auth == '@') /* would name a file of this host */
		return malformed(w->e, "a login that begins with @");
	take_snapshot(w->s, base);
	if (w->s->snapshot.id && !name)
		name = w->s->snapshot.id;
	if (!image == !name)
		return malformed(w->e, "no base");
	if (name)
		return begin_on_template(w, home, name);
	begin_on_image(w, image);
	return 0;
}

/* --- all of it --- */

static uint64_t bytes_of(const json_t *root, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(root, key));

	return v > 0 ? (uint64_t)v : 0;
}

static int take_head(struct spec *s, struct error *e)
{
	s->build = json_tree_word(s->root, "build");
	s->start = json_tree_word(s->root, "start");
	s->ready = json_tree_word(s->root, "ready");
	s->cpus = number_of(s->root, "cpus");
	s->memory_mb = number_of(s->root, "memoryMB");
	s->free_mb = number_of(s->root, "freeMB");
	s->reserve_bytes = bytes_of(s->root, "reserveBytes");
	s->force = json_is_true(json_object_get(s->root, "force"));
	return s->build && str_is_name(s->build) ? 0 : malformed(e, "no build");
}

static int write_steps(struct writer *w, const struct home *home)
{
	const json_t *steps = json_object_get(w->s->root, "steps"), *step;
	size_t n = json_array_size(steps), i;
	int r;

	if (n > SPEC_STEPS_MAX)
		return malformed(w->e, "too many steps");
	w->s->file.stages = w->stage = arena_take(w->arena, sizeof(*w->stage));
	w->s->steps = arena_take(w->arena, (n + 1) * sizeof(*w->s->steps));
	if (!w->stage || !w->s->steps)
		return -ENOMEM;
	w->s->file.stage_count = 1;
	w->stage->name = w->stage->platform = "";
	r = begin(w, home);
	json_array_foreach(steps, i, step)
	{
		w->forced |= json_is_true(json_object_get(step, "force"));
		if (r == 0)
			r = add_one(w, (unsigned)i + 1, step);
	}
	return r == 0 && w->failed ? -ENOMEM : r;
}

int spec_read(const char *text, size_t n, struct spec *ret, struct error *e)
{
	const char *reason = "";

	*ret = (struct spec){.file.escape = '\\'};
	arena_init(&ret->file.arena, SPEC_MEMORY_MAX);
	ret->root = json_tree_parse(text, n, JSON_TREE_NO_NUL, &reason);
	if (!ret->root)
		return malformed(e, reason);
	return take_head(ret, e);
}

int spec_make_steps(const struct home *home, struct spec *s, struct error *e)
{
	struct writer w = {.s = s, .arena = &s->file.arena, .e = e};
	int r = write_steps(&w, home);

	if (r < 0)
		(void)error_set(
			e, ERROR_NO_SPACE, ENOMEM, "out of memory"); /* unless already set */
	return r;
}

void spec_done(struct spec *s)
{
	dockerfile_done(&s->file);
	json_decref(s->root);
	s->root = NULL;
	free(TAKE_PTR(s->inherited));
}

int spec_login_command(const char *command, char **ret, struct error *e)
{
	const char *const words[] = {"/bin/sh", "-c", login_script, "sh", command};

	return join(words, ARRAY_SIZE(words), ret, e);
}

/* --- what clients are told --- */

enum { COMMAND_MAX = 300 }; /* bytes of it that are quoted, so that the reason is kept whole */

/* In whole characters: one half would make all others of the reason unreadable. */
static int quoted_length(const char *command)
{
	size_t n = strnlen(command, COMMAND_MAX);

	while (n && ((unsigned char)command[n] & 0xc0) == 0x80)
		n--;
	return (int)n;
}

/* E2B starts a command by its envd, whose words these are. */
static char *say_why(const char *why)
{
	static const char status[] = "the command ended with status ", user[] = "user ";
	const char *end = str_starts_with(why, user) ? strrchr(why, ':') : NULL;

	if (str_starts_with(why, status))
		return str_printf("exit status %s", why + strlen(status));
	if (end)
		return str_printf("command failed: unauthenticated: invalid username: '%.*s'",
			(int)(end - why - (long)strlen(user)), why + strlen(user));
	return strdup(why);
}

/* What E2B says that the step failed at, or NULL. malloc'ed. */
static char *name_failure(const char *type, const char *word)
{
	if (strcmp(type, "RUN") == 0)
		return str_printf("failed to run command '%.*s'", quoted_length(word), word);
	if (strcmp(type, "USER") == 0)
		return strdup("failed to create user");
	if (strcmp(type, "WORKDIR") == 0)
		return strdup("failed to create workdir");
	return NULL;
}

char *spec_words_of_failure(const struct spec *s, unsigned number, const char *why)
{
	const json_t *steps = json_object_get(s->root, "steps");
	const json_t *step = number ? json_array_get(steps, number - 1) : NULL;
	const char *type = json_tree_word(step, "type");
	const char *word = json_string_value(json_array_get(json_object_get(step, "args"), 0));
	_cleanup_free_ char *what = type && word ? name_failure(type, word) : NULL;
	_cleanup_free_ char *said = what ? say_why(why) : NULL;

	return said ? str_printf("%s: %s", what, said) : NULL;
}
