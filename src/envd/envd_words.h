/* What E2B's envd says of a failure. Programs match these texts, so they are E2B's, letter by
 * letter as far as the agent's answer has what they need. */
#ifndef ENVD_WORDS_H
#define ENVD_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/agent_wire.h"
#include "proto/connect.h"

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
