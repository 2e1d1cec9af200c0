#include "proto/http_proxy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "proto/http_response.h"

static bool is_one_of(const char *name, const char *const *list)
{
	for (; list && *list; list++)
		if (strcasecmp(name, *list) == 0)
			return true;
	return false;
}

int http_proxy_mask(const char *mask, unsigned port, char out[HTTP_MASK_MAX])
{
	static const char hole[] = "${PORT}";
	char digits[12];
	size_t n = 0, part;

	(void)snprintf(digits, sizeof(digits), "%u", port); /* fits */
	for (const char *p = mask; *p; n += part) {
		bool found = strncmp(p, hole, strlen(hole)) == 0;

		part = found ? strlen(digits) : 1;
		if (n + part >= HTTP_MASK_MAX)
			return -EINVAL;
		memcpy(out + n, found ? digits : p, part);
		p += found ? strlen(hole) : 1;
	}
	out[n] = '\0';
	return n && http_is_authority(out) ? 0 : -EINVAL;
}

bool http_proxy_is_hop(const struct http_headers *h, const char *name)
{
	static const char *const hops[] = {"connection", "keep-alive", "te", "trailer",
		"transfer-encoding", "upgrade", "content-length", "proxy-connection",
		"proxy-authenticate", "proxy-authorization", NULL};

	return is_one_of(name, hops) || http_header_has_token(h, "connection", name);
}

bool http_proxy_passes_upgrade(const struct http_head *head)
{
	const char *p = head->upgrade, *item;
	size_t n;

	while (p && http_list_next(&p, &item, &n))
		if (n >= 3 && strncasecmp(item, "h2c", 3) == 0)
			return false;
	return head->upgrade != NULL;
}

/* Copies all but the hop-by-hop headers; `drop` and `more` are further names to leave out. */
static void copy_headers(struct http_writer *w, const struct http_headers *h,
	const char *const *drop, const char *const *more)
{
	for (unsigned i = 0; i < h->count; i++) {
		const struct http_header *f = &h->items[i];

		if (!http_proxy_is_hop(h, f->name) && !is_one_of(f->name, drop) &&
			!is_one_of(f->name, more))
			http_writer_header_n(w, f->name, f->value, f->value_len);
	}
}

static void write_framing(struct http_writer *w, const struct http_head *head)
{
	if (head->chunked)
		http_writer_header(w, "Transfer-Encoding", "chunked");
	else if (head->content_length >= 0)
		http_writer_header_u64(w, "Content-Length", (uint64_t)head->content_length);
}

static void write_upgrade(struct http_writer *w, const struct http_head *head)
{
	http_writer_header(w, "Connection", "Upgrade");
	http_writer_header(w, "Upgrade", head->upgrade);
}

/* Appends the client's address to those that a trusted proxy reported. */
static void write_forwarded_for(
	struct http_writer *w, const struct http_head *head, const struct http_forward *f)
{
	const struct http_header *before;
	unsigned i = 0;

	while (f->trust_forwarded &&
		(before = http_header_each(&head->headers, "x-forwarded-for", &i)))
		http_writer_header_n(w, "X-Forwarded-For", before->value, before->value_len);
	if (f->client)
		http_writer_header(w, "X-Forwarded-For", f->client);
}

static void write_forwarded(
	struct http_writer *w, const struct http_head *head, const struct http_forward *f)
{
	const char *proto = http_header_get(&head->headers, "x-forwarded-proto");
	const char *host = http_header_get(&head->headers, "x-forwarded-host");

	write_forwarded_for(w, head, f);
	if (f->trust_forwarded && proto)
		http_writer_header(w, "X-Forwarded-Proto", proto);
	else if (f->scheme)
		http_writer_header(w, "X-Forwarded-Proto", f->scheme);
	if (f->trust_forwarded && host)
		http_writer_header(w, "X-Forwarded-Host", host);
	else if (head->host)
		http_writer_header(w, "X-Forwarded-Host", head->host);
}

/* Writes path and query as the client sent them, without scheme and host of an absolute target. */
static int write_target(struct buf *target, const struct http_head *head)
{
	int r = buf_add_str(target, head->path);

	if (!r && head->query) {
		r = buf_add_u8(target, '?');
		if (!r)
			r = buf_add_str(target, head->query);
	}
	return r ? r : buf_add_u8(target, 0);
}

int http_proxy_request(struct buf *out, const struct http_head *head, const struct http_forward *f)
{
	static const char *const own[] = {"host", "expect", "x-forwarded-for", "x-forwarded-proto",
		"x-forwarded-host", "forwarded", "http2-settings", NULL};
	struct buf target =
		BUF_INIT(strlen(head->path) + (head->query ? strlen(head->query) : 0) + 2);
	struct http_writer w;
	const char *host = f->host ? f->host : head->host;
	int r = write_target(&target, head);

	if (r < 0) {
		buf_done(&target);
		return r;
	}
	w = http_writer_request(out, head->method, (const char *)buf_head(&target));
	buf_done(&target);
	http_writer_header(&w, "Host", host ? host : "");
	copy_headers(&w, &head->headers, f->drop, own);
	write_framing(&w, head);
	if (http_proxy_passes_upgrade(head))
		write_upgrade(&w, head);
	write_forwarded(&w, head, f);
	return http_writer_finish(&w);
}

/* Decides the framing. Returns true when the connection must close after the body, as nothing else
 * marks the body's end. */
static bool plan_response(
	const struct http_head *head, const struct http_backward *b, bool *ret_chunked)
{
	bool unknown = head->has_body && head->content_length < 0;

	*ret_chunked = unknown && b->client_minor && !b->client_head;
	return b->close || (unknown && !b->client_minor && !b->client_head);
}

int http_proxy_response(struct buf *out, const struct http_head *head,
	const struct http_backward *b, bool *ret_chunked, bool *ret_close)
{
	struct http_writer w = http_writer_status_line(out, head->status);
	bool final = head->status >= 200;

	*ret_close = plan_response(head, b, ret_chunked);
	copy_headers(&w, &head->headers, b->drop, NULL);
	if (final && !http_header_get(&head->headers, "date"))
		http_writer_date(&w);
	if (head->status == 101 && head->upgrade)
		write_upgrade(&w, head);
	else if (*ret_chunked)
		http_writer_header(&w, "Transfer-Encoding", "chunked");
	else if (final && head->status != 204 && head->content_length >= 0)
		http_writer_header_u64(&w, "Content-Length", (uint64_t)head->content_length);
	if (final && *ret_close)
		http_writer_header(&w, "Connection", "close");
	else if (final && !b->client_minor)
		http_writer_header(&w, "Connection", "keep-alive");
	return http_writer_finish(&w);
}
