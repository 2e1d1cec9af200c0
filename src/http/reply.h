/* Answers of the control API (docs/api.md): JSON, errors with `code` and `message`, and the CORS
 * headers that browsers need. Every function ends the request; if the client has gone, the answer
 * is dropped. */
#ifndef HTTP_REPLY_H
#define HTTP_REPLY_H

#include <jansson.h>

#include "base/error.h"
#include "http/request.h"

enum { REPLY_FIELDS_MAX = 8 };

/* Takes ownership of root (NULL: out of memory). fields: more headers, or NULL. */
void reply_json(struct request *r, unsigned status, json_t *root);
void reply_json_fields(struct request *r, unsigned status, json_t *root,
	const struct http_field *fields, size_t count);
/* text is JSON already; it is copied. */
void reply_json_text(struct request *r, unsigned status, const void *text, size_t n);
void reply_json_text_fields(struct request *r, unsigned status, const void *text, size_t n,
	const struct http_field *fields, size_t count);
/* Begins an answer with status 200 whose body follows, of no known length. At most REPLY_FIELDS_MAX
 * fields. */
void reply_stream(
	struct request *r, const char *content_type, const struct http_field *fields, size_t count);
void reply_empty(struct request *r, unsigned status);

void reply_error(struct request *r, unsigned status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Adds "error_code", a word for programs. */
void reply_error_code(
	struct request *r, unsigned status, const char *error_code, const char *message);
/* The same, with a Retry-After of one second. */
void reply_error_again(
	struct request *r, unsigned status, const char *error_code, const char *message);
/* 503, with a Retry-After. again: Should-Retry. */
void reply_unavailable(struct request *r, unsigned retry_after_s, bool again,
	const char *error_code, const char *message);
/* 429, with a Retry-After. */
void reply_too_many(struct request *r, unsigned retry_after_s, const char *message);
/* Answers with the status that the error's code means. The header Mayfly-Error has the code
 * itself. */
void reply_failure(struct request *r, const struct error *e);
/* The same with a word for programs and the value of Should-Retry; either may be NULL. */
void reply_failure_as(
	struct request *r, const struct error *e, const char *error_code, const char *should_retry);
unsigned reply_status_of(const struct error *e);

#endif
