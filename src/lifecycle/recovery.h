/* What a daemon does at its start with the sandboxes that it finds. It adopts those in the store
 * that still run and cleans up those that do not. It ends those that run without a row: the earlier
 * daemon died before it told a client of them. Blocks, since nothing is served yet. */
#ifndef LIFECYCLE_RECOVERY_H
#define LIFECYCLE_RECOVERY_H

#include "base/error.h"

struct fleet;

/* 0, or -errno when the store fails. What cannot be done for a single sandbox is logged and left to
 * the next start. */
int instances_recover(struct fleet *f, struct error *e);

#endif
