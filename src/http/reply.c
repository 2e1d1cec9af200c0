#include "http/reply.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"

static const struct http_field cors[] = {
	{"Access-Control-Allow-Origin", "*"},
	{"Access-Control-Expose-Headers",
		"X-Next-Token, X-Total-Running, RateLimit-Limit, RateLimit-Remaining, "
		"RateLimit-Reset, Retry-After, Should-Retry, Location, Mayfly-Invocation, "
		"Mayfly-Version, Mayfly-Duration-Ms, " HTTP_REQUEST_ID},
};

static size_t all_fields(const struct http_field *more, size_t n,
	struct http_field out[REPLY_FIELDS_MAX + ARRAY_SIZE(cors)])
{
	memcpy(out, cors, sizeof(cors));
	if (n > REPLY_FIELDS_MAX)
		n = REPLY_FIELDS_MAX;
	if (n)
		memcpy(out + ARRAY_SIZE(cors), more, n * sizeof(*more));
	return ARRAY_SIZE(cors) + n;
}

void reply_json_text_fields(struct request *r, unsigned status, const void *text, size_t n,
	const struct http_field *fields, size_t count)
{
	struct http_field all[REPLY_FIELDS_MAX + ARRAY_SIZE(cors)];
	const struct http_reply reply = {
		.status = status,
		.content_type = "application/json; charset=utf-8",
		.fields = all,
		.field_count = all_fields(fields, count, all),
		.body = text,
		.len = n,
	};

	(void)request_reply(r, &reply); /* the client may be gone */
}

void reply_json_fields(struct request *r, unsigned status, json_t *root,
	const struct http_field *fields, size_t count)
{
	_cleanup_free_ char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;

	json_decref(root);
	if (!text)
		reply_error(r, 500, "out of memory");
	else
		reply_json_text_fields(r, status, text, strlen(text), fields, count);
}

void reply_json(struct request *r, unsigned status, json_t *root)
{
	reply_json_fields(r, status, root, NULL, 0);
}

void reply_json_text(struct request *r, unsigned status, const void *text, size_t n)
{
	reply_json_text_fields(r, status, text, n, NULL, 0);
}

void reply_stream(
	struct request *r, const char *content_type, const struct http_field *fields, size_t count)
{
	struct http_field all[REPLY_FIELDS_MAX + ARRAY_SIZE(cors)];
	const struct http_reply reply = {.status = 200,
		.content_type = content_type,
		.fields = all,
		.field_count = all_fields(fields, count, all)};

	(void)request_stream(r, &reply, HTTP_NO_LENGTH); /* the client may be gone */
}

void reply_empty(struct request *r, unsigned status)
{
	const struct http_reply reply = {
		.status = status, .fields = cors, .field_count = ARRAY_SIZE(cors)};

	(void)request_reply(r, &reply); /* the client may be gone */
}

/* error_code: a word for programs, or NULL. */
static void send_error(struct request *r, unsigned status, const struct http_field *fields,
	size_t count, const char *error_code, const char *message)
{
	struct http_field all[REPLY_FIELDS_MAX + ARRAY_SIZE(cors)];
	const struct http_reply reply = {
		.status = status, .fields = all, .field_count = all_fields(fields, count, all)};

	(void)request_reply_error(r, &reply, error_code, message); /* the client may be gone */
}

void reply_error_code(
	struct request *r, unsigned status, const char *error_code, const char *message)
{
	send_error(r, status, NULL, 0, error_code, message);
}

void reply_error_again(
	struct request *r, unsigned status, const char *error_code, const char *message)
{
	static const struct http_field fields[] = {{"Retry-After", "1"}, {"Should-Retry", "true"}};

	send_error(r, status, fields, ARRAY_SIZE(fields), error_code, message);
}

void reply_unavailable(struct request *r, unsigned retry_after_s, bool again,
	const char *error_code, const char *message)
{
	char seconds[16];
	const struct http_field fields[] = {
		{"Retry-After", seconds}, {"Should-Retry", again ? "true" : "false"}};

	(void)snprintf(seconds, sizeof(seconds), "%u", retry_after_s); /* fits */
	send_error(r, 503, fields, ARRAY_SIZE(fields), error_code, message);
}

void reply_error(struct request *r, unsigned status, const char *fmt, ...)
{
	char message[ERROR_MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, ap); /* cutting it off is fine */
	va_end(ap);
	send_error(r, status, NULL, 0, NULL, message);
}

void reply_too_many(struct request *r, unsigned retry_after_s, const char *message)
{
	char seconds[16];
	const struct http_field field = {"Retry-After", seconds};

	(void)snprintf(seconds, sizeof(seconds), "%u", retry_after_s); /* fits */
	send_error(r, 429, &field, 1, NULL, message);
}

unsigned reply_status_of(const struct error *e)
{
	static const unsigned statuses[ERROR_CODES_] = {
		[ERROR_USAGE] = 400,
		[ERROR_INTERNAL] = 500,
		[ERROR_HOST] = 503,
		[ERROR_HOST_SLOW] = 503,
		[ERROR_NOT_FOUND] = 404,
		[ERROR_EXISTS] = 409,
		[ERROR_LIMIT] = 400,
		[ERROR_NO_SPACE] = 503,
		[ERROR_BAD_IMAGE] = 500,
		[ERROR_BAD_SNAPSHOT] = 500,
		[ERROR_INCOMPATIBLE] = 500,
		[ERROR_TIMEOUT] = 504,
		[ERROR_SANDBOX] = 500,
		[ERROR_NOT_EXECUTABLE] = 400,
		[ERROR_NO_COMMAND] = 400,
		[ERROR_BUSY] = 409,
		[ERROR_FORBIDDEN] = 403,
		[ERROR_TOO_MANY] = 429,
	};

	return e->code < ERROR_CODES_ && statuses[e->code] ? statuses[e->code] : 500;
}

void reply_failure_as(
	struct request *r, const struct error *e, const char *error_code, const char *should_retry)
{
	static struct log_limit limit = LOG_LIMIT_INIT(20);
	const struct http_field fields[] = {
		{"Mayfly-Error", error_code_name(e->code)}, {"Should-Retry", should_retry}};
	unsigned status = reply_status_of(e);

	if (status >= 500 && log_limited(&limit))
		log_error("%s request=%s", e->message, r->id);
	if (e->code == ERROR_TOO_MANY)
		request_set_final(r); /* the state does not change by itself */
	send_error(r, status, fields, should_retry ? 2 : 1, error_code,
		*e->message ? e->message : "something went wrong");
}

void reply_failure(struct request *r, const struct error *e)
{
	reply_failure_as(r, e, reply_status_of(e) == 500 ? "internal_server_error" : NULL, NULL);
}
