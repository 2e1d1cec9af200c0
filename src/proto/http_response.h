/* Writes HTTP/1.1 messages. No header can be injected: names must be tokens, and values free of CR,
 * LF, NUL and other control characters.
 *
 * A head is written with struct http_writer, whose errors are sticky: write everything, then check
 * http_writer_finish once. On error the buffer is as before. */
#ifndef PROTO_HTTP_RESPONSE_H
#define PROTO_HTTP_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/buf.h"

struct http_writer {
	struct buf *out; /* borrowed */
	size_t mark;	 /* length of out at the start */
	int err;	 /* 0 or the first -errno */
};

/* Start "HTTP/1.1 200 OK": http_writer_response with Date unless the status is interim,
 * http_writer_status_line without. */
struct http_writer http_writer_response(struct buf *out, unsigned status);
struct http_writer http_writer_status_line(struct buf *out, unsigned status);
void http_writer_date(struct http_writer *w);
/* Starts "GET /path HTTP/1.1". The target must not contain blanks or control characters. */
struct http_writer http_writer_request(struct buf *out, const char *method, const char *target);

void http_writer_header(struct http_writer *w, const char *name, const char *value);
void http_writer_header_n(struct http_writer *w, const char *name, const char *value, size_t n);
void http_writer_header_u64(struct http_writer *w, const char *name, uint64_t value);

/* Writes the blank line. 0, -EINVAL (unsafe to write), -EMSGSIZE, -ENOMEM. */
int http_writer_finish(struct http_writer *w);

/* ---- whole answers ---- */

struct http_field {
	const char *name, *value;
};

struct http_reply {
	unsigned status;
	const char *content_type;	 /* NULL: none */
	const char *request_id;		 /* "Mayfly-Request-Id"; NULL: none */
	const struct http_field *fields; /* more headers */
	size_t field_count;
	const void *body; /* copied; len 0 sends "Content-Length: 0" except with 1xx, 204, 304 */
	size_t len;
	bool head_only;	    /* answer to HEAD: the length is sent, the body is not */
	bool close;	    /* adds "Connection: close" */
	bool keep_alive_10; /* an HTTP/1.0 peer asked for it: adds "Connection: keep-alive" */
};

#define HTTP_REQUEST_ID "Mayfly-Request-Id"

/* Writes the reply's head up to the length; the caller adds it and finishes. */
struct http_writer http_reply_begin(struct buf *out, const struct http_reply *reply);
int http_reply(struct buf *out, const struct http_reply *reply);

/* Writes the head of a streamed body. The body is chunked. For an HTTP/1.0 peer (http_minor 0) it
 * ends with the connection: the caller then sends raw bytes and closes. body and len are
 * ignored. */
int http_reply_stream(struct buf *out, const struct http_reply *reply, unsigned http_minor);

/* Writes an error of the control API: {"code":404,"message":"..."}, and "error_code" unless that is
 * NULL. reply gives everything else: status, fields, close. */
int http_reply_error(struct buf *out, const struct http_reply *reply, const char *error_code,
	const char *message);

/* Writes "HTTP/1.1 100 Continue". */
int http_reply_continue(struct buf *out);

/* ---- chunks ---- */

int http_chunk(struct buf *out, const void *data, size_t n); /* n == 0 writes nothing */
int http_chunk_last(struct buf *out);
/* The same, with trailers. On error the buffer is as before. */
int http_chunk_last_with(struct buf *out, const struct http_field *trailers, size_t count);

/* Call these before and after writing bytes straight into the buffer, to make one chunk of them.
 * http_chunk_begin leaves space for the size. If nothing was written in between, no chunk
 * results. */
int http_chunk_begin(struct buf *out, size_t *ret_mark);
int http_chunk_end(struct buf *out, size_t mark);

/* ---- dates ---- */

enum { HTTP_DATE_BYTES = 30 };
void http_date_format(time_t t, char out[HTTP_DATE_BYTES]); /* "Sun, 06 Nov 1994 08:49:37 GMT" */
int http_date_parse(const char *s, time_t *ret);	    /* that form only; 0 or -EINVAL */

/* Applies a Range header to a file of `size` bytes. 0: one range, *ret_offset and *ret_len are set.
 * -ENOENT: send the whole file (no range, several, or a unit or form that is not served). -ERANGE:
 * 416. */
int http_range(const char *value, uint64_t size, uint64_t *ret_offset, uint64_t *ret_len);

#endif
