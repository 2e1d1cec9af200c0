/* The daemon's durable state: one SQLite file, opened by one daemon at a time.
 *
 * Everything here is synchronous and made for the daemon's event-loop thread: a call costs tens of
 * microseconds (docs/store.md has the measured table). Only store_sync may be called from another
 * thread. Tables: keys.h, sandboxes.h, events.h, usage.h, tiers.h, templates.h, samples.h,
 * webhooks.h, creations.h. No SQL outside this folder.
 *
 * Durability, two classes; every function says when it is of the second:
 * - a call that returned 0 survives the death of the daemon, kill -9 included;
 * - "synced" calls have reached the disk before they return, so they survive the host's crash too.
 *   They are about what outlives the host: keys, teams, tiers, webhooks, paused sandboxes. Running
 *   sandboxes die with the host, so their rows need not wait for the disk.
 *
 * Conventions: times are CLOCK_REALTIME nanoseconds unless the name says otherwise. Text is UTF-8
 * without NUL and bounded (the enums); what is too long, malformed or not JSON where JSON is due is
 * ERROR_USAGE, -EINVAL. Strings in structs passed to callbacks are valid until the callback
 * returns. A callback that returns non-zero ends the iteration, which returns that value; it may
 * read from the store, and may write where the function says so. A missing row is ERROR_NOT_FOUND,
 * -ENOENT. A full disk is ERROR_NO_SPACE, -ENOSPC: nothing of the call is stored and the store
 * stays usable; rows can be updated and deleted from a reserve when new ones are refused. -EAGAIN:
 * another program, such as an administrator's sqlite3, has had the write lock for a second. A
 * synced call that fails with -EIO may have happened all the same: the disk did not confirm it. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
	STORE_ID_MAX = 64,     /* bytes of any id, without the NUL */
	STORE_NAME_MAX = 256,  /* names of keys, teams, templates */
	STORE_TOKEN_MAX = 512, /* access tokens and secrets */
	STORE_URL_MAX = 2048,
	STORE_PATH_MAX_BYTES = 4095,
	STORE_JSON_MAX = 256 * 1024,  /* any JSON text */
	STORE_PAGE_TOKEN_BYTES = 192, /* page token with its NUL */
	STORE_UUID_BYTES = 37,
};

/* The end of time: a sandbox that never expires. */
#define STORE_NEVER_NS ((uint64_t)INT64_MAX)

struct store;

/* Opens (mode 0600, made when missing) the database at `path`, usually $MAYFLY_HOME/mayfly.db, and
 * brings its schema up to date. The directory must exist. Refused, with what to do in the message:
 * -EBUSY another daemon has it; -EUCLEAN it is damaged; -EPROTO a newer Mayfly or another program
 * made it; -ENOSPC. */
int store_open(const char *path, struct store **ret, struct error *e);
/* Accepts NULL. Must be called in the thread and process that opened. */
void store_close(struct store *s);
void store_closep(struct store **s); /* for _cleanup_ */

/* Waits until everything that was committed before has reached the disk: one fdatasync. Any
 * thread. */
int store_sync(struct store *s, struct error *e);

/* Several calls as one commit: cheaper (flushes of usage and samples), or all or nothing (the
 * children of a fork). Calls that fail inside undo only themselves, except that after -ENOSPC or an
 * I/O error all is undone and calls answer -ECANCELED until the batch ends. Synced calls are synced
 * by store_commit; that the disk did not confirm it is logged and no error, as all see what was committed.
 * No nesting. After a failed store_commit nothing is stored; store_rollback with no batch open does
 * nothing. */
int store_begin(struct store *s, struct error *e);
int store_commit(struct store *s, struct error *e);
void store_rollback(struct store *s);

/* What is kept how long; 0: the default. */
struct store_retention {
	uint64_t events_ns;	   /* 30 days */
	uint64_t events_max;	   /* 1,000,000 rows */
	uint64_t sandbox_usage_ns; /* 400 days after its last report; key totals are kept */
};

/* Removes what retention says, at most about a millisecond's worth; *ret_more when there is more to
 * do at once. Call it once a minute. r may be NULL. */
int store_maintain(struct store *s, uint64_t now_ns, const struct store_retention *r,
	bool *ret_more, struct error *e);

/* A consistent copy while the store is in use, mode 0600, refused when `path` exists. Blocks for as
 * long as writing the file takes. */
int store_backup(struct store *s, const char *path, struct error *e);

/* For measuring: `done` is called after each commit with the time that it took; what a synced call
 * waits for the disk is not in it. */
void store_watch_commits(struct store *s, void (*done)(void *arg, uint64_t ns), void *arg);

struct store_stats {
	uint64_t file_bytes, wal_bytes;
	uint32_t schema_version;
	bool disk_full; /* new rows are refused until there is space again */
};
void store_get_stats(struct store *s, struct store_stats *ret);

#endif
