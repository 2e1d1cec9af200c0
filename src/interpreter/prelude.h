/* Makes the code that a kernel runs silently around a cell, from the templates of its kernelspec.
 * All functions append to a buffer and return 0, -EMSGSIZE or -ENOMEM. */
#ifndef INTERPRETER_PRELUDE_H
#define INTERPRETER_PRELUDE_H

#include <jansson.h>

#include "base/buf.h"
#include "interpreter/sandbox_env.h"
#include "interpreter/spec.h"

enum { PRELUDE_MAX = 8 << 20 };

/* For after a restore or fork: sets the sandbox's variables and new seeds. */
int prelude_renew(const struct spec *s, const struct sandbox_env *env, struct buf *out);

/* Set and take back the variables of one run (an object of strings). Taking back restores the value
 * from the sandbox, the kernelspec or this process, or removes the variable. */
int prelude_set(const struct spec *s, const json_t *vars, struct buf *out);
int prelude_take_back(
	const struct spec *s, const struct sandbox_env *env, const json_t *vars, struct buf *out);

#endif
