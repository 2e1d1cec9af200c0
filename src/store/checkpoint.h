/* Moves the write-ahead log into the database file, in a separate thread.
 *
 * A checkpoint waits for the disk twice. By default SQLite runs it inside the commit that reaches
 * 1,000 pages, which would stop the event loop. Here a second connection runs it, without holding
 * up the writer.
 *
 * This module also keeps the reserve: space behind the end of both files, as much as the log may
 * grow to. When the file system cannot provide it, the disk counts as full and new rows are refused
 * (db_check_space). Updates and deletions still work: the log has its space, and they need no new
 * pages when the log is moved into the file. */
#ifndef STORE_CHECKPOINT_H
#define STORE_CHECKPOINT_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct checkpointer;

enum {
	CHECKPOINT_PAGES = 1000,	/* pages in the log at which the thread starts */
	CHECKPOINT_PAGES_FORCED = 8000, /* pages at which the writer helps, as it writes faster than
					 * the thread */
	CHECKPOINT_RESERVE = 8 << 20,	/* bytes for each file; grows with the log */
};

/* Starts to watch the commits of `db`, the writer's connection. `own` is another connection to the
 * same database; it is taken over even on failure. file_fd and wal_fd are the two files,
 * borrowed. */
int checkpointer_start(sqlite3 *own, sqlite3 *db, int file_fd, int wal_fd,
	struct checkpointer **ret, struct error *e);
/* Waits for a running checkpoint. Call it before the writer's connection is closed. Accepts
 * NULL. */
void checkpointer_stop(struct checkpointer *c);
/* Calls `done` after each commit with the time that the commit took. */
void checkpointer_watch(struct checkpointer *c, void (*done)(void *arg, uint64_t ns), void *arg);
/* Reserves the space anew, for a caller that has truncated a file: that gives the space behind its
 * end back. Accepts NULL. */
void checkpointer_renew(struct checkpointer *c);
/* Accepts NULL. Any thread. */
bool checkpointer_disk_full(const struct checkpointer *c);

#endif
