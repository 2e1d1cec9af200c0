/* POST /execute, our extension: runs a cell in a sandbox that is made for it and ends with it
 * (docs/api.md).
 *
 *	MAKING   the sandbox is being made in the usual way, within the key's limits
 *	RUNNING  the interpreter runs the cell; its output is gathered within the limit
 *	OVER     answered, or the client has gone; the sandbox is being ended
 *
 * The sandbox always ends: with the client, at the time limit, or at the daemon's next start if it
 * dies (instance_order.transient). Its own deadline follows soon after the time limit. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/code/cell_output.h"
#include "api/unplaced.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "fleet/fleet_of.h"
#include "fleet/instance.h"
#include "fleet/upstream.h"
#include "http/reply.h"
#include "network/activity_process.h"
#include "lifecycle/instance_end.h"
#include "lifecycle/instance_make.h"

enum {
	PORT = 49999,
	GRACE_S = 60, /* from the cell's limit to the sandbox's deadline */
	BODY_MAX = UPSTREAM_MAX - 64 * 1024,
	TIMEOUT_DEFAULT_S = 60,
	OUTPUT_DEFAULT = 1024 * 1024,
	OUTPUT_MAX = 8 * 1024 * 1024,
	REASON_MAX = 4096, /* of the interpreter's refusal */
};

static const char default_template[] = "code-interpreter-v1";

enum execution_state { EXECUTION_MAKING, EXECUTION_RUNNING, EXECUTION_OVER };

struct execution {
	struct request *r;
	enum execution_state state;
	struct instance_maker *maker; /* while MAKING */
	char sandbox_id[SANDBOX_ID_BYTES];
	struct upstream *up;
	struct http_parser *parser;
	uv_timer_t limit;
	char *body; /* of the request to the interpreter, owned, while MAKING */
	int64_t timeout_s, output_limit;
	uint64_t begin_ns; /* CLOCK_MONOTONIC when the cell began */
	struct cell_output output;
	struct budget_hold hold; /* for the body, then for the output */
	struct buf reason;	 /* of the interpreter's refusal */
};

/* --- ending --- */

static void on_closed(uv_handle_t *h)
{
	struct execution *x = h->data;

	cell_output_done(&x->output);
	buf_done(&x->reason);
	budget_release(&x->hold);
	http_parser_free(x->parser);
	free(x->body);
	free(x);
}

/* Ends the sandbox, whatever it does. */
static void end_sandbox(struct execution *x)
{
	struct fleet *f = fleet_of(x->r);
	struct instance *i = *x->sandbox_id ? instance_find(f, x->sandbox_id) : NULL;
	struct error e = {0};

	upstream_close(x->up);
	x->up = NULL;
	(void)uv_timer_stop(&x->limit); /* always 0 */
	if (x->maker)
		instance_maker_cancel(TAKE_PTR(x->maker));
	if (i && instance_end(i, STORE_EVENT_KILLED, &e) < 0) /* if this fails, its deadline ends
							       * it */
		log_error("%s sandbox=%s", e.message, x->sandbox_id);
	x->state = EXECUTION_OVER;
}

static void on_done(struct request *r, bool complete)
{
	struct execution *x = r->data;

	if (x->state != EXECUTION_OVER)
		end_sandbox(x);
	uv_close((uv_handle_t *)&x->limit, on_closed);
}

static const struct request_ops ops = {.done = on_done};

static void fail(struct execution *x, unsigned status, const char *message)
{
	if (x->state == EXECUTION_OVER)
		return;
	end_sandbox(x);
	reply_error(x->r, status, "%s", message);
}

static void answer(struct execution *x, bool timed_out)
{
	_cleanup_(buf_done) struct buf text =
		BUF_INIT((size_t)x->output_limit * CELL_ESCAPE_MAX + CELL_ANSWER_EXTRA);
	uint64_t ms = (clock_monotonic_ns() - x->begin_ns) / NS_PER_MS;
	json_t *more = json_pack("{s:s, s:b, s:I}", "sandboxID", x->sandbox_id, "timedOut",
		timed_out, "durationMs", (json_int_t)ms);
	int r = cell_output_answer(&x->output, more, &text);

	json_decref(more);
	end_sandbox(x);
	cell_output_done(&x->output); /* from here on the answer is what counts */
	budget_release(&x->hold);
	if (r < 0)
		reply_error(x->r, 500, "out of memory");
	else
		reply_json_text(x->r, 200, buf_head(&text), buf_len(&text));
}

static void on_limit(uv_timer_t *t)
{
	answer(t->data, true);
}

/* --- the interpreter's answer --- */

static void refused(struct execution *x)
{
	unsigned status = http_parser_head(x->parser)->status;

	(void)buf_add_u8(&x->reason, 0); /* one byte is reserved */
	fail(x, status == 400 || status == 422 ? 400 : 502,
		buf_len(&x->reason) > 1 ? (const char *)buf_head(&x->reason)
					: "the interpreter refused the cell");
}

static void take_body(struct execution *x)
{
	size_t n, room = REASON_MAX - buf_len(&x->reason);
	const uint8_t *data = http_parser_body(x->parser, &n);

	if (http_parser_head(x->parser)->status != 200)
		(void)buf_add(&x->reason, data, n < room ? n : room); /* as much as fits */
	else if (cell_output_take(&x->output, data, n) < 0)
		fail(x, 503, "the server is out of memory");
	else if (!budget_set(&x->hold, cell_output_bytes(&x->output)))
		fail(x, 429, BUDGET_REFUSAL);
	else if (x->output.ended)
		answer(x, false);
}

/* Returns false if there is no more for now. */
static bool act(struct execution *x, enum http_event event)
{
	switch (event) {
	case HTTP_BODY:
		take_body(x);
		return x->state == EXECUTION_RUNNING;
	case HTTP_HEAD:
	case HTTP_INTERIM:
		return true;
	case HTTP_END:
		if (http_parser_head(x->parser)->status != 200)
			refused(x);
		else
			fail(x, 502, "the interpreter ended before the cell");
		return false;
	case HTTP_UPGRADE:
	case HTTP_ERROR:
		fail(x, 502, "the interpreter's answer is no valid HTTP");
		return false;
	default:
		return false;
	}
}

static void on_data(struct upstream *u, const uint8_t *data, size_t n, void *arg)
{
	struct execution *x = arg;
	size_t used;

	while (x->state == EXECUTION_RUNNING &&
		act(x, http_parser_next(x->parser, data, n, &used))) {
		data += used;
		n -= used;
	}
}

static void fail_lost(struct execution *x, const char *message)
{
	bool alive = instance_find(fleet_of(x->r), x->sandbox_id);

	fail(x, 502, alive ? message : "the sandbox ended while the cell ran");
}

static void on_eof(struct upstream *u, void *arg)
{
	fail_lost(arg, "the interpreter closed the connection before the cell's end");
}

static void on_writable(struct upstream *u, void *arg)
{
	/* the request was queued as a whole */
}

static void on_lost(struct upstream *u, enum agent_error_class why, void *arg)
{
	fail_lost(
		arg, why ? "nothing listens on port 49999 of the sandbox: the template has no code "
			   "interpreter"
			 : "the connection to the interpreter was lost");
}

/* --- the cell --- */

static int send_cell(struct execution *x, struct instance *i)
{
	static const struct upstream_ops up_ops = {
		.data = on_data, .eof = on_eof, .writable = on_writable, .lost = on_lost};
	_cleanup_(buf_done) struct buf out = BUF_INIT(UPSTREAM_MAX - BODY_MAX);
	struct http_writer w = http_writer_request(&out, "POST", "/execute");
	int r;

	http_writer_header(&w, "Host", "localhost");
	http_writer_header(&w, "Content-Type", "application/json");
	http_writer_header_u64(&w, "Content-Length", strlen(x->body));
	r = http_writer_finish(&w);
	if (r == 0)
		r = upstream_open(request_loop(x->r), i, PORT, &up_ops, x, &x->up);
	if (r < 0)
		return r;
	request_hold(x->r, upstream_hold(x->up));
	r = upstream_write(x->up, buf_head(&out), buf_len(&out));
	if (r >= 0)
		r = upstream_write(x->up, x->body, strlen(x->body));
	free(TAKE_PTR(x->body));
	budget_force(&x->hold, 0);
	return r < 0 ? r : 0;
}

/* In the sandbox's activity. */
static void note_cell(const struct execution *x, const struct instance *i)
{
	json_t *cell = json_loads(x->body, 0, NULL);

	if (cell)
		activity_cell(fleet_of(x->r), x->sandbox_id, instance_key_id(i),
			json_string_value(json_object_get(cell, "language")),
			json_string_value(json_object_get(cell, "code")));
	json_decref(cell);
}

static void on_made(void *arg, struct instance *i, const struct error *why)
{
	struct execution *x = arg;

	x->maker = NULL;
	if (!i) {
		x->state = EXECUTION_OVER;
		api_reply_unplaced(x->r, why);
		return;
	}
	(void)strcpy(x->sandbox_id, instance_id(i)); /* same size */
	x->state = EXECUTION_RUNNING;
	x->begin_ns = clock_monotonic_ns();
	request_set_final(x->r); /* from now on the code may run */
	note_cell(x, i);
	if (send_cell(x, i) < 0)
		fail(x, 502, "the cell cannot be sent to the sandbox");
	else
		(void)uv_timer_start(
			&x->limit, on_limit, (uint64_t)x->timeout_s * 1000, 0); /* has a callback */
}

/* --- the request --- */

/* Reads whole seconds or bytes from the body. False: answered. */
static bool take_amount(
	struct request *r, const json_t *body, const char *key, int64_t max, int64_t *ret)
{
	if (api_integer(body, key, ret) != -EINVAL && *ret >= 1 && *ret <= max)
		return true;
	reply_error(r, 400, "%s must be a number from 1 to %lld", key, (long long)max);
	return false;
}

static bool take_cell(struct execution *x, const json_t *body)
{
	const json_t *language = json_object_get(body, "language"),
		     *env = json_object_get(body, "envVars");
	json_t *code = json_object_get(body, "code"), *cell;

	if (!json_is_string(code)) {
		reply_error(x->r, 400, "code must be given, as text");
		return false;
	}
	if (language && !json_is_string(language) && !json_is_null(language)) {
		reply_error(x->r, 400, "language must be text");
		return false;
	}
	cell = json_pack("{s:O, s:s*, s:O*}", "code", code, "language", json_string_value(language),
		"env_vars", json_is_null(env) ? NULL : env);
	x->body = cell ? json_dumps(cell, JSON_COMPACT) : NULL;
	json_decref(cell);
	if (!x->body)
		reply_error(x->r, 503, "out of memory");
	return x->body;
}

/* The body for POST /v2/sandboxes, with what the sandbox is made from. */
static json_t *sandbox_body(const struct execution *x, const json_t *body)
{
	static const char *const keys[] = {"templateID", "cpuCount", "memoryMB", "diskSizeMB",
		"network", "policy", "allow_internet_access", "metadata", "secrets"};
	json_t *o = json_pack(
		"{s:s, s:I}", "templateID", default_template, "timeout", (json_int_t)x->timeout_s);

	for (size_t i = 0; o && i < ARRAY_SIZE(keys); i++) {
		json_t *v = json_object_get(body, keys[i]);

		if (v && !json_is_null(v) && json_object_set(o, keys[i], v) < 0) {
			json_decref(o);
			return NULL;
		}
	}
	return o;
}

static void start(struct execution *x, const json_t *body)
{
	struct request *r = x->r;
	json_t *sandbox = NULL;

	if (!take_amount(r, body, "timeout", INT32_MAX, &x->timeout_s) ||
		!take_amount(r, body, "outputLimit", OUTPUT_MAX, &x->output_limit) ||
		!take_cell(x, body))
		return;
	cell_output_init(&x->output, (size_t)x->output_limit);
	request_hold(r, &x->hold);
	sandbox = sandbox_body(x, body);
	if (!sandbox || !x->parser)
		reply_error(r, 503, "out of memory");
	else if (!budget_set(&x->hold, strlen(x->body)))
		reply_error(r, 429, BUDGET_REFUSAL);
	else if (api_create_transient(r, sandbox, GRACE_S * NS_PER_S, on_made, x, &x->maker))
		x->state = EXECUTION_MAKING;
	json_decref(sandbox);
}

static void take(struct request *r, const char *text, size_t n)
{
	json_t *body = api_body(r, text, n);
	struct execution *x = body ? calloc(1, sizeof(*x)) : NULL;

	if (x) {
		x->r = r;
		x->state = EXECUTION_OVER; /* until there is something to end */
		x->timeout_s = TIMEOUT_DEFAULT_S;
		x->output_limit = OUTPUT_DEFAULT;
		x->parser = http_parser_new(HTTP_ROLE_CLIENT, NULL);
		buf_init(&x->reason, REASON_MAX + 1);
		(void)uv_timer_init(request_loop(r), &x->limit); /* cannot fail */
		x->limit.data = x;
		request_set_ops(r, &ops, x);
		start(x, body);
	} else if (body) {
		reply_error(r, 503, "out of memory");
	}
	json_decref(body);
}

void api_execute(struct request *r)
{
	request_collect(r, BODY_MAX, take);
}
