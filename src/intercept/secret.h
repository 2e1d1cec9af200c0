/* A value that is never printed, and is wiped when it is freed. */
#ifndef INTERCEPT_SECRET_H
#define INTERCEPT_SECRET_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct secret {
	char *hidden; /* NUL-terminated; owned. Only senders and searches may read it */
	size_t bytes;
};

/* Returns 0, or -1 when out of memory. */
static inline int secret_make(struct secret *s, const char *text)
{
	s->bytes = strlen(text);
	s->hidden = strdup(text);
	return s->hidden ? 0 : -1;
}

static inline void secret_wipe(struct secret *s)
{
	if (s->hidden)
		explicit_bzero(s->hidden, s->bytes);
	free(s->hidden);
	*s = (struct secret){0};
}

#endif
