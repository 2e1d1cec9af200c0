/* The head of an HTTP/1.1 message: gathering it, checking it, taking it apart.
 *
 * Three steps, each of which can refuse. Gathering looks at every byte as it comes: lines end in
 * CRLF, no other CR or LF, no control characters, no line begins with a blank. llhttp then splits
 * the whole head into method, target and fields; alone it would let folded lines, empty names,
 * HTTP/0.9, several blanks between words and other protocols' methods pass. Last, what the fields
 * mean together is checked (http.h lists the rules). */
#ifndef PROTO_HTTP_HEAD_H
#define PROTO_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "proto/http.h"

struct http_head_reader {
	enum http_role role;
	const struct http_limits *limits; /* borrowed */
	struct buf text;		  /* the head, and behind it what parsing adds */
	size_t line_start;		  /* of the unfinished line, in text */
	unsigned lines;			  /* finished lines */
	unsigned skipped;		  /* bytes of empty lines before the head */
	struct http_header *items;	  /* owned */
	unsigned items_max;
	unsigned status; /* of a failure */
	const char *reason;
};

enum http_head_result { HTTP_HEAD_MORE, HTTP_HEAD_DONE, HTTP_HEAD_BAD };

void http_head_init(
	struct http_head_reader *r, enum http_role role, const struct http_limits *limits);
void http_head_done(struct http_head_reader *r);
void http_head_reset(struct http_head_reader *r); /* for the next message; gives memory back */

/* Takes bytes until the head is complete, then fills *ret, which borrows from r. */
enum http_head_result http_head_feed(struct http_head_reader *r, const uint8_t *data, size_t n,
	size_t *consumed, struct http_head *ret);

#endif
