/* Templates that clients build: the files that they upload, the builds that wait and run, and what
 * is removed later. For the loop's thread. */
#ifndef CATALOG_CATALOG_H
#define CATALOG_CATALOG_H

#include "base/error.h"

struct fleet;
struct uploads;

/* Ends the builds of an earlier daemon as failed, and removes what they left. Needs the store and
 * the home. */
int catalog_start(struct fleet *f, struct error *e);

/* Kills all builds. The loop must run before catalog_free(). Does nothing before catalog_start().
 */
void catalog_stop(struct fleet *f);
void catalog_free(struct fleet *f);

/* Clients' files (uploads.h). */
struct uploads *catalog_uploads(const struct fleet *f);

/* A build that may have lost its last tag: unless a tag names it then, its files go in a minute,
 * when creations that have just found it are over. Call it after the commit. */
void catalog_drop_later(struct fleet *f, const char *build_id);
/* Removes them at once, in a worker; later, while a build on it waits or runs. */
void catalog_drop(struct fleet *f, const char *build_id);

#endif
