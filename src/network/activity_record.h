/* Makes a record of activity (docs/api.md) from a worker's message about a flow or a request
 * (docs/egress-protocol.md). Workers read what guests send, so their messages are not trusted:
 * members that are unknown, too long or of another type are left out. */
#ifndef NETWORK_ACTIVITY_RECORD_H
#define NETWORK_ACTIVITY_RECORD_H

#include <jansson.h>
#include <stdint.h>

enum { ACTIVITY_TEXT_MAX = 2048 }; /* bytes of code, or of all words of a command, escaped */

/* Returns malloc'ed text of at most STORE_ACTIVITY_RECORD_MAX bytes, or NULL if `said` is no
 * object, is too long, or memory is out. *ret_at_ns becomes the time of its end, not later than
 * now_ns. */
char *activity_record(const json_t *said, uint64_t now_ns, uint64_t *ret_at_ns);
/* Makes the record of `count` lost records. */
char *activity_record_lost(uint64_t count, uint64_t at_ns);

#endif
