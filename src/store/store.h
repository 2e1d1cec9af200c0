/* The daemon's durable state: one SQLite file, opened by one daemon at a time.
 *
 * All calls are synchronous and meant for the daemon's event-loop thread. A call takes tens of
 * microseconds (docs/store.md has a table of measurements). Only store_sync may be called from
 * another thread. Each of these headers has one subject: keys, secrets, signers, sandboxes,
 * snapshots, kept, events, usage, activity, approvals, tiers, templates, catalog, builds, tags,
 * samples, budgets, webhooks, creations, agents, agent_versions, lockdown. No other folder has SQL.
 *
 * There are two classes of durability:
 * - The effect of every call that returned 0 survives the death of the daemon, kill -9 included.
 * - "Synced" calls, which say so, have reached the disk when they return. So their effect also
 *   survives a crash of the host. They change what must outlive the host: keys, teams, tiers,
 *   secrets, templates, webhooks, snapshots, paused sandboxes. Running sandboxes die with the host,
 *   so their rows need not wait for the disk.
 *
 * Times are CLOCK_REALTIME nanoseconds unless the name says otherwise. Text is UTF-8 without
 * NUL and bounded (see the enums). Text that is too long or malformed, or is not JSON where
 * JSON is required, is ERROR_USAGE, -EINVAL.
 *
 * Strings in structs passed to callbacks are valid until the callback returns. A callback that
 * returns non-zero ends the iteration, which returns that value. It may read from the store; it
 * may write where the function says so.
 *
 * A missing row is ERROR_NOT_FOUND, -ENOENT. A full disk is ERROR_NO_SPACE, -ENOSPC: the call
 * stores nothing, and the store stays usable. A reserve lets rows be updated and deleted when
 * new ones are refused. -EAGAIN: another program, such as an administrator's sqlite3, has had
 * the write lock for a second. A synced call that fails with -EIO may have taken effect: the
 * disk did not confirm it. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum {
	STORE_ID_MAX = 64,     /* bytes of any id, without the NUL */
	STORE_NAME_MAX = 256,  /* names of keys, teams, templates */
	STORE_TOKEN_MAX = 512, /* access tokens and secrets */
	STORE_URL_MAX = 2048,
	STORE_PATH_MAX_BYTES = 4095,
	STORE_JSON_MAX = 256 * 1024,  /* any JSON text */
	STORE_PAGE_TOKEN_BYTES = 192, /* including the NUL */
	STORE_UUID_BYTES = STR_UUID_BYTES,
};

/* The deadline of a sandbox that never expires. */
#define STORE_NEVER_NS ((uint64_t)INT64_MAX)

struct store;

/* Opens the database at `path`, usually $MAYFLY_HOME/mayfly.db, and migrates its schema. A missing
 * file is created, with mode 0600; the directory must exist. Errors say what to do: -EBUSY another
 * daemon has the file; -EUCLEAN it is damaged; -EPROTO a newer Mayfly or another program made it;
 * -ENOSPC. */
int store_open(const char *path, struct store **ret, struct error *e);
/* Must be called in the thread and process that opened the store. Accepts NULL. */
void store_close(struct store *s);
void store_closep(struct store **s); /* for _cleanup_ */

/* Waits until all earlier commits have reached the disk: one fdatasync. Any thread. */
int store_sync(struct store *s, struct error *e);

/* A batch commits several calls at once: for speed (usage and samples), or for all-or-nothing (the
 * children of a fork). A call that fails inside a batch undoes only itself. But after -ENOSPC or an
 * I/O error the whole batch is undone, and calls return -ECANCELED until it ends. Batches do not
 * nest.
 *
 * store_commit syncs if the batch contains a synced call. If the disk does not confirm that, it
 * only logs, as the commit is already visible. A failed store_commit stores nothing. store_rollback
 * without an open batch does nothing. */
int store_begin(struct store *s, struct error *e);
int store_commit(struct store *s, struct error *e);
void store_rollback(struct store *s);

/* How long or how many rows to keep; 0: the default. */
struct store_retention {
	uint64_t events_ns;	   /* 30 days; also for approvals that no longer wait */
	uint64_t events_max;	   /* 1,000,000 rows */
	uint64_t activity_ns;	   /* 7 days after the sandbox's end */
	uint64_t sandbox_usage_ns; /* 400 days after the last report; totals of keys are kept */
};

/* The bounds of activity.h, in bytes; 0: the default. */
struct store_activity_bounds {
	uint64_t sandbox_bytes, key_bytes, all_bytes;
};

/* Removes rows beyond the retention, for about a millisecond at most. *ret_more: call again at
 * once. Call it once a minute. r may be NULL. */
int store_maintain(struct store *s, uint64_t now_ns, const struct store_retention *r,
	bool *ret_more, struct error *e);

/* Makes a consistent copy while the store is in use, with mode 0600. Fails if `path` exists. Blocks
 * until the file is written. */
int store_backup(struct store *s, const char *path, struct error *e);

/* Calls `done` after each commit with the time that it took, for measurements. The sync of a synced
 * call is not included. */
void store_watch_commits(struct store *s, void (*done)(void *arg, uint64_t ns), void *arg);

#endif
