/* Removes the directory of a paused sandbox or a snapshot in a worker thread, because its files may
 * be large. If the daemon dies meanwhile, its next start removes the rest: the row is gone, or says
 * that the sandbox is being killed. */
#ifndef FLEET_REMOVAL_H
#define FLEET_REMOVAL_H

#include "image/home.h"

struct fleet;
struct removal;

/* Called on the loop after the work. */
typedef void (*removal_done)(struct fleet *f, const char *id);

/* Allocates everything that a removal needs, so that removal_start() cannot fail. area: HOME_PAUSED
 * or HOME_SNAPSHOTS. Returns NULL when out of memory. */
struct removal *removal_new(struct fleet *f, enum home_area area, const char *id);
void removal_free(struct removal *m); /* only if it was not started */

/* Takes m over. done may be NULL. */
void removal_start(struct removal *m, removal_done done);

#endif
