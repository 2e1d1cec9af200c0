#include "cli/remote/client_error.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

struct mapping {
	const char *word;
	enum error_code code;
};

/* Codes of the agent and of Connect that are not names of our error codes. */
static const struct mapping words[] = {
	{"bad_cwd", ERROR_USAGE},
	{"bad_user", ERROR_USAGE},
	{"already_exists", ERROR_EXISTS},
	{"invalid_argument", ERROR_USAGE},
	{"unauthenticated", ERROR_USAGE},
	{"permission_denied", ERROR_USAGE},
	{"permission", ERROR_USAGE},
	{"not_directory", ERROR_USAGE},
	{"is_directory", ERROR_USAGE},
	{"not_file", ERROR_USAGE},
	{"resource_exhausted", ERROR_LIMIT},
	{"deadline_exceeded", ERROR_TIMEOUT},
	{"unavailable", ERROR_SANDBOX},
};

static enum error_code of_word(const char *word)
{
	for (size_t i = 0; word && i < ARRAY_SIZE(words); i++)
		if (strcmp(words[i].word, word) == 0)
			return words[i].code;
	for (int code = ERROR_NONE + 1; word && code < ERROR_CODES_; code++)
		if (strcmp(error_code_name((enum error_code)code), word) == 0)
			return (enum error_code)code;
	return ERROR_NONE;
}

static enum error_code of_status(unsigned status)
{
	switch (status) {
	case 400:
	case 401:
	case 501:
		return ERROR_USAGE;
	case 403:
		return ERROR_FORBIDDEN;
	case 404:
		return ERROR_NOT_FOUND;
	case 409:
		return ERROR_EXISTS;
	case 413:
		return ERROR_LIMIT;
	case 429:
		return ERROR_TOO_MANY;
	case 502:
		return ERROR_SANDBOX;
	case 503:
	case 507:
		return ERROR_NO_SPACE;
	case 504:
		return ERROR_TIMEOUT;
	default:
		return ERROR_INTERNAL;
	}
}

static int fill(
	const struct http_head *head, const json_t *o, enum error_code otherwise, struct error *e)
{
	enum error_code code = of_word(http_header_get(&head->headers, "mayfly-error"));
	const char *message = json_string_value(json_object_get(o, "message"));

	if (code == ERROR_NONE)
		code = of_word(json_string_value(json_object_get(o, "code")));
	return error_set(e, code == ERROR_NONE ? otherwise : code, EREMOTEIO, "%s",
		message && *message ? message : "the daemon refused");
}

int client_error_of(const struct http_head *head, const json_t *body, struct error *e)
{
	return head->status < 400 ? 0 : fill(head, body, of_status(head->status), e);
}

int client_stream_error(const struct http_head *head, const json_t *error, struct error *e)
{
	return error ? fill(head, error, ERROR_INTERNAL, e) : 0;
}
