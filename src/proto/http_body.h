/* Finds the end of an HTTP/1.1 body: fixed length, chunked, or with the connection (RFC 9112, 6 and
 * 7).
 *
 * llhttp could do this, too. But this module limits chunk lines and trailers, and reads them as
 * strictly as heads. Nothing is copied: the results are slices of the caller's bytes. */
#ifndef PROTO_HTTP_BODY_H
#define PROTO_HTTP_BODY_H

#include <stddef.h>
#include <stdint.h>

enum http_framing {
	HTTP_FRAMING_NONE,
	HTTP_FRAMING_FIXED,
	HTTP_FRAMING_CHUNKED,
	HTTP_FRAMING_UNTIL_EOF,
};

/* Results of http_body_next. */
enum http_body_event {
	HTTP_BODY_MORE, /* all consumed */
	HTTP_BODY_DATA, /* *ret_data, *ret_n */
	HTTP_BODY_END,
	HTTP_BODY_BAD, /* body->status and body->reason */
};

/* States. Chunked: SIZE reads hex digits, EXTENSION the rest of the line, SIZE_LF its LF. DATA
 * takes `left` bytes, DATA_CR and DATA_LF the line end after them. After the chunk of size 0:
 * TRAILER is at the start of a line, TRAILER_NAME and TRAILER_VALUE are inside a field. TRAILER_LF
 * waits for the LF of a field, LAST_LF for that of the end. FIXED and UNTIL_EOF stay in DATA. */
enum http_body_state {
	HTTP_BODY_STATE_SIZE,
	HTTP_BODY_STATE_EXTENSION,
	HTTP_BODY_STATE_SIZE_LF,
	HTTP_BODY_STATE_DATA,
	HTTP_BODY_STATE_DATA_CR,
	HTTP_BODY_STATE_DATA_LF,
	HTTP_BODY_STATE_TRAILER,
	HTTP_BODY_STATE_TRAILER_NAME,
	HTTP_BODY_STATE_TRAILER_VALUE,
	HTTP_BODY_STATE_TRAILER_LF,
	HTTP_BODY_STATE_LAST_LF,
	HTTP_BODY_STATE_DONE,
	HTTP_BODY_STATE_BAD,
};

struct http_limits;

struct http_body {
	enum http_framing framing;
	enum http_body_state state;
	const struct http_limits *limits; /* borrowed */
	uint64_t left;			  /* bytes of the body or chunk still to come */
	uint64_t total;			  /* data bytes so far */
	uint64_t max;			  /* data bytes allowed */
	size_t line;			  /* bytes of the current chunk-size line */
	size_t digits;			  /* hex digits in it */
	size_t extensions;		  /* bytes of extensions so far */
	size_t trailer;			  /* bytes of the trailer section so far */
	unsigned status;		  /* when BAD: what to answer */
	const char *reason;
};

/* length is used for FIXED only. */
void http_body_init(struct http_body *b, enum http_framing framing, uint64_t length,
	const struct http_limits *limits);

enum http_body_event http_body_next(struct http_body *b, const uint8_t *data, size_t n,
	size_t *consumed, const uint8_t **ret_data, size_t *ret_n);

#endif
