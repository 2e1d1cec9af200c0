/* Parses untrusted JSON into a jansson tree, in bounded time.
 *
 * jansson takes 0.7 s and 300 MB for 4 MiB of `{},`, and 0.3 s for one string of 4 MiB. This module
 * first checks the text and counts its values (json_scan.h), and copies strings as a whole: 4 MiB
 * take a few milliseconds. It accepts what jansson accepts, within the limits. */
#ifndef PROTO_JSON_TREE_H
#define PROTO_JSON_TREE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum {
	JSON_TREE_DEPTH_MAX = 64, /* requests nest five levels deep */
	/* 32,768 values (json_scan.h); the longest valid request has 8,192 arguments and 2,048
	 * variables */
	JSON_TREE_WORK_MAX = 1024 * 1024,
	JSON_TREE_REASON_BYTES = 128,
};

enum json_tree_flag {
	JSON_TREE_UNIQUE = 0x01, /* no duplicate keys in an object; otherwise the last one counts */
	JSON_TREE_NO_NUL = 0x02, /* no \u0000 in strings; keys never contain one */
};

/* Parses a text that is exactly one object. NULL: *ret_reason (static) says why. */
json_t *json_tree_parse(const void *text, size_t n, unsigned flags, const char **ret_reason);

/* The same. ret_reason also names a duplicate key. It is "" when the object is returned. */
json_t *json_tree_parse_said(
	const void *text, size_t n, unsigned flags, char ret_reason[JSON_TREE_REASON_BYTES]);

/* The same for a text from our own store, which was checked when it was stored. NULL for NULL. */
json_t *json_tree_stored(const char *text);

/* Whether a member's value is missing. null is as if it was not given. */
bool json_tree_is_absent(const json_t *v);
/* Whether there is such a member. */
bool json_tree_has(const json_t *object, const char *key);

/* A member that is a string, borrowed. If there is none, json_tree_text returns "". json_tree_word
 * returns NULL then, and for an empty one. */
const char *json_tree_text(const json_t *object, const char *key);
const char *json_tree_word(const json_t *object, const char *key);

#endif
