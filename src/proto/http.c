#include "proto/http.h"

#include <assert.h>
#include <stdlib.h>

#include "proto/http_body.h"
#include "proto/http_head.h"

enum { INTERIM_MAX = 32 }; /* 1xx heads before the final one */

/* HEAD gathers a head. BODY reads the body, even an empty one. REST waits for http_parser_continue.
 * FAILED is final. */
enum http_parser_state {
	HTTP_PARSER_HEAD,
	HTTP_PARSER_BODY,
	HTTP_PARSER_REST,
	HTTP_PARSER_FAILED,
};

struct http_parser {
	enum http_role role;
	enum http_parser_state state;
	struct http_limits limits;
	struct http_head_reader reader;
	struct http_head head;
	struct http_body body;
	const uint8_t *data; /* of the last BODY event */
	size_t data_len;
	bool no_body;	   /* the response answers HEAD */
	bool interim_seen; /* the reader still holds a 1xx head */
	unsigned interims;
	unsigned status;
	const char *reason;
};

struct http_parser *http_parser_new(enum http_role role, const struct http_limits *limits)
{
	struct http_parser *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->role = role;
	p->limits = limits ? *limits : (struct http_limits)HTTP_LIMITS_DEFAULT;
	http_head_init(&p->reader, role, &p->limits);
	return p;
}

void http_parser_free(struct http_parser *p)
{
	if (!p)
		return;
	http_head_done(&p->reader);
	free(p);
}

static enum http_event fail(struct http_parser *p, unsigned status, const char *reason)
{
	p->state = HTTP_PARSER_FAILED;
	p->status = p->role == HTTP_ROLE_SERVER ? status : 502;
	p->reason = reason;
	return HTTP_ERROR;
}

static void begin_body(struct http_parser *p)
{
	const struct http_head *h = &p->head;
	enum http_framing framing = HTTP_FRAMING_NONE;

	if (h->has_body && h->chunked)
		framing = HTTP_FRAMING_CHUNKED;
	else if (h->has_body && h->until_eof)
		framing = HTTP_FRAMING_UNTIL_EOF;
	else if (h->has_body)
		framing = HTTP_FRAMING_FIXED;
	http_body_init(&p->body, framing, h->content_length > 0 ? (uint64_t)h->content_length : 0,
		&p->limits);
	p->state = HTTP_PARSER_BODY;
}

static enum http_event got_head(struct http_parser *p)
{
	struct http_head *h = &p->head;

	if (p->role == HTTP_ROLE_CLIENT && h->status < 200 && h->status != 101) {
		if (++p->interims > INTERIM_MAX)
			return fail(p, 502, "too many interim answers");
		p->interim_seen = true;
		return HTTP_INTERIM;
	}
	if (p->no_body)
		h->has_body = h->until_eof = false;
	if (h->until_eof)
		h->keep_alive = false;
	begin_body(p);
	return HTTP_HEAD;
}

static enum http_event next_head(
	struct http_parser *p, const uint8_t *data, size_t n, size_t *consumed)
{
	if (p->interim_seen) {
		http_head_reset(&p->reader);
		p->interim_seen = false;
	}
	switch (http_head_feed(&p->reader, data, n, consumed, &p->head)) {
	case HTTP_HEAD_MORE:
		return HTTP_MORE;
	case HTTP_HEAD_DONE:
		return got_head(p);
	default:
		return fail(p, p->reader.status, p->reader.reason);
	}
}

/* The message is complete. If a protocol switch is due, raw bytes follow. */
static enum http_event got_end(struct http_parser *p)
{
	bool upgrade = p->head.upgrade && (p->role == HTTP_ROLE_SERVER || p->head.status == 101);

	p->state = HTTP_PARSER_REST;
	return upgrade ? HTTP_UPGRADE : HTTP_END;
}

static enum http_event next_body(
	struct http_parser *p, const uint8_t *data, size_t n, size_t *consumed)
{
	switch (http_body_next(&p->body, data, n, consumed, &p->data, &p->data_len)) {
	case HTTP_BODY_MORE:
		return HTTP_MORE;
	case HTTP_BODY_DATA:
		return HTTP_BODY;
	case HTTP_BODY_END:
		return got_end(p);
	default:
		return fail(p, p->body.status, p->body.reason);
	}
}

enum http_event http_parser_next(
	struct http_parser *p, const void *data, size_t n, size_t *consumed)
{
	*consumed = 0;
	switch (p->state) {
	case HTTP_PARSER_HEAD:
		return n ? next_head(p, data, n, consumed) : HTTP_MORE;
	case HTTP_PARSER_BODY:
		return next_body(p, data, n, consumed);
	case HTTP_PARSER_REST:
		return HTTP_REST;
	default:
		return HTTP_ERROR;
	}
}

const struct http_head *http_parser_head(const struct http_parser *p)
{
	return &p->head;
}

const uint8_t *http_parser_body(const struct http_parser *p, size_t *ret_n)
{
	*ret_n = p->data_len;
	return p->data;
}

void http_parser_continue(struct http_parser *p)
{
	assert(p->state == HTTP_PARSER_REST);
	http_head_reset(&p->reader);
	p->head = (struct http_head){0};
	p->no_body = false;
	p->interims = 0;
	p->state = HTTP_PARSER_HEAD;
}

void http_parser_limit_body(struct http_parser *p, uint64_t max)
{
	p->body.max = max > p->body.total ? max : p->body.total;
}

void http_parser_expect_no_body(struct http_parser *p)
{
	p->no_body = true;
}

enum http_event http_parser_eof(struct http_parser *p)
{
	switch (p->state) {
	case HTTP_PARSER_HEAD:
		if (http_parser_idle(p) && !p->interims)
			return HTTP_MORE;
		return fail(p, 400, "the connection ended within a head");
	case HTTP_PARSER_BODY:
		if (!p->head.has_body || p->head.until_eof)
			return got_end(p);
		return fail(p, 400, "the connection ended within a body");
	case HTTP_PARSER_REST:
		return HTTP_MORE;
	default:
		return HTTP_ERROR;
	}
}

bool http_parser_idle(const struct http_parser *p)
{
	return p->state == HTTP_PARSER_HEAD && (p->interim_seen || !http_parser_head_bytes(p));
}

size_t http_parser_head_bytes(const struct http_parser *p)
{
	return buf_len(&p->reader.text);
}

unsigned http_parser_status(const struct http_parser *p)
{
	return p->status;
}

const char *http_parser_reason(const struct http_parser *p)
{
	return p->reason ? p->reason : "";
}
