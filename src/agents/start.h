/* Start and end of what the daemon does for hosted agents. For the loop's thread. */
#ifndef AGENTS_START_H
#define AGENTS_START_H

#include "base/error.h"

struct fleet;

/* Ends the versions that an earlier daemon built as failed. After catalog_start(). */
int agents_start(struct fleet *f, struct error *e);
void agents_free(struct fleet *f); /* also before agents_start() */

#endif
