#include "dockerfile/dockerfile.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "dockerfile/mount.h"
#include "dockerfile/source.h"

/* How the words of an instruction are written. */
enum form {
	FORM_COMMAND, /* a JSON array, or a line for the shell */
	FORM_JSON,
	FORM_FILES, /* a JSON array, or words */
	FORM_WORDS,
	FORM_LIST, /* a JSON array, or words; one or more */
	FORM_PAIRS,
	FORM_ARGS,
	FORM_REST,
	FORM_HEALTH,
	FORM_TRIGGER,
};

static const struct instruction {
	const char *name;
	enum form form;
	const char *flags[8];
} instructions[DOCKERFILE_KINDS_] = {
	[DOCKERFILE_RUN] = {"RUN", FORM_COMMAND, {"mount", "network"}},
	[DOCKERFILE_COPY] = {"COPY", FORM_FILES,
		{"from", "chown", "chmod", "link", "exclude", "parents"}},
	[DOCKERFILE_ADD] = {"ADD", FORM_FILES, {"chown", "chmod", "link", "checksum", "exclude"}},
	[DOCKERFILE_ENV] = {"ENV", FORM_PAIRS, {NULL}},
	[DOCKERFILE_ARG] = {"ARG", FORM_ARGS, {NULL}},
	[DOCKERFILE_WORKDIR] = {"WORKDIR", FORM_REST, {NULL}},
	[DOCKERFILE_USER] = {"USER", FORM_REST, {NULL}},
	[DOCKERFILE_SHELL] = {"SHELL", FORM_JSON, {NULL}},
	[DOCKERFILE_ENTRYPOINT] = {"ENTRYPOINT", FORM_COMMAND, {NULL}},
	[DOCKERFILE_CMD] = {"CMD", FORM_COMMAND, {NULL}},
	[DOCKERFILE_EXPOSE] = {"EXPOSE", FORM_WORDS, {NULL}},
	[DOCKERFILE_LABEL] = {"LABEL", FORM_PAIRS, {NULL}},
	[DOCKERFILE_VOLUME] = {"VOLUME", FORM_LIST, {NULL}},
	[DOCKERFILE_STOPSIGNAL] = {"STOPSIGNAL", FORM_REST, {NULL}},
	[DOCKERFILE_HEALTHCHECK] = {"HEALTHCHECK", FORM_HEALTH,
		{"interval", "timeout", "start-period", "start-interval", "retries"}},
	[DOCKERFILE_MAINTAINER] = {"MAINTAINER", FORM_REST, {NULL}},
	[DOCKERFILE_ONBUILD] = {"ONBUILD", FORM_TRIGGER, {NULL}},
};

struct parser {
	struct dockerfile *d; /* NULL: a trigger is read */
	struct arena *arena;
	struct source source;
	struct error *e;
	unsigned line;	  /* of the instruction that is read */
	const char *text; /* it */
	const char *name; /* its name in upper case */
};

static int no_memory(struct parser *p)
{
	return error_set(p->e, ERROR_LIMIT, ENOMEM, "line %u: the Dockerfile needs too much memory",
		p->line);
}

/* "line 3: COPY: ..." or, of a trigger, "ONBUILD COPY: ..." */
static int prefix(struct parser *p)
{
	if (p->d)
		error_prefix(p->e, "line %u: %s", p->line, p->name);
	else
		error_prefix(p->e, "ONBUILD %s", p->name);
	return -EINVAL;
}

#define BAD(p, ...) ((void)error_set((p)->e, ERROR_USAGE, EINVAL, __VA_ARGS__), prefix(p))

static int of_split(struct parser *p, int r)
{
	if (r == -E2BIG)
		return BAD(p, "more than %d words", SPLIT_WORDS_MAX);
	return r == -ENOMEM ? no_memory(p) : r;
}

const char *dockerfile_kind_name(enum dockerfile_kind kind)
{
	return instructions[kind].name;
}

static const char *after_blanks(const char *p)
{
	while (isspace((unsigned char)*p))
		p++;
	return p;
}

static const char *word_end(const char *p)
{
	while (*p && !isspace((unsigned char)*p))
		p++;
	return p;
}

/* --- flags --- */

static bool is_known(const char *const flags[8], const char *name)
{
	for (size_t i = 0; i < 8 && flags[i]; i++)
		if (strcmp(flags[i], name) == 0)
			return true;
	return false;
}

/* "--name=value" or "--name" from one word. */
static int add_flag(
	struct parser *p, struct dockerfile_step *s, const char *const known[8], const char *word)
{
	const char *equals = strchr(word, '='), *value = equals ? equals + 1 : "true";
	const char *name = arena_copy(p->arena, word + 2, strcspn(word + 2, "="));

	if (!name)
		return no_memory(p);
	if (!is_known(known, name))
		return BAD(p, "--%.60s is not supported", name);
	if (!*value || (!equals && strcmp(name, "link") != 0 && strcmp(name, "parents") != 0))
		return BAD(p, "--%.60s needs a value: --%.60s=...", name, name);
	if (strcmp(name, "mount") != 0 && strcmp(name, "exclude") != 0 && dockerfile_flag(s, name))
		return BAD(p, "--%.60s is given twice", name);
	if (s->flag_count == DOCKERFILE_FLAGS_MAX)
		return BAD(p, "more than %d flags", DOCKERFILE_FLAGS_MAX);
	s->flags = arena_grow(p->arena, s->flags, s->flag_count, sizeof(*s->flags));
	if (!s->flags)
		return no_memory(p);
	s->flags[s->flag_count++] = (struct dockerfile_flag){name, value};
	return 0;
}

/* Takes the word of a flag. Removes quotes and backslashes as docker does, whatever the escape
 * character is. *ret is in the arena. */
static int take_flag_word(struct parser *p, const char **rest, const char **ret)
{
	const char *in = *rest;
	char *out = arena_copy(p->arena, in, strlen(in)), quote = '\0';

	if (!out)
		return no_memory(p);
	*ret = out;
	for (; *in && (quote || !isspace((unsigned char)*in)); in++) {
		if (quote ? *in == quote : *in == '\'' || *in == '"') {
			quote = quote ? '\0' : *in;
			continue;
		}
		in += *in == '\\' && in[1];
		*out++ = *in;
	}
	*out = '\0';
	*rest = after_blanks(in);
	return quote ? BAD(p, "a quote of the flag %.60s is not closed", *ret) : 0;
}

/* Takes the flags at the head of *rest. */
static int take_flags(
	struct parser *p, struct dockerfile_step *s, const char *const known[8], const char **rest)
{
	int r = 0;

	while (r == 0 && strncmp(*rest, "--", 2) == 0) {
		const char *word = "";

		r = take_flag_word(p, rest, &word);
		if (r == 0 && !word[2])
			break; /* ends the flags */
		if (r == 0)
			r = add_flag(p, s, known, word);
	}
	return r;
}

const char *dockerfile_flag(const struct dockerfile_step *s, const char *name)
{
	for (size_t i = 0; i < s->flag_count; i++)
		if (strcmp(s->flags[i].name, name) == 0)
			return s->flags[i].value;
	return NULL;
}

/* --- heredocs --- */

static bool takes_heredocs(enum dockerfile_kind kind)
{
	return kind == DOCKERFILE_RUN || kind == DOCKERFILE_COPY || kind == DOCKERFILE_ADD;
}

static int add_heredoc(struct parser *p, struct dockerfile_step *s, const struct heredoc_mark *mark)
{
	struct dockerfile_heredoc *h;
	int r;

	if (s->heredoc_count == DOCKERFILE_HEREDOCS_MAX)
		return BAD(p, "more than %d heredocs", DOCKERFILE_HEREDOCS_MAX);
	s->heredocs = arena_grow(p->arena, s->heredocs, s->heredoc_count, sizeof(*s->heredocs));
	if (!s->heredocs)
		return no_memory(p);
	h = &s->heredocs[s->heredoc_count++];
	*h = (struct dockerfile_heredoc){
		.name = mark->name, .expand = mark->expand, .strip_tabs = mark->strip_tabs};
	r = source_heredoc(&p->source, h->name, h->strip_tabs, &h->text, p->e);
	if (r < 0)
		error_prefix(p->e, "%s", p->name);
	return r;
}

static int read_heredocs(struct parser *p, struct dockerfile_step *s, const char *rest)
{
	struct words words = {NULL, 0};
	int r = 0;

	if (!takes_heredocs(s->kind) || !strstr(rest, "<<"))
		return 0;
	r = of_split(p, split_quoted(p->arena, rest, p->source.escape, &words));
	for (size_t i = 0; i < words.count && r == 0; i++) {
		struct heredoc_mark mark;

		r = split_heredoc(p->arena, words.items[i], p->source.escape, &mark);
		if (r > 0)
			r = add_heredoc(p, s, &mark);
		else if (r < 0)
			r = no_memory(p);
	}
	return r;
}

const struct dockerfile_heredoc *dockerfile_heredoc(const struct dockerfile_step *s, size_t word)
{
	for (size_t i = 0; i < s->heredoc_count; i++)
		if (s->heredocs[i].word == word)
			return &s->heredocs[i];
	return NULL;
}

/* Notes which words of COPY and ADD stand for heredocs. */
static int place_heredocs(struct parser *p, struct dockerfile_step *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->words.count; i++) {
		struct heredoc_mark mark;
		int r = split_heredoc(p->arena, s->words.items[i], p->source.escape, &mark);

		if (r < 0)
			return no_memory(p);
		if (r == 0)
			continue;
		if (n < s->heredoc_count && strcmp(s->heredocs[n].name, mark.name) == 0)
			s->heredocs[n].word = i;
		n++;
	}
	if (n != s->heredoc_count)
		return BAD(p, "the mark of a heredoc has blanks or quotes around it");
	return 0;
}

/* --- forms --- */

static int one_word(struct parser *p, struct words *w, const char *rest)
{
	w->items = arena_take(p->arena, sizeof(*w->items));
	if (!w->items)
		return no_memory(p);
	w->items[0] = rest;
	w->count = 1;
	return 0;
}

static int take_command(struct parser *p, struct dockerfile_step *s, const char *rest)
{
	int r = split_json(p->arena, rest, &s->words);

	if (r == 0 && s->words.count == 0 && s->kind != DOCKERFILE_CMD &&
		s->kind != DOCKERFILE_ENTRYPOINT) /* there it clears what the base has */
		return BAD(p, "the list is empty");
	s->exec = r == 0;
	return r == -EINVAL ? one_word(p, &s->words, rest) : of_split(p, r);
}

static int take_json(struct parser *p, struct dockerfile_step *s, const char *rest)
{
	int r = split_json(p->arena, rest, &s->words);

	if (r == -EINVAL || (r == 0 && s->words.count == 0))
		return BAD(p, "needs a list of strings in JSON, as [\"/bin/sh\", \"-c\"]");
	return of_split(p, r);
}

static int take_list(struct parser *p, struct dockerfile_step *s, const char *rest)
{
	int r = split_json(p->arena, rest, &s->words);

	if (r == -EINVAL)
		r = split_plain(p->arena, rest, &s->words);
	if (r == 0 && s->words.count == 0)
		return BAD(p, "the list is empty");
	return of_split(p, r);
}

static int take_files(struct parser *p, struct dockerfile_step *s, const char *rest)
{
	int r = take_list(p, s, rest);

	if (r == 0 && s->words.count < 2)
		return BAD(p, "needs at least a source and a destination");
	return r < 0 ? r : place_heredocs(p, s);
}

static bool is_name(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("_-./", s[i]))
			return false;
	return n > 0;
}

/* Puts "NAME=VALUE" in place of a word, as two. */
static int add_pair(
	struct parser *p, struct words *to, const char *name, size_t n, const char *value)
{
	const char **items;

	items = arena_grow(p->arena, to->items, to->count, sizeof(*items));
	if (!items)
		return no_memory(p);
	to->items = items;
	items[to->count++] = arena_copy(p->arena, name, n);
	items = arena_grow(p->arena, items, to->count, sizeof(*items));
	if (!items || !to->items[to->count - 1])
		return no_memory(p);
	to->items = items;
	items[to->count++] = value;
	return 0;
}

/* The name of a pair may be quoted, as a label's. */
static int take_pair(struct parser *p, struct dockerfile_step *s, const char *word)
{
	const char *equals = strchr(word, '=');

	if (!equals)
		return BAD(p, "%.60s has no =: it must be NAME=VALUE", word);
	if (equals == word)
		return BAD(p, "%.60s has no name before the =", word);
	if (s->kind == DOCKERFILE_ENV && !is_name(word, (size_t)(equals - word)))
		return BAD(p, "%.*s cannot be the name of a variable",
			(int)(equals - word < 60 ? equals - word : 60), word);
	return add_pair(p, &s->words, word, (size_t)(equals - word), equals + 1);
}

/* "NAME=VALUE ..." or, as in old files, "NAME VALUE". */
static int take_pairs(struct parser *p, struct dockerfile_step *s, const char *rest)
{
	struct words words;
	int r = of_split(p, split_quoted(p->arena, rest, p->source.escape, &words));
	const char *end = word_end(rest);

	if (r < 0)
		return r;
	if (!strchr(words.items[0], '=')) {
		if (words.count < 2)
			return BAD(p, "needs NAME=VALUE");
		if (s->kind == DOCKERFILE_ENV && !is_name(rest, (size_t)(end - rest)))
			return BAD(p, "%.60s cannot be the name of a variable", words.items[0]);
		return add_pair(p, &s->words, rest, (size_t)(end - rest), after_blanks(end));
	}
	for (size_t i = 0; i < words.count && r == 0; i++)
		r = take_pair(p, s, words.items[i]);
	return r;
}

static int take_args(struct parser *p, struct dockerfile_step *s, const char *rest)
{
	int r = of_split(p, split_quoted(p->arena, rest, p->source.escape, &s->words));

	for (size_t i = 0; i < s->words.count && r == 0; i++) {
		const char *word = s->words.items[i];

		if (!is_name(word, strcspn(word, "=")))
			return BAD(p, "%.60s is not NAME or NAME=VALUE", word);
	}
	return r;
}

static int take_health(struct parser *p, struct dockerfile_step *s, const char *rest)
{
	const char *end = word_end(rest), **items;
	struct words command;
	size_t n = (size_t)(end - rest);
	int r;

	if (n == 4 && strncasecmp(rest, "NONE", 4) == 0 && !*after_blanks(end))
		return one_word(p, &s->words, "NONE");
	if (n != 3 || strncasecmp(rest, "CMD", 3) != 0 || !*after_blanks(end))
		return BAD(p, "must be NONE, or CMD with a command");
	r = take_command(p, s, after_blanks(end));
	if (r < 0)
		return r;
	command = s->words;
	items = arena_take(p->arena, (command.count + 1) * sizeof(*items));
	if (!items)
		return no_memory(p);
	items[0] = "CMD";
	memcpy(items + 1, command.items, command.count * sizeof(*items));
	s->words = (struct words){items, command.count + 1};
	return 0;
}

/* --- triggers --- */

/* Only kinds that take heredocs matter here. */
static enum dockerfile_kind trigger_kind(const char *text)
{
	static const enum dockerfile_kind kinds[] = {
		DOCKERFILE_RUN, DOCKERFILE_COPY, DOCKERFILE_ADD};
	size_t n = (size_t)(word_end(text) - text);

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strlen(instructions[kinds[i]].name) == n &&
			strncasecmp(instructions[kinds[i]].name, text, n) == 0)
			return kinds[i];
	return DOCKERFILE_ENV;
}

/* Reads the heredocs of an instruction of ONBUILD, and adds their lines to its text. */
static int add_trigger_heredocs(struct parser *p, const char *rest, struct buf *text)
{
	struct dockerfile_step s = {.kind = trigger_kind(rest)};
	int r = read_heredocs(p, &s, rest);

	for (size_t i = 0; i < s.heredoc_count && r == 0; i++)
		r = buf_printf(text, "\n%s%s", s.heredocs[i].text, s.heredocs[i].name);
	return r;
}

/* The instruction is kept as text, and read once to find its errors. */
static int take_trigger(struct parser *p, struct dockerfile_step *s, const char *rest)
{
	struct buf text = BUF_INIT(SOURCE_BYTES_MAX);
	struct dockerfile_step step;
	const char *whole = NULL;
	int r = buf_add_str(&text, rest);

	if (r == 0)
		r = add_trigger_heredocs(p, rest, &text);
	if (r == 0)
		whole = arena_copy(p->arena, (const char *)buf_head(&text), buf_len(&text));
	buf_done(&text);
	if (r < 0)
		return p->e->code ? r : no_memory(p);
	if (!whole)
		return no_memory(p);
	r = dockerfile_parse_trigger(whole, p->arena, &step, p->e);
	if (r < 0) {
		error_prefix(p->e, "line %u", p->line);
		return r;
	}
	return one_word(p, &s->words, whole);
}

static int take_words(struct parser *p, struct dockerfile_step *s, const char *rest)
{
	static int (*const takers[])(struct parser *, struct dockerfile_step *, const char *) = {
		[FORM_COMMAND] = take_command,
		[FORM_JSON] = take_json,
		[FORM_FILES] = take_files,
		[FORM_LIST] = take_list,
		[FORM_PAIRS] = take_pairs,
		[FORM_ARGS] = take_args,
		[FORM_HEALTH] = take_health,
		[FORM_TRIGGER] = take_trigger,
	};
	enum form form = instructions[s->kind].form;

	if (!*rest)
		return BAD(p, "needs an argument");
	if (form == FORM_REST)
		return one_word(p, &s->words, rest);
	if (form == FORM_WORDS)
		return of_split(p, split_plain(p->arena, rest, &s->words));
	return takers[form](p, s, rest);
}

/* --- instructions --- */

static int check_network(struct parser *p, const char *value)
{
	if (!value || strcmp(value, "default") == 0 || strcmp(value, "none") == 0)
		return 0;
	if (strcmp(value, "host") == 0)
		return BAD(p, "--network=host is not supported: a step runs in a microVM");
	return BAD(p, "--network=%.60s: must be default or none", value);
}

/* What can be said of RUN without values of variables. */
static int check_run(struct parser *p, const struct dockerfile_step *s)
{
	int r = check_network(p, dockerfile_flag(s, "network"));

	if (r == 0 && s->exec && s->heredoc_count)
		return BAD(p, "a heredoc needs the shell form");
	for (size_t i = 0; i < s->flag_count && r == 0; i++) {
		struct mount m;

		if (strcmp(s->flags[i].name, "mount") != 0 || strchr(s->flags[i].value, '$'))
			continue;
		r = mount_parse(s->flags[i].value, &m, p->e);
		if (r < 0)
			r = prefix(p);
	}
	return r;
}

static int read_step(
	struct parser *p, enum dockerfile_kind kind, const char *rest, struct dockerfile_step *ret)
{
	struct dockerfile_step s = {.kind = kind, .line = p->line, .text = p->text};
	int r = take_flags(p, &s, instructions[kind].flags, &rest);

	if (r == 0)
		r = read_heredocs(p, &s, rest);
	if (r == 0)
		r = take_words(p, &s, rest);
	if (r == 0 && kind == DOCKERFILE_RUN)
		r = check_run(p, &s);
	*ret = s;
	return r;
}

static int take_step(struct parser *p, enum dockerfile_kind kind, const char *rest)
{
	struct dockerfile *d = p->d;
	struct dockerfile_steps *to =
		d->stage_count ? &d->stages[d->stage_count - 1].steps : &d->args;
	struct dockerfile_step s;
	int r;

	if (!d->stage_count && kind != DOCKERFILE_ARG)
		return BAD(p, "only ARG can stand before the first FROM");
	r = read_step(p, kind, rest, &s);
	if (r < 0)
		return r;
	if (d->step_count == DOCKERFILE_STEPS_MAX)
		return BAD(p, "more than %d steps", DOCKERFILE_STEPS_MAX);
	to->items = arena_grow(p->arena, to->items, to->count, sizeof(*to->items));
	if (!to->items)
		return no_memory(p);
	to->items[to->count++] = s;
	d->step_count++;
	return 0;
}

static int name_stage(struct parser *p, struct dockerfile_stage *stage, const char *name)
{
	char *lower = arena_copy(p->arena, name, strlen(name));

	if (!lower)
		return no_memory(p);
	for (char *c = lower; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	if (!islower((unsigned char)*lower) ||
		strspn(lower, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != strlen(lower))
		return BAD(p,
			"%.60s cannot name a stage: letters, digits, - _ . and first a letter",
			name);
	if (strcmp(lower, "scratch") == 0 || strcmp(lower, "context") == 0)
		return BAD(p, "%s is reserved and cannot name a stage", lower);
	if (dockerfile_find_stage(p->d, lower, p->d->stage_count) >= 0)
		return BAD(p, "a stage above is named %.60s already", lower);
	stage->name = lower;
	return 0;
}

static int take_from(struct parser *p, const char *rest)
{
	static const char *const known[8] = {"platform"};
	struct dockerfile *d = p->d;
	struct dockerfile_step flags = {.line = p->line};
	struct dockerfile_stage stage = {.line = p->line, .name = "", .platform = ""};
	struct words words;
	int r = take_flags(p, &flags, known, &rest);

	if (r == 0)
		r = of_split(p, split_plain(p->arena, rest, &words));
	if (r < 0)
		return r;
	if (words.count != 1 && (words.count != 3 || strcasecmp(words.items[1], "as") != 0))
		return BAD(p, "must be FROM IMAGE or FROM IMAGE AS NAME");
	stage.base = words.items[0];
	if (flags.flag_count)
		stage.platform = flags.flags[0].value;
	if (words.count == 3)
		r = name_stage(p, &stage, words.items[2]);
	if (r < 0)
		return r;
	if (d->stage_count == DOCKERFILE_STAGES_MAX)
		return BAD(p, "more than %d stages", DOCKERFILE_STAGES_MAX);
	d->stages = arena_grow(p->arena, d->stages, d->stage_count, sizeof(*d->stages));
	if (!d->stages)
		return no_memory(p);
	d->stages[d->stage_count++] = stage;
	return 0;
}

/* Puts the name of the instruction that stands at p->text into p->name, in upper case. *ret_rest is
 * what follows it. Returns its kind, DOCKERFILE_KINDS_ for FROM and unknown names, or -ENOMEM. */
static int take_name(struct parser *p, const char **ret_rest)
{
	const char *end = word_end(p->text);
	char *name = arena_copy(p->arena, p->text, (size_t)(end - p->text));
	int kind = 0;

	if (!name)
		return no_memory(p);
	for (char *c = name; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	p->name = strlen(name) < 40 ? name : "an instruction";
	*ret_rest = after_blanks(end);
	while (kind < DOCKERFILE_KINDS_ && strcmp(instructions[kind].name, name) != 0)
		kind++;
	return kind;
}

static int take_instruction(struct parser *p)
{
	const char *rest;
	int kind = take_name(p, &rest);

	if (kind < 0)
		return kind;
	if (strcmp(p->name, "FROM") == 0)
		return take_from(p, rest);
	if (kind == DOCKERFILE_KINDS_)
		return BAD(p, "is not an instruction of Dockerfiles");
	return take_step(p, (enum dockerfile_kind)kind, rest);
}

static int parse(struct parser *p)
{
	int r = 0;

	for (;;) {
		r = source_next(&p->source, &p->text, &p->line, p->e);
		if (r <= 0)
			break;
		r = take_instruction(p);
		if (r < 0)
			break;
	}
	if (r == 0 && p->d->stage_count == 0)
		r = error_set(p->e, ERROR_USAGE, EINVAL, "the Dockerfile has no FROM");
	return r;
}

static int parse_trigger(struct parser *p, struct dockerfile_step *ret)
{
	const char *rest, *more;
	int kind, r = source_next(&p->source, &p->text, &p->line, p->e);

	p->name = "";
	if (r == 0)
		return BAD(p, "needs an instruction");
	kind = r < 0 ? r : take_name(p, &rest);
	if (kind < 0)
		return kind;
	if (strcmp(p->name, "FROM") == 0 || kind == DOCKERFILE_MAINTAINER ||
		kind == DOCKERFILE_ONBUILD)
		return BAD(p, "ONBUILD cannot have this instruction");
	if (kind == DOCKERFILE_KINDS_)
		return BAD(p, "is not an instruction of Dockerfiles");
	r = read_step(p, (enum dockerfile_kind)kind, rest, ret);
	if (r == 0)
		r = source_next(&p->source, &more, &p->line, p->e);
	return r > 0 ? BAD(p, "more than one instruction") : r;
}

int dockerfile_parse_trigger(
	const char *text, struct arena *a, struct dockerfile_step *ret, struct error *e)
{
	struct error own = {0};
	struct parser p = {.arena = a, .e = e ? e : &own};
	int r = source_open(&p.source, a, text, strlen(text), p.e);

	return r < 0 ? r : parse_trigger(&p, ret);
}

int dockerfile_parse(const char *text, size_t n, struct dockerfile *ret, struct error *e)
{
	struct error own = {0};
	struct parser p = {.d = ret, .arena = &ret->arena, .e = e ? e : &own};
	int r;

	*ret = (struct dockerfile){.escape = '\\'};
	arena_init(&ret->arena, DOCKERFILE_MEMORY_MAX);
	r = source_open(&p.source, &ret->arena, text, n, p.e);
	ret->escape = p.source.escape;
	return r < 0 ? r : parse(&p);
}

void dockerfile_done(struct dockerfile *d)
{
	arena_done(&d->arena);
	*d = (struct dockerfile){.escape = '\\'};
}

int dockerfile_find_stage(const struct dockerfile *d, const char *name, size_t before)
{
	uint64_t number;

	for (size_t i = before; i-- > 0;)
		if (*d->stages[i].name && strcasecmp(d->stages[i].name, name) == 0)
			return (int)i;
	if (str_parse_u64(name, &number) == 0 && number < before)
		return (int)number;
	return -1;
}

int dockerfile_end_at(struct dockerfile *d, const char *name, struct error *e)
{
	int k = dockerfile_find_stage(d, name, d->stage_count);

	if (k < 0)
		return error_set(e, ERROR_USAGE, EINVAL,
			"--target %.80s: the Dockerfile has no such stage", name);
	for (size_t i = (size_t)k + 1; i < d->stage_count; i++)
		d->step_count -= d->stages[i].steps.count;
	d->stage_count = (size_t)k + 1;
	return 0;
}
