/* Parses request targets: paths and queries. They are split first and decoded afterwards, so that
 * an encoded slash or ampersand never separates anything.
 *
 * Decoders refuse malformed percent escapes and an encoded NUL (-EINVAL), and results that exceed
 * the capacity (-EMSGSIZE). Results are NUL-terminated. */
#ifndef PROTO_URI_H
#define PROTO_URI_H

#include <stdbool.h>
#include <stddef.h>

/* Decodes n bytes into out (cap includes the NUL; out may be s itself). Set plus_is_space for
 * queries. Returns the length or a negative error. */
int uri_decode(const char *s, size_t n, bool plus_is_space, char *out, size_t cap);

enum { URI_SEGMENTS_MAX = 12, URI_PARAMS_MAX = 4, URI_PATH_BYTES = 2048 };

/* A path for a router: "/templates/team%2Fx%3Adefault" has two segments. A slash at the end is
 * ignored; "/" has no segments; empty segments in the middle are kept. */
struct uri_path {
	unsigned count;
	const char *segments[URI_SEGMENTS_MAX];
	char storage[URI_PATH_BYTES];
};

/* 0, -EINVAL, or -EMSGSIZE when there are more segments or bytes than fit (answer 404). */
int uri_path_parse(const char *path, struct uri_path *ret);

/* Whether a path matches a pattern such as "/templates/{}/tags". "{}" matches any one segment and
 * may occur URI_PARAMS_MAX times. The matched segments go to params, in order (borrowed from the
 * path). */
bool uri_path_matches(
	const struct uri_path *path, const char *pattern, const char *params[URI_PARAMS_MAX]);

/* Walks a raw query ("a=1&b") and returns each key and value still encoded. False at the end. Skips
 * empty pairs; a pair without '=' has an empty value. */
struct uri_pair {
	const char *key, *value; /* not NUL-terminated */
	size_t key_len, value_len;
};
bool uri_query_next(const char **cursor, struct uri_pair *ret);

/* Finds the first value of a key (given decoded) and decodes it once into out. Its length, -ENOENT
 * (also for query NULL), -EINVAL, -EMSGSIZE. */
int uri_query_get(const char *query, const char *key, char *out, size_t cap);

/* The same for a decimal number of at most max: 0, -ENOENT, -EINVAL, -ERANGE. */
int uri_query_u64(
	const char *query, const char *key, unsigned long long max, unsigned long long *ret);

/* The same for 1, true, 0 or false: 0, -ENOENT, -ENODATA if it is empty, -EINVAL. *ret changes only
 * with 0. */
int uri_query_flag(const char *query, const char *key, bool *ret);

/* The same for a value without a fixed maximum, into new memory; free it. 0, -ENOENT, -EINVAL,
 * -ENOMEM. */
int uri_query_dup(const char *query, const char *key, char **ret);

enum { URI_FILTER_MAX = 64, URI_FILTER_BYTES = 8192 };

/* The `metadata` parameter that filters lists of sandboxes (docs/api.md). Clients encode its pairs
 * three times. */
struct uri_filter {
	unsigned count;
	struct {
		const char *key, *value;
	} pairs[URI_FILTER_MAX];
	char storage[URI_FILTER_BYTES];
};

/* value is what uri_query_get("metadata") returned, that is, decoded once. 0, -EINVAL,
 * -EMSGSIZE. */
int uri_filter_parse(const char *value, struct uri_filter *ret);

/* Appends s percent-encoded; only unreserved characters stay (RFC 3986 2.3). */
struct buf;
int uri_encode(struct buf *out, const char *s, size_t n);

#endif
