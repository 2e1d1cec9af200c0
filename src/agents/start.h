/* Starts and ends the daemon's work for hosted agents. All functions belong to the loop's
 * thread. */
#ifndef AGENTS_START_H
#define AGENTS_START_H

#include "base/error.h"

struct fleet;

/* Marks versions as failed that an earlier daemon was still building. Call it after
 * catalog_start(). */
int agents_start(struct fleet *f, struct error *e);
void agents_free(struct fleet *f); /* allowed before agents_start(), too */

#endif
