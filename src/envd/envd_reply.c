#include "envd/envd_reply.h"

#include <string.h>

#include "base/cleanup.h"
#include "envd/envd_page.h"
#include "proto/json_text.h"

unsigned envd_cors(const struct request *r, struct http_field fields[ENVD_CORS_FIELDS])
{
	if (!http_header_get(&r->head->headers, "origin"))
		return 0;
	fields[0] = (struct http_field){"Access-Control-Allow-Origin", "*"};
	fields[1] = (struct http_field){"Access-Control-Expose-Headers",
		"Connect-Content-Encoding, Connect-Protocol-Version, Content-Disposition, "
		"Content-Encoding, Content-Range, ETag, Location"};
	return 2;
}

void envd_reply_json_text(struct request *r, unsigned status, const char *text, size_t n)
{
	struct http_field fields[ENVD_CORS_FIELDS];
	const struct http_reply reply = {.status = status,
		.content_type = "application/json; charset=utf-8",
		.fields = fields,
		.field_count = envd_cors(r, fields),
		.body = text,
		.len = n};

	(void)request_reply(r, &reply); /* or the client has gone */
}

void envd_reply_json(struct request *r, unsigned status, const struct buf *body)
{
	envd_reply_json_text(
		r, status, buf_len(body) ? (const char *)buf_head(body) : "", buf_len(body));
}

void envd_reply_empty(struct request *r, unsigned status)
{
	struct http_field fields[ENVD_CORS_FIELDS];
	const struct http_reply reply = {
		.status = status, .fields = fields, .field_count = envd_cors(r, fields)};

	(void)request_reply(r, &reply); /* or the client has gone */
}

/* more: a member that only some answers have, or NULL. */
static int write_proxy_body(struct buf *out, unsigned status, const char *sandbox_id,
	const char *more, unsigned value, const char *message)
{
	int r = buf_printf(out, "{\"sandboxId\":\"%s\",\"message\":", sandbox_id);

	if (!r)
		r = json_text_string(out, message, strlen(message), JSON_TEXT_UTF8);
	if (!r && more)
		r = buf_printf(out, ",\"%s\":%u", more, value);
	return r ? r : buf_printf(out, ",\"code\":%u}", status);
}

bool envd_is_proxied(const struct envd_error *e)
{
	return e->code == CONNECT_UNAVAILABLE && e->status != 503;
}

/* Scripts of any page may read it, though they sent no Origin. */
static void reply_proxy(struct request *r, unsigned status, const char *sandbox_id,
	const char *more, unsigned value, const char *message)
{
	static const struct http_field fields[] = {{"Access-Control-Allow-Origin", "*"}};
	_cleanup_(buf_done) struct buf body = BUF_INIT(8 * ERROR_MESSAGE_MAX);
	bool page = envd_wants_page(r);
	int err = page ? envd_page(&body, sandbox_id, more ? value : 0, message)
		       : write_proxy_body(&body, status, sandbox_id, more, value, message);
	struct http_reply reply = {.status = status,
		.content_type =
			page ? "text/html; charset=utf-8" : "application/json; charset=utf-8",
		.fields = fields,
		.field_count = ARRAY_SIZE(fields)};

	if (!err) { /* else out of memory: the status must do */
		reply.body = (const char *)buf_head(&body);
		reply.len = buf_len(&body);
	}
	(void)request_reply(r, &reply); /* or the client has gone */
}

void envd_reply_proxy(struct request *r, unsigned status, const char *sandbox_id, unsigned port,
	const char *message)
{
	reply_proxy(r, status, sandbox_id, port ? "port" : NULL, port, message);
}

void envd_reply_connection_limit(
	struct request *r, const char *sandbox_id, unsigned max, const char *message)
{
	reply_proxy(r, 429, sandbox_id, "connectionLimit", max, message);
}

void envd_reply_error(struct request *r, const char *sandbox_id, const struct envd_error *e)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(8 * ERROR_MESSAGE_MAX);

	if (envd_is_proxied(e)) {
		envd_reply_proxy(r, e->status, sandbox_id, 0, e->message);
		return;
	}
	if (envd_error_body(&body, e) < 0)
		buf_clear(&body); /* out of memory: the status must do */
	envd_reply_json(r, e->status, &body);
}
