/* Reads the specification of a build that a client sent. Makes the specification for the process
 * that builds (build/spec.h). */
#ifndef API_BUILD_SPEC_H
#define API_BUILD_SPEC_H

#include <jansson.h>

#include "base/error.h"
#include "store/builds.h"

struct request;

enum {
	BUILD_STEPS_MAX = 500,
	BUILD_ARGS_MAX = 256, /* of a step */
	BUILD_ARG_BYTES_MAX = 64 * 1024,
	BUILD_COMMAND_BYTES_MAX = 2048, /* of the start command and the ready command */
};

/* Returns NULL on failure; e tells the client what is wrong. *ret_unusable: the base cannot be
 * used, so the build fails as it would at its first step. Else the request is wrong. */
json_t *build_spec_make(struct request *r, const json_t *body, const struct store_build *b,
	bool *ret_unusable, struct error *e);

#endif
