/* What a kept state takes of the host's disk.
 *
 * Its files are links that it shares with others (layers.h). All of them count but those that a
 * template has now: whatever else goes, they stay as long as this one does. Of two states that share
 * a file both have it counted. */
#ifndef SANDBOX_FOOTPRINT_H
#define SANDBOX_FOOTPRINT_H

#include <stdint.h>

#include "image/home.h"

/* Bytes of the files of the directory `name` in an area; 0 when there is none. Blocks: reads
 * directories. */
uint64_t footprint_of(const struct home *h, enum home_area area, const char *name);

#endif
