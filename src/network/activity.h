/* The activity logs of sandboxes (store/activity.h), as the daemon writes them.
 *
 * Records wait in memory for at most ACTIVITY_FLUSH_MS. Then one commit writes those of all
 * sandboxes. So a killed daemon loses at most that much, and what it has written is complete and in
 * order.
 *
 * A guest decides how many records there are. So their rate is limited per sandbox, per key and in
 * all; a second's worth may come at once. Records beyond the rate are lost and counted. At most
 * once a second, a record of the kind "lost" takes their place. Records about programs and about
 * the sandbox's life have rates of their own, so a flood of one kind cannot hide another kind. All
 * functions belong to the loop's thread. */
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

/* Called by instances_start(). */
int activity_start(struct fleet *f, struct error *e);
/* Writes the records that wait. From then on, a log is written when it is closed. */
void activity_stop(struct fleet *f);
/* Call it after the loop has ended and before the store is closed. */
void activity_free(struct fleet *f);

/* Opens the log of a sandbox. All writers of a sandbox share one log. Stores nothing until there is
 * a record. Returns NULL when out of memory. */
struct activity_log *activity_log_open(struct fleet *f, const char *sandbox_id, const char *key_id);
/* Closes a log. Records that wait are still written. NULL is fine. */
void activity_log_close(struct activity_log *l);

/* Notes a record, made of `said` (activity_record.h). If `said` cannot be read, the record counts
 * as lost. Does nothing if l is NULL. */
void activity_note(struct activity_log *l, enum store_activity_kind kind, const json_t *said);
/* The same for callers without an open log. Takes ownership of `said`; does nothing if it is
 * NULL. */
void activity_say(struct fleet *f, const char *sandbox_id, const char *key_id,
	enum store_activity_kind kind, json_t *said);
/* Notes that `count` records were lost. */
void activity_lost(struct activity_log *l, uint64_t count);

/* Writes the records of a sandbox that wait, so that a reader has what happened before. */
void activity_flush(struct fleet *f, const char *sandbox_id);

/* Returns the list of requests that wait for records of a sandbox (watch.h). */
struct watch **activity_watches(struct fleet *f);

#endif
