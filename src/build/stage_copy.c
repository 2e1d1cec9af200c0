/* COPY and ADD. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "build/copy.h"
#include "build/stage_internal.h"

enum { PASSWD_MAX = 1 << 20 };

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
		r = stage_expand(s, step->words.items[ret->count], &ret->items[ret->count], e);
	return r;
}

/* What a step says, with its variables expanded. */
struct request {
	struct copy copy;
	struct expanded words;
	char *owner;	/* owned, or NULL */
	char *checksum; /* likewise */
	struct ignore exclude;
};

static void request_done(struct request *q)
{
	expanded_done(&q->words);
	free(q->owner);
	free(q->checksum);
	ignore_done(&q->exclude);
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
	const struct expand_scope scope = stage_scope(s);
	_cleanup_free_ char *text = NULL;
	int r = 0;

	if (h->expand)
		r = expand_text(&scope, h->text, &text, e);
	return r < 0 ? r : copy_text(c, h->name, text ? text : h->text, several, to, e);
}

static int copy_words(struct stage *s, const struct dockerfile_step *step, const struct request *q,
	struct error *e)
{
	const struct expanded *words = &q->words;
	const struct copy *c = &q->copy;
	size_t last = words->count - 1;
	bool several = last > 1;
	int r = 0;

	for (size_t i = 0; i < last && r == 0; i++) {
		const struct dockerfile_heredoc *h = dockerfile_heredoc(step, i);

		if (h)
			r = copy_heredoc(s, c, h, several, words->items[last], e);
		else if (step->kind == DOCKERFILE_ADD && stage_is_url(words->items[i]))
			r = stage_fetch_copy(
				s, c, words->items[i], q->checksum, several, words->items[last], e);
		else
			r = copy_files(c, words->items[i], several, words->items[last], e);
	}
	return r;
}

static int read_flags(
	struct stage *s, const struct dockerfile_step *step, struct request *q, struct error *e)
{
	const char *chown = dockerfile_flag(step, "chown"), *chmod = dockerfile_flag(step, "chmod");
	_cleanup_free_ char *owner = NULL, *mode = NULL;
	int r = chown ? stage_expand(s, chown, &owner, e) : 0;

	if (r == 0 && chmod)
		r = stage_expand(s, chmod, &mode, e);
	if (r == 0 && mode)
		r = parse_mode(mode, &q->copy, e);
	if (r == 0 && owner) {
		q->copy.owner = q->owner = owner_of(owner);
		r = q->owner ? 0 : stage_no_memory(e);
	}
	return r;
}

/* All patterns of --exclude, as lines of .dockerignore. */
static int read_exclude(
	struct stage *s, const struct dockerfile_step *step, struct request *q, struct error *e)
{
	struct buf lines = BUF_INIT(IGNORE_BYTES_MAX);
	int r = 0;

	for (size_t i = 0; i < step->flag_count && r == 0; i++) {
		_cleanup_free_ char *text = NULL;

		if (strcmp(step->flags[i].name, "exclude") != 0)
			continue;
		r = stage_expand(s, step->flags[i].value, &text, e);
		if (r == 0 && buf_printf(&lines, "%s\n", text) < 0)
			r = error_set(
				e, ERROR_LIMIT, E2BIG, "--exclude: the patterns are too long");
	}
	if (r == 0 && buf_len(&lines)) {
		r = ignore_parse((const char *)buf_head(&lines), buf_len(&lines), &q->exclude, e);
		if (r < 0)
			error_prefix(e, "--exclude");
		q->copy.exclude = &q->exclude;
	}
	buf_done(&lines);
	return r;
}

/* Call request_done in any case. */
static int read_request(
	struct stage *s, const struct dockerfile_step *step, struct request *q, struct error *e)
{
	int r;

	*q = (struct request){
		.copy = {.workdir = s->state.workdir,
			.parents = dockerfile_flag(step, "parents") &&
				   strcmp(dockerfile_flag(step, "parents"), "false") != 0,
			.unpack = step->kind == DOCKERFILE_ADD && !dockerfile_flag(step, "from")}};
	r = expand_all(s, step, &q->words, e);
	if (r == 0 && dockerfile_flag(step, "checksum"))
		r = stage_expand(s, dockerfile_flag(step, "checksum"), &q->checksum, e);
	if (r == 0 && q->checksum && (q->words.count != 2 || !stage_is_url(q->words.items[0])))
		r = error_set(e, ERROR_USAGE, EINVAL, "--checksum is for one file of the network");
	if (r == 0)
		r = read_exclude(s, step, q, e);
	return r < 0 ? r : read_flags(s, step, q, e);
}

/* Finds a user's group in /etc/passwd. Returns -ENOENT if the user or the file is missing. */
static int find_group(struct machine *m, const char *name, unsigned *ret, struct error *e)
{
	_cleanup_free_ char *text = malloc(PASSWD_MAX + 1);
	size_t n = strlen(name), got = 0;
	char *line, *rest = text;

	if (!text)
		return stage_no_memory(e);
	if (machine_read(m, "/etc/passwd", 0, text, PASSWD_MAX, &got, NULL) < 0)
		return -ENOENT;
	text[got] = '\0';
	while ((line = strsep(&rest, "\n")))
		if (strncmp(line, name, n) == 0 && line[n] == ':' &&
			sscanf(line + n, ":%*[^:]:%*u:%u", ret) == 1)
			return 0;
	return -ENOENT;
}

/* A name alone gets its login group. If there is no such user, the agent reports it later. */
static int add_group(struct request *q, struct error *e)
{
	unsigned group;
	char *whole;
	int r;

	if (!q->owner || strchr(q->owner, ':'))
		return 0;
	r = find_group(q->copy.machine, q->owner, &group, e);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	whole = str_printf("%s:%u", q->owner, group);
	if (!whole)
		return stage_no_memory(e);
	free(q->owner);
	q->copy.owner = q->owner = whole;
	return 0;
}

int stage_copy(struct stage *s, const struct dockerfile_step *step, struct error *e)
{
	const char *from = dockerfile_flag(step, "from");
	struct request q;
	int r = read_request(s, step, &q, e);

	if (r == 0)
		r = s->ops.machine(s->ops.opaque, &q.copy.machine, e);
	if (r == 0)
		r = add_group(&q, e);
	if (r == 0)
		r = s->ops.files(s->ops.opaque, from ? from : "", &q.copy.from, e);
	if (r == 0)
		r = copy_words(s, step, &q, e);
	request_done(&q);
	return r;
}

/* --- its digest --- */

static int add_heredoc(
	struct stage *s, const struct dockerfile_heredoc *h, struct step_key *k, struct error *e)
{
	const struct expand_scope scope = stage_scope(s);
	_cleanup_free_ char *text = NULL;
	int r = h->expand ? expand_text(&scope, h->text, &text, e) : 0;

	step_key_text(k, h->name);
	step_key_text(k, text ? text : h->text);
	return r;
}

static int add_sources(struct stage *s, const struct dockerfile_step *step, struct request *q,
	struct step_key *k, struct error *e)
{
	bool from = dockerfile_flag(step, "from") != NULL;
	int r = 0;

	for (size_t i = 0; i + 1 < q->words.count && r == 0; i++) {
		const struct dockerfile_heredoc *h = dockerfile_heredoc(step, i);

		step_key_text(k, h ? "heredoc" : q->words.items[i]);
		if (h)
			r = add_heredoc(s, h, k, e);
		else if (step->kind == DOCKERFILE_ADD && stage_is_url(q->words.items[i]))
			r = stage_fetch_key(s, q->words.items[i], q->checksum, k, e);
		else if (!from)
			r = copy_key(&q->copy, q->words.items[i], k, e);
	}
	return r;
}

/* For another stage the key is that of its whole disk; for the build's directory, that of the
 * copied files. */
int stage_copy_key(
	struct stage *s, const struct dockerfile_step *step, struct step_key *k, struct error *e)
{
	const char *from = dockerfile_flag(step, "from");
	char source[STEP_KEY_BYTES] = "";
	struct request q;
	int r = read_request(s, step, &q, e);

	if (r == 0 && from)
		r = s->ops.source_key(s->ops.opaque, from, source, e);
	else if (r == 0)
		r = s->ops.files(s->ops.opaque, "", &q.copy.from, e);
	step_key_text(k, source);
	if (r == 0)
		r = add_sources(s, step, &q, k, e);
	if (r == 0)
		step_key_text(k, q.words.items[q.words.count - 1]);
	step_key_text(k, s->state.workdir);
	step_key_text(k, q.owner ? q.owner : "");
	step_key_number(k, q.copy.has_mode ? q.copy.mode : UINT32_MAX);
	if (q.copy.unpack)
		step_key_text(k, "attributes"); /* which archives lost once */
	if (q.copy.parents)
		step_key_text(k, "parents");
	for (size_t i = 0; from && i < q.exclude.count; i++) { /* else what is left out shows */
		step_key_text(k, q.exclude.items[i].again ? "!" : "-");
		step_key_text(k, q.exclude.items[i].text);
	}
	request_done(&q);
	return r;
}
