#include "envd/envd_rpc.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "envd/envd_absent.h"
#include "fleet/fleet_of.h"
#include "proto/proto_json.h"

/* --- answers --- */

enum { FIELDS_MAX = ENVD_CORS_FIELDS + 1 };

/* Connect codes are coarse, so a header of ours carries the agent's error class. */
static unsigned fields_of(const struct envd_call *c, struct http_field fields[FIELDS_MAX])
{
	unsigned n = envd_cors(c->r, fields);

	if (c->refusal)
		fields[n++] = (struct http_field){"Mayfly-Error", c->refusal};
	return n;
}

static void reply(struct envd_call *c, unsigned status, const void *body, size_t n)
{
	struct http_field fields[FIELDS_MAX];
	const struct http_reply m = {.status = status,
		.content_type = CONNECT_TYPE_UNARY,
		.fields = fields,
		.field_count = fields_of(c, fields),
		.body = body,
		.len = n};

	(void)request_reply(c->r, &m); /* or the client has gone */
	envd_call_finish(c);
}

void envd_rpc_reply_text(struct envd_call *c, const char *json)
{
	reply(c, 200, json, strlen(json));
}

void envd_rpc_reply(struct envd_call *c)
{
	reply(c, 200, buf_len(&c->out) ? buf_head(&c->out) : NULL, buf_len(&c->out));
}

bool envd_rpc_stream(struct envd_call *c)
{
	struct http_field fields[FIELDS_MAX];
	const struct http_reply m = {.status = 200,
		.content_type = CONNECT_TYPE_STREAM,
		.fields = fields,
		.field_count = fields_of(c, fields)};

	if (request_stream(c->r, &m, HTTP_NO_LENGTH) < 0) {
		envd_call_abort(c);
		return false;
	}
	envd_call_flush(c);
	return !c->over;
}

/* Sends what c->out holds, and ends the answer and the call. */
static void send_last(struct envd_call *c)
{
	envd_call_flush(c);
	if (c->over)
		return;
	(void)request_end(c->r); /* or the client has gone */
	envd_call_finish(c);
}

/* c->out holds the stream's last envelope. */
static void end_stream(struct envd_call *c)
{
	if (c->r->state == REQUEST_NONE && !envd_rpc_stream(c))
		return;
	send_last(c);
}

void envd_rpc_end(struct envd_call *c)
{
	if (connect_end_ok(&c->out) < 0)
		envd_call_abort(c);
	else
		end_stream(c);
}

static void fail_unary(struct envd_call *c, const struct envd_error *e)
{
	buf_clear(&c->out);
	if (c->r->state != REQUEST_NONE || connect_unary_error(&c->out, e->code, e->message) < 0)
		envd_call_abort(c);
	else
		reply(c, connect_code_http_status(e->code), buf_head(&c->out), buf_len(&c->out));
}

void envd_rpc_fail(struct envd_call *c, const struct envd_error *e)
{
	if (c->r->state != REQUEST_NONE && envd_is_proxied(e)) {
		envd_call_abort(c);
	} else if (envd_is_proxied(e)) {
		envd_reply_proxy(c->r, e->status, c->sandbox_id, 0, e->message);
		envd_call_finish(c);
	} else if (c->rpc.kind == CONNECT_KIND_UNARY) {
		fail_unary(c, e);
	} else if (connect_end_error(&c->out, e->code, e->message) < 0) {
		envd_call_abort(c);
	} else {
		end_stream(c);
	}
}

bool envd_rpc_wrote(struct envd_call *c, int result)
{
	struct envd_error e;

	if (result >= 0)
		return true;
	(void)envd_fail(&e, CONNECT_INTERNAL,
		result == -EBADMSG ? "the sandbox's agent broke the protocol"
				   : "the answer is too long");
	envd_rpc_fail(c, &e);
	return false;
}

/* --- lists --- */

enum { LIST_PIECE = 64 * 1024 };

bool envd_rpc_item(struct envd_call *c, const char *head)
{
	return envd_rpc_wrote(c, buf_add_str(&c->out, c->step++ ? "," : head));
}

static bool begin_list(struct envd_call *c)
{
	struct http_field fields[ENVD_CORS_FIELDS];
	const struct http_reply m = {.status = 200,
		.content_type = CONNECT_TYPE_UNARY,
		.fields = fields,
		.field_count = envd_cors(c->r, fields)};

	if (c->r->state != REQUEST_NONE || request_stream(c->r, &m, HTTP_NO_LENGTH) == 0)
		return true;
	envd_call_abort(c);
	return false;
}

bool envd_rpc_item_done(struct envd_call *c, int result)
{
	if (!envd_rpc_wrote(c, result))
		return false;
	if (buf_len(&c->out) < LIST_PIECE)
		return true;
	if (begin_list(c))
		envd_call_flush(c);
	return !c->over;
}

void envd_rpc_list_end(struct envd_call *c, const char *head, const char *tail)
{
	int r = c->step ? 0 : buf_add_str(&c->out, head);

	if (!envd_rpc_wrote(c, r ? r : buf_add_str(&c->out, tail)))
		return;
	if (c->r->state == REQUEST_NONE) {
		envd_rpc_reply(c);
		return;
	}
	send_last(c);
}

/* --- requests --- */

/* Takes the single message of a stream's request, borrowed from body. */
static int take_envelope(
	const char *body, size_t n, const uint8_t **ret, size_t *ret_n, struct envd_error *e)
{
	struct connect_decoder d;
	size_t used;
	int r = 0;

	connect_decoder_init(&d, 0, false);
	switch (connect_decoder_next(&d, body, n, &used)) {
	case CONNECT_EVENT_MESSAGE:
		/* it came in one piece, so it lies within the body */
		*ret = connect_decoder_message(&d, ret_n);
		if (used != n)
			r = envd_fail(e, CONNECT_INVALID_ARGUMENT,
				"there is more than one message in the request");
		break;
	case CONNECT_EVENT_ERROR:
		r = envd_fail(e, d.error, "%s", d.reason);
		break;
	default:
		r = envd_fail(e, CONNECT_INVALID_ARGUMENT, "the request's message is cut off");
	}
	connect_decoder_done(&d);
	return r;
}

static json_t *parse_body(
	const struct envd_call *c, const char *body, size_t n, struct envd_error *e)
{
	const uint8_t *message = (const uint8_t *)body;
	size_t length = n;
	const char *reason;
	json_t *o;

	if (c->rpc.kind == CONNECT_KIND_STREAM && take_envelope(body, n, &message, &length, e) < 0)
		return NULL;
	o = proto_json_parse(message, length, &reason);
	if (!o)
		(void)envd_fail(e, CONNECT_INVALID_ARGUMENT, "%s", reason);
	return o;
}

/* Returns -1 if the request was answered. */
static int parse_head(struct request *r, const struct envd_method *m, struct connect_request *rpc,
	struct envd_error *e)
{
	const char *reason = "";
	enum connect_code code = CONNECT_OK;
	int err = connect_request_parse(r->head, rpc, &code, &reason);

	if (err == 0 && rpc->kind != m->kind)
		err = -EPROTONOSUPPORT;
	if (err == -EOPNOTSUPP || err == -EPROTONOSUPPORT) {
		envd_reply_empty(r, err == -EOPNOTSUPP ? 405 : 415);
		return -1;
	}
	rpc->kind = m->kind;
	if (err < 0)
		return envd_fail(e, code, "%s", reason);
	return 0;
}

const struct envd_method *envd_rpc_find(const char *path)
{
	const struct envd_method *const tables[] = {envd_process_methods, envd_filesystem_methods};

	for (unsigned i = 0; i < ARRAY_SIZE(tables); i++)
		for (const struct envd_method *m = tables[i]; m->path; m++)
			if (strcmp(m->path, path) == 0)
				return m;
	return NULL;
}

/* Creates a call for the request; NULL: the request was answered. */
static struct envd_call *new_call(
	struct request *r, const struct instance *i, const struct envd_method *m)
{
	struct connect_request rpc = {.kind = m->kind};
	struct envd_error e;
	struct envd_call *c;
	int err = parse_head(r, m, &rpc, &e);

	if (err == -1)
		return NULL;
	c = envd_call_new(r, i, m->ops);
	if (!c)
		return NULL;
	c->rpc = rpc;
	if (err == 0)
		return c;
	envd_rpc_fail(c, &e);
	return NULL;
}

static void on_request(struct request *r, const char *body, size_t n)
{
	const struct envd_method *m = envd_rpc_find(r->head->path);
	const struct instance *i = instance_find(fleet_of(r), r->route.sandbox_id);
	struct envd_error e;
	struct envd_call *c;
	json_t *o;
	int err;

	if (!i) {
		envd_absent_reply(r);
		return;
	}
	c = new_call(r, i, m);
	if (!c)
		return;
	o = parse_body(c, body, n, &e);
	err = o ? m->begin(c, o, &e) : -EINVAL;
	if (m->kind == CONNECT_KIND_UNARY && !c->over)
		(void)envd_call_set_deadline(c, c->rpc.timeout_ms); /* else without one */
	json_decref(o);
	if (err < 0 && !c->over)
		envd_rpc_fail(c, &e);
}

static void refuse_body(struct request *r, unsigned status, const char *message)
{
	const struct envd_method *m = envd_rpc_find(r->head->path);
	const struct instance *i = instance_find(fleet_of(r), r->route.sandbox_id);
	struct envd_call *c = i ? new_call(r, i, m) : NULL;
	struct envd_error e;

	(void)envd_fail(&e, CONNECT_RESOURCE_EXHAUSTED, "%s", message);
	if (c)
		envd_rpc_fail(c, &e);
	else if (!i)
		envd_absent_reply(r);
}

void envd_rpc_dispatch(struct request *r, const struct instance *i, const struct envd_method *m)
{
	size_t max = m->body_max ? m->body_max : ENVD_BODY_MAX;
	struct envd_call *c;

	if (!m->open) {
		request_collect_or(r, max + CONNECT_ENVELOPE_BYTES, on_request, refuse_body);
		return;
	}
	c = new_call(r, i, m);
	if (c)
		m->open(c);
}
