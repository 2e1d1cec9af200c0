/* Programs that other programs in a sandbox start, in its activity: records of the kind "program".
 *
 * The guest's agent reports them (TRACE of docs/agent-protocol.md) over a connection of its own, as
 * long as the sandbox runs. The guest is not trusted: its root user may invent programs, or report
 * none. At most PROGRAMS_PER_S events are looked at; the others count as lost. If the
 * connection is lost, or the agent is too old for this, nothing more is recorded until the sandbox
 * is resumed or the daemon starts again. */
#ifndef NETWORK_PROGRAMS_H
#define NETWORK_PROGRAMS_H

#include "fleet/instance.h"
#include "proto/agent_wire.h"

/* Twice what the agent sends, as its seconds are not ours. */
enum { PROGRAMS_PER_S = 2 * AGENT_PROGRAMS_PER_S, PROGRAMS_LOST_MAX = 100000 };

/* Begins for a running sandbox, until it is freed. Does nothing if the operator does not want
 * programs. A failure is no error: nothing is recorded then. */
void programs_begin(struct instance *i);

#endif
