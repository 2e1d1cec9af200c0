/* Reads a build's specification as clients send it, and makes the one for the process that builds
 * (build/spec.h) of it. */
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

/* NULL: e says what is wrong, for the client. */
json_t *build_spec_make(
	struct request *r, const json_t *body, const struct store_build *b, struct error *e);

#endif
