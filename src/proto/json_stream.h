/* Reads JSON (RFC 8259) as it comes, in pieces of any size, with constant memory, and tells what is
 * in it. For untrusted text that is too large to hold, or is judged while it passes.
 *
 * Strict, so that no other reader finds another meaning: UTF-8 without a byte order mark, escaped
 * surrogates in pairs, no comments, no NaN, nothing behind the value. The value is an object or an
 * array. Duplicate members are the caller's matter. */
#ifndef PROTO_JSON_STREAM_H
#define PROTO_JSON_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	JSON_STREAM_DEPTH_MAX = 64,
	JSON_STREAM_TEXT_MAX = 512,  /* bytes of a string that are told; the rest is dropped */
	JSON_STREAM_NUMBER_MAX = 64, /* a longer number is refused */
};

enum json_stream_kind {
	JSON_STREAM_OBJECT, /* begins */
	JSON_STREAM_ARRAY,  /* likewise */
	JSON_STREAM_END,    /* of either */
	JSON_STREAM_KEY,    /* its value follows */
	JSON_STREAM_STRING,
	JSON_STREAM_NUMBER, /* text is as it was written */
	JSON_STREAM_TRUE,
	JSON_STREAM_FALSE,
	JSON_STREAM_NULL,
};

/* Valid during the call. */
struct json_stream_token {
	enum json_stream_kind kind;
	unsigned depth;	  /* open containers around it: 0 for the first and the last token */
	const char *text; /* of KEY, STRING, NUMBER: decoded, with a NUL behind it */
	size_t n;
	bool cut; /* the string has more */
};

struct json_stream {
	void (*on)(void *arg, const struct json_stream_token *t);
	void *arg;
	const char *wrong; /* static; NULL: nothing so far */
	int state;
	unsigned depth;
	uint64_t objects; /* a bit for each level: it is an object */
	bool key, cut;
	uint8_t more, low, high; /* of a UTF-8 sequence: bytes to come, bounds of the next one */
	uint8_t digits;		 /* of \uXXXX, to come */
	uint16_t unit, lead;	 /* code units; lead: a high surrogate that waits, or 0 */
	const char *word;	 /* the rest of "true", ... */
	enum json_stream_kind word_kind;
	size_t n;
	char text[JSON_STREAM_TEXT_MAX + 4];
};

void json_stream_begin(
	struct json_stream *s, void (*on)(void *arg, const struct json_stream_token *t), void *arg);

/* False: the text is refused, for s->wrong. */
bool json_stream_feed(struct json_stream *s, const void *data, size_t n);

/* Whether the text was complete; else s->wrong. */
bool json_stream_end(struct json_stream *s);

#endif
