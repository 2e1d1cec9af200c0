/* GET and HEAD /files (docs/envd.md; RFC 9110 sections 13 and 14), without I/O. It computes the
 * answer's status, range and headers from the request's headers and the file's entry. */
#ifndef ENVD_DOWNLOAD_H
#define ENVD_DOWNLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/agent_wire.h"
#include "proto/http.h"
#include "proto/http_response.h"

enum {
	ENVD_DOWNLOAD_FIELDS = 8,
	ENVD_DISPOSITION_BYTES = 64 + 6 * 255, /* for a name of 255 bytes, quoted and encoded */
};

struct envd_download {
	unsigned status;	 /* 200, 206, 304, 406, 412, 416 */
	uint64_t offset, length; /* of the body; HEAD has no body, but tells the length */
	struct http_field fields[ENVD_DOWNLOAD_FIELDS];
	unsigned field_count;
	const char *content_type;
	char modified[HTTP_DATE_BYTES];
	char etag[48];
	char range[64];
	char disposition[ENVD_DISPOSITION_BYTES];
};

/* Whether the answer depends on the file's size or age. Then both must be known before reading. */
bool envd_download_is_conditional(const struct http_head *head);

/* Pointers in *ret point into *ret and to constants: do not move it. */
void envd_download_plan(
	const struct http_head *head, const struct agent_entry *entry, struct envd_download *ret);

/* The media type for a file name's extension; application/octet-stream if unknown. */
const char *envd_media_type(const char *name);

/* Writes `inline; filename=...` (RFC 6266) to out. */
void envd_disposition(const char *name, char out[ENVD_DISPOSITION_BYTES]);

#endif
