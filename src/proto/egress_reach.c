#include "proto/egress_reach.h"

#include "base/place.h"

bool egress_reach_is_valid(const struct egress_reach *r, size_t bytes)
{
	return bytes == sizeof(*r) && r->magic == EGRESS_REACH_MAGIC &&
	       r->net_count <= EGRESS_REACH_NETS_MAX && r->end_count <= EGRESS_REACH_ENDS_MAX;
}

bool egress_reach_has_end(const struct egress_reach *r, uint32_t address, uint16_t port)
{
	for (uint32_t i = 0; i < r->end_count; i++) {
		const struct egress_reach_end *e = &r->ends[i];

		if ((e->anywhere || e->address == address) && (!e->port || e->port == port))
			return true;
	}
	return false;
}

bool egress_reach_has(const struct egress_reach *r, uint32_t address)
{
	enum place place = place_of(address, NULL);

	if (r->magic != EGRESS_REACH_MAGIC || r->only_ends || place == PLACE_CLOSED)
		return false;
	for (uint32_t i = 0; i < r->net_count && place != PLACE_PUBLIC; i++)
		if (net_has(&r->nets[i], address))
			return true;
	return place == PLACE_PUBLIC;
}
