/* Moves the write-ahead log into the database file, in a thread of its own.
 *
 * A checkpoint waits for the disk twice; SQLite's default makes it inside the commit that reaches
 * 1,000 pages, which would stop the event loop. Here a second connection does it, which does not
 * hold up the writer. The file system's free space is seen here too: while the log cannot be moved
 * for lack of space, new rows are refused (db_check_space) and the rest of the log's reserve serves
 * updates and deletions. */
#ifndef STORE_CHECKPOINT_H
#define STORE_CHECKPOINT_H

#include <sqlite3.h>
#include <stdbool.h>

#include "base/error.h"

struct checkpointer;

enum {
	CHECKPOINT_PAGES = 1000,	/* the thread starts at so many pages in the log */
	CHECKPOINT_PAGES_FORCED = 8000, /* the writer helps: it writes faster than the thread */
};

/* Watches the commits of `db` (the writer's connection), whose file is `path`. */
int checkpointer_start(const char *path, sqlite3 *db, struct checkpointer **ret, struct error *e);
/* Accepts NULL; waits for a checkpoint under way. Before the writer's connection is closed. */
void checkpointer_stop(struct checkpointer *c);
/* Accepts NULL. Any thread. */
bool checkpointer_disk_full(const struct checkpointer *c);

#endif
