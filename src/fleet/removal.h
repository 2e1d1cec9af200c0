/* Removes the directory of a paused sandbox or a snapshot in a worker, as its files may be large.
 * What is left of it when the daemon dies, the next start removes: its row is gone or says so. */
#ifndef FLEET_REMOVAL_H
#define FLEET_REMOVAL_H

#include "image/home.h"

struct fleet;
struct removal;

/* Called on the loop after the work. */
typedef void (*removal_done)(struct fleet *f, const char *id);

/* Prepares one, so that nothing can fail later. area: HOME_PAUSED or HOME_SNAPSHOTS. Returns NULL
 * when memory runs out. */
struct removal *removal_new(struct fleet *f, enum home_area area, const char *id);
void removal_free(struct removal *m); /* one that was not started */

/* Takes m over. done may be NULL. */
void removal_start(struct removal *m, removal_done done);

#endif
