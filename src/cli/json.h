/* JSON on standard output. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <jansson.h>

#include "base/error.h"

/* Prints and releases root (NULL: it could not be made); 0, or -errno with e filled. */
int json_print(json_t *root, struct error *e);
/* The same on one line, which is there at once: for output that goes on. */
int json_print_line(json_t *root, struct error *e);

/* A string of any bytes: what is no UTF-8 is replaced. New reference. */
json_t *json_text(const char *s);

/* "2026-01-31T12:00:00Z" of CLOCK_REALTIME nanoseconds. New reference. */
json_t *json_time(unsigned long long realtime_ns);

#endif
