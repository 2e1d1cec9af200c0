#include "proto/http_body.h"

#include <stdbool.h>

#include "base/str.h"
#include "proto/http_message.h"

void http_body_init(struct http_body *b, enum http_framing framing, uint64_t length,
	const struct http_limits *limits)
{
	bool chunked = framing == HTTP_FRAMING_CHUNKED;

	*b = (struct http_body){
		.framing = framing,
		.limits = limits,
		.state = chunked ? HTTP_BODY_STATE_SIZE : HTTP_BODY_STATE_DATA,
		.left = framing == HTTP_FRAMING_FIXED ? length : 0,
		.max = limits->body_max,
	};
}

static enum http_body_event bad(struct http_body *b, unsigned status, const char *reason)
{
	b->state = HTTP_BODY_STATE_BAD;
	b->status = status;
	b->reason = reason;
	return HTTP_BODY_BAD;
}

static bool is_control(uint8_t c)
{
	return (c < 0x20 && c != '\t') || c == 0x7f;
}

/* The line with the chunk's size is complete. */
static enum http_body_event begin_chunk(struct http_body *b)
{
	if (b->left > b->max - b->total)
		return bad(b, 413, "the body is larger than allowed");
	b->state = b->left ? HTTP_BODY_STATE_DATA : HTTP_BODY_STATE_TRAILER;
	return HTTP_BODY_MORE;
}

static enum http_body_event size_byte(struct http_body *b, uint8_t c)
{
	int digit = str_hex_digit(c);

	if (digit >= 0) {
		/* 15 digits stay below 2^60, so no sum overflows */
		if (++b->digits > 15)
			return bad(b, 400, "the chunk size has too many digits");
		b->left = b->left * 16 + (uint64_t)digit;
		return HTTP_BODY_MORE;
	}
	if (!b->digits)
		return bad(b, 400, "a chunk does not begin with its size");
	if (c == '\r')
		b->state = HTTP_BODY_STATE_SIZE_LF;
	else if (c == ';')
		b->state = HTTP_BODY_STATE_EXTENSION;
	else
		return bad(b, 400, "the chunk size is malformed");
	return HTTP_BODY_MORE;
}

static enum http_body_event extension_byte(struct http_body *b, uint8_t c)
{
	if (c == '\r')
		b->state = HTTP_BODY_STATE_SIZE_LF;
	else if (is_control(c))
		return bad(b, 400, "a chunk extension holds a control character");
	else if (++b->extensions > b->limits->extensions_max)
		return bad(b, 400, "the chunk extensions are too long");
	return HTTP_BODY_MORE;
}

static enum http_body_event trailer_byte(struct http_body *b, uint8_t c)
{
	if (++b->trailer > b->limits->trailer_max)
		return bad(b, 431, "the trailer section is too large");
	switch (b->state) {
	case HTTP_BODY_STATE_TRAILER:
		if (c == '\r') {
			b->state = HTTP_BODY_STATE_LAST_LF;
			return HTTP_BODY_MORE;
		}
		b->state = HTTP_BODY_STATE_TRAILER_NAME;
		if (!http_is_token_char(c))
			return bad(b, 400, "a trailer has a malformed name");
		return HTTP_BODY_MORE;
	case HTTP_BODY_STATE_TRAILER_NAME:
		if (c == ':')
			b->state = HTTP_BODY_STATE_TRAILER_VALUE;
		else if (!http_is_token_char(c))
			return bad(b, 400, "a trailer has a malformed name");
		return HTTP_BODY_MORE;
	default:
		if (c == '\r')
			b->state = HTTP_BODY_STATE_TRAILER_LF;
		else if (is_control(c))
			return bad(b, 400, "a trailer holds a control character");
		return HTTP_BODY_MORE;
	}
}

/* Handles one byte of framing, in any state but DATA. */
static enum http_body_event framing_byte(struct http_body *b, uint8_t c)
{
	switch (b->state) {
	case HTTP_BODY_STATE_SIZE:
	case HTTP_BODY_STATE_EXTENSION:
		if (++b->line > b->limits->chunk_line_max)
			return bad(b, 400, "a chunk-size line is too long");
		return b->state == HTTP_BODY_STATE_SIZE ? size_byte(b, c) : extension_byte(b, c);
	case HTTP_BODY_STATE_SIZE_LF:
		return c == '\n' ? begin_chunk(b) : bad(b, 400, "CR without LF in a chunk");
	case HTTP_BODY_STATE_DATA_CR:
		b->state = HTTP_BODY_STATE_DATA_LF;
		return c == '\r' ? HTTP_BODY_MORE : bad(b, 400, "a chunk is longer than its size");
	case HTTP_BODY_STATE_DATA_LF:
		b->state = HTTP_BODY_STATE_SIZE;
		b->line = b->digits = 0;
		return c == '\n' ? HTTP_BODY_MORE : bad(b, 400, "CR without LF in a chunk");
	case HTTP_BODY_STATE_TRAILER_LF:
		b->state = HTTP_BODY_STATE_TRAILER;
		b->trailer++;
		return c == '\n' ? HTTP_BODY_MORE : bad(b, 400, "CR without LF in a trailer");
	case HTTP_BODY_STATE_LAST_LF:
		b->state = HTTP_BODY_STATE_DONE;
		return c == '\n' ? HTTP_BODY_END : bad(b, 400, "CR without LF in a trailer");
	default:
		return trailer_byte(b, c);
	}
}

/* Takes as much data as there is; n is not 0. */
static enum http_body_event take_data(struct http_body *b, size_t n, size_t *ret_n)
{
	if (b->framing == HTTP_FRAMING_UNTIL_EOF) {
		if (n > b->max - b->total)
			return bad(b, 413, "the body is larger than allowed");
		b->total += n;
		*ret_n = n;
		return HTTP_BODY_DATA;
	}
	if (n > b->left)
		n = (size_t)b->left;
	b->left -= n;
	b->total += n;
	if (!b->left && b->framing == HTTP_FRAMING_CHUNKED)
		b->state = HTTP_BODY_STATE_DATA_CR;
	*ret_n = n;
	return HTTP_BODY_DATA;
}

enum http_body_event http_body_next(struct http_body *b, const uint8_t *data, size_t n,
	size_t *consumed, const uint8_t **ret_data, size_t *ret_n)
{
	enum http_body_event event;
	size_t i = 0;

	*consumed = 0;
	if (b->state == HTTP_BODY_STATE_BAD)
		return HTTP_BODY_BAD;
	if (b->framing == HTTP_FRAMING_FIXED && b->total + b->left > b->max)
		return bad(b, 413, "the body is larger than allowed");
	for (;;) {
		if (b->state == HTTP_BODY_STATE_DONE || b->framing == HTTP_FRAMING_NONE ||
			(b->framing == HTTP_FRAMING_FIXED && !b->left)) {
			*consumed = i;
			return HTTP_BODY_END;
		}
		if (i == n) {
			*consumed = n;
			return HTTP_BODY_MORE;
		}
		if (b->state == HTTP_BODY_STATE_DATA) {
			*ret_data = data + i;
			event = take_data(b, n - i, ret_n);
			*consumed = event == HTTP_BODY_DATA ? i + *ret_n : i;
			return event;
		}
		/* `left` is the size while it is read, so a new line resets it. */
		if (b->state == HTTP_BODY_STATE_SIZE && !b->digits)
			b->left = 0;
		event = framing_byte(b, data[i++]);
		if (event == HTTP_BODY_BAD) {
			*consumed = i;
			return event;
		}
	}
}
