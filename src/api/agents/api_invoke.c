/* POST /agents/{}/invoke: one invocation of a hosted agent (docs/agents.md).
 *
 *	WAITING  nothing is answered yet
 *	STREAM   the answer is being sent, as plain text or as server-sent events. A slow client
 *		 slows the program down
 *	OVER     the request is answered, or the client has gone. A client that goes ends its
 *		 invocation, unless that is async
 *
 * The order lives as long as the invocation. The handler's own state lives until both the
 * invocation and the request have ended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/agents/invoke_order.h"
#include "api/event_stream.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"

enum { TICK_MS = 10 * 1000, TEXT_MAX = 512 * 1024, TYPE_MAX = 128 };

enum invoke_state { INVOKE_WAITING, INVOKE_STREAM, INVOKE_OVER };

struct invoke {
	struct request *r;    /* NULL: gone, or answered */
	struct invocation *v; /* NULL: over */
	enum invoke_state state;
	struct invoke_order order;
	struct buf out[2]; /* of events: beginnings of characters */
	char type[TYPE_MAX];
	char id[STORE_INVOCATION_ID_BYTES], version[16];
	char ms[24];  /* its duration; "": not known yet */
	bool in_head; /* of a plain answer: the head had it */
	uv_timer_t tick;
	bool released; /* the invocation needs it no more */
};

static const char *const names[] = {"stdout", "stderr"};
static const char duration[] = "Mayfly-Duration-Ms";

static void on_closed(uv_handle_t *h)
{
	struct invoke *x = h->data;

	buf_done(&x->out[0]);
	buf_done(&x->out[1]);
	free(x);
}

static void free_if_over(struct invoke *x)
{
	if (x->released && !x->r)
		uv_close((uv_handle_t *)&x->tick, on_closed);
}

static void on_release(void *owner)
{
	struct invoke *x = owner;

	invoke_order_done(&x->order);
	x->released = true;
	free_if_over(x);
}

static void on_done(struct request *r, bool complete)
{
	struct invoke *x = r->data;

	x->r = NULL;
	x->state = INVOKE_OVER;
	if (x->v)
		invocation_cancel(x->v);
	x->v = NULL;
	(void)uv_timer_stop(&x->tick); /* always 0 */
	free_if_over(x);
}

static void on_drained(struct request *r)
{
	struct invoke *x = r->data;

	if (x->v)
		invocation_resume(x->v);
}

static const struct request_ops ops = {.drained = on_drained, .done = on_done};

/* --- the answer as it comes --- */

enum { HEAD_FIELDS = 3 };

/* The duration is in the head if it is known then, else at the end of a plain answer. */
static size_t fill_fields(const struct invoke *x, bool trailer, struct http_field out[HEAD_FIELDS])
{
	size_t n = 0;

	out[n++] = (struct http_field){"Mayfly-Invocation", x->id};
	out[n++] = (struct http_field){"Mayfly-Version", x->version};
	if (*x->ms)
		out[n++] = (struct http_field){duration, x->ms};
	else if (trailer)
		out[n++] = (struct http_field){"Trailer", duration};
	return n;
}

static void begin(struct invoke *x)
{
	struct http_field fields[HEAD_FIELDS];
	size_t n = fill_fields(x, !x->order.stream, fields);

	if (x->state != INVOKE_WAITING)
		return;
	x->state = INVOKE_STREAM;
	request_set_final(x->r);
	if (!x->order.stream) {
		x->in_head = *x->ms;
		reply_stream(x->r, *x->type ? x->type : "text/plain; charset=utf-8", fields, n);
		return;
	}
	event_stream_begin(x->r, fields, n);
	(void)event_stream_json(x->r, "invocation", /* the next event tells of a failure */
		json_pack(
			"{s:s, s:i}", "invocation", x->id, "version", (int)x->order.order.version));
}

/* e: of request_write(). */
static bool goes_on(struct invoke *x, int e)
{
	if (e < 0)
		request_abort(x->r); /* on_done follows */
	return e == 0;
}

static bool on_output(void *arg, bool errors, const uint8_t *data, size_t n)
{
	struct invoke *x = arg;

	if (x->state == INVOKE_OVER || (errors && !x->order.stream))
		return true;
	begin(x);
	if (!x->order.stream)
		return goes_on(x, request_write(x->r, data, n));
	if (buf_add(&x->out[errors], data, n) < 0)
		return goes_on(x, -1);
	return goes_on(x, event_stream_text(x->r, names[errors], &x->out[errors], false));
}

static void on_typed(void *arg, const char *content_type)
{
	struct invoke *x = arg;

	if (strlen(content_type) < sizeof(x->type))
		(void)strcpy(x->type, content_type); /* checked above */
}

static void on_tick(uv_timer_t *t)
{
	struct invoke *x = t->data;

	if (!x->order.stream || !x->v || !*invocation_sandbox(x->v))
		return;
	begin(x);
	event_stream_keep(x->r);
}

/* --- the end --- */

/* The end of standard error, whole characters of it. */
static json_t *errors_json(const struct invocation_end *end)
{
	size_t n = end->errors_bytes,
	       skip = n > OUTCOME_ERRORS_SHOWN ? n - OUTCOME_ERRORS_SHOWN : 0;

	while (skip < n && ((uint8_t)end->errors[skip] & 0xc0) == 0x80)
		skip++;
	return api_text(end->errors + skip, n - skip);
}

static json_t *failure_json(const struct invoke *x, const struct invocation_end *end)
{
	const struct outcome *o = &end->outcome;

	return json_pack("{s:i, s:s, s:s, s:s, s:i, s:o, s:I, s:o}", "code",
		(int)invocation_http_status(o->code), "message", o->message, "error_code",
		invocation_code_name(o->code), "invocation", x->id, "version",
		(int)x->order.order.version, "exitCode",
		o->status < 0 ? json_null() : json_integer((json_int_t)o->status), "durationMs",
		(json_int_t)(end->duration_ns / NS_PER_MS), "stderr", errors_json(end));
}

static int send_exit(struct invoke *x, const struct invocation_end *end)
{
	return event_stream_json(x->r, "exit",
		json_pack("{s:I, s:I}", "exitCode", (json_int_t)end->outcome.status, "durationMs",
			(json_int_t)(end->duration_ns / NS_PER_MS)));
}

static void end_events(struct invoke *x, const struct invocation_end *end)
{
	int e = 0;

	for (unsigned i = 0; e >= 0 && i < 2; i++)
		e = event_stream_text(x->r, names[i], &x->out[i], true);
	if (e >= 0 && end->outcome.status >= 0)
		e = send_exit(x, end);
	if (e >= 0 && end->outcome.code != INVOCATION_OK)
		e = event_stream_json(x->r, "error", failure_json(x, end));
	if (e < 0)
		request_abort(x->r);
	else
		(void)request_end(x->r); /* the client may be gone */
}

static void end_plain(struct invoke *x, const struct invocation_end *end)
{
	const struct http_field trailer = {duration, x->ms};

	if (end->outcome.code == INVOCATION_OK) /* the client may be gone */
		(void)request_end_trailers(x->r, &trailer, x->in_head ? 0 : 1);
	else
		request_abort(x->r); /* so that nobody takes it for the whole answer */
}

static void fail(struct invoke *x, const struct invocation_end *end)
{
	struct http_field fields[HEAD_FIELDS];
	size_t n = fill_fields(x, false, fields);

	if (end->outcome.code != INVOCATION_BUSY)
		request_set_final(x->r);
	reply_json_fields(
		x->r, invocation_http_status(end->outcome.code), failure_json(x, end), fields, n);
}

static void on_ended(void *arg, const struct invocation_end *end)
{
	struct invoke *x = arg;

	x->v = NULL;
	if (x->state == INVOKE_OVER)
		return;
	if (end->duration_ns)
		(void)snprintf(x->ms, sizeof(x->ms), "%llu",
			(unsigned long long)(end->duration_ns / NS_PER_MS)); /* fits */
	if (end->outcome.code == INVOCATION_OK)
		begin(x); /* an answer of no bytes, of a program that listens */
	if (x->state == INVOKE_STREAM && x->order.stream)
		end_events(x, end);
	else if (x->state == INVOKE_STREAM)
		end_plain(x, end);
	else
		fail(x, end);
	x->state = INVOKE_OVER;
}

static const struct invocation_ops invocation_ops = {
	.typed = on_typed, .output = on_output, .ended = on_ended};

/* --- the request --- */

static void reply_accepted(struct request *r, const struct invoke *x)
{
	char path[64];
	const struct http_field fields[] = {
		{"Location", path}, {"Mayfly-Invocation", x->id}, {"Mayfly-Version", x->version}};

	(void)snprintf(path, sizeof(path), "/invocations/%s", x->id); /* fits */
	reply_json_fields(r, 202, json_pack("{s:s, s:s}", "invocation", x->id, "state", "queued"),
		fields, ARRAY_SIZE(fields));
}

static void start(struct invoke *x)
{
	struct request *r = x->r;
	struct error e = {0};
	bool async = x->order.async;

	x->order.order.release = on_release;
	x->order.order.owner = x;
	(void)snprintf(x->version, sizeof(x->version), "%u", x->order.order.version); /* fits */
	if (invocation_begin(fleet_of(r), &x->order.order, async ? NULL : &invocation_ops, x, &x->v,
		    &e) < 0) {
		x->r = NULL;
		on_release(x);
		reply_failure(r, &e);
		return;
	}
	memcpy(x->id, invocation_id(x->v), sizeof(x->id));
	if (async) {
		x->v = NULL;
		x->r = NULL; /* on_release() comes later */
		reply_accepted(r, x);
		return;
	}
	request_set_ops(r, &ops, x);
	(void)uv_timer_start(&x->tick, on_tick, TICK_MS, TICK_MS); /* has a callback */
}

static void take(struct request *r, const char *text, size_t n)
{
	struct invoke *x = api_calloc(r, sizeof(*x));

	if (!x)
		return;
	x->r = r;
	buf_init(&x->out[0], TEXT_MAX);
	buf_init(&x->out[1], TEXT_MAX);
	if (!invoke_order_take(r, text, n, &x->order)) {
		invoke_order_done(&x->order);
		free(x);
		return;
	}
	(void)uv_timer_init(request_loop(r), &x->tick); /* cannot fail */
	x->tick.data = x;
	start(x);
}

void api_agent_invoke(struct request *r)
{
	request_collect(r, API_BODY_MAX, take);
}
