/* Reads the names in a directory, sorted by bytes, without "." and "..". */
#ifndef AGENT_NAMES_H
#define AGENT_NAMES_H

#include <stddef.h>

struct names {	    /* all zero: empty */
	char *text; /* NUL-terminated, one after the other */
	size_t bytes, capacity;
	char **sorted;
	size_t count;
};

/* 0, -E2BIG (more than a million, or 64 MiB), -ENOMEM, or the error of reading. */
int names_read(const char *path, struct names *n);
void names_done(struct names *n);

#endif
