/* The fleet that a request is about: it owns the server that took it. */
#ifndef FLEET_FLEET_OF_H
#define FLEET_FLEET_OF_H

#include "fleet/fleet.h"
#include "http/exchange.h"

static inline struct fleet *fleet_of(const struct request *r)
{
	return r->owner;
}

#endif
