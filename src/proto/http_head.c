#include "proto/http_head.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/http_headers.h"

/* http.h has an event of this name; llhttp's method of the same name is not used here. */
#define HTTP_HEAD LLHTTP_METHOD_HEAD
#include <llhttp.h>
#undef HTTP_HEAD

enum {
	FIRST_ROOM = 2048,	/* enough for what the SDKs send */
	KEEP_ROOM = 8192,	/* memory that a resting connection may keep */
	KEEP_ITEMS = 32,	/* likewise: fields */
	EMPTY_LINES_MAX = 4,	/* bytes of CRLFs before a request (RFC 9112 2.2) */
	START_LINE_EXTRA = 32,	/* method, blanks and version around the target */
	STATUS_LINE_MAX = 8192, /* a response's first line */
};

static size_t first_line_max(const struct http_head_reader *r)
{
	return r->role == HTTP_ROLE_SERVER ? r->limits->target_max + START_LINE_EXTRA
					   : STATUS_LINE_MAX;
}

void http_head_init(
	struct http_head_reader *r, enum http_role role, const struct http_limits *limits)
{
	*r = (struct http_head_reader){.role = role, .limits = limits};
	/* A copy of the target, split into parts, is stored after the head. */
	buf_init(&r->text, limits->head_max + first_line_max(r) + 16);
}

void http_head_done(struct http_head_reader *r)
{
	buf_done(&r->text);
	free(r->items);
	r->items = NULL;
	r->items_max = 0;
}

void http_head_reset(struct http_head_reader *r)
{
	if (r->text.capacity > KEEP_ROOM)
		buf_done(&r->text);
	else
		buf_clear(&r->text);
	if (r->items_max > KEEP_ITEMS) {
		free(r->items);
		r->items = NULL;
		r->items_max = 0;
	}
	r->line_start = 0;
	r->lines = r->skipped = 0;
}

static enum http_head_result bad(struct http_head_reader *r, unsigned status, const char *reason)
{
	r->status = r->role == HTTP_ROLE_SERVER ? status : 502;
	r->reason = reason;
	return HTTP_HEAD_BAD;
}

/* ---- gathering ---- */

/* Copies part of a line, with or without its LF. */
static enum http_head_result gather(struct http_head_reader *r, const uint8_t *data, size_t n)
{
	size_t len = buf_len(&r->text);
	uint8_t *room;

	if (!r->lines && len + n > first_line_max(r))
		return bad(r, 414, "the request target is too long");
	if (len + n > r->limits->head_max)
		return bad(r, 431, "the headers are too large");
	for (size_t i = 0; i < n; i++)
		if ((data[i] < 0x20 && data[i] != '\t' && data[i] != '\r' && data[i] != '\n') ||
			data[i] == 0x7f)
			return bad(r, 400, "the head holds a control character");
	room = buf_reserve(&r->text, len ? n : n + FIRST_ROOM);
	if (!room && !len)
		room = buf_reserve(&r->text, n); /* a maximum below the usual first room */
	if (!room)
		return bad(r, 500, "out of memory");
	memcpy(room, data, n);
	buf_commit(&r->text, n);
	return HTTP_HEAD_MORE;
}

/* Checks a line when its LF arrives; DONE at the empty line. */
static enum http_head_result finish_line(struct http_head_reader *r)
{
	const uint8_t *line = buf_head(&r->text) + r->line_start;
	size_t n = buf_len(&r->text) - r->line_start;

	if (n < 2 || line[n - 2] != '\r')
		return bad(r, 400, "a line does not end in CRLF");
	if (memchr(line, '\r', n - 2))
		return bad(r, 400, "the head holds a bare CR");
	if (line[0] == ' ' || line[0] == '\t')
		return bad(r, 400, "a line begins with a blank (folded headers are refused)");
	if (n == 2 && r->lines)
		return HTTP_HEAD_DONE;
	r->line_start += n;
	if (++r->lines > r->limits->headers_max + 1)
		return bad(r, 431, "there are too many headers");
	return HTTP_HEAD_MORE;
}

/* Skips empty lines before a request; they are not part of it. */
static size_t skip_empty_lines(struct http_head_reader *r, const uint8_t *data, size_t n)
{
	size_t i = 0;

	if (r->role != HTTP_ROLE_SERVER || buf_len(&r->text))
		return 0;
	while (i < n && r->skipped < EMPTY_LINES_MAX && data[i] == "\r\n"[r->skipped % 2]) {
		r->skipped++;
		i++;
	}
	return i;
}

static enum http_head_result gather_lines(
	struct http_head_reader *r, const uint8_t *data, size_t n, size_t *consumed)
{
	size_t i = skip_empty_lines(r, data, n);
	enum http_head_result result = HTTP_HEAD_MORE;

	if (i < n && r->skipped % 2)
		return bad(r, 400, "the head holds a bare CR");
	while (i < n && result == HTTP_HEAD_MORE) {
		const uint8_t *lf = memchr(data + i, '\n', n - i);
		size_t part = lf ? (size_t)(lf - (data + i)) + 1 : n - i;

		result = gather(r, data + i, part);
		if (result == HTTP_HEAD_MORE && lf)
			result = finish_line(r);
		i += part;
	}
	*consumed = i;
	return result;
}

/* ---- taking apart ---- */

/* State of one run of llhttp over a whole head. Positions are offsets into the head. */
struct split {
	struct http_head_reader *r;
	const char *base;
	size_t target, target_len;
	size_t reason, reason_len;
	unsigned count;
	bool full; /* the table could not grow */
};

static int on_url(llhttp_t *p, const char *at, size_t n)
{
	struct split *s = p->data;

	if (!s->target_len)
		s->target = (size_t)(at - s->base);
	s->target_len = (size_t)(at - s->base) + n - s->target;
	return 0;
}

static int on_status(llhttp_t *p, const char *at, size_t n)
{
	struct split *s = p->data;

	if (!s->reason_len)
		s->reason = (size_t)(at - s->base);
	s->reason_len = (size_t)(at - s->base) + n - s->reason;
	return 0;
}

static bool grow_items(struct http_head_reader *r)
{
	unsigned want = r->items_max ? r->items_max * 2 : KEEP_ITEMS;
	struct http_header *items = reallocarray(r->items, want, sizeof(*items));

	if (!items)
		return false;
	r->items = items;
	r->items_max = want;
	return true;
}

static int on_field(llhttp_t *p, const char *at, size_t n)
{
	struct split *s = p->data;

	if (s->count == s->r->items_max && !grow_items(s->r)) {
		s->full = true;
		return -1;
	}
	s->r->items[s->count++] = (struct http_header){.name = at, .name_len = n};
	return 0;
}

static int on_value(llhttp_t *p, const char *at, size_t n)
{
	struct split *s = p->data;
	struct http_header *f;

	if (!s->count)
		return -1;
	f = &s->r->items[s->count - 1];
	if (!f->value)
		f->value = at;
	f->value_len = (size_t)(at - f->value) + n;
	return 0;
}

static int on_headers_complete(llhttp_t *p)
{
	return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
	.on_url = on_url,
	.on_status = on_status,
	.on_header_field = on_field,
	.on_header_value = on_value,
	.on_headers_complete = on_headers_complete,
};

/* Turns names and values into C strings in place. A colon follows a name, a blank or CR a value.
 * llhttp may report an empty value at the start of the next line, so this writes nothing there. */
static void terminate_fields(struct http_head_reader *r, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct http_header *f = &r->items[i];
		char *name = (char *)f->name, *value = (char *)f->value;

		name[f->name_len] = '\0';
		while (f->value_len && strchr(" \t", value[f->value_len - 1]))
			f->value_len--;
		if (f->value_len)
			value[f->value_len] = '\0';
		else
			f->value = "";
	}
}

static enum http_head_result bad_llhttp(struct http_head_reader *r, llhttp_errno_t err)
{
	const char *text = (const char *)buf_head(&r->text);

	switch (err) {
	case HPE_INVALID_METHOD:
		if (!http_is_token(text, strcspn(text, " ")))
			return bad(r, 400, "the method is malformed");
		return bad(r, 501, "the method is not known");
	case HPE_INVALID_CONSTANT: /* a method of RTSP or ICE */
		return bad(r, 501, "the method is not served");
	case HPE_INVALID_VERSION:
	case HPE_PAUSED_H2_UPGRADE:
		return bad(r, 505, "only HTTP/1.1 and HTTP/1.0 are served");
	case HPE_INVALID_URL:
		return bad(r, 400, "the request target is malformed");
	case HPE_INVALID_CONTENT_LENGTH:
	case HPE_UNEXPECTED_CONTENT_LENGTH:
		return bad(r, 400, "Content-Length is malformed, repeated, or in conflict");
	case HPE_INVALID_TRANSFER_ENCODING:
		return bad(r, 400, "Transfer-Encoding is malformed");
	default:
		return bad(r, 400, "the head is malformed");
	}
}

/* ---- the first line ---- */

/* llhttp accepts several blanks between the words, and HTTP/0.9 without a version; we do not. */
static enum http_head_result check_request_line(struct http_head_reader *r, const char *line)
{
	const char *end = strchr(line, '\r'), *a = memchr(line, ' ', (size_t)(end - line)), *b;

	b = a ? memchr(a + 1, ' ', (size_t)(end - a - 1)) : NULL;
	if (!b || a == line || b == a + 1 || memchr(b + 1, ' ', (size_t)(end - b - 1)))
		return bad(r, 400, "the request line is malformed");
	if (memchr(line, '\t', (size_t)(end - line)))
		return bad(r, 400, "the request line is malformed");
	if ((size_t)(b - a - 1) > r->limits->target_max)
		return bad(r, 414, "the request target is too long");
	b++;
	if (end - b < 8 || strncmp(b, "HTTP/", 5) != 0)
		return bad(r, 400, "the request line is malformed");
	if (end - b != 8 || (strncmp(b, "HTTP/1.1", 8) != 0 && strncmp(b, "HTTP/1.0", 8) != 0))
		return bad(r, 505, "only HTTP/1.1 and HTTP/1.0 are served");
	return HTTP_HEAD_MORE;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Requires HTTP/1.x, three digits, then a blank or nothing. */
static enum http_head_result check_status_line(struct http_head_reader *r, const char *line)
{
	if (strncmp(line, "HTTP/1.1 ", 9) != 0 && strncmp(line, "HTTP/1.0 ", 9) != 0)
		return bad(r, 502, "the answer is not HTTP/1.1 or HTTP/1.0");
	if (line[9] < '1' || line[9] > '9' || !is_digit(line[10]) || !is_digit(line[11]) ||
		(line[12] != ' ' && line[12] != '\r'))
		return bad(r, 502, "the status code is malformed");
	return HTTP_HEAD_MORE;
}

/* Refuses methods of RTSP, ICE and HTTP/2 that llhttp knows, and methods that no handler can
 * serve. */
static bool is_served_method(unsigned method)
{
	switch (method) {
	case HTTP_CONNECT:
	case HTTP_PRI:
	case HTTP_SOURCE:
		return false;
	default:
		return method < HTTP_PRI;
	}
}

/* The length of "http://" or "https://", or 0. */
static size_t scheme_len(const char *target)
{
	if (strncasecmp(target, "http://", 7) == 0)
		return 7;
	return strncasecmp(target, "https://", 8) == 0 ? 8 : 0;
}

/* Splits a copy of the target in `extra`; `target` itself stays whole. */
static enum http_head_result split_target(
	struct http_head_reader *r, struct http_head *h, char *extra)
{
	size_t scheme = scheme_len(h->target), authority = 0;
	const char *rest;
	char *question;

	if (strchr(h->target, '#'))
		return bad(r, 400, "the request target has a fragment");
	if (strcmp(h->target, "*") == 0 && strcmp(h->method, "OPTIONS") == 0) {
		h->path = "*";
		return HTTP_HEAD_DONE;
	}
	if (scheme) {
		authority = strcspn(h->target + scheme, "/?");
		memcpy(extra, h->target + scheme, authority);
		extra[authority] = '\0';
		if (!authority || !http_is_authority(extra))
			return bad(r, 400, "the host in the request target is malformed");
		h->host = extra; /* RFC 9112 3.2.2: it replaces the Host header */
		extra += authority + 1;
	} else if (h->target[0] != '/') {
		return bad(r, 400, "the request target is not a path");
	}
	rest = h->target + scheme + authority;
	h->path = extra;
	if (*rest != '/')
		*extra++ = '/';
	strcpy(extra, rest); /* parse_head reserved room for the whole first line */
	question = strchr(extra, '?');
	if (question) {
		*question = '\0';
		h->query = question + 1;
	}
	return HTTP_HEAD_DONE;
}

/* ---- what the fields mean together ---- */

static enum http_head_result check_host(struct http_head_reader *r, struct http_head *h)
{
	unsigned count = http_header_count(&h->headers, "host");

	if (count > 1 || (!count && h->minor))
		return bad(r, 400, "a request must have exactly one Host");
	if (!count)
		return HTTP_HEAD_DONE;
	if (!h->host)
		h->host = http_header_get(&h->headers, "host");
	if (!http_is_authority(http_header_get(&h->headers, "host")))
		return bad(r, 400, "Host is malformed");
	return HTTP_HEAD_DONE;
}

/* Accepts digits only, within int64. */
static bool parse_length(const char *s, int64_t *ret)
{
	int64_t v = 0;

	if (!*s)
		return false;
	for (; *s; s++) {
		if (!is_digit(*s) || v > (INT64_MAX - 9) / 10)
			return false;
		v = v * 10 + (*s - '0');
	}
	*ret = v;
	return true;
}

static enum http_head_result check_framing(struct http_head_reader *r, struct http_head *h)
{
	unsigned lengths = http_header_count(&h->headers, "content-length");
	unsigned codings = http_header_count(&h->headers, "transfer-encoding");

	h->content_length = HTTP_NO_LENGTH;
	if (lengths && codings)
		return bad(r, 400, "Content-Length and Transfer-Encoding exclude each other");
	if (lengths > 1)
		return bad(r, 400, "there is more than one Content-Length");
	if (lengths &&
		!parse_length(http_header_get(&h->headers, "content-length"), &h->content_length))
		return bad(r, 400, "Content-Length is malformed");
	if (codings && !h->minor)
		return bad(r, 400, "HTTP/1.0 has no Transfer-Encoding");
	if (codings > 1)
		return bad(r, 400, "there is more than one Transfer-Encoding");
	if (codings &&
		strcasecmp(http_header_get(&h->headers, "transfer-encoding"), "chunked") != 0)
		return bad(r, 501, "the only transfer coding served is chunked");
	h->chunked = codings == 1;
	return HTTP_HEAD_DONE;
}

static void read_connection(struct http_head *h)
{
	const struct http_headers *f = &h->headers;

	h->keep_alive = h->minor ? !http_header_has_token(f, "connection", "close")
				 : http_header_has_token(f, "connection", "keep-alive");
	if (h->minor && http_header_has_token(f, "connection", "upgrade"))
		h->upgrade = http_header_get(f, "upgrade");
	if (h->upgrade && !*h->upgrade)
		h->upgrade = NULL;
}

static enum http_head_result check_request(struct http_head_reader *r, struct http_head *h)
{
	const char *expect = http_header_get(&h->headers, "expect");

	if (check_host(r, h) == HTTP_HEAD_BAD)
		return HTTP_HEAD_BAD;
	if (expect && h->minor) {
		if (strcasecmp(expect, "100-continue") != 0)
			return bad(r, 417, "the expectation is not known");
		h->expect_continue = true;
	}
	h->has_body = h->chunked || h->content_length > 0;
	return HTTP_HEAD_DONE;
}

static enum http_head_result check_response(struct http_head_reader *r, struct http_head *h)
{
	bool no_body = h->status < 200 || h->status == 204 || h->status == 304;

	if (h->status == 101 && !h->upgrade)
		return bad(r, 502, "a 101 that does not say what it switches to");
	if (no_body && h->chunked)
		return bad(r, 502, "a body where none is allowed");
	h->until_eof = !no_body && !h->chunked && h->content_length < 0;
	h->has_body = !no_body && h->content_length != 0;
	return HTTP_HEAD_DONE;
}

/* ---- all of it ---- */

/* Runs llhttp over the head. Fills the table and what *h says about the first line. */
static enum http_head_result split_head(
	struct http_head_reader *r, struct split *s, struct http_head *h)
{
	llhttp_t p;
	llhttp_errno_t err;
	size_t n = buf_len(&r->text);

	llhttp_init(&p, r->role == HTTP_ROLE_SERVER ? HTTP_REQUEST : HTTP_RESPONSE, &settings);
	p.data = s;
	err = llhttp_execute(&p, s->base, n);
	if (s->full)
		return bad(r, 500, "out of memory");
	if (err != HPE_PAUSED)
		return bad_llhttp(r, err);
	if (llhttp_get_error_pos(&p) != s->base + n)
		return bad(r, 400, "the head is malformed");
	if (r->role == HTTP_ROLE_SERVER && !is_served_method(p.method))
		return bad(r, 501, "the method is not served");
	h->minor = p.http_minor;
	h->status = p.status_code;
	h->method = r->role == HTTP_ROLE_SERVER ? llhttp_method_name(p.method) : NULL;
	return HTTP_HEAD_DONE;
}

/* Checks what llhttp has been seen to accept. */
static enum http_head_result check_fields(struct http_head_reader *r, unsigned count)
{
	if (count > r->limits->headers_max)
		return bad(r, 431, "there are too many headers");
	for (unsigned i = 0; i < count; i++)
		if (!http_is_token(r->items[i].name, r->items[i].name_len))
			return bad(r, 400, "a header has a malformed name");
	return HTTP_HEAD_DONE;
}

static enum http_head_result parse_head(struct http_head_reader *r, struct http_head *h)
{
	bool server = r->role == HTTP_ROLE_SERVER;
	struct split s = {.r = r};
	size_t first;
	char *extra;

	*h = (struct http_head){0};
	first = (size_t)((uint8_t *)memchr(buf_head(&r->text), '\n', buf_len(&r->text)) -
			 buf_head(&r->text));
	/* Reserve before taking pointers into the text: it must not move afterwards. */
	extra = (char *)buf_reserve(&r->text, first + 8);
	if (!extra)
		return bad(r, 500, "out of memory");
	s.base = (const char *)buf_head(&r->text);
	if ((server ? check_request_line(r, s.base) : check_status_line(r, s.base)) ==
			HTTP_HEAD_BAD ||
		split_head(r, &s, h) == HTTP_HEAD_BAD || check_fields(r, s.count) == HTTP_HEAD_BAD)
		return HTTP_HEAD_BAD;
	terminate_fields(r, s.count);
	h->headers = (struct http_headers){.items = r->items, .count = s.count};
	if (server) {
		h->target = s.base + s.target;
		((char *)h->target)[s.target_len] = '\0';
		if (split_target(r, h, extra) == HTTP_HEAD_BAD)
			return HTTP_HEAD_BAD;
	} else {
		h->reason = s.reason_len ? s.base + s.reason : "";
		((char *)s.base)[s.reason_len ? s.reason + s.reason_len : first] = '\0';
	}
	read_connection(h);
	if (check_framing(r, h) == HTTP_HEAD_BAD)
		return HTTP_HEAD_BAD;
	return server ? check_request(r, h) : check_response(r, h);
}

enum http_head_result http_head_feed(struct http_head_reader *r, const uint8_t *data, size_t n,
	size_t *consumed, struct http_head *ret)
{
	enum http_head_result result = gather_lines(r, data, n, consumed);

	return result == HTTP_HEAD_DONE ? parse_head(r, ret) : result;
}
