/* Usage as JSON, for clients (their own) and the operator (everybody's).
 *
 * A report covers whole days (UTC), both ends included. The default is the current month. A report
 * has three parts. `keys` has the bill of the month in which the period ends. `days` has the use of
 * each day. `sandboxes` has the last 1,000 that reported in the period, with the totals of their
 * whole lives. */
#ifndef API_USAGE_JSON_H
#define API_USAGE_JSON_H

#include "api/operation.h"

/* Reads the query: month (YYYY-MM), or from and to (YYYY-MM-DD), and by (key, day or sandbox),
 * which selects one part. key_id NULL means all keys. */
int usage_report(struct operation *o, const char *key_id, struct error *e);

/* The operator's form. It also takes ?key=. */
int usage_get(struct operation *o, struct error *e);

#endif
