/* The activity logs of sandboxes (store/activity.h), as the daemon writes them.
 *
 * Records wait in memory for ACTIVITY_FLUSH_MS at most, and are then written in one commit for all
 * sandboxes. So a killed daemon loses that much of them, and what it wrote is in order and whole.
 *
 * A guest decides how many there are: so many a second are taken of a sandbox, of a key and in all,
 * each with a second's worth at once. Others are lost, which is counted. A record of the kind
 * "lost" stands where they would be, once a second at most. Everything belongs to the loop's
 * thread. */
#ifndef NETWORK_ACTIVITY_H
#define NETWORK_ACTIVITY_H

#include <jansson.h>
#include <stdint.h>

#include "store/activity.h"

enum {
	ACTIVITY_FLUSH_MS = 100,
	ACTIVITY_SANDBOX_PER_S = 100,
	ACTIVITY_KEY_PER_S = 400,
	ACTIVITY_ALL_PER_S = 1000,
	ACTIVITY_WATCHES_MAX = 64, /* of a key */
};

struct activity;
struct activity_log;
struct fleet;

/* For instances_start. */
int activity_start(struct fleet *f, struct error *e);
/* Writes what waits. From then on, a log is written when it is closed. */
void activity_stop(struct fleet *f);
/* After the loop has ended, before the store is closed. */
void activity_free(struct fleet *f);

/* NULL: out of memory. Nothing is stored before there is a record. */
struct activity_log *activity_log_open(struct fleet *f, const char *sandbox_id, const char *key_id);
/* Writes what waits. NULL is fine. */
void activity_log_close(struct activity_log *l);

/* What a worker says of a flow or request (activity_record.h). One that cannot be read is lost.
 * NULL log: nothing. */
void activity_note(struct activity_log *l, enum store_activity_kind kind, const json_t *said);
/* So many records did not come. */
void activity_lost(struct activity_log *l, uint64_t count);

/* Called when records of a sandbox were written. The owner keeps it, and removes it. */
struct activity_watch {
	struct activity_watch *next;
	const char *sandbox_id, *key_id; /* borrowed; of who watches */
	/* May remove this watch, and no other. */
	void (*written)(void *arg);
	void *arg;
};

/* ERROR_TOO_MANY: the key has ACTIVITY_WATCHES_MAX. */
int activity_watch(struct fleet *f, struct activity_watch *w, struct error *e);
void activity_unwatch(struct fleet *f, struct activity_watch *w);

#endif
