#include "api/event_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "http/reply.h"
#include "proto/base64.h"
#include "proto/json_text.h"

enum { EVENT_MAX = 512 * 1024 }; /* of one: a frame of the agent, escaped */

void event_stream_begin(struct request *r, const struct http_field *fields, size_t count)
{
	struct http_field all[1 + EVENT_STREAM_FIELDS_MAX] = {{"Cache-Control", "no-cache"}};

	if (count)
		memcpy(all + 1, fields, count * sizeof(*fields));
	reply_stream(r, "text/event-stream", all, 1 + count);
}

static int send_event(struct request *r, const char *name, const void *data, size_t n)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(EVENT_MAX);
	int e = buf_printf(&b, "event: %s\ndata: ", name);

	if (e == 0)
		e = buf_add(&b, data, n);
	if (e == 0)
		e = buf_add_str(&b, "\n\n");
	return e == 0 ? request_write(r, buf_head(&b), buf_len(&b)) : e;
}

int event_stream_json(struct request *r, const char *name, json_t *data)
{
	_cleanup_free_ char *text = data ? json_dumps(data, JSON_COMPACT) : NULL;

	json_decref(data);
	return text ? send_event(r, name, text, strlen(text)) : -ENOMEM;
}

/* Returns the number of bytes without an incomplete character at the end. */
static size_t whole_characters(const uint8_t *s, size_t n)
{
	size_t tail = 0;

	while (tail < 3 && tail < n && (s[n - 1 - tail] & 0xc0) == 0x80)
		tail++;
	if (tail == n)
		return n;
	if (s[n - 1 - tail] >= 0xf0)
		return tail < 3 ? n - 1 - tail : n;
	if (s[n - 1 - tail] >= 0xe0)
		return tail < 2 ? n - 1 - tail : n;
	if (s[n - 1 - tail] >= 0xc0)
		return tail < 1 ? n - 1 - tail : n;
	return n;
}

static int add_base64(struct buf *b, const void *data, size_t n)
{
	size_t len = base64_encoded_len(n);
	char *p;
	int e = buf_add_str(b, "{\"base64\":\"");

	if (e < 0)
		return e;
	p = (char *)buf_reserve(b, len);
	if (!p)
		return -ENOMEM;
	base64_encode(p, data, n);
	buf_commit(b, len);
	return buf_add_str(b, "\"}");
}

static int add_text(struct buf *b, const char *s, size_t n)
{
	int e;

	if (!json_text_is_utf8(s, n))
		return add_base64(b, s, n);
	e = buf_add_str(b, "{\"text\":");
	if (e == 0)
		e = json_text_string(b, s, n, JSON_TEXT_UTF8);
	return e == 0 ? buf_add_str(b, "}") : e;
}

int event_stream_text(struct request *r, const char *name, struct buf *have, bool all)
{
	size_t n = all ? buf_len(have) : whole_characters(buf_head(have), buf_len(have));
	_cleanup_(buf_done) struct buf b = BUF_INIT(EVENT_MAX);
	int e;

	if (n == 0)
		return 0;
	e = add_text(&b, (const char *)buf_head(have), n);
	buf_consume(have, n);
	return e < 0 ? e : send_event(r, name, buf_head(&b), buf_len(&b));
}

void event_stream_keep(struct request *r)
{
	if (request_room(r))
		(void)request_write(r, ":\n\n", 3);
}
