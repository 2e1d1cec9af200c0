/* Finds our own programs. */
#ifndef IO_PROGRAM_H
#define IO_PROGRAM_H

#include <stddef.h>

#include "base/error.h"

/* Finds one of Mayfly's programs ("mayfly-vmm", "mayfly-agent"): in $MAYFLY_LIBEXEC if that is set,
 * else beside the running program, else in ../libexec/mayfly from there. ERROR_HOST when it is in
 * none of these. */
int program_path(const char *name, char *out, size_t out_bytes, struct error *e);

/* Reads one of them, and maps it until this process ends, which nobody reads. So its pages stay in
 * the page cache, and its next start finds them there. Nothing fails: without it, starts are slower
 * after the cache was dropped. */
void program_keep(const char *name);

#endif
