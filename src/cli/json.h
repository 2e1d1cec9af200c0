/* Prints JSON on standard output. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <jansson.h>

#include "base/error.h"

/* Prints and releases root (NULL: out of memory). Returns 0, or -errno with e filled. */
int json_print(json_t *root, struct error *e);
/* The same on one line and flushed at once, for continuous output. */
int json_print_line(json_t *root, struct error *e);

/* A string from any bytes, for output; invalid UTF-8 is replaced. New reference. */
json_t *json_text(const char *s);

/* Adds a text that the user gave. NULL is left out. ERROR_USAGE: it is not UTF-8; the message
 * begins with `what`. */
int json_add_text(
	json_t *object, const char *name, const char *s, const char *what, struct error *e);

/* CLOCK_REALTIME nanoseconds as "2026-01-31T12:00:00Z". New reference. */
json_t *json_time(unsigned long long realtime_ns);

#endif
