/* Kernelspecs: which languages there are and how their kernels are started.
 *
 * A kernelspec is a directory with a kernel.json in Jupyter's format: argv with {connection_file}
 * and {resource_dir}, language, env, interrupt_mode. Every kernelspec in the directories is served,
 * without code of ours. Its `metadata` may have an object `mayfly`:
 *
 *	languages     array of the names that it serves, if `language` is not enough
 *	needs         a path; if it does not exist, the kernelspec is left out
 *	lazy          true: not started before its first cell
 *	late_output   true: results may come after the cell was said to have ended
 *	heartbeat     true: it also comes back while a cell runs; a kernel that fails this has
 *		      ended
 *	quote         "json" (the default) or "shell": how texts are quoted in the following code
 *	set_env       code that sets {name} to {value} in the kernel's environment
 *	unset_env     code that removes {name} from it
 *	reseed        code that gives the language's random number generators new seeds
 *
 * Without set_env, per-run variables are refused, and the sandbox's stay as they were when the
 * kernel started. Limits: SPEC_MAX kernelspecs of SPEC_FILE_MAX bytes each. */
#ifndef INTERPRETER_SPEC_H
#define INTERPRETER_SPEC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum { SPEC_MAX = 64, SPEC_FILE_MAX = 64 << 10, SPEC_LANGUAGE_MAX = 64 };

struct spec {
	char *directory; /* of kernel.json; owned */
	json_t *json;	 /* owned; the members below borrow from it */
	const char *language;
	json_t *argv, *env; /* checked: strings; env may be NULL */
	json_t *languages;  /* or NULL */
	bool interrupt_by_message;
	bool lazy, late_output, heartbeat;
	bool quote_shell;
	const char *set_env, *unset_env, *reseed; /* or NULL */
};

struct specs {
	struct spec items[SPEC_MAX];
	size_t count;
};

/* Adds every kernelspec of a directory, sorted by name. A missing directory adds nothing. A
 * kernelspec that cannot be used is logged and left out. If two serve a language, the first one
 * wins. */
void specs_add_directory(struct specs *s, const char *directory);
void specs_done(struct specs *s);

/* Writes the canonical name of a language to out, in lower case: "js" is "javascript", "ts"
 * "typescript", "py" "python", "sh" "bash". Returns out. */
const char *spec_language(const char *name, char out[SPEC_LANGUAGE_MAX]);

/* Returns NULL when no kernelspec serves the canonical name. */
const struct spec *specs_find(const struct specs *s, const char *language);

/* Appends all languages, for messages: "bash, python, ...". */
int specs_list(const struct specs *s, struct buf *out);

/* Appends a template with {name} and {value} filled in, quoted, and a newline. Returns 0 or
 * -errno. */
int spec_add_code(const struct spec *s, const char *template, const char *name, const char *value,
	struct buf *out);

#endif
