/* Makes a record of activity (docs/api.md) of what a worker says of a flow or a request
 * (docs/egress-protocol.md). Workers read what guests send, so what they say is checked: members
 * that are not known, too long or of another type are left out. */
#ifndef NETWORK_ACTIVITY_RECORD_H
#define NETWORK_ACTIVITY_RECORD_H

#include <jansson.h>
#include <stdint.h>

enum { ACTIVITY_TEXT_MAX = 2048 }; /* bytes of code, or of all words of a command, escaped */

/* malloc'ed text of at most STORE_ACTIVITY_RECORD_MAX bytes; NULL: no object, too long, or out of
 * memory. *ret_at_ns: its end, not later than now_ns. */
char *activity_record(const json_t *said, uint64_t now_ns, uint64_t *ret_at_ns);
/* That so many records did not come. */
char *activity_record_lost(uint64_t count, uint64_t at_ns);

#endif
