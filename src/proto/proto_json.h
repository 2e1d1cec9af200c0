/* Reads proto3 JSON, the JSON form of Protocol Buffers messages, from jansson trees.
 *
 * Fields are named in lowerCamelCase; the snake_case spelling is accepted too, and null counts as
 * absent. All functions return 1 when the field is present and 0 when it is absent; then the output
 * is unchanged, so set the default first. -EINVAL: wrong type; -ERANGE: value out of range. Strings
 * are borrowed from the tree; one with a NUL inside is -EINVAL. */
#ifndef PROTO_PROTO_JSON_H
#define PROTO_PROTO_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "proto/timestamp.h"

/* Parses a whole body. It must be one object without duplicate keys, of bounded depth and number of
 * values (json_tree.h), with nothing after it. An empty body is {}. NULL: *ret_reason (static) says
 * why. */
json_t *proto_json_parse(const void *data, size_t n, const char **ret_reason);

int proto_json_string(const json_t *o, const char *name, const char **ret);
int proto_json_bool(const json_t *o, const char *name, bool *ret);
int proto_json_object(const json_t *o, const char *name, json_t **ret); /* borrowed */
int proto_json_array(const json_t *o, const char *name, json_t **ret);	/* borrowed */

/* Numbers may be JSON numbers (integral) or decimal strings. */
int proto_json_u32(const json_t *o, const char *name, uint32_t *ret);
int proto_json_i64(const json_t *o, const char *name, int64_t *ret);

/* Appends decoded base64, of either alphabet, to out. Also -EMSGSIZE and -ENOMEM from the
 * buffer. */
int proto_json_bytes(const json_t *o, const char *name, struct buf *out);

struct proto_json_enum {
	const char *name; /* NULL ends the table */
	int value;
};

/* Accepts a name of the table or any number in int32; an unknown name is -EINVAL. */
int proto_json_enum(
	const json_t *o, const char *name, const struct proto_json_enum *table, int *ret);
const char *proto_json_enum_name(const struct proto_json_enum *table, int value); /* or NULL */

/* Appends the tree, serialised compactly: 0, -EMSGSIZE, -ENOMEM; the buffer is unchanged on
 * failure. */
int proto_json_dump(const json_t *j, struct buf *out);

#endif
