/* JSON of somebody else's as a tree of jansson's, in a time that no sender can stretch.
 *
 * jansson reads 4 MiB of `{},` in 0.7 s and into 300 MB, and one text of 4 MiB in 0.3 s. Here the
 * text is checked and its values are counted first (json_scan.h), and texts are copied as a whole:
 * 4 MiB take a few milliseconds. What is accepted is what jansson accepts, within the limits. */
#ifndef PROTO_JSON_TREE_H
#define PROTO_JSON_TREE_H

#include <jansson.h>
#include <stddef.h>

enum {
	JSON_TREE_DEPTH_MAX = 64, /* containers of requests nest five deep */
	/* 32,768 values (json_scan.h); the longest request that is taken has 8,192 arguments and
	 * 2,048 variables */
	JSON_TREE_WORK_MAX = 1024 * 1024,
};

enum json_tree_flag {
	JSON_TREE_UNIQUE = 0x01, /* no key twice in an object; else the last one counts */
	JSON_TREE_NO_NUL = 0x02, /* no \u0000 in texts; in keys there is never one */
};

/* The object that the text is, and nothing behind it. NULL: *ret_reason (static) says why. */
json_t *json_tree_parse(const void *text, size_t n, unsigned flags, const char **ret_reason);

/* The same of a text of our own, which was checked when it was stored: NULL for NULL. */
json_t *json_tree_stored(const char *text);

#endif
