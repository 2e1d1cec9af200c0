/* Checks the chain of a log of activity (store/activity_chain.h), page by page as the daemon
 * answers, from what the records say. */
#ifndef CLI_ACTIVITY_VERIFY_H
#define CLI_ACTIVITY_VERIFY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "store/activity_chain.h"

enum { ACTIVITY_HEAD_BYTES = 96 }; /* "N:HASH" */

struct activity_verify {
	const char *sandbox_id;
	struct activity_link at; /* the last one that was checked */
	bool begun;
	uint64_t first, records, older; /* older: an older Mayfly wrote them, without hashes */
	uint64_t passed;		/* made room while the pages were read */
	struct activity_link seen;	/* a head of an earlier time; n 0: none */
};

/* head: "N:HASH" that an earlier run printed, or NULL. -EINVAL: it is none. */
int activity_verify_begin(
	struct activity_verify *v, const char *sandbox_id, const char *head, struct error *e);

/* The next answer, in order and with all kinds. ERROR_BAD_SNAPSHOT: the first record that is not
 * as it was written. */
int activity_verify_page(struct activity_verify *v, const json_t *answer, struct error *e);

/* The chain's end, as "N:HASH". */
void activity_verify_head(const struct activity_verify *v, char out[ACTIVITY_HEAD_BYTES]);

#endif
