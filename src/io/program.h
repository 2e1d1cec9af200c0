/* Finds our own programs. */
#ifndef IO_PROGRAM_H
#define IO_PROGRAM_H

#include <stddef.h>

#include "base/error.h"

/* Finds one of Mayfly's programs ("mayfly-vmm", "mayfly-agent"): in $MAYFLY_LIBEXEC if that is set,
 * else beside the running program, else in ../libexec/mayfly from there. ERROR_HOST when it is in
 * none of these. */
int program_path(const char *name, char *out, size_t out_bytes, struct error *e);

#endif
