#include "proto/connect.h"

#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/base64.h"
#include "proto/http_headers.h"

/* ---- codes ---- */

static const struct {
	const char *name;
	unsigned http_status;
} codes[CONNECT_CODES] = {
	[CONNECT_OK] = {"", 200},
	[CONNECT_CANCELED] = {"canceled", 499},
	[CONNECT_UNKNOWN] = {"unknown", 500},
	[CONNECT_INVALID_ARGUMENT] = {"invalid_argument", 400},
	[CONNECT_DEADLINE_EXCEEDED] = {"deadline_exceeded", 504},
	[CONNECT_NOT_FOUND] = {"not_found", 404},
	[CONNECT_ALREADY_EXISTS] = {"already_exists", 409},
	[CONNECT_PERMISSION_DENIED] = {"permission_denied", 403},
	[CONNECT_RESOURCE_EXHAUSTED] = {"resource_exhausted", 429},
	[CONNECT_FAILED_PRECONDITION] = {"failed_precondition", 400},
	[CONNECT_ABORTED] = {"aborted", 409},
	[CONNECT_OUT_OF_RANGE] = {"out_of_range", 400},
	[CONNECT_UNIMPLEMENTED] = {"unimplemented", 501},
	[CONNECT_INTERNAL] = {"internal", 500},
	[CONNECT_UNAVAILABLE] = {"unavailable", 503},
	[CONNECT_DATA_LOSS] = {"data_loss", 500},
	[CONNECT_UNAUTHENTICATED] = {"unauthenticated", 401},
};

const char *connect_code_name(enum connect_code code)
{
	return code < CONNECT_CODES ? codes[code].name : codes[CONNECT_UNKNOWN].name;
}

unsigned connect_code_http_status(enum connect_code code)
{
	return code < CONNECT_CODES ? codes[code].http_status : codes[CONNECT_UNKNOWN].http_status;
}

/* ---- reading envelopes ---- */

void connect_decoder_init(struct connect_decoder *d, size_t max, bool response)
{
	*d = (struct connect_decoder){.response = response};
	d->message_max = max ? max : CONNECT_MESSAGE_DEFAULT;
	if (d->message_max > CONNECT_MESSAGE_HARD_MAX)
		d->message_max = CONNECT_MESSAGE_HARD_MAX;
	buf_init(&d->buffer, d->message_max);
}

void connect_decoder_done(struct connect_decoder *d)
{
	buf_done(&d->buffer);
}

static enum connect_event fail(
	struct connect_decoder *d, enum connect_code code, const char *reason)
{
	d->state = CONNECT_STATE_BROKEN;
	d->error = code;
	d->reason = reason;
	return CONNECT_EVENT_ERROR;
}

/* Checks the five header bytes. MORE: the payload follows. */
static enum connect_event check_header(struct connect_decoder *d)
{
	uint8_t flags = d->header[0];
	uint32_t length;

	memcpy(&length, d->header + 1, sizeof(length));
	d->length = be32toh(length);
	if (flags & CONNECT_COMPRESSED)
		return fail(d, CONNECT_UNIMPLEMENTED, "compressed messages are not supported");
	if (flags & ~CONNECT_END || (flags && !d->response))
		return fail(d, CONNECT_INVALID_ARGUMENT, "the envelope has unknown flags");
	if (d->length > d->message_max)
		return fail(d, CONNECT_RESOURCE_EXHAUSTED, "the message is larger than allowed");
	d->state = CONNECT_STATE_PAYLOAD;
	return CONNECT_EVENT_MORE;
}

static enum connect_event got_message(struct connect_decoder *d, const uint8_t *message)
{
	bool end = d->header[0] & CONNECT_END;

	d->message = message;
	d->header_len = 0;
	d->state = end ? CONNECT_STATE_ENDED : CONNECT_STATE_HEADER;
	return end ? CONNECT_EVENT_END : CONNECT_EVENT_MESSAGE;
}

static enum connect_event take_payload(
	struct connect_decoder *d, const uint8_t *data, size_t n, size_t *ret_taken)
{
	size_t have = buf_len(&d->buffer), want = d->length - have;

	*ret_taken = n < want ? n : want;
	if (!have && n >= want)
		return got_message(d, data); /* in one piece: no copy */
	if (buf_add(&d->buffer, data, *ret_taken) < 0)
		return fail(d, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
	return n >= want ? got_message(d, buf_head(&d->buffer)) : CONNECT_EVENT_MORE;
}

static size_t take_header(struct connect_decoder *d, const uint8_t *data, size_t n)
{
	size_t want = CONNECT_ENVELOPE_BYTES - d->header_len;

	if (n > want)
		n = want;
	memcpy(d->header + d->header_len, data, n);
	d->header_len += n;
	return n;
}

/* Large messages are rare: frees such a message's memory before the next one. */
static void forget_message(struct connect_decoder *d)
{
	enum { KEEP = 64 * 1024 };

	if (d->buffer.capacity > KEEP)
		buf_done(&d->buffer);
	else
		buf_clear(&d->buffer);
}

enum connect_event connect_decoder_next(
	struct connect_decoder *d, const void *data, size_t n, size_t *consumed)
{
	const uint8_t *p = data;
	enum connect_event event = CONNECT_EVENT_MORE;
	size_t i = 0, taken;

	*consumed = 0;
	if (d->state == CONNECT_STATE_BROKEN)
		return CONNECT_EVENT_ERROR;
	if (d->state == CONNECT_STATE_ENDED)
		return n ? fail(d, CONNECT_INVALID_ARGUMENT, "data behind the end of the stream")
			 : CONNECT_EVENT_MORE;
	if (d->state == CONNECT_STATE_HEADER && !d->header_len)
		forget_message(d);
	if (d->state == CONNECT_STATE_HEADER && n) {
		i = take_header(d, p, n);
		if (d->header_len == CONNECT_ENVELOPE_BYTES)
			event = check_header(d);
	}
	if (event == CONNECT_EVENT_MORE && d->state == CONNECT_STATE_PAYLOAD) {
		event = take_payload(d, p ? p + i : NULL, n - i, &taken);
		i += taken;
	}
	*consumed = i;
	return event;
}

const uint8_t *connect_decoder_message(const struct connect_decoder *d, size_t *ret_n)
{
	*ret_n = d->length;
	return d->message;
}

bool connect_decoder_at_boundary(const struct connect_decoder *d)
{
	return d->state == CONNECT_STATE_ENDED ||
	       (d->state == CONNECT_STATE_HEADER && !d->header_len);
}

/* ---- requests ---- */

enum { AUTHORIZATION_MAX = 1024 }; /* characters of base64; decoded they take fewer bytes */

int connect_basic_user(const char *authorization, char out[CONNECT_USER_MAX + 1])
{
	uint8_t text[AUTHORIZATION_MAX];
	ptrdiff_t n;
	size_t len;
	char *colon;

	if (!authorization || strncasecmp(authorization, "Basic ", 6) != 0)
		return 0;
	authorization += 6 + strspn(authorization + 6, " ");
	len = strlen(authorization);
	n = len <= AUTHORIZATION_MAX ? base64_decode(text, authorization, len) : -EINVAL;
	if (n < 0)
		return -EINVAL;
	colon = memchr(text, ':', (size_t)n);
	if (!colon || colon - (char *)text > CONNECT_USER_MAX)
		return -EINVAL;
	len = (size_t)(colon - (char *)text);
	if (memchr(text, '\0', len) || !http_is_field_value((char *)text, len))
		return -EINVAL;
	memcpy(out, text, len);
	out[len] = '\0';
	return len > 0;
}

/* Reads a decimal number of at most 10 digits, as in the protocol; -ENOENT when the header is
 * absent. */
static int header_number(const struct http_headers *h, const char *name, uint64_t *ret)
{
	const char *value = http_header_get(h, name);
	size_t n;

	if (!value)
		return -ENOENT;
	n = strlen(value);
	if (!n || n > 10 || strspn(value, "0123456789") != n)
		return -EINVAL;
	*ret = strtoull(value, NULL, 10);
	return 0;
}

static int find_kind(const struct http_headers *h, enum connect_kind *ret)
{
	const char *type = http_header_get(h, "content-type");

	if (http_content_type_is(type, CONNECT_TYPE_UNARY))
		*ret = CONNECT_KIND_UNARY;
	else if (http_content_type_is(type, CONNECT_TYPE_STREAM))
		*ret = CONNECT_KIND_STREAM;
	else
		return -EPROTONOSUPPORT;
	return 0;
}

static int bad_request(enum connect_code *ret_code, enum connect_code code, const char **ret_reason,
	const char *reason)
{
	*ret_code = code;
	*ret_reason = reason;
	return -EINVAL;
}

/* Whether the body, or its envelopes, have a coding other than identity. */
static bool is_compressed(const struct http_headers *h, enum connect_kind kind)
{
	const char *coding = http_header_get(
		h, kind == CONNECT_KIND_UNARY ? "content-encoding" : "connect-content-encoding");

	return coding && *coding && strcasecmp(coding, "identity") != 0;
}

int connect_request_parse(const struct http_head *head, struct connect_request *ret,
	enum connect_code *ret_code, const char **ret_reason)
{
	const struct http_headers *h = &head->headers;
	const char *version = http_header_get(h, "connect-protocol-version");
	uint64_t keepalive;
	int r;

	*ret = (struct connect_request){
		.timeout_ms = UINT64_MAX,
		.keepalive_s = CONNECT_KEEPALIVE_DEFAULT_S,
	};
	if (strcmp(head->method, "POST") != 0)
		return -EOPNOTSUPP;
	r = find_kind(h, &ret->kind);
	if (r < 0)
		return r;
	if (version && strcmp(version, "1") != 0)
		return bad_request(ret_code, CONNECT_INVALID_ARGUMENT, ret_reason,
			"Connect-Protocol-Version must be 1");
	if (is_compressed(h, ret->kind))
		return bad_request(ret_code, CONNECT_UNIMPLEMENTED, ret_reason,
			"compressed requests are not supported");
	if (header_number(h, "connect-timeout-ms", &ret->timeout_ms) == -EINVAL)
		return bad_request(ret_code, CONNECT_INVALID_ARGUMENT, ret_reason,
			"Connect-Timeout-Ms must be a number of milliseconds");
	/* A hint: ignored when malformed, bounded when too long. */
	if (header_number(h, "keepalive-ping-interval", &keepalive) == 0 && keepalive > 0)
		ret->keepalive_s = keepalive < 3600 ? (uint32_t)keepalive : 3600;
	r = connect_basic_user(http_header_get(h, "authorization"), ret->user);
	if (r < 0)
		return bad_request(ret_code, CONNECT_UNAUTHENTICATED, ret_reason,
			"Authorization is malformed");
	ret->has_user = r > 0;
	return 0;
}
