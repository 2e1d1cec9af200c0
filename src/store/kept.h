/* Counts the states kept of sandboxes, that is, paused sandboxes and snapshots: per key and in
 * total. */
#ifndef STORE_KEPT_H
#define STORE_KEPT_H

#include <stdint.h>

#include "base/error.h"
#include "store/store.h"

struct store_kept {
	uint64_t count; /* paused or pausing sandboxes, and snapshots */
	uint64_t bytes; /* of their files, without those of templates */
	/* Running sandboxes of the key that will be paused at their deadline: a place must be kept
	 * for each. 0 when all keys are counted. */
	uint64_t promised;
};

/* key_id NULL counts all keys. */
int store_kept_count(struct store *s, const char *key_id, struct store_kept *ret, struct error *e);

/* Note the size of the files of a paused sandbox or of a snapshot. Without such a row, nothing
 * happens. */
int store_kept_note_paused(struct store *s, const char *id, uint64_t bytes, struct error *e);
int store_kept_note_snapshot(struct store *s, const char *id, uint64_t bytes, struct error *e);

#endif
