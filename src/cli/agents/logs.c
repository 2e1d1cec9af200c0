/* `mayfly agents logs`: invocations, their outcomes, and the last lines of their standard error. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "cli/agents/agents.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "proto/json_tree.h"
#include "proto/uri.h"

enum { FOLLOW_MS = 500, LINES = 20, PAGE = 100 };

struct logs_options {
	struct cli_common common;
	bool follow;
	const char *grep; /* NULL: all */
	uint64_t lines;
};

/* An agent may write anything. */
static void print_lines(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (i == 0 || s[i - 1] == '\n')
			printf("    ");
		(void)putchar(
			(unsigned char)s[i] < ' ' && s[i] != '\t' && s[i] != '\n' ? '?' : s[i]);
	}
	if (n && s[n - 1] != '\n')
		printf("\n");
}

static int print_one(const struct logs_options *o, json_t *v, struct error *e)
{
	const json_t *errors = json_object_get(v, "stderr");
	const char *code = json_tree_text(v, "code");

	if (o->common.json)
		return json_print_line(json_incref(v), e);
	printf("%s %s v%lld %s %lld ms %s\n", json_tree_text(v, "askedAt"),
		json_tree_text(v, "invocation"),
		(long long)json_integer_value(json_object_get(v, "version")),
		*code ? code : json_tree_text(v, "state"),
		(long long)json_integer_value(json_object_get(v, "durationMs")),
		json_tree_text(v, "message"));
	print_lines(json_string_value(errors), json_string_length(errors));
	return 0;
}

/* As the daemon's search. */
static bool is_wanted(const struct logs_options *o, const json_t *v)
{
	static const char *const members[] = {"stderr", "message", "code", "session", "invocation"};

	for (size_t i = 0; o->grep && i < ARRAY_SIZE(members); i++)
		if (strstr(json_tree_text(v, members[i]), o->grep))
			return true;
	return !o->grep;
}

static int ask(const char *name, const char *query, json_t **ret, struct error *e)
{
	_cleanup_free_ char *rest = str_printf("/invocations?%s", query);
	_cleanup_free_ char *path = NULL;
	int r = rest ? agents_path(name, rest, &path, e)
		     : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");

	return r < 0 ? r : agents_call("GET", path, NULL, ret, e);
}

/* What `-f` knows: the last invocation that it saw, and those up to there that had not ended. */
struct followed {
	long long last;
	json_t *open; /* owned: an object, by id */
};

static bool is_over(const json_t *v)
{
	return *json_tree_text(v, "code");
}

/* Prints an invocation if it is over, else remembers it. */
static int take(const struct logs_options *o, struct followed *w, json_t *v, struct error *e)
{
	w->last = (long long)json_integer_value(json_object_get(v, "cursor"));
	if (o->follow && !is_over(v))
		return json_object_set_new(w->open, json_tree_text(v, "invocation"), json_null()) ==
				       0
			       ? 0
			       : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	return is_wanted(o, v) ? print_one(o, v, e) : 0;
}

/* Prints the present invocations, oldest first. */
static int print_last(
	const struct logs_options *o, const char *name, struct followed *w, struct error *e)
{
	char query[64];
	json_t *answer = NULL, *list;
	int r;

	(void)snprintf(query, sizeof(query), "limit=%llu", (unsigned long long)o->lines); /* fits */
	r = ask(name, query, &answer, e);
	list = json_object_get(answer, "invocations");
	for (size_t i = json_array_size(list); r == 0 && i > 0; i--)
		r = take(o, w, json_array_get(list, i - 1), e);
	json_decref(answer);
	return r;
}

/* For a query; NULL: out of memory. */
static char *escaped(const char *text)
{
	size_t n = strlen(text);
	struct buf out = BUF_INIT(3 * n + 1);
	char *copy = uri_encode(&out, text, n) == 0 && buf_add_u8(&out, '\0') == 0
			     ? strdup((const char *)buf_head(&out))
			     : NULL;

	buf_done(&out);
	return copy;
}

/* One page of a search, newest first, behind *cursor. Returns 1 if there may be more. */
static int search_page(const struct logs_options *o, const char *name, const char *text,
	json_t *found, long long *cursor, struct error *e)
{
	_cleanup_free_ char *query =
		*cursor ? str_printf("limit=%llu&search=%s&cursor=%lld",
				  (unsigned long long)o->lines, text, *cursor)
			: str_printf("limit=%llu&search=%s", (unsigned long long)o->lines, text);
	json_t *answer = NULL;
	int r = query ? ask(name, query, &answer, e)
		      : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");

	if (r == 0 && json_array_extend(found, json_object_get(answer, "invocations")) == 0)
		r = json_is_true(json_object_get(answer, "more"));
	*cursor = (long long)json_integer_value(json_object_get(answer, "cursor"));
	json_decref(answer);
	return r;
}

/* The last of those that are found, oldest first. */
static int print_found(const struct logs_options *o, const char *name, struct error *e)
{
	_cleanup_free_ char *text = escaped(o->grep);
	json_t *found = json_array();
	long long cursor = 0;
	int r = text && found ? 1 : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");

	while (r > 0 && json_array_size(found) < o->lines)
		r = search_page(o, name, text, found, &cursor, e);
	for (size_t i = json_array_size(found); r >= 0 && i > 0; i--)
		if (i <= o->lines)
			r = print_one(o, json_array_get(found, i - 1), e);
	json_decref(found);
	return r < 0 ? r : 0;
}

/* Prints those that have ended of the ones that had not. One that is forgotten meanwhile is left
 * out. */
static int print_open(const struct logs_options *o, struct followed *w, struct error *e)
{
	const char *id;
	json_t *none;
	void *next;
	int r = 0;

	json_object_foreach_safe(w->open, next, id, none)
	{
		_cleanup_free_ char *path = str_printf("/invocations/%s", id);
		json_t *v = NULL;

		if (r == 0)
			r = path ? agents_call("GET", path, NULL, &v, e)
				 : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
		if (r < 0 && e->code == ERROR_NOT_FOUND) {
			error_clear(e);
			r = json_object_del(w->open, id);
		} else if (r == 0 && is_over(v)) {
			(void)json_object_del(v, "output"); /* as lists have none */
			r = is_wanted(o, v) ? print_one(o, v, e) : 0;
			(void)json_object_del(w->open, id); /* it is there */
		}
		json_decref(v);
	}
	return r;
}

static int print_more(
	const struct logs_options *o, const char *name, struct followed *w, struct error *e)
{
	char query[64];
	json_t *answer = NULL, *list, *v;
	size_t i;
	int r = print_open(o, w, e);

	(void)snprintf(query, sizeof(query), "order=asc&limit=%d&cursor=%lld", PAGE, w->last);
	if (r == 0)
		r = ask(name, query, &answer, e);
	list = json_object_get(answer, "invocations");
	json_array_foreach(list, i, v)
	{
		if (r == 0)
			r = take(o, w, v, e);
	}
	json_decref(answer);
	(void)fflush(stdout); /* a failure shows at exit */
	return r;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct logs_options *o = values;
	const struct timespec pause = {.tv_nsec = FOLLOW_MS * (long)NS_PER_MS};
	struct followed w = {.open = json_object()};
	int r;

	if (argc != 1)
		r = error_set(e, ERROR_USAGE, EINVAL, "give the name of an agent");
	else if (o->grep && !o->follow)
		r = print_found(o, argv[0], e);
	else
		r = print_last(o, argv[0], &w, e);
	while (r == 0 && o->follow) {
		r = print_more(o, argv[0], &w, e);
		(void)nanosleep(&pause, NULL); /* early is fine */
	}
	json_decref(w.open);
	return r;
}

static const struct option_spec options[] = {
	{"follow", 'f', OPTION_FLAG, NULL, "go on with new ones as they end",
		offsetof(struct logs_options, follow), 0, 0, false},
	{"grep", 'g', OPTION_STRING, "TEXT",
		"only those with this text in their standard error, message, session or id",
		offsetof(struct logs_options, grep), 0, 0, false},
	{"lines", 'n', OPTION_NUMBER, "N", "begin with the last N (20)",
		offsetof(struct logs_options, lines), 1, PAGE, false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

static const struct logs_options defaults = {.lines = LINES};

const struct cli_verb agents_verb_logs = {
	.name = "logs",
	.arguments = "NAME",
	.summary = "Show an agent's invocations and what they wrote to standard error",
	.options = options,
	.defaults = &defaults,
	.values_bytes = sizeof(struct logs_options),
	.run = run,
};
