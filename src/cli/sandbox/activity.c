/* `mayfly activity`: what a sandbox did in the network. */
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
#include "cli/sandbox/states.h"
#include "cli/table.h"
#include "proto/json_tree.h"
#include "proto/uri.h"

enum { LINE_MAX_BYTES = 8192, PAGE = 1000, SIZE_BYTES = 16 };

struct activity_options {
	struct cli_common common;
	const char *kind;
	bool follow;
};

static const struct option_spec options[] = {
	{"follow", 'f', OPTION_FLAG, NULL, "go on until the sandbox ends",
		offsetof(struct activity_options, follow), 0, 0, false},
	{"kind", 0, OPTION_STRING, "KIND",
		"only flow, request, approval or lost; several with commas",
		offsetof(struct activity_options, kind), 0, 0, false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

/* --- a line --- */

static uint64_t number(const json_t *record, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(record, key));
}

static int put_request(struct buf *b, const json_t *record)
{
	const json_t *list = json_object_get(record, "secrets");
	int r = buf_printf(b, " %s %s%s", json_tree_text(record, "method"),
		json_tree_text(record, "name"), json_tree_text(record, "path"));

	if (r == 0 && number(record, "status"))
		r = buf_printf(b, " %llu", (unsigned long long)number(record, "status"));
	for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
		const char *name = json_string_value(json_array_get(list, i));

		r = buf_printf(b, "%s%s", i ? "," : " secrets ", name ? name : "");
	}
	return r;
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
	} else if (r == 0) {
		r = buf_printf(&b, " %s", json_tree_text(record, "verdict"));
		r = r				   ? r
		    : strcmp(kind, "request") == 0 ? put_request(&b, record)
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

static int show(struct reading *a, const json_t *answer, struct error *e)
{
	const json_t *list = json_object_get(answer, "activity");
	uint64_t dropped = number(answer, "dropped");
	int r = 0;

	if (dropped && !a->told)
		fprintf(stderr, "%llu older records made room for newer ones\n",
			(unsigned long long)dropped);
	a->told = true;
	for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
		json_t *record = json_array_get(list, i);

		r = a->options->common.json ? json_print_line(json_incref(record), e)
					    : print_line(record, e);
	}
	(void)fflush(stdout); /* a failure shows at exit */
	a->cursor = number(answer, "cursor");
	a->more = json_is_true(json_object_get(answer, "more"));
	a->ended = json_is_true(json_object_get(answer, "ended"));
	return r;
}

/* One that has ended is not in the daemon's list: its id must be whole. */
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

static int run(void *values, int argc, char **argv, struct error *e)
{
	struct reading a = {.options = values, .home = HOME_INIT};
	int r = states_check_count(
		argc, 1, 1, "give the id of a sandbox: mayfly activity [OPTION]... ID", e);

	if (r == 0)
		r = find(&a, argv[0], e);
	do {
		json_t *answer = NULL;

		if (r == 0)
			r = ask(&a, &answer, e);
		if (r == 0)
			r = show(&a, answer, e);
		json_decref(answer);
	} while (r == 0 && (a.more || (a.options->follow && !a.ended)));
	home_close(&a.home);
	return r;
}

const struct cli_verb cli_verb_activity = {
	.name = "activity",
	.arguments = "ID",
	.summary = "Show what a sandbox did in the network",
	.description =
		"A line for each flow that has ended or was denied, and for each request in an\n"
		"intercepted one, oldest first: what was asked for, what became of it, bytes out\n"
		"and in, and the rule that decided. Of a sandbox that has ended, too, for as long\n"
		"as the daemon keeps it (mayfly serve --activity-days); its id must be whole.",
	.options = options,
	.values_bytes = sizeof(struct activity_options),
	.run = run,
};
