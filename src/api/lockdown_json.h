/* The lockdown of this host as JSON, for the operator (operator.h, store/lockdown.h). */
#ifndef API_LOCKDOWN_JSON_H
#define API_LOCKDOWN_JSON_H

#include "api/operation.h"

/* Each answers with what is in force then: egress, approvals, keys, and since when (a time, or
 * null). lockdown_set() takes the first three and adds those that are true; it lifts none.
 * lockdown_lift() lifts all. */
int lockdown_show(struct operation *o, struct error *e);
int lockdown_set(struct operation *o, struct error *e);
int lockdown_lift(struct operation *o, struct error *e);

#endif
