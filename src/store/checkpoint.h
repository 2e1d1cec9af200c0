/* Moves the write-ahead log into the database file, in a thread of its own.
 *
 * A checkpoint waits for the disk twice; SQLite's default makes it inside the commit that reaches
 * 1,000 pages, which would stop the event loop. Here a second connection does it, which does not
 * hold up the writer.
 *
 * It also keeps the reserve: space taken from the file system behind the end of both files, as much
 * as the log may grow to. When that cannot be had any more the disk counts as full and new rows are
 * refused (db_check_space), while updates and deletions go on: the log has its space, and as they
 * need no new pages, so has the file when the log is moved. */
#ifndef STORE_CHECKPOINT_H
#define STORE_CHECKPOINT_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct checkpointer;

enum {
	CHECKPOINT_PAGES = 1000,	/* the thread starts at so many pages in the log */
	CHECKPOINT_PAGES_FORCED = 8000, /* the writer helps: it writes faster than the thread */
	CHECKPOINT_RESERVE = 8 << 20,	/* bytes, of each file; grows with the log */
};

/* Watches the commits of `db` (the writer's connection). `own` is another connection to the same
 * database, which it takes in any case. file_fd and wal_fd
 * are the two files, borrowed. */
int checkpointer_start(sqlite3 *own, sqlite3 *db, int file_fd, int wal_fd,
	struct checkpointer **ret, struct error *e);
/* Accepts NULL; waits for a checkpoint under way. Before the writer's connection is closed. */
void checkpointer_stop(struct checkpointer *c);
/* `done` is called after each commit with the time that it took. */
void checkpointer_watch(struct checkpointer *c, void (*done)(void *arg, uint64_t ns), void *arg);
/* Accepts NULL. Any thread. */
bool checkpointer_disk_full(const struct checkpointer *c);

#endif
