/* Parses multipart/form-data (RFC 7578, RFC 2046 5.1), incrementally and without copying data.
 *
 *	(PART DATA* PART_END)* END
 *
 * As in http.h, each call returns one event, and *consumed bytes are done with. A boundary may be
 * split over any number of calls. Bytes before the first boundary and after the last are ignored. A
 * body that ends without its last boundary is an error (multipart_finish). Memory: the headers of
 * one part, at most MULTIPART_HEADERS_MAX bytes. */
#ifndef PROTO_MULTIPART_H
#define PROTO_MULTIPART_H

#include <stddef.h>
#include <stdint.h>

enum {
	MULTIPART_BOUNDARY_MAX = 70,   /* RFC 2046 */
	MULTIPART_HEADERS_MAX = 16384, /* of one part; enough for an escaped path of 4096 bytes */
	MULTIPART_PREAMBLE_MAX = 4096,
	MULTIPART_PARTS_DEFAULT = 10000,
};

enum multipart_event {
	MULTIPART_MORE,
	MULTIPART_PART, /* multipart_part(); its headers are complete */
	MULTIPART_DATA, /* multipart_data(): never empty */
	MULTIPART_PART_END,
	MULTIPART_END,	 /* the last boundary; all further bytes are consumed and ignored */
	MULTIPART_ERROR, /* final: multipart_reason() */
};

/* Valid until the next PART. Strings are NUL-terminated and contain no other NUL. */
struct multipart_part {
	const char *name;	  /* NULL: none given */
	const char *filename;	  /* NULL: none. Keeps directories; filename* takes precedence */
	const char *content_type; /* NULL: none */
};

struct multipart;

/* Takes the request's Content-Type; parts_max 0: the default. 0, -EINVAL (not multipart/form-data,
 * or no usable boundary), -ENOMEM. */
int multipart_new(const char *content_type, unsigned parts_max, struct multipart **ret);
void multipart_free(struct multipart *m);

enum multipart_event multipart_next(
	struct multipart *m, const void *data, size_t n, size_t *consumed);

const struct multipart_part *multipart_part(const struct multipart *m);
/* The bytes of the last DATA event: the caller's, or the parser's own until the next call. */
const uint8_t *multipart_data(const struct multipart *m, size_t *ret_n);

/* Ends the body: END, or ERROR when the last boundary is missing. */
enum multipart_event multipart_finish(struct multipart *m);

const char *multipart_reason(const struct multipart *m); /* a fixed text */

#endif
