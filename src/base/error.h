/* Describes a failure, for a person and for a program.
 *
 * Leaf code returns 0 or -errno. An operation whose failure a user can see also fills a struct
 * error, at the deepest point that still knows what the user can do about it. The code is stable:
 * the table in error.c maps it to an exit status of the command line. A message is one line. It
 * says what is wrong and what to do, and holds no secrets. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdarg.h>

enum error_code {
	ERROR_NONE,
	ERROR_USAGE,	      /* the command line or a request is malformed */
	ERROR_INTERNAL,	      /* a bug of ours or an unexpected system error */
	ERROR_HOST,	      /* this host lacks something: KVM, a package, a permission */
	ERROR_HOST_SLOW,      /* KVM is there but runs guest kernels too slowly */
	ERROR_NOT_FOUND,      /* no such template, sandbox or file */
	ERROR_EXISTS,	      /* the name is taken */
	ERROR_LIMIT,	      /* asked for more than the maximum */
	ERROR_NO_SPACE,	      /* disk or memory of the host is exhausted */
	ERROR_BAD_IMAGE,      /* a template's image cannot be used */
	ERROR_BAD_SNAPSHOT,   /* a snapshot is damaged or truncated */
	ERROR_INCOMPATIBLE,   /* a snapshot of another CPU or another format version */
	ERROR_TIMEOUT,	      /* a time limit passed */
	ERROR_SANDBOX,	      /* the microVM ended or stopped answering */
	ERROR_NOT_EXECUTABLE, /* the command exists and cannot be executed */
	ERROR_NO_COMMAND,     /* the command does not exist in the sandbox */
	ERROR_FORBIDDEN,      /* the caller has no permission */
	ERROR_BUSY,	      /* another operation is in progress: try again */
	ERROR_TOO_MANY,	      /* the maximum at the same time is reached */
	ERROR_CODES_	      /* number of codes, not a code */
};

enum { ERROR_MESSAGE_MAX = 512 };

struct error {
	enum error_code code;
	int err; /* positive errno, 0 when none applies */
	char message[ERROR_MESSAGE_MAX];
};

/* Fills e (may be NULL) and returns -err, or -EIO when err is 0. A failing function can end in
 * `return error_set(...)`. The first error wins: a filled e stays as it is. */
int error_set(struct error *e, enum error_code code, int err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* The same, with ": strerror(err)" appended. */
int error_set_errno(struct error *e, enum error_code code, int err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Puts "context: " in front of the message of a filled e. */
void error_prefix(struct error *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void error_clear(struct error *e);

/* Stable lower-case word for a code ("not_found"), for --json and logs. */
const char *error_code_name(enum error_code code);

/* The command line's exit status for a code; see error.c. */
int error_exit_status(enum error_code code);

#endif
