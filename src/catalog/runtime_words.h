/* What people are told about runtimes whose template is not there. */
#ifndef CATALOG_RUNTIME_WORDS_H
#define CATALOG_RUNTIME_WORDS_H

#include "catalog/runtime_builds.h"

enum { RUNTIME_WORDS_MAX = ERROR_MESSAGE_MAX };

/* "template 'deno' not found: ...", with what the operator can do. */
void runtime_say_missing(
	const struct fleet *f, const struct runtime *rt, char out[RUNTIME_WORDS_MAX]);
/* "runtime 'deno' is being built (packages, 40 %)", of one that waits or is being built. */
void runtime_say_coming(
	const struct runtime *rt, const struct runtime_status *s, char out[RUNTIME_WORDS_MAX]);
/* "runtime 'deno' could not be built: ..." */
void runtime_say_failed(
	const struct runtime *rt, const struct runtime_status *s, char out[RUNTIME_WORDS_MAX]);

#endif
