#include "intercept/frames.h"

#include <string.h>
#include <strings.h>

static bool begins(const char *type, const char *with)
{
	return strncasecmp(type, with, strlen(with)) == 0;
}

/* grpc-web-text is base64, which is one text. */
enum frames_kind frames_of(unsigned status, const struct http_headers *headers)
{
	const char *type = http_header_get(headers, "content-type");

	if (status == 101)
		return FRAMES_WEBSOCKET;
	if (!type || begins(type, "application/grpc-web-text"))
		return FRAMES_NONE;
	return begins(type, "application/grpc") || begins(type, "application/connect+")
		       ? FRAMES_LENGTHS
		       : FRAMES_NONE;
}

/* Whether a message may begin so. A websocket without extensions has no reserved bits; of flags
 * there are "compressed", the end of Connect, and the trailers of grpc-web. */
static bool may_begin(const struct frames *f, uint8_t first)
{
	if (f->kind == FRAMES_WEBSOCKET)
		return !(first & 0x70) && (first & 7) < 3;
	return first <= 3 || first == 0x80 || first == 0x81;
}

static unsigned head_bytes(const struct frames *f)
{
	unsigned length = f->head[1] & 0x7f;

	if (f->kind == FRAMES_LENGTHS)
		return 5;
	if (f->have < 2)
		return 2;
	return 2 + (length == 126 ? 2 : length == 127 ? 8 : 0) + (f->head[1] & 0x80 ? 4 : 0);
}

static uint64_t number(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | *p++;
	return v;
}

static uint64_t length_of(const struct frames *f)
{
	unsigned length = f->head[1] & 0x7f;

	if (f->kind == FRAMES_LENGTHS)
		return number(f->head + 1, 4);
	return length < 126 ? length : number(f->head + 2, length == 126 ? 2 : 8);
}

static enum frames_part take_head(struct frames *f, uint8_t byte)
{
	f->head[f->have++] = byte;
	if (f->kind == FRAMES_LENGTHS && f->head[0] & 1)
		return FRAMES_CODED;
	if (f->have == head_bytes(f)) {
		f->left = length_of(f);
		f->have = 0;
	}
	return FRAMES_HEAD;
}

size_t frames_next(struct frames *f, const uint8_t *p, size_t n, enum frames_part *ret)
{
	if (!f->left && !f->have && f->kind && !may_begin(f, *p))
		f->kind = FRAMES_NONE;
	if (f->kind && !f->left) {
		*ret = take_head(f, *p);
		return 1;
	}
	*ret = FRAMES_BODY;
	if (!f->kind)
		return n;
	n = n < f->left ? n : (size_t)f->left;
	f->left -= n;
	if (!f->left)
		*ret = FRAMES_BODY_END;
	return n;
}
