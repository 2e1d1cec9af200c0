#include "envd/envd_error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "envd/envd_words.h"
#include "proto/json_text.h"

static void fill(struct envd_error *e, enum connect_code code, const char *message)
{
	e->code = code;
	e->status = connect_code_http_status(code);
	(void)snprintf(e->message, sizeof(e->message), "%s", message); /* may be cut */
}

int envd_fail(struct envd_error *e, enum connect_code code, const char *fmt, ...)
{
	va_list ap;

	fill(e, code, "");
	va_start(ap, fmt);
	(void)vsnprintf(e->message, sizeof(e->message), fmt, ap); /* may be cut */
	va_end(ap);
	return -EINVAL;
}

/* A full disk is no rate limit, so its code is internal. /files has a status for it. */
void envd_error_of_agent(const struct agent_error *m, struct envd_error *ret)
{
	static const enum connect_code codes[] = {
		[AGENT_ERR_INTERNAL] = CONNECT_INTERNAL,
		[AGENT_ERR_MALFORMED] = CONNECT_INTERNAL,
		[AGENT_ERR_UNSUPPORTED] = CONNECT_UNIMPLEMENTED,
		[AGENT_ERR_LIMIT] = CONNECT_RESOURCE_EXHAUSTED,
		[AGENT_ERR_INVALID] = CONNECT_INVALID_ARGUMENT,
		[AGENT_ERR_UNUSABLE] = CONNECT_UNAVAILABLE,
		[AGENT_ERR_NOT_FOUND] = CONNECT_NOT_FOUND,
		[AGENT_ERR_EXISTS] = CONNECT_ALREADY_EXISTS,
		[AGENT_ERR_PERMISSION] = CONNECT_PERMISSION_DENIED,
		[AGENT_ERR_NO_SPACE] = CONNECT_INTERNAL,
		[AGENT_ERR_NOT_DIRECTORY] = CONNECT_INVALID_ARGUMENT,
		[AGENT_ERR_IS_DIRECTORY] = CONNECT_INVALID_ARGUMENT,
		[AGENT_ERR_NOT_FILE] = CONNECT_INVALID_ARGUMENT,
		[AGENT_ERR_LOOP] = CONNECT_FAILED_PRECONDITION,
		[AGENT_ERR_NO_COMMAND] = CONNECT_INVALID_ARGUMENT,
		[AGENT_ERR_NOT_EXECUTABLE] = CONNECT_INVALID_ARGUMENT,
		[AGENT_ERR_BAD_CWD] = CONNECT_INVALID_ARGUMENT,
		[AGENT_ERR_BAD_USER] = CONNECT_UNAUTHENTICATED,
		[AGENT_ERR_INPUT_CLOSED] = CONNECT_INTERNAL,
		[AGENT_ERR_WRONG_KIND] = CONNECT_INTERNAL,
		[AGENT_ERR_REFUSED] = CONNECT_UNAVAILABLE,
	};
	enum connect_code code = m->class < ARRAY_SIZE(codes) ? codes[m->class] : CONNECT_OK;
	unsigned status = 0;

	fill(ret, code == CONNECT_OK ? CONNECT_INTERNAL : code,
		m->message && m->message[0] ? m->message : agent_error_class_name(m->class));
	if (m->class == AGENT_ERR_NO_SPACE)
		ret->status = 507;
	if (ret->code == CONNECT_UNAVAILABLE)
		ret->status = 502;
	if (!envd_words_of(m, ret->message, sizeof(ret->message), &ret->code, &status))
		return;
	if (ret->code != code)
		ret->status = connect_code_http_status(ret->code);
	if (status)
		ret->status = status;
}

void envd_error_of_host(const struct error *from, struct envd_error *ret)
{
	switch (from->code) {
	case ERROR_USAGE:
	case ERROR_LIMIT:
		fill(ret, CONNECT_INVALID_ARGUMENT, from->message);
		return;
	case ERROR_SANDBOX:
		fill(ret, CONNECT_UNAVAILABLE, from->message);
		ret->status = 502;
		return;
	case ERROR_TIMEOUT:
		fill(ret, CONNECT_DEADLINE_EXCEEDED, from->message);
		return;
	default:
		fill(ret, CONNECT_INTERNAL, from->message);
		return;
	}
}

int envd_error_body(struct buf *out, const struct envd_error *e)
{
	int r = buf_printf(out, "{\"code\":%u,\"message\":", e->status);

	if (!r)
		r = json_text_string(out, e->message, strlen(e->message), JSON_TEXT_UTF8);
	return r ? r : buf_add_u8(out, '}');
}
