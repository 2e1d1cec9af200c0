/* Parses the body of POST /files (docs/envd.md): multipart/form-data or application/octet-stream,
 * either of them optionally compressed with gzip. No I/O.
 *
 *	(FILE DATA* FILE_END)* END
 *
 * Each call returns one event, as in http.h; *consumed bytes are done with. With `end` set, the
 * bytes are the last ones of the body. Then call again with what is left (even nothing) until END
 * or ERROR. Memory is bounded for any body: one multipart header plus 64 KiB of decompressed
 * bytes. */
#ifndef ENVD_UPLOAD_H
#define ENVD_UPLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "envd/envd_error.h"
#include "proto/agent_wire.h"
#include "proto/http.h"

enum envd_upload_event {
	ENVD_UPLOAD_MORE,     /* everything is consumed */
	ENVD_UPLOAD_FILE,     /* see envd_upload_path() */
	ENVD_UPLOAD_DATA,     /* see envd_upload_data(); never empty */
	ENVD_UPLOAD_FILE_END, /* the file is complete */
	ENVD_UPLOAD_END,
	ENVD_UPLOAD_ERROR, /* final */
};

struct envd_upload;

/* path is from the query, decoded; NULL or "" if absent. Returns 0, or -EINVAL with *e: the type or
 * coding is not supported, or the body has no target. */
int envd_upload_new(const struct http_headers *headers, const char *path, struct envd_upload **ret,
	struct envd_error *e);
/* The same for a body that is the file, whatever its type. */
int envd_upload_raw(const struct http_headers *headers, const char *path, struct envd_upload **ret,
	struct envd_error *e);
void envd_upload_free(struct envd_upload *u); /* NULL is fine */

enum envd_upload_event envd_upload_next(struct envd_upload *u, const void *data, size_t n, bool end,
	size_t *consumed, struct envd_error *e);

/* The target of the current file, as the client wrote it. Valid until its FILE_END. */
const char *envd_upload_path(const struct envd_upload *u);
const uint8_t *envd_upload_data(const struct envd_upload *u, size_t *ret_n);

/* --- X-Metadata-<key> --- */

enum {
	ENVD_METADATA_KEY_MAX = 246,
	ENVD_METADATA_BYTES_MAX = 4096, /* keys and values together */
	ENVD_METADATA_MAX = 100,
};

/* Names ("user.e2b.key") and values for AGENT_SET_XATTRS. */
struct envd_metadata {
	unsigned count; /* number of strings: twice the number of keys */
	const char *strings[2 * ENVD_METADATA_MAX];
	char storage[ENVD_METADATA_BYTES_MAX + ENVD_METADATA_MAX * 16];
};

/* Returns 0, or -EINVAL with *e. If several headers have the same key, the first counts. */
int envd_metadata_parse(
	const struct http_headers *headers, struct envd_metadata *ret, struct envd_error *e);

#endif
