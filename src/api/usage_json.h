/* Usage as JSON, for clients (their own) and the operator (everybody's).
 *
 * A report is of whole days (UTC), both ends included, the current month unless something else is
 * asked for. Its parts: `keys` with the bill of the month that the period ends in, `days`, and the
 * last 1,000 `sandboxes` that reported in it, with the totals of their whole lives. */
#ifndef DAEMON_USAGE_JSON_H
#define DAEMON_USAGE_JSON_H

#include "api/operation.h"

/* Takes month (YYYY-MM), or from and to (YYYY-MM-DD), and by (key, day or sandbox: that part only)
 * from the query. key_id NULL: of all keys. */
int usage_report(struct operation *o, const char *key_id, struct error *e);

/* The operation: ?key= and the above. */
int usage_get(struct operation *o, struct error *e);

#endif
