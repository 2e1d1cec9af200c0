/* JSON (RFC 8259) read where it stands: the members of an object, without a tree of their values.
 *
 * For text of somebody else's that is handed on as it is, or of which little is wanted: a tree of
 * jansson's takes up to eighty times its text ("{}," costs 230 bytes), this takes no memory. What
 * it accepts jansson reads, too, wherever it is put (with JSON_ALLOW_NUL): UTF-8, surrogates in
 * pairs, no NUL in a key, numbers that an int64 or a double holds. Keys may be there twice. */
#ifndef PROTO_JSON_SCAN_H
#define PROTO_JSON_SCAN_H

#include <stddef.h>

/* Levels of arrays and objects in a member: a little less than jansson reads. */
enum { JSON_SCAN_DEPTH_MAX = 2000 };

/* Part of the text, as it is written there. */
struct json_slice {
	const char *text; /* borrowed, not terminated */
	size_t len;
};

struct json_member {
	struct json_slice key;	 /* with its quotes and escapes */
	struct json_slice value; /* without space around it */
	struct json_slice whole; /* from the key's start to the value's end */
};

/* Where the reading is. */
struct json_members {
	const char *at, *end;
	char before; /* what stands in front of the next member */
};

/* Text: one object and space around it. It must stay while it is read. */
struct json_members json_members_of(const void *text, size_t n);

/* What it costs to make something of a text: a value this much, an escape or a byte of a number 1. */
enum { JSON_SCAN_VALUE_WORK = 32 };

/* Whether the text is one object, of at most `depth` levels (itself included) and that much work:
 * 0, -ELOOP, -E2BIG, or -EINVAL. It stops where a limit is passed. */
int json_scan_object(const void *text, size_t n, unsigned depth, size_t work);

/* 1: the next member; 0: the object is over, and good; -EINVAL: it is not valid, which also makes
 * the members before untrustworthy. */
int json_members_next(struct json_members *m, struct json_member *ret);

#endif
