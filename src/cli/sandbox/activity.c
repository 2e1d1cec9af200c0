/* `mayfly activity`: shows what a sandbox did, and verifies the log. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/remote/admin.h"
#include "cli/remote/remote.h"
#include "cli/sandbox/activity_verify.h"
#include "cli/sandbox/states.h"
#include "cli/table.h"
#include "proto/json_tree.h"
#include "proto/uri.h"

enum { LINE_MAX_BYTES = 8192, PAGE = 1000, SIZE_BYTES = 16 };

struct activity_options {
	struct cli_common common;
	const char *kind, *head;
	bool follow, verify;
};

static const struct option_spec options[] = {
	{"follow", 'f', OPTION_FLAG, NULL, "go on until the sandbox ends",
		offsetof(struct activity_options, follow), 0, 0, false},
	{"kind", 0, OPTION_STRING, "KIND",
		"only flow, request, model, tool, approval, process, program, file, "
		"lifecycle or lost; several with commas",
		offsetof(struct activity_options, kind), 0, 0, false},
	{"verify", 0, OPTION_FLAG, NULL, "check that no record was changed, inserted or removed",
		offsetof(struct activity_options, verify), 0, 0, false},
	{"head", 0, OPTION_STRING, "N:HASH",
		"with --verify: the head that an earlier run printed must be in the log",
		offsetof(struct activity_options, head), 0, 0, false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

/* --- a line --- */

static uint64_t number(const json_t *record, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(record, key));
}

static int put_list(struct buf *b, const char *before, const json_t *list)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
		const char *name = json_string_value(json_array_get(list, i));

		r = buf_printf(b, "%s%s", i ? "," : before, name ? name : "");
	}
	return r;
}

static int put_request(struct buf *b, const json_t *record)
{
	int r = buf_printf(b, " %s %s%s", json_tree_text(record, "method"),
		json_tree_text(record, "name"), json_tree_text(record, "path"));

	if (r == 0 && number(record, "status"))
		r = buf_printf(b, " %llu", (unsigned long long)number(record, "status"));
	return r ? r : put_list(b, " secrets ", json_object_get(record, "secrets"));
}

/* A request to a model, or a tool that was called. */
static int put_call(struct buf *b, const json_t *record)
{
	const char *model = json_tree_text(record, "model");
	int r = buf_printf(b, " %s %s", *model ? model : json_tree_text(record, "tool"),
		json_tree_text(record, "name"));

	if (r == 0 && json_object_get(record, "tokensIn"))
		r = buf_printf(b, " tokens in %llu out %llu",
			(unsigned long long)number(record, "tokensIn"),
			(unsigned long long)number(record, "tokensOut"));
	if (r == 0 && *json_tree_text(record, "answerCoding"))
		r = buf_printf(b, " answered in %s", json_tree_text(record, "answerCoding"));
	r = r ? r : put_list(b, " of the provider ", json_object_get(record, "serverTools"));
	return r ? r : put_list(b, " calls ", json_object_get(record, "toolsCalled"));
}

static int put_flow(struct buf *b, const json_t *record)
{
	const char *name = json_tree_text(record, "name"),
		   *address = json_tree_text(record, "address");
	const char *from = strcmp(json_tree_text(record, "direction"), "in") == 0
				   ? json_tree_text(record, "sandbox")
				   : "";
	int r = *from ? buf_printf(b, " %s from %s to port %llu",
				json_tree_text(record, "protocol"), from,
				(unsigned long long)number(record, "port"))
		      : buf_printf(b, " %s %s:%llu", json_tree_text(record, "protocol"),
				*name ? name : address, (unsigned long long)number(record, "port"));

	if (r == 0 && *name && *address && strcmp(address, "0.0.0.0") != 0)
		r = buf_printf(b, " (%s)", address);
	return r;
}

static int put_rest(struct buf *b, const json_t *record)
{
	char out[SIZE_BYTES], in[SIZE_BYTES];
	int r = 0;

	if (number(record, "bytesOut") || number(record, "bytesIn"))
		r = buf_printf(b, " out %s in %s %llu ms",
			str_format_bytes(number(record, "bytesOut"), out),
			str_format_bytes(number(record, "bytesIn"), in),
			(unsigned long long)number(record, "durationMs"));
	if (r == 0 && *json_tree_text(record, "error"))
		r = buf_printf(b, " %s", json_tree_text(record, "error"));
	if (r == 0 && *json_tree_text(record, "rule"))
		r = buf_printf(b, " rule %s", json_tree_text(record, "rule"));
	if (r == 0 && *json_tree_text(record, "noted"))
		r = buf_printf(b, " noted %s", json_tree_text(record, "noted"));
	if (r == 0 && *json_tree_text(record, "program"))
		r = buf_printf(b, " by %s[%llu]", json_tree_text(record, "program"),
			(unsigned long long)number(record, "pid"));
	if (r == 0 && *json_tree_text(record, "reason"))
		r = buf_printf(b, ": %s", json_tree_text(record, "reason"));
	return r;
}

/* A person was asked, or has decided. */
static int put_approval(struct buf *b, const json_t *record)
{
	const char *name = json_tree_text(record, "name"),
		   *by = json_tree_text(record, "decidedBy");
	const char *state = json_tree_text(record, "state");
	int r = buf_printf(b, " %s %s %s %s:%llu%s",
		strcmp(state, "waiting") == 0 ? "asked" : state,
		json_tree_text(record, "approvalID"), json_tree_text(record, "method"),
		*name ? name : json_tree_text(record, "address"),
		(unsigned long long)number(record, "port"), json_tree_text(record, "path"));

	if (r == 0 && *by)
		r = buf_printf(b, " by %s for %s", by, json_tree_text(record, "for"));
	return r ? r : put_rest(b, record);
}

static int put_member(struct buf *b, const json_t *record, const char *key, const char *before)
{
	const char *text = json_tree_text(record, key);

	return *text ? buf_printf(b, "%s%s", before, text) : 0;
}

static int put_lifecycle(struct buf *b, const json_t *record)
{
	int r = put_member(b, record, "event", " ");

	r = r ? r : put_member(b, record, "template", " from ");
	r = r ? r : put_member(b, record, "snapshot", " to ");
	r = r ? r : put_member(b, record, "until", " ");
	r = r ? r : put_member(b, record, "reason", ": ");
	r = r ? r : put_member(b, record, "message", ", ");
	if (r == 0 && number(record, "generation"))
		r = buf_printf(b, " %llu", (unsigned long long)number(record, "generation"));
	return r;
}

static int put_process(struct buf *b, const json_t *record)
{
	const json_t *argv = json_object_get(record, "argv");
	int r = put_member(b, record, "state", " ");

	if (r == 0 && number(record, "pid"))
		r = buf_printf(b, " [%llu]", (unsigned long long)number(record, "pid"));
	if (r == 0 && number(record, "parent"))
		r = buf_printf(b, " by [%llu]", (unsigned long long)number(record, "parent"));
	if (r == 0 && json_object_get(record, "uid"))
		r = buf_printf(b, " uid %llu", (unsigned long long)number(record, "uid"));
	r = r ? r : put_member(b, record, "via", " ");
	r = r ? r : put_member(b, record, "user", " as ");
	r = r ? r : put_member(b, record, "cwd", " in ");
	for (size_t i = 0; r == 0 && i < json_array_size(argv); i++)
		r = buf_printf(
			b, "%s%s", i ? " " : ": ", json_string_value(json_array_get(argv, i)));
	r = r ? r : put_member(b, record, "code", ": ");
	if (r == 0 && json_object_get(record, "exitCode"))
		r = buf_printf(b, " with %llu", (unsigned long long)number(record, "exitCode"));
	if (r == 0 && json_object_get(record, "signal"))
		r = buf_printf(b, " by signal %llu", (unsigned long long)number(record, "signal"));
	return r;
}

static int put_file(struct buf *b, const json_t *record)
{
	if (strcmp(json_tree_text(record, "state"), "written") != 0)
		return buf_printf(b, " written files cannot be recorded: %s",
			json_tree_text(record, "reason"));
	return buf_printf(b, " [%llu] wrote %s", (unsigned long long)number(record, "pid"),
		json_tree_text(record, "path"));
}

/* Names and paths are the guest's. */
static int print_line(const json_t *record, struct error *e)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(LINE_MAX_BYTES);
	const char *kind = json_tree_text(record, "kind");
	int r = buf_add_str(&b, json_tree_text(record, "time"));

	if (r == 0 && strcmp(kind, "lost") == 0) {
		r = buf_printf(&b, " %llu records are missing here",
			(unsigned long long)number(record, "count"));
	} else if (r == 0 && strcmp(kind, "approval") == 0) {
		r = put_approval(&b, record);
	} else if (r == 0 && strcmp(kind, "lifecycle") == 0) {
		r = put_lifecycle(&b, record);
	} else if (r == 0 && (strcmp(kind, "process") == 0 || strcmp(kind, "program") == 0)) {
		r = put_process(&b, record);
	} else if (r == 0 && strcmp(kind, "file") == 0) {
		r = put_file(&b, record);
	} else if (r == 0) {
		r = buf_printf(&b, " %s", json_tree_text(record, "verdict"));
		r = r				   ? r
		    : strcmp(kind, "request") == 0 ? put_request(&b, record)
		    : strcmp(kind, "model") == 0 || strcmp(kind, "tool") == 0
			    ? put_call(&b, record)
			    : put_flow(&b, record);
		r = r ? r : put_rest(&b, record);
	}
	r = r ? r : buf_add_u8(&b, 0);
	if (r < 0)
		return error_set(e, ERROR_INTERNAL, -r, "out of memory");
	table_print_name((const char *)buf_head(&b));
	return 0;
}

/* --- asking --- */

struct reading {
	const struct activity_options *options;
	struct home home;
	char id[ROUTE_SANDBOX_ID_MAX + 1];
	uint64_t cursor;
	bool more, ended;
	bool told; /* that older records are gone */
};

static int ask(const struct reading *a, json_t **ret, struct error *e)
{
	_cleanup_(buf_done) struct buf target = BUF_INIT(1024);
	const char *kind = a->options->kind;
	int r = buf_printf(&target, "/sandboxes/%s/activity?limit=%d&cursor=%llu%s", a->id, PAGE,
		(unsigned long long)a->cursor, a->options->follow ? "&follow=true" : "");

	if (r == 0 && kind)
		r = buf_add_str(&target, "&kind=");
	if (r == 0 && kind)
		r = uri_encode(&target, kind, strlen(kind));
	if (r < 0 || buf_add_u8(&target, 0) < 0)
		return error_set(e, ERROR_USAGE, EINVAL, "--kind is too long");
	r = admin_call(&a->home, "GET", (const char *)buf_head(&target), NULL, ret, e);
	return r == -ECONNREFUSED && e->code == ERROR_NONE ? client_no_daemon(&a->home, e) : r;
}

/* How to go on; nothing without an answer. */
static void take_end(struct reading *a, const json_t *answer)
{
	a->cursor = number(answer, "cursor");
	a->more = json_is_true(json_object_get(answer, "more"));
	a->ended = json_is_true(json_object_get(answer, "ended"));
}

static int show(struct reading *a, const json_t *answer, struct error *e)
{
	const json_t *list = json_object_get(answer, "activity");
	uint64_t dropped = number(answer, "dropped");
	int r = 0;

	if (dropped && !a->told)
		fprintf(stderr, "%llu older records were removed to make room\n",
			(unsigned long long)dropped);
	a->told = true;
	for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
		json_t *record = json_array_get(list, i);

		r = a->options->common.json ? json_print_line(json_incref(record), e)
					    : print_line(record, e);
	}
	(void)fflush(stdout); /* a failure shows at exit */
	take_end(a, answer);
	return r;
}

/* The daemon's list lacks sandboxes that have ended, so they need the whole id. */
static int find(struct reading *a, const char *prefix, struct error *e)
{
	json_t *list = NULL;
	int r = home_open(NULL, &a->home, e);

	if (r == 0)
		r = remote_try_list(&a->home, &list, e);
	if (r == -ECONNREFUSED && e->code == ERROR_NONE)
		return client_no_daemon(&a->home, e);
	if (r == 0)
		r = remote_find(list, prefix, a->id, e);
	json_decref(list);
	if (r < 0 && e->code == ERROR_NOT_FOUND && route_sandbox_id(prefix, a->id)) {
		error_clear(e);
		r = 0;
	}
	return r;
}

/* --- verifying --- */

static int print_verified(
	const struct activity_options *o, const struct activity_verify *v, struct error *e)
{
	char head[ACTIVITY_HEAD_BYTES];

	activity_verify_head(v, head);
	if (v->passed)
		fprintf(stderr, "%llu records were removed before they were read\n",
			(unsigned long long)v->passed);
	if (o->common.json)
		return json_print_line(
			json_pack("{s:I, s:I, s:I, s:s}", "records", (json_int_t)v->records,
				"first", (json_int_t)v->first, "unverified", (json_int_t)v->older,
				"head", head),
			e);
	if (v->older)
		printf("%llu records of an older Mayfly have no hash\n",
			(unsigned long long)v->older);
	printf("%llu records are as they were written\nhead %s\n", (unsigned long long)v->records,
		head);
	return 0;
}

static int verify(struct reading *a, struct error *e)
{
	const struct activity_options *o = a->options;
	struct activity_verify v;
	int r = o->kind || o->follow ? error_set(e, ERROR_USAGE, EINVAL,
					       "--verify reads all kinds, and does not follow")
				     : activity_verify_begin(&v, a->id, o->head, e);

	do {
		json_t *answer = NULL;

		if (r == 0)
			r = ask(a, &answer, e);
		if (r == 0)
			r = activity_verify_page(&v, answer, e);
		take_end(a, answer);
		json_decref(answer);
	} while (r == 0 && a->more);
	return r ? r : print_verified(o, &v, e);
}

static int list(struct reading *a, struct error *e)
{
	int r = 0;

	if (a->options->head)
		return error_set(e, ERROR_USAGE, EINVAL, "--head is for --verify");
	do {
		json_t *answer = NULL;

		r = ask(a, &answer, e);
		if (r == 0)
			r = show(a, answer, e);
		json_decref(answer);
	} while (r == 0 && (a->more || (a->options->follow && !a->ended)));
	return r;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	struct reading a = {.options = values, .home = HOME_INIT};
	int r = states_check_count(
		argc, 1, 1, "give the id of a sandbox: mayfly activity [OPTION]... ID", e);

	if (r == 0)
		r = find(&a, argv[0], e);
	if (r == 0)
		r = a.options->verify ? verify(&a, e) : list(&a, e);
	home_close(&a.home);
	return r;
}

const struct cli_verb cli_verb_activity = {
	.name = "activity",
	.arguments = "ID",
	.summary = "Show what a sandbox did",
	.description =
		"Prints a line for each flow that has ended or was denied, each request of an\n"
		"intercepted flow, the start and the end of each program, each file that it is to "
		"record\n"
		"(mayfly create --record-files-outside), each approval, and each event of the "
		"sandbox\n"
		"itself, oldest first. After a sandbox has ended, its log is kept for a while "
		"(mayfly\n"
		"serve --activity-days); then give the whole id.\n\n"
		"Each record has a hash that covers the one before it. --verify computes the "
		"hashes\n"
		"again, and names the first record that was changed, inserted or removed. It "
		"prints\n"
		"the head of the log. Keep the head elsewhere: a later run with --head shows that "
		"the\n"
		"log still has all records of then.",
	.options = options,
	.values_bytes = sizeof(struct activity_options),
	.run = run,
};
