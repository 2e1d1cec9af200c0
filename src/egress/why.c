#include "egress/why.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/http.h"
#include "proto/http_response.h"

struct why {
	struct http_parser *parser;
	const char *denial; /* or NULL */
	bool done;
};

struct why *why_new(const char *denial)
{
	static const struct http_limits limits = {.head_max = 4096,
		.headers_max = 32,
		.target_max = 256,
		.chunk_line_max = 16,
		.extensions_max = 16,
		.trailer_max = 16};
	struct why *w = calloc(1, sizeof(*w));

	if (w)
		w->parser = http_parser_new(HTTP_ROLE_SERVER, &limits);
	if (w && !w->parser) {
		free(w);
		w = NULL;
	}
	if (w)
		w->denial = denial;
	return w;
}

void why_free(struct why *w)
{
	if (!w)
		return;
	http_parser_free(w->parser);
	free(w);
}

static void reply(
	struct buf *out, unsigned status, const char *type, const struct buf *body, bool head_only)
{
	static const struct http_field fields[] = {
		{"Cache-Control", "no-store"}, {"Allow", "GET, HEAD"}};
	const struct http_reply r = {.status = status,
		.content_type = type,
		.fields = fields,
		.field_count = status == 405 ? 2 : 1,
		.body = buf_head(body),
		.len = buf_len(body),
		.head_only = head_only,
		.close = true};

	if (http_reply(out, &r) < 0)
		buf_clear(out);
}

static void refuse(struct buf *out, unsigned status, const char *why)
{
	struct buf body = BUF_INIT(512);

	if (buf_printf(&body, "%s\n", why) == 0)
		reply(out, status, "text/plain; charset=utf-8", &body, false);
	buf_done(&body);
}

/* Whether one element of Accept is this type. Weights are ignored: a client that names both types
 * gets JSON. */
static bool accepts_json(const struct http_headers *h)
{
	return http_header_has_token(h, "Accept", "application/json");
}

static bool is_for_us(const char *host)
{
	size_t n = strlen(WHY_NAME);

	return host && strncasecmp(host, WHY_NAME, n) == 0 &&
	       (host[n] == '\0' || strcmp(host + n, ":80") == 0);
}

static void answer(const struct http_head *h, const struct denials *d, struct buf *out)
{
	bool json = accepts_json(&h->headers), head_only = strcmp(h->method, "HEAD") == 0;
	struct buf body = BUF_INIT(DENIALS_TEXT_MAX);
	int r;

	if (json) {
		r = buf_add_str(&body, "{\"denied\":");
		r = r ? r : denials_json(d, &body);
		r = r ? r : buf_add_str(&body, "}\n");
	} else {
		r = denials_text(d, &body);
	}
	if (r == 0)
		reply(out, 200, json ? "application/json" : "text/plain; charset=utf-8", &body,
			head_only);
	buf_done(&body);
}

static void judge(const struct http_head *h, const struct denials *d, struct buf *out)
{
	if (!is_for_us(h->host))
		refuse(out, 421, "this host is " WHY_NAME);
	else if (h->has_body)
		refuse(out, 400, "a body is not taken");
	else if (strcmp(h->path, "/why") != 0)
		refuse(out, 404, "ask for http://" WHY_NAME "/why: what the policy denied last");
	else if (strcmp(h->method, "GET") != 0 && strcmp(h->method, "HEAD") != 0)
		refuse(out, 405, "only GET and HEAD");
	else
		answer(h, d, out);
}

bool why_take(struct why *w, const struct denials *d, const void *data, size_t n, struct buf *out)
{
	size_t used;

	if (w->done)
		return true;
	switch (http_parser_next(w->parser, data, n, &used)) {
	case HTTP_MORE:
		return false;
	case HTTP_HEAD:
		if (w->denial)
			refuse(out, 403, w->denial);
		else
			judge(http_parser_head(w->parser), d, out);
		break;
	default:
		refuse(out, http_parser_status(w->parser), http_parser_reason(w->parser));
		break;
	}
	w->done = true;
	return true;
}
