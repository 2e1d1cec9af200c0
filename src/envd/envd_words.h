/* What E2B's envd and its proxy say of a failure. Programs match these texts, so they are E2B's,
 * letter by letter as far as the agent's answer has what they need. */
#ifndef ENVD_WORDS_H
#define ENVD_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/agent_wire.h"
#include "proto/connect.h"

/* Of the proxy. SDKs look for the first two in 502 answers and in UNAVAILABLE errors, and tell a
 * sandbox that is gone from an unreachable one. So no other error contains them. */
#define ENVD_TEXT_NOT_FOUND "The sandbox was not found"
#define ENVD_TEXT_CLOSED    "The sandbox is running but port is not open"
#define ENVD_TEXT_CHANGING  "The sandbox is still transitioning. Try again in a moment."
#define ENVD_TEXT_SECURED   "Sandbox is secured with traffic access token. "
#define ENVD_TEXT_NO_TOKEN  ENVD_TEXT_SECURED "Token header 'e2b-traffic-access-token' is missing"
#define ENVD_TEXT_BAD_TOKEN                                                                        \
	ENVD_TEXT_SECURED "Provided token in header 'e2b-traffic-access-token' is invalid"
#define ENVD_TEXT_REVOKED "the API key of this sandbox was revoked"
#define ENVD_TEXT_NO_CODE "Unauthorized: X-Access-Token must hold the sandbox's token"

#define ENVD_WORDS_DIRECTORY	 "path '%s' is a directory"
#define ENVD_WORDS_UNKNOWN_PID	 "process with pid %u not found"
#define ENVD_WORDS_UNKNOWN_TAG	 "process with tag %s not found"
#define ENVD_WORDS_UNKNOWN_WATCH "watcher with id %s not found"
#define ENVD_WORDS_TWO_PARTS                                                                       \
	"you cannot upload multiple files to the same path '%s' in one upload request, only the "  \
	"first specified file was uploaded"

/* Writes a text of at most size bytes with its NUL, and the code, where E2B has its own for what
 * m's request failed with; a status where it is not the code's. Returns false, and writes nothing,
 * if the agent's own text has to do. The text is not trusted. */
bool envd_words_of(const struct agent_error *m, char *text, size_t size, enum connect_code *code,
	unsigned *status);

#endif
