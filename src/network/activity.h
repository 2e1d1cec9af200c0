/* The activity logs of sandboxes (store/activity.h), as the daemon writes them.
 *
 * Records wait in memory for ACTIVITY_FLUSH_MS at most, and are then written in one commit for all
 * sandboxes. So a killed daemon loses that much of them, and what it wrote is in order and whole.
 *
 * A guest decides how many there are: so many a second are taken of a sandbox, of a key and in all,
 * each with a second's worth at once. Others are lost, which is counted. A record of the kind
 * "lost" stands where they would be, once a second at most. Programs that clients start have rates
 * of their own, and so has what becomes of the sandbox: none can hide another. Everything belongs
 * to the loop's thread. */
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
};

struct activity;
struct activity_log;
struct fleet;
struct watch;

/* For instances_start. */
int activity_start(struct fleet *f, struct error *e);
/* Writes what waits. From then on, a log is written when it is closed. */
void activity_stop(struct fleet *f);
/* After the loop has ended, before the store is closed. */
void activity_free(struct fleet *f);

/* The log of a sandbox, which all who write to it share. NULL: out of memory. Nothing is stored
 * before there is a record. */
struct activity_log *activity_log_open(struct fleet *f, const char *sandbox_id, const char *key_id);
/* What waits is written all the same. NULL is fine. */
void activity_log_close(struct activity_log *l);

/* What there is to say (activity_record.h). One that cannot be read is lost.
 * NULL log: nothing. */
void activity_note(struct activity_log *l, enum store_activity_kind kind, const json_t *said);
/* The same for who has no log open. Takes ownership of `said`; NULL: nothing. */
void activity_say(struct fleet *f, const char *sandbox_id, const char *key_id,
	enum store_activity_kind kind, json_t *said);
/* So many records did not come. */
void activity_lost(struct activity_log *l, uint64_t count);

/* Those who wait for records of a sandbox (watch.h). */
struct watch **activity_watches(struct fleet *f);

#endif
