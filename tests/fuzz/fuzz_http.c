/* HTTP requests and responses from arbitrary bytes, fed whole and in pieces: both ways must tell
 * the same story, and whatever a parsed head is turned into must be safe to send on. The first
 * byte chooses the role and the size of the pieces. */
#include "fuzz.h"

#include "proto/http.h"
#include "proto/http_body.h"
#include "proto/http_proxy.h"
#include "proto/http_response.h"
#include "proto/route.h"
#include "proto/uri.h"

/* Our own output must be readable by our own parser, and say the same. */
static void read_back(enum http_role role, const struct buf *b, const struct http_head *want)
{
	struct http_parser *p = http_parser_new(role, NULL);
	const struct http_head *h = http_parser_head(p);
	size_t used;
	enum http_event event = http_parser_next(p, buf_head(b), buf_len(b), &used);

	if (want->status && want->status < 200 && want->status != 101)
		check(event == HTTP_INTERIM);
	else
		check(event == HTTP_HEAD);
	check(used == buf_len(b));
	if (role == HTTP_ROLE_SERVER) {
		check(strcmp(h->method, want->method) == 0 && strcmp(h->path, want->path) == 0);
		check(!h->query == !want->query);
		check(!h->query || strcmp(h->query, want->query) == 0);
		check(h->chunked == want->chunked && h->content_length == want->content_length);
	} else {
		check(h->status == want->status);
	}
	http_parser_free(p);
}

static void use_request(const struct http_head *h)
{
	const struct http_forward f = {.client = "::1", .scheme = "http", .trust_forwarded = true};
	struct buf b = BUF_INIT(1 << 20);
	struct uri_path path;
	struct uri_filter filter;
	struct template_ref ref;
	struct route route;
	const char *reason;
	char *text;

	route_classify(h, NULL, &route);
	check(route.kind != ROUTE_BAD || route.reason);
	if (uri_path_parse(h->path, &path) == 0)
		for (unsigned i = 0; i < path.count; i++)
			(void)template_ref_parse(path.segments[i], &ref, &reason);
	if (uri_query_dup(h->query, "metadata", &text) == 0) {
		(void)uri_filter_parse(text, &filter);
		free(text);
	}
	/* Only an empty Host of HTTP/1.0 and the buffer could stand in the way. */
	check(http_proxy_request(&b, h, &f) == 0);
	read_back(HTTP_ROLE_SERVER, &b, h);
	buf_done(&b);
}

static void use_response(const struct http_head *h)
{
	struct http_backward back = {.client_minor = 1};
	struct buf b = BUF_INIT(1 << 20);
	bool chunked, close;

	check(http_proxy_response(&b, h, &back, &chunked, &close) == 0);
	read_back(HTTP_ROLE_CLIENT, &b, h);
	buf_done(&b);
}

static void use_headers(const struct http_head *h)
{
	char out[32];

	for (unsigned i = 0; i < h->headers.count; i++) {
		const struct http_header *f = &h->headers.items[i];
		const char *p = f->value, *item;
		uint64_t offset, len;
		time_t t;
		size_t n;

		check(strlen(f->name) == f->name_len && http_is_token(f->name, f->name_len));
		check(strlen(f->value) == f->value_len);
		check(http_is_field_value(f->value, f->value_len));
		while (http_list_next(&p, &item, &n))
			check(n > 0);
		(void)http_parameter(f->value, "boundary", out, sizeof(out));
		(void)http_range(f->value, 1000, &offset, &len);
		(void)http_date_parse(f->value, &t);
	}
	check(http_encoding_weight(&h->headers, "gzip") <= 1000);
}

/* What happened, for comparison: events, and the bytes of bodies. */
static bool feed(struct http_parser *p, const uint8_t *data, size_t n, struct buf *story, bool use)
{
	enum http_event event;
	size_t used, len;
	const uint8_t *body;

	while ((event = http_parser_next(p, data, n, &used)) != HTTP_MORE) {
		check(used <= n && event != HTTP_REST);
		data += used;
		n -= used;
		switch (event) {
		case HTTP_BODY:
			body = http_parser_body(p, &len);
			check(len > 0);
			(void)buf_add(story, body, len);
			continue;
		case HTTP_HEAD:
		case HTTP_INTERIM:
			if (use && http_parser_head(p)->method)
				use_request(http_parser_head(p));
			else if (use)
				use_response(http_parser_head(p));
			if (use)
				use_headers(http_parser_head(p));
			(void)buf_printf(story, "<%d %u %u>", event, http_parser_head(p)->status,
				http_parser_head(p)->headers.count);
			continue;
		case HTTP_ERROR:
			check(http_parser_status(p) >= 400 && http_parser_reason(p)[0]);
			(void)buf_printf(story, "<error>");
			return false;
		default:
			(void)buf_printf(story, "<%d>", event);
			http_parser_continue(p);
		}
	}
	check(used == n);
	return true;
}

static void run(
	enum http_role role, const uint8_t *data, size_t size, size_t piece, struct buf *story)
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	struct http_parser *p;
	bool alive = true;

	limits.head_max = 512;
	limits.headers_max = 10;
	limits.target_max = 64;
	limits.trailer_max = 32;
	limits.extensions_max = 32;
	limits.body_max = 1 << 20;
	p = http_parser_new(role, &limits);
	for (size_t at = 0; at < size && alive; at += piece)
		alive = feed(p, data + at, size - at < piece ? size - at : piece, story,
			piece == SIZE_MAX / 2);
	if (alive)
		(void)buf_printf(story, "<eof %d>", http_parser_eof(p));
	http_parser_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole = BUF_INIT(1 << 20), pieces = BUF_INIT(1 << 20);
	enum http_role role;

	if (size < 1)
		return 0;
	role = data[0] & 1 ? HTTP_ROLE_CLIENT : HTTP_ROLE_SERVER;
	run(role, data + 1, size - 1, SIZE_MAX / 2, &whole);
	run(role, data + 1, size - 1, 1 + (data[0] >> 1) % 16, &pieces);
	check(same(&whole, &pieces));
	buf_done(&whole);
	buf_done(&pieces);
	return 0;
}
