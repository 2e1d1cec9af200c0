/* Usage as JSON, for clients (their own) and the operator (everybody's).
 *
 * A report covers whole days (UTC), both ends included; by default the current month. Its parts
 * are: `keys`, with the bill of the month in which the period ends; `days`; and `sandboxes`, the
 * last 1,000 that reported in the period, with the totals of their whole lives. */
#ifndef API_USAGE_JSON_H
#define API_USAGE_JSON_H

#include "api/operation.h"

/* Reads the query: month (YYYY-MM), or from and to (YYYY-MM-DD), and by (key, day or sandbox: only
 * that part). key_id NULL: all keys. */
int usage_report(struct operation *o, const char *key_id, struct error *e);

/* The operation: ?key= plus the above. */
int usage_get(struct operation *o, struct error *e);

#endif
