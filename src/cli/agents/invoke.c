/* `mayfly agents invoke`: gives an agent a prompt and prints its answer as it comes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "cli/agents/agents.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/remote/client.h"
#include "cli/remote/client_error.h"
#include "proto/base64.h"
#include "proto/json_tree.h"

enum {
	PROMPT_MAX = 1000 * 1000,
	EVENT_MAX = 1024 * 1024,
	READ_BYTES = 64 * 1024,
	PATIENCE_S = 3600 + 60, /* the server limits the time, and sends something now and then */
	STATUS_FAILED = 1,	/* of an agent that has none of its own */
};

/* What to exit with if the agent's program has no exit status, or ended with 0. Other failures:
 * STATUS_FAILED. */
static const struct {
	const char *code;
	enum error_code means;
} ends[] = {
	{"timeout", ERROR_TIMEOUT},
	{"out_of_memory", ERROR_LIMIT},
	{"not_started", ERROR_NOT_EXECUTABLE},
	{"sandbox_ended", ERROR_SANDBOX},
	{"no_sandbox", ERROR_HOST},
	{"busy", ERROR_TOO_MANY},
	{"interrupted", ERROR_HOST},
};

struct invoke_options {
	struct cli_common common;
	uint64_t timeout_ns, queue_ns;
	const char *session;
	struct option_list env;
	bool async;
};

struct answer {
	const struct invoke_options *o;
	struct client *client;
	struct buf text; /* incomplete events, or an answer that is no stream of events */
	bool events;
	int status; /* to exit with */
};

/* --- the request --- */

static int read_prompt(struct buf *b, struct error *e)
{
	for (;;) {
		uint8_t *p = buf_reserve(b, READ_BYTES);
		ssize_t n = p ? read(STDIN_FILENO, p, READ_BYTES) : -1;

		if (!p)
			return error_set(e, ERROR_LIMIT, E2BIG,
				"the prompt is longer than %d bytes: give the agent a file's name "
				"or URL instead",
				PROMPT_MAX);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_set_errno(e, ERROR_HOST, errno, "cannot read the prompt");
		if (n == 0)
			return 0;
		buf_commit(b, (size_t)n);
	}
}

static json_t *env_json(const struct option_list *list)
{
	json_t *env = json_object();

	for (unsigned i = 0; i < list->count; i++) {
		const char *item = list->items[i], *eq = strchr(item, '=');
		_cleanup_free_ char *name = eq ? strndup(item, (size_t)(eq - item)) : NULL;

		if (!name || json_object_set_new(env, name, json_string(eq + 1)) < 0) {
			json_decref(env);
			return NULL;
		}
	}
	return env;
}

static void set_time(json_t *body, const char *name, uint64_t ns)
{
	if (body && ns)
		(void)json_object_set_new(body, name, json_real((double)ns / (double)NS_PER_S));
}

static int body_of(
	const struct invoke_options *o, const char *prompt, size_t n, json_t **ret, struct error *e)
{
	json_t *env = env_json(&o->env), *body;

	if (!env)
		return error_set(e, ERROR_USAGE, EINVAL, "-e: give NAME=VALUE, in UTF-8");
	body = json_pack("{s:s%, s:s*, s:b, s:b}", "prompt", prompt, n, "session", o->session,
		"stream", !o->async, "async", o->async);
	set_time(body, "timeout", o->timeout_ns);
	set_time(body, "queue", o->queue_ns);
	if (body && json_object_size(env))
		(void)json_object_set(body, "env", env);
	json_decref(env);
	*ret = body;
	return body ? 0
		    : error_set(e, ERROR_USAGE, EINVAL, "the prompt or the session is not UTF-8");
}

static int ask(struct answer *a, const char *path, const json_t *body, struct error *e)
{
	_cleanup_free_ char *text = json_dumps(body, JSON_COMPACT);
	struct client_request request = {
		.method = "POST", .target = path, .content_type = "application/json"};
	int r = text ? client_open_default(&a->client, e)
		     : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");

	if (r < 0)
		return r;
	request.length = (int64_t)strlen(text);
	r = client_begin(a->client, &request, e);
	if (r == 0)
		r = client_send(a->client, text, strlen(text), e);
	return r == 0 ? client_end(a->client, e) : r;
}

/* --- the answer --- */

static int bad_event(struct error *e)
{
	return error_set(e, ERROR_HOST, EPROTO, "the answer has an event that is damaged");
}

/* Output is text, or base64 if it is not UTF-8. */
static int write_out(int fd, const json_t *data, struct error *e)
{
	_cleanup_(buf_done) struct buf bytes = BUF_INIT(EVENT_MAX);
	const json_t *text = json_object_get(data, "text"),
		     *coded = json_object_get(data, "base64");
	int r;

	if (json_is_string(text)) {
		r = fd_write_full(fd, json_string_value(text), json_string_length(text));
	} else {
		if (!json_is_string(coded) || base64_decode_to(&bytes, json_string_value(coded),
						      json_string_length(coded)) < 0)
			return bad_event(e);
		r = fd_write_full(fd, buf_head(&bytes), buf_len(&bytes));
	}
	return r < 0 ? error_set_errno(e, ERROR_HOST, -r, "cannot write the answer") : 0;
}

static int status_of(const json_t *said, const char *code)
{
	json_int_t own = json_integer_value(json_object_get(said, "exitCode")); /* 0: none */

	if (own > 0 && own < 256)
		return (int)own;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (strcmp(code, ends[i].code) == 0)
			return error_exit_status(ends[i].means);
	return STATUS_FAILED;
}

/* Prints the server's error of a failed invocation. */
static int failed(struct answer *a, const json_t *said, struct error *e)
{
	const char *code = json_tree_text(said, "error_code");

	a->status = status_of(said, code);
	if (a->o->common.json)
		return json_print(json_deep_copy(said), e);
	if (!a->events) /* otherwise it was printed as it came */
		fprintf(stderr, "%s", json_tree_text(said, "stderr"));
	fprintf(stderr, "mayfly: %s: %s\n", code, json_tree_text(said, "message"));
	return 0;
}

static int take_event(struct answer *a, char *event, struct error *e)
{
	char *data = strstr(event, "\ndata: ");
	const char *name = strncmp(event, "event: ", 7) == 0 ? event + 7 : NULL;
	json_t *said;
	int r = 0;

	if (!data || !name)
		return 0; /* a comment */
	*data = '\0';
	said = json_loads(data + strlen("\ndata: "), JSON_ALLOW_NUL, NULL);
	if (!said)
		return bad_event(e);
	if (strcmp(name, "stdout") == 0)
		r = write_out(STDOUT_FILENO, said, e);
	else if (strcmp(name, "stderr") == 0)
		r = write_out(STDERR_FILENO, said, e);
	else if (strcmp(name, "error") == 0)
		r = failed(a, said, e);
	else if (strcmp(name, "exit") == 0)
		a->status = 0;
	json_decref(said);
	return r;
}

static int take_events(struct answer *a, struct error *e)
{
	static const char end[] = "\n\n";
	const uint8_t *at;

	while (buf_len(&a->text) && (at = memmem(buf_head(&a->text), buf_len(&a->text), end, 2))) {
		size_t n = (size_t)(at - buf_head(&a->text));
		_cleanup_free_ char *event = strndup((const char *)buf_head(&a->text), n);
		int r = event ? take_event(a, event, e)
			      : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");

		if (r < 0)
			return r;
		buf_consume(&a->text, n + 2);
	}
	return 0;
}

static int take_whole(struct answer *a, struct error *e)
{
	json_t *said = json_loadb((const char *)buf_head(&a->text), buf_len(&a->text),
		JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, NULL);
	int r = 0;

	if (client_head(a->client)->status >= 400) {
		r = *json_tree_text(said, "error_code") /* else there is no invocation */
			    ? failed(a, said, e)
			    : client_error_of(client_head(a->client), said, e);
	} else if (a->o->common.json) {
		r = json_print(json_incref(said), e);
	} else {
		printf("%s\n", json_tree_text(said, "invocation"));
	}
	json_decref(said);
	return r;
}

static int take_body(struct answer *a, struct error *e)
{
	size_t n;
	const uint8_t *data = client_body(a->client, &n);

	if (buf_add(&a->text, data, n) < 0)
		return error_set(
			e, ERROR_HOST, EMSGSIZE, "the answer has a piece that is too long");
	return a->events ? take_events(a, e) : 0;
}

static int receive(struct answer *a, struct error *e)
{
	for (;;) {
		enum client_event ev;
		const char *type;
		int r = client_next_blocking(a->client, PATIENCE_S, &ev, e);

		if (r < 0)
			return r;
		switch (ev) {
		case CLIENT_HEAD:
			type = http_header_get(&client_head(a->client)->headers, "Content-Type");
			a->events = type && strcmp(type, "text/event-stream") == 0;
			break;
		case CLIENT_BODY:
			r = take_body(a, e);
			break;
		case CLIENT_END:
			return a->events ? 0 : take_whole(a, e);
		default:
			return error_set(e, ERROR_HOST, ECONNRESET, "the answer broke off");
		}
		if (r < 0)
			return r;
	}
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct invoke_options *o = values;
	_cleanup_(buf_done) struct buf prompt = BUF_INIT(PROMPT_MAX + READ_BYTES);
	_cleanup_free_ char *path = NULL;
	struct answer a = {.o = o, .status = o->async ? 0 : 1};
	json_t *body = NULL;
	int r;

	if (argc < 1 || argc > 2)
		return error_set(e, ERROR_USAGE, EINVAL,
			"give an agent and a prompt, or the prompt on standard input");
	buf_init(&a.text, EVENT_MAX);
	r = agents_path(argv[0], "/invoke", &path, e);
	if (r == 0)
		r = argc == 2 ? buf_add_str(&prompt, argv[1]) : read_prompt(&prompt, e);
	if (r == 0)
		r = body_of(o, buf_len(&prompt) ? (const char *)buf_head(&prompt) : "",
			buf_len(&prompt), &body, e);
	if (r == 0)
		r = ask(&a, path, body, e);
	if (r == 0)
		r = receive(&a, e);
	json_decref(body);
	client_close(a.client);
	buf_done(&a.text);
	return r < 0 ? r : a.status;
}

static const struct option_spec options[] = {
	{"timeout", 't', OPTION_DURATION, "TIME", "end it after this time (the agent's own limit)",
		offsetof(struct invoke_options, timeout_ns), 1, UINT64_MAX, false},
	{"queue", 'q', OPTION_DURATION, "TIME", "wait so long for a place (30 s)",
		offsetof(struct invoke_options, queue_ns), 1, UINT64_MAX, false},
	{"session", 's', OPTION_STRING, "NAME", "use the sandbox of this session's last invocation",
		offsetof(struct invoke_options, session), 0, 0, false},
	{"env", 'e', OPTION_LIST, "NAME=VALUE", "a variable; may be repeated",
		offsetof(struct invoke_options, env), 0, 0, false},
	{"async", 0, OPTION_FLAG, NULL, "print the invocation's id, and do not wait for its end",
		offsetof(struct invoke_options, async), 0, 0, false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

const struct cli_verb agents_verb_invoke = {
	.name = "invoke",
	.arguments = "NAME[:ALIAS|@VERSION] [PROMPT]",
	.summary = "Give an agent a prompt and print its answer",
	.description =
		"Without PROMPT, reads the prompt from standard input. Prints the answer as it "
		"comes, and the agent's standard error on standard error. The exit status is that "
		"of the agent's program. If it has none, it is 124 after the time limit, 122 for "
		"want of memory or of a place, 126 if the program does not start, 125 if its "
		"sandbox ended, 120 if the host failed, else 1.",
	.options = options,
	.values_bytes = sizeof(struct invoke_options),
	.run = run,
};
