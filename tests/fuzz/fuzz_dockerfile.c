/* Dockerfiles and .dockerignore files: what is accepted is within its limits, an error says what
 * is wrong. The first byte chooses. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "dockerfile/dockerfile.h"
#include "dockerfile/expand.h"
#include "dockerfile/ignore.h"
#include "dockerfile/mount.h"
#include "dockerfile/pattern.h"

static const char *get(void *opaque, const char *name)
{
	return *name < 'm' ? "value" : NULL;
}

static void expand(char escape, const char *word)
{
	const struct expand_scope scope = {get, NULL, escape};
	struct error e = {0};
	char *out = NULL;

	if (expand_word(&scope, word, &out, &e) < 0)
		check(e.code != ERROR_NONE && e.message[0]);
	else
		check(strlen(out) <= EXPAND_BYTES_MAX);
	free(out);
}

static void check_step(const struct dockerfile *d, const struct dockerfile_step *s)
{
	check(s->kind < DOCKERFILE_KINDS_ && s->line >= 1 && *s->text);
	check(s->words.count <= 2 * SPLIT_WORDS_MAX);
	if (s->kind != DOCKERFILE_CMD && s->kind != DOCKERFILE_ENTRYPOINT) /* these may be [] */
		check(s->words.count >= 1);
	check(s->flag_count <= DOCKERFILE_FLAGS_MAX && s->heredoc_count <= DOCKERFILE_HEREDOCS_MAX);
	for (size_t i = 0; i < s->words.count; i++)
		expand(d->escape, s->words.items[i]);
	for (size_t i = 0; i < s->heredoc_count; i++)
		check(*s->heredocs[i].name && s->heredocs[i].text);
	if (s->kind == DOCKERFILE_COPY || s->kind == DOCKERFILE_ADD)
		check(s->words.count >= 2);
	if (s->kind == DOCKERFILE_ENV || s->kind == DOCKERFILE_LABEL)
		check(s->words.count % 2 == 0);
}

static int parse_dockerfile(const uint8_t *data, size_t size, struct error *e)
{
	struct dockerfile d;
	int r = dockerfile_parse((const char *)data, size, &d, e);

	if (r == 0) {
		check(d.stage_count >= 1 && d.stage_count <= DOCKERFILE_STAGES_MAX);
		check(d.step_count <= DOCKERFILE_STEPS_MAX);
		for (size_t i = 0; i < d.args.count; i++)
			check_step(&d, &d.args.items[i]);
		for (size_t k = 0; k < d.stage_count; k++)
			for (size_t i = 0; i < d.stages[k].steps.count; i++)
				check_step(&d, &d.stages[k].steps.items[i]);
	}
	dockerfile_done(&d);
	return r;
}

/* The patterns, and after a NUL a path. */
static int parse_ignore(const uint8_t *data, size_t size, struct error *e)
{
	const uint8_t *nul = memchr(data, 0, size);
	size_t n = nul ? (size_t)(nul - data) : size;
	char *path = strndup(nul ? (const char *)nul + 1 : "", nul ? size - n - 1 : 0);
	struct ignore g;
	int r = ignore_parse((const char *)data, n, &g, e);

	check(path);
	if (r == 0) {
		check(g.count <= IGNORE_PATTERNS_MAX);
		(void)ignore_excludes(&g, path);
		for (size_t i = 0; i < g.count; i++)
			check(pattern_valid(g.items[i].text));
	}
	ignore_done(&g);
	free(path);
	return r;
}

static int parse_mount(const uint8_t *data, size_t size, struct error *e)
{
	char *text = strndup((const char *)data, size);
	struct mount m;
	int r;

	check(text);
	r = mount_parse(text, &m, e);
	if (r == 0)
		check(m.type <= MOUNT_SSH && m.mode <= 07777);
	free(text);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int (*const parsers[])(const uint8_t *, size_t, struct error *) = {
		parse_dockerfile, parse_ignore, parse_mount};
	struct error e = {0};

	if (size == 0)
		return 0;
	if (parsers[data[0] % 3](data + 1, size - 1, &e) < 0)
		check(e.code != ERROR_NONE && e.message[0]);
	return 0;
}
