/* Checks the hash chain of an activity log (store/activity_chain.h). It computes the hashes from
 * the records, page by page as the daemon sends them. */
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
	struct activity_link at; /* the last link that was checked */
	bool begun;
	uint64_t first, records, older; /* older: written without hashes by an older Mayfly */
	uint64_t passed;		/* removed to make room while the pages were read */
	struct activity_link seen;	/* a head from an earlier run; n 0: none */
};

/* head: "N:HASH" that an earlier run printed, or NULL. Returns 0, or -EINVAL if head has another
 * form. */
int activity_verify_begin(
	struct activity_verify *v, const char *sandbox_id, const char *head, struct error *e);

/* Takes the daemon's next answer, in order and with all kinds of records. Fails with
 * ERROR_BAD_SNAPSHOT at the first record that is not as it was written. */
int activity_verify_page(struct activity_verify *v, const json_t *answer, struct error *e);

/* Writes the end of the chain as "N:HASH". */
void activity_verify_head(const struct activity_verify *v, char out[ACTIVITY_HEAD_BYTES]);

#endif
