/* Computes how much of the host's disk a kept state takes.
 *
 * Its files are hard links that it may share with other states (stack.h). All of them count, except
 * those that a template has at present: these take their space anyway, the others stay as long as
 * this state. A file shared by two states counts for both. */
#ifndef SANDBOX_FOOTPRINT_H
#define SANDBOX_FOOTPRINT_H

#include <stdint.h>

#include "image/home.h"

/* Returns the bytes of the files in the directory `name` of an area; 0 when there is none. Blocks:
 * reads directories. */
uint64_t footprint_of(const struct home *h, enum home_area area, const char *name);

#endif
