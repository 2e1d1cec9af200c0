/* Kernelspecs: which languages there are and how their kernels are started.
 *
 * A kernelspec is a directory with a kernel.json, as Jupyter has them: argv with {connection_file}
 * and {resource_dir}, language, env, interrupt_mode. Whatever lies in the directories is served,
 * without code of ours. In `metadata` a kernelspec may have an object `mayfly`:
 *
 *	languages     array of names that it serves, when `language` alone does not say it
 *	needs         a path: where it is not, the kernelspec is left out
 *	lazy          true: not started before its first cell
 *	late_output   true: results may come after the cell was said to be over
 *	heartbeat     true: it comes back while a cell runs, too; a kernel whose does not has ended
 *	quote         "json" (the default) or "shell": how texts are written in the following code
 *	set_env       code that sets {name} to {value} in the kernel's environment
 *	unset_env     code that removes {name} from it
 *	reseed        code that gives random number generators of the language new seeds
 *
 * Without set_env the per-run variables are refused and the sandbox's are those of the kernel's
 * start. Limits: SPEC_MAX kernelspecs, SPEC_FILE_MAX bytes each. */
#ifndef INTERPRETER_SPEC_H
#define INTERPRETER_SPEC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum { SPEC_MAX = 64, SPEC_FILE_MAX = 64 << 10, SPEC_LANGUAGE_MAX = 64 };

struct spec {
	char *directory; /* of kernel.json; owned */
	json_t *json;	 /* owned; what follows borrows from it */
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

/* Adds every kernelspec of a directory, sorted by name. A missing directory adds nothing; a
 * kernelspec that cannot be used is logged and left out. For the same language the first wins. */
void specs_add_directory(struct specs *s, const char *directory);
void specs_done(struct specs *s);

/* The canonical name of a language in lower case: "js" is "javascript", "ts" "typescript", "py"
 * "python", "sh" "bash". Returns out. */
const char *spec_language(const char *name, char out[SPEC_LANGUAGE_MAX]);

/* NULL when no kernelspec serves the canonical name. */
const struct spec *specs_find(const struct specs *s, const char *language);

/* "bash, python, ...": all languages, for messages. */
int specs_list(const struct specs *s, struct buf *out);

/* Appends a template with {name} and {value} filled in, quoted, and a newline. 0 or -errno. */
int spec_add_code(const struct spec *s, const char *template, const char *name, const char *value,
	struct buf *out);

#endif
