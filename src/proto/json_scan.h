/* Reads JSON (RFC 8259) in place: the members of an object, without building a tree of their
 * values.
 *
 * For untrusted text that is passed on as it is, or of which little is needed. A jansson tree takes
 * up to eighty times the size of its text (230 bytes for "{},"); the scan takes no memory.
 *
 * jansson accepts whatever the scan accepts, in any position (with JSON_ALLOW_NUL): UTF-8,
 * surrogates in pairs, no NUL in a key, numbers that fit an int64 or a double. Duplicate keys are
 * allowed. */
#ifndef PROTO_JSON_SCAN_H
#define PROTO_JSON_SCAN_H

#include <stddef.h>

/* Nesting levels of arrays and objects in a member, slightly fewer than jansson reads. */
enum { JSON_SCAN_DEPTH_MAX = 2000 };

/* A piece of the text, unmodified. */
struct json_slice {
	const char *text; /* borrowed, not NUL-terminated */
	size_t len;
};

struct json_member {
	struct json_slice key;	 /* with quotes and escapes */
	struct json_slice value; /* without surrounding space */
	struct json_slice whole; /* from the start of the key to the end of the value */
};

/* A read position. */
struct json_members {
	const char *at, *end;
	char before; /* the character in front of the next member */
};

/* The text is one object and space around it. It is borrowed while it is read. */
struct json_members json_members_of(const void *text, size_t n);

/* The work to process a text: this much per value, 1 per escape and per byte of a number. */
enum { JSON_SCAN_VALUE_WORK = 32 };

/* Checks that the text is one object, with at most `depth` levels (itself included) and at most
 * `work`. 0, -ELOOP, -E2BIG, or -EINVAL. Stops as soon as a limit is exceeded. */
int json_scan_object(const void *text, size_t n, unsigned depth, size_t work);

/* 1: the next member; 0: the object ended and is valid; -EINVAL: it is invalid, so do not trust the
 * earlier members either. */
int json_members_next(struct json_members *m, struct json_member *ret);

#endif
