/* `mayfly approvals`: what sandboxes wait for, and decisions. On a terminal, following asks about
 * each with one key. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/admin/ask.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/question.h"
#include "cli/remote/admin.h"
#include "cli/remote/client.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "proto/uri.h"

enum { TARGET_MAX = 1024, PAGE = 100 };

struct approvals_options {
	struct cli_common common;
	bool follow, all, unseen;
	const char *scope, *reason;
	uint64_t ttl_ns;
};

static const struct option_spec options[] = {
	{"follow", 'f', OPTION_FLAG, NULL, "follow new ones; on a terminal, ask about each",
		offsetof(struct approvals_options, follow), 0, 0, false},
	{"all", 'a', OPTION_FLAG, NULL, "also those that are over",
		offsetof(struct approvals_options, all), 0, 0, false},
	{"for", 0, OPTION_STRING, "once|sandbox|template", "what the decision is for (once)",
		offsetof(struct approvals_options, scope), 0, 0, false},
	{"ttl", 0, OPTION_DURATION, "TIME", "how long it holds, if not once",
		offsetof(struct approvals_options, ttl_ns), 0, UINT64_MAX, false},
	{"accept-unseen", 0, OPTION_FLAG, NULL, "allow also what is not all shown",
		offsetof(struct approvals_options, unseen), 0, 0, false},
	{"reason", 0, OPTION_STRING, "TEXT", "why, for those who look later",
		offsetof(struct approvals_options, reason), 0, 0, false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

struct listing_of {
	const struct approvals_options *options;
	struct home home;
	uint64_t cursor;
	bool more, interactive, over;
	json_t *all; /* what is printed at the end; NULL: each is printed when it comes */
};

static int call(const struct home *home, const char *method, const char *target, const json_t *body,
	json_t **ret, struct error *e)
{
	int r = admin_call(home, method, target, body, ret, e);

	return r == -ECONNREFUSED && e->code == ERROR_NONE ? client_no_daemon(home, e) : r;
}

/* --- deciding --- */

static json_t *decision(
	const struct approvals_options *o, bool allow, const char *scope, bool unseen)
{
	json_t *body = json_pack("{s:s, s:s*, s:s*}", "decision", allow ? "allow" : "deny", "for",
		scope ? scope : o->scope, "reason", o->reason);

	if (body && unseen)
		(void)json_object_set_new(body, "acceptUnseen", json_true()); /* likewise */
	if (body && o->ttl_ns) /* the daemon misses what is not there */
		(void)json_object_set_new(
			body, "ttl", json_integer((json_int_t)(o->ttl_ns / NS_PER_S)));
	return body;
}

static int write_target(const char *id, struct buf *target, struct error *e)
{
	int r = buf_add_str(target, "/approvals/");

	r = r ? r : uri_encode(target, id, strlen(id));
	r = r ? r : buf_add_u8(target, 0);
	return r < 0 ? error_set(e, ERROR_USAGE, EINVAL, "this is no id of an approval") : 0;
}

static int decide(const struct listing_of *l, const char *id, bool allow, const char *scope,
	bool unseen, struct error *e)
{
	_cleanup_(buf_done) struct buf target = BUF_INIT(TARGET_MAX);
	json_t *body = decision(l->options, allow, scope, unseen || l->options->unseen);
	int r = write_target(id, &target, e);

	if (r == 0 && !body)
		r = error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	if (r == 0)
		r = call(&l->home, "POST", (const char *)buf_head(&target), body, NULL, e);
	json_decref(body);
	return r;
}

static int end(const struct listing_of *l, const char *id, struct error *e)
{
	_cleanup_(buf_done) struct buf target = BUF_INIT(TARGET_MAX);
	int r = write_target(id, &target, e);

	return r ? r : call(&l->home, "DELETE", (const char *)buf_head(&target), NULL, NULL, e);
}

static int decide_all(const struct listing_of *l, int argc, char **argv, struct error *e)
{
	bool allow = strcmp(argv[0], "allow") == 0, ends = strcmp(argv[0], "end") == 0;
	int r = 0;

	if (!allow && !ends && strcmp(argv[0], "deny") != 0)
		return error_set(e, ERROR_USAGE, EINVAL,
			"'%.32s' is none of allow, deny and end: see mayfly help approvals",
			argv[0]);
	if (argc < 2)
		return error_set(e, ERROR_USAGE, EINVAL,
			"give the id of an approval: mayfly approvals %s ID", argv[0]);
	for (int i = 1; r == 0 && i < argc; i++)
		r = ends ? end(l, argv[i], e) : decide(l, argv[i], allow, NULL, false, e);
	return r;
}

/* --- showing --- */

/* Most of it is a guest's words. */
static int print(const json_t *a, struct error *e)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(QUESTION_LINE_MAX);
	int r = buf_printf(&b, "%s %s %s %s ", ask_text(a, "askedAt"), ask_text(a, "approvalID"),
		ask_text(a, "state"), ask_text(a, "sandboxID"));

	r = r ? r : question_describe(a, &b);
	r = r ? r : buf_add_u8(&b, 0);
	if (r < 0)
		return error_set(e, ERROR_INTERNAL, -r, "out of memory");
	table_print_name((const char *)buf_head(&b));
	return 0;
}

/* One key; 'q' at the end of the input. */
static char read_key(void)
{
	char c = 'q';

	if (!terminal_make_raw(STDIN_FILENO))
		return c;
	if (read(STDIN_FILENO, &c, 1) != 1)
		c = 'q';
	terminal_restore();
	return c;
}

/* Waits for one of these keys. What was typed before the question is no answer. */
static char ask_key(const char *question, const char *keys)
{
	char c;

	(void)fflush(stdout); /* a failure shows at exit */
	question_drop_keys(STDIN_FILENO);
	printf("%s", question);
	(void)fflush(stdout); /* likewise */
	do
		c = question_key(read_key(), keys);
	while (!c);
	printf("%c\n", c);
	return c;
}

/* Whether a person allows what it has not seen. */
static bool accept_unseen(const json_t *a)
{
	if (!json_is_true(json_object_get(a, "unseen")))
		return true;
	printf("  %s\n", QUESTION_UNSEEN);
	return ask_key("  y allow it all the same, n leave it: ", "ynq") == 'y';
}

static int ask_person(struct listing_of *l, const json_t *a, struct error *e)
{
	const char *id = ask_text(a, "approvalID");
	char c;
	int r;

	c = ask_key(
		"  a allow once, s allow for the sandbox, d deny, n leave it, q quit: ", "asdnq");
	l->over = c == 'q';
	if (c == 'n' || c == 'q' || (c != 'd' && !accept_unseen(a)))
		return 0;
	r = decide(l, id, c != 'd', c == 's' ? "sandbox" : NULL, c != 'd', e);
	if (r == 0 || e->code != ERROR_EXISTS)
		return r;
	printf("  %s\n", e->message); /* somebody else was first, or it is over */
	error_clear(e);
	return 0;
}

static int show(struct listing_of *l, const json_t *answer, struct error *e)
{
	const json_t *list = json_object_get(answer, "approvals");
	int r = 0;

	for (size_t i = 0; r == 0 && !l->over && i < json_array_size(list); i++) {
		json_t *a = json_array_get(list, i);

		if (l->all)
			r = json_array_append(l->all, a) < 0
				    ? error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory")
				    : 0;
		else
			r = l->options->common.json ? json_print_line(json_incref(a), e)
						    : print(a, e);
		if (r == 0 && l->interactive && strcmp(ask_text(a, "state"), "waiting") == 0)
			r = ask_person(l, a, e);
	}
	(void)fflush(stdout); /* likewise */
	l->cursor = (uint64_t)json_integer_value(json_object_get(answer, "cursor"));
	l->more = json_is_true(json_object_get(answer, "more"));
	return r;
}

static int list(struct listing_of *l, struct error *e)
{
	const struct approvals_options *o = l->options;
	int r;

	do {
		char target[TARGET_MAX];
		json_t *answer = NULL;

		(void)snprintf(target, sizeof(target), "/approvals?limit=%d&cursor=%llu%s%s", PAGE,
			(unsigned long long)l->cursor, o->all ? "" : "&state=waiting",
			o->follow ? "&follow=true" : ""); /* fits */
		r = call(&l->home, "GET", target, NULL, &answer, e);
		if (r == 0)
			r = show(l, answer, e);
		json_decref(answer);
	} while (r == 0 && !l->over && (l->more || o->follow));
	return r;
}

/* As JSON: what there is now, in one array; or each that follows, as a line. */
static int list_all(struct listing_of *l, struct error *e)
{
	bool array = l->options->common.json && !l->options->follow;
	int r;

	l->all = array ? json_array() : NULL;
	if (array && !l->all)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	r = list(l, e);
	if (r == 0 && array)
		return json_print(l->all, e);
	json_decref(l->all);
	return r;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	struct listing_of l = {.options = values, .home = HOME_INIT};
	int r = home_open(NULL, &l.home, e);

	l.interactive = l.options->follow && !l.options->common.json && isatty(STDIN_FILENO) &&
			isatty(STDOUT_FILENO);
	if (r == 0)
		r = argc ? decide_all(&l, argc, argv, e) : list_all(&l, e);
	home_close(&l.home);
	return r;
}

const struct cli_verb cli_verb_approvals = {
	.name = "approvals",
	.arguments = "[allow|deny|end ID...]",
	.summary = "Decide what sandboxes ask for",
	.description =
		"Without arguments, prints a line for each connection or request that waits for a\n"
		"person, oldest first. With -f on a terminal, asks about each; one key answers.\n"
		"mayfly approvals allow ID and deny ID decide, too. A decision holds once, or "
		"with\n"
		"--for for the sandbox, or for the key's sandboxes of its template; end ID takes\n"
		"such a one back. What is not all shown is asked about again, or needs\n"
		"--accept-unseen. docs/consent.md says more.",
	.options = options,
	.values_bytes = sizeof(struct approvals_options),
	.run = run,
};
