/* seccomp filters: which system calls a thread may make.
 *
 * The lists stand as tags (`#calls`) beside the code that makes the calls. tools/collect-calls.c
 * describes the tags, and makes BPF of them when Mayfly is built.
 *
 * Filters add up, and a thread inherits those of the thread that made it. So a process's first
 * filter must allow all that any thread needs later. A call that is not on the list kills the whole
 * process with SIGSYS at once. So does a call of another architecture or of the x32 interface. */
#ifndef JAIL_FILTER_H
#define JAIL_FILTER_H

#include <linux/filter.h>
#include <stdbool.h>

#include "base/error.h"

struct filter {
	const char *thread; /* names the thread, for ps(1); NULL: keeps the process's name */
	const struct sock_filter *code;
	unsigned short count; /* of its instructions */
};

enum filter_mode {
	FILTER_OFF,  /* filter_install does nothing; the default */
	FILTER_LOG,  /* unlisted calls succeed, and the kernel writes them to the audit log */
	FILTER_KILL, /* unlisted calls kill the process */
	FILTER_MODES_
};

enum { FILTER_INSTRUCTIONS_MAX = 1024 };

/* Translates a mode's name: off, log, kill. Returns 0 or -EINVAL. */
int filter_parse_mode(const char *name, enum filter_mode *ret);

/* Sets what filter_install does, for the whole process. Call it while there is one thread. */
void filter_set_mode(enum filter_mode mode);

/* Filters the calling thread and the threads that it makes later. This cannot be undone. The caller
 * has set no_new_privs. Returns 0 or -errno: ERROR_HOST where the kernel has no seccomp filters. */
int filter_install(const struct filter *f, struct error *e);

#endif
