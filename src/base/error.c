#include "base/error.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

/* Exit statuses use 120-127, the range of docker, timeout and the shells, so that they differ from
 * what most commands return. docs/cli.md documents them. */
static const struct {
	const char *name;
	int exit_status;
} error_table[ERROR_CODES_] = {
	[ERROR_NONE] = {"ok", 0},
	[ERROR_USAGE] = {"usage", 2},
	[ERROR_INTERNAL] = {"internal", 119},
	[ERROR_HOST] = {"host", 120},
	[ERROR_HOST_SLOW] = {"host_slow", 120},
	[ERROR_NOT_FOUND] = {"not_found", 121},
	[ERROR_EXISTS] = {"exists", 121},
	[ERROR_LIMIT] = {"limit", 122},
	[ERROR_NO_SPACE] = {"no_space", 122},
	[ERROR_BAD_IMAGE] = {"bad_image", 123},
	[ERROR_BAD_SNAPSHOT] = {"bad_snapshot", 123},
	[ERROR_INCOMPATIBLE] = {"incompatible", 123},
	[ERROR_TIMEOUT] = {"timeout", 124},
	[ERROR_SANDBOX] = {"sandbox", 125},
	[ERROR_NOT_EXECUTABLE] = {"not_executable", 126},
	[ERROR_NO_COMMAND] = {"no_command", 127},
	[ERROR_BUSY] = {"busy", 121},
	[ERROR_FORBIDDEN] = {"forbidden", 121},
	[ERROR_TOO_MANY] = {"too_many", 122},
};

__attribute__((format(printf, 5, 0))) static void fill(struct error *e, enum error_code code,
	int err, bool with_errno, const char *fmt, va_list ap)
{
	size_t n;

	if (!e || e->code != ERROR_NONE)
		return;
	e->code = code;
	e->err = err;
	(void)vsnprintf(e->message, sizeof(e->message), fmt, ap); /* truncation is acceptable */
	n = strlen(e->message);
	if (with_errno)
		(void)snprintf(e->message + n, sizeof(e->message) - n, ": %s", strerror(err));
}

int error_set(struct error *e, enum error_code code, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fill(e, code, err, false, fmt, ap);
	va_end(ap);
	return err ? -err : -EIO;
}

int error_set_errno(struct error *e, enum error_code code, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fill(e, code, err, true, fmt, ap);
	va_end(ap);
	return err ? -err : -EIO;
}

void error_prefix(struct error *e, const char *fmt, ...)
{
	char old[ERROR_MESSAGE_MAX];
	va_list ap;
	size_t n;

	if (!e || e->code == ERROR_NONE)
		return;
	memcpy(old, e->message, sizeof(old));
	va_start(ap, fmt);
	(void)vsnprintf(e->message, sizeof(e->message), fmt, ap); /* truncation is acceptable */
	va_end(ap);
	n = strlen(e->message);
	(void)snprintf(e->message + n, sizeof(e->message) - n, ": %s", old);
}

void error_clear(struct error *e)
{
	if (!e)
		return;
	e->code = ERROR_NONE;
	e->err = 0;
	e->message[0] = '\0';
}

const char *error_code_name(enum error_code code)
{
	return (unsigned)code < ERROR_CODES_ ? error_table[code].name : "unknown";
}

int error_exit_status(enum error_code code)
{
	return (unsigned)code < ERROR_CODES_ ? error_table[code].exit_status : 119;
}
