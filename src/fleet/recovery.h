/* What a daemon does with the sandboxes that it finds at its start. Those of the store that run are
 * adopted, those that do not are cleaned up, and what runs without being in the store (the daemon died
 * before its client was told) is ended. Blocks: nothing is served yet. */
#ifndef FLEET_RECOVERY_H
#define FLEET_RECOVERY_H

#include "base/error.h"

struct fleet;

int instances_recover(struct fleet *f, struct error *e);

#endif
