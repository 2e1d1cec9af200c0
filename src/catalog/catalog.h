/* Templates that clients build: uploaded files, builds that wait or run, and files that are to be
 * removed. All functions belong to the loop's thread. */
#ifndef CATALOG_CATALOG_H
#define CATALOG_CATALOG_H

#include <stdbool.h>

#include "base/error.h"

struct fleet;
struct store_build;
struct uploads;

/* Marks the builds of an earlier daemon as failed, and removes their files. Call it when the store
 * and the home are open. */
int catalog_start(struct fleet *f, struct error *e);

/* Kills all builds. The loop must run between this call and catalog_free(). Does nothing before
 * catalog_start(). */
void catalog_stop(struct fleet *f);
void catalog_free(struct fleet *f);

/* Returns the clients' files (uploads.h). */
struct uploads *catalog_uploads(const struct fleet *f);

/* Call this after a commit that may have removed the last tag of a build. After a minute the
 * build's files are removed, unless a tag names it then. Creations that have just found the build
 * are over by that time. */
void catalog_drop_later(struct fleet *f, const char *build_id);
/* Whether the files of a build are there. If no tag names it and they are to be removed later, that
 * minute begins anew. */
bool catalog_keep(struct fleet *f, const struct store_build *b);
/* Removes a build's files at once, in a worker. Waits while another build on top of it waits or
 * runs. */
void catalog_drop(struct fleet *f, const char *build_id);

#endif
