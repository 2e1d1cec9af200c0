/* Parses HTTP/1.1 messages from bytes: requests for the server, responses for the proxy. RFC 9110
 * and RFC 9112, read strictly; no I/O, no threads.
 *
 * The caller passes in bytes and gets one event per call:
 *
 *	request:   HEAD BODY* (END | UPGRADE), then the parser rests until http_parser_continue
 *	response:  INTERIM* HEAD (BODY* END | UPGRADE), likewise
 *
 *	do {
 *		event = http_parser_next(p, data, n, &used);
 *		data += used, n -= used;
 *		...
 *	} while (event != HTTP_MORE && event != HTTP_REST && event != HTTP_ERROR);
 *
 * END is a separate event that consumes no bytes: call again with n == 0 after the last BODY, as
 * the loop does. The caller may answer before END; it must then go on reading, or close.
 *
 * HTTP_ERROR may come at any point and is final. http_parser_status() is the status to answer with
 * before closing, http_parser_reason() says why. Bytes that are not consumed at a rest belong to
 * the next message, or to the new protocol after UPGRADE.
 *
 * The parser refuses what two readers could understand differently (request smuggling):
 * - Content-Length together with Transfer-Encoding, or more than one Content-Length, even if equal;
 * - any transfer coding other than exactly `chunked`, or Transfer-Encoding in HTTP/1.0;
 * - folded lines, bare CR or LF, blanks before the colon or at the start of a line;
 * - control characters;
 * - a request without exactly one Host.
 * Chunk extensions and trailers are bounded, checked and dropped.
 *
 * Memory: one buffer holds the head (at most limits.head_max), and a table its fields
 * (headers_max). Bodies are never copied. A resting parser keeps at most 8 KiB. */
#ifndef PROTO_HTTP_H
#define PROTO_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/http_message.h"

enum http_event {
	HTTP_MORE,    /* everything was consumed; feed more */
	HTTP_HEAD,    /* http_parser_head() is filled; consumed is right after the blank line */
	HTTP_INTERIM, /* responses: a 1xx other than 101; the final head is still to come */
	HTTP_BODY,    /* http_parser_body(): a slice of the caller's bytes, never empty */
	HTTP_END,     /* the message is complete */
	HTTP_UPGRADE, /* END of a request that asks to switch, or of a 101; raw bytes follow */
	HTTP_REST,    /* nothing was consumed: waiting for http_parser_continue */
	HTTP_ERROR,
};

struct http_parser;

/* SERVER reads requests, CLIENT reads responses. limits NULL: the defaults. NULL when out of
 * memory. */
struct http_parser *http_parser_new(enum http_role role, const struct http_limits *limits);
void http_parser_free(struct http_parser *p);

/* The next event in these bytes. *consumed bytes are done with; HTTP_MORE consumes all. */
enum http_event http_parser_next(
	struct http_parser *p, const void *data, size_t n, size_t *consumed);

/* Valid from HEAD (or INTERIM) until http_parser_continue. */
const struct http_head *http_parser_head(const struct http_parser *p);

/* The bytes of the last BODY event. */
const uint8_t *http_parser_body(const struct http_parser *p, size_t *ret_n);

/* Starts the next message after END or a refused UPGRADE. Strings of the head become invalid. */
void http_parser_continue(struct http_parser *p);

/* Sets the body limit of the current message; call it at HEAD. */
void http_parser_limit_body(struct http_parser *p, uint64_t max);

/* CLIENT: the next response answers HEAD, so it has no body. Call it before the response's head. */
void http_parser_expect_no_body(struct http_parser *p);

/* Tells that the peer closed. END when this ends the body, MORE between messages, ERROR when it
 * cuts a message off. */
enum http_event http_parser_eof(struct http_parser *p);

/* True before the first byte of a message: closing the connection then loses nothing. */
bool http_parser_idle(const struct http_parser *p);

/* Bytes of the head so far, for time limits on slow senders. */
size_t http_parser_head_bytes(const struct http_parser *p);

/* After ERROR: status 400, 413, 414, 417, 431, 500, 501 or 505 for SERVER, 502 for CLIENT; the
 * reason is a fixed text. */
unsigned http_parser_status(const struct http_parser *p);
const char *http_parser_reason(const struct http_parser *p);

#endif
