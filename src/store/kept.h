/* What is kept of sandboxes: paused ones and snapshots, counted per key and in all. */
#ifndef STORE_KEPT_H
#define STORE_KEPT_H

#include <stdint.h>

#include "base/error.h"
#include "store/store.h"

struct store_kept {
	uint64_t count; /* paused or being paused, and snapshots */
	uint64_t bytes; /* of their files, but for those of templates */
	/* Sandboxes of the key that will be paused at their deadline, so that a place must be left for
	 * them. 0 when all keys are asked for. */
	uint64_t promised;
};

/* key_id NULL: of all keys. */
int store_kept_count(struct store *s, const char *key_id, struct store_kept *ret, struct error *e);

/* What the files of a paused sandbox or a snapshot take; nothing happens when there is none. */
int store_kept_note_paused(struct store *s, const char *id, uint64_t bytes, struct error *e);
int store_kept_note_snapshot(struct store *s, const char *id, uint64_t bytes, struct error *e);

#endif
