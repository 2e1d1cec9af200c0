/* The fleet that a request is about: the owner of the server that received it. */
#ifndef FLEET_FLEET_OF_H
#define FLEET_FLEET_OF_H

#include "fleet/fleet.h"
#include "http/exchange.h"

static inline struct fleet *fleet_of(const struct request *r)
{
	return r->owner;
}

#endif
