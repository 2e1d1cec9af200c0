/* Gathers, checks and splits the head of an HTTP/1.1 message.
 *
 * There are three steps, and each can refuse. First, gathering checks every byte as it comes: lines
 * end in CRLF, there is no other CR or LF and no control character, and no line starts with a
 * blank. Second, llhttp splits the whole head into method, target and fields. By itself it would
 * accept folded lines, empty names, HTTP/0.9, several blanks between words and methods of other
 * protocols. Last, the fields are checked against each other (http.h lists the rules). */
#ifndef PROTO_HTTP_HEAD_H
#define PROTO_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "proto/http_message.h"

struct http_head_reader {
	enum http_role role;
	const struct http_limits *limits; /* borrowed */
	struct buf text;		  /* the head, followed by what parsing adds */
	size_t line_start;		  /* of the unfinished line, in text */
	unsigned lines;			  /* finished lines */
	unsigned skipped;		  /* bytes of empty lines before the head */
	struct http_header *items;	  /* owned */
	unsigned items_max;
	unsigned status; /* set on failure */
	const char *reason;
};

enum http_head_result { HTTP_HEAD_MORE, HTTP_HEAD_DONE, HTTP_HEAD_BAD };

void http_head_init(
	struct http_head_reader *r, enum http_role role, const struct http_limits *limits);
void http_head_done(struct http_head_reader *r);
void http_head_reset(struct http_head_reader *r); /* for the next message; frees memory beyond what
						   * may be kept */

/* Takes bytes until the head is complete, then fills *ret, which borrows from r. */
enum http_head_result http_head_feed(struct http_head_reader *r, const uint8_t *data, size_t n,
	size_t *consumed, struct http_head *ret);

#endif
