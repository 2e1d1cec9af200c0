/* The sandbox that cells of `mayfly code` run in: one that is named, the one of a context's name
 * (found by its metadata, made when there is none), or one that goes afterwards. */
#ifndef CLI_CODE_SANDBOX_H
#define CLI_CODE_SANDBOX_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/remote.h"

enum { CODE_PORT = 49999 };

/* Key of the metadata that holds a context's name. */
#define CODE_CONTEXT_METADATA "mayfly.code"

struct code_place {
	const char *sandbox; /* beginning of an id, or NULL */
	const char *context; /* a name */
	bool stateless;	     /* a sandbox for now only, of no name */
	const char *template;
	uint64_t keep_ns;      /* its life from the last use on, if it has a name */
	uint64_t cpus, memory; /* of a new one; 0: the template's */
};

struct code_sandbox {
	struct remote remote;
	bool remove;	  /* it goes when it is closed */
	unsigned lease_s; /* life to be renewed while it is used; 0: its own */
};

#define CODE_SANDBOX_INIT                                                                          \
	{                                                                                          \
		.remote = REMOTE_INIT                                                              \
	}

/* A paused one comes back. Two that make the same name's at once agree on one. */
int code_sandbox_open(const struct code_place *p, struct code_sandbox *ret, struct error *e);
void code_sandbox_close(struct code_sandbox *s);

/* A request to its interpreter, to be completed by the caller. */
struct client_request code_request(
	const struct code_sandbox *s, const char *method, const char *target);

/* The context of a language in a working directory, made when there is none: *ret is its id,
 * malloc'ed. */
int code_context_in(const struct code_sandbox *s, const char *language, const char *cwd, char **ret,
	struct error *e);

#endif
