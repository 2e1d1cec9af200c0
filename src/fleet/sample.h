/* What sandboxes use, as their agents tell: asked for over the daemon's own link to each, written down
 * in the store. */
#ifndef FLEET_SAMPLE_H
#define FLEET_SAMPLE_H

#include "fleet/instance.h"

/* Opens the daemon's own connection to the agent (i->link). While the instance is being made,
 * i->maker_ops hear what comes. */
int instance_open_link(struct instance *i, struct error *e);
/* Asks the agent for its metrics now. */
void instance_sample(struct instance *i);

#endif
