/* Usage of sandboxes as their agents report it. The daemon asks over its own link to each agent and
 * stores the answers. */
#ifndef FLEET_SAMPLE_H
#define FLEET_SAMPLE_H

#include "fleet/instance.h"

/* Opens the daemon's own connection to the agent (i->link). While the instance is being made, its
 * events go to i->maker_ops. */
int instance_open_link(struct instance *i, struct error *e);
/* Asks the agent for its metrics now. */
void instance_sample(struct instance *i);

#endif
