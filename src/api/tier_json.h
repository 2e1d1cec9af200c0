/* Tiers as JSON, for the operator (operator.h). */
#ifndef API_TIER_JSON_H
#define API_TIER_JSON_H

#include "api/operation.h"

enum { MONEY_BYTES = 32 };

/* Converts millionths to a decimal number such as "0.00075". Returns out. */
const char *money_format(uint64_t micros, char out[MONEY_BYTES]);

/* tiers_put() takes includedMinutes, pricePerMinute (a decimal number as a string), currency and
 * hardStop. A member that is missing keeps its value, or is 0 for a new tier. */
int tiers_list(struct operation *o, struct error *e);
int tiers_put(struct operation *o, struct error *e);
int tiers_remove(struct operation *o, struct error *e);

#endif
