/* Finds or makes the sandbox in which `mayfly code` runs cells: a named one, the one of a context,
 * or a temporary one. A context's sandbox is found by its metadata, and made if there is none. */
#ifndef CLI_CODE_SANDBOX_H
#define CLI_CODE_SANDBOX_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/remote/remote.h"

enum { CODE_PORT = 49999 };

/* Metadata key for a context's name. */
#define CODE_CONTEXT_METADATA "mayfly.code"

struct code_place {
	const char *sandbox; /* prefix of an id, or NULL */
	const char *context; /* a name */
	bool stateless;	     /* a temporary sandbox without a name */
	const char *template;
	uint64_t keep_ns;      /* how long it lives after its last use, if it has a name */
	uint64_t cpus, memory; /* for a new one; 0: the template's */
};

struct code_sandbox {
	struct remote remote;
	bool remove;	  /* ends when it is closed */
	unsigned lease_s; /* renews its life while it is used; 0: leaves it alone */
};

#define CODE_SANDBOX_INIT                                                                          \
	{                                                                                          \
		.remote = REMOTE_INIT                                                              \
	}

/* Resumes a paused one. Two processes that make a sandbox of the same name agree on one. */
int code_sandbox_open(const struct code_place *p, struct code_sandbox *ret, struct error *e);
void code_sandbox_close(struct code_sandbox *s);

/* A request to its interpreter, for the caller to complete. */
struct client_request code_request(
	const struct code_sandbox *s, const char *method, const char *target);

/* Finds or makes the context of a language in a working directory. *ret is its id, malloc'ed. */
int code_context_in(const struct code_sandbox *s, const char *language, const char *cwd, char **ret,
	struct error *e);

#endif
