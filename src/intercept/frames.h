/* Tells the messages of a stream apart: frames of a websocket (RFC 6455, 5.2), or messages of gRPC
 * and Connect, which begin with a flag and a length of four bytes. A message is given to its reader
 * when it is whole, so its end must not wait for what follows it.
 *
 * Bytes that cannot be the head of a message end this: all that follows is one text. */
#ifndef INTERCEPT_FRAMES_H
#define INTERCEPT_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/http_headers.h"

enum frames_kind { FRAMES_NONE, FRAMES_WEBSOCKET, FRAMES_LENGTHS };

enum { FRAMES_HEAD_MAX = 14 };

struct frames {
	enum frames_kind kind;
	uint8_t head[FRAMES_HEAD_MAX];
	uint8_t have;  /* bytes of the head */
	uint64_t left; /* bytes of the message */
};

/* Of an answer with this status and these fields. */
enum frames_kind frames_of(unsigned status, const struct http_headers *headers);

enum frames_part {
	FRAMES_HEAD,
	FRAMES_BODY,
	FRAMES_BODY_END, /* and the message ends with it */
	FRAMES_CODED,	 /* the message is compressed. Do not go on */
};

/* Returns how many of n bytes, at least one, belong to one part. n is larger than 0. */
size_t frames_next(struct frames *f, const uint8_t *p, size_t n, enum frames_part *ret);

#endif
