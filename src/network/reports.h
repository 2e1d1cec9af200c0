/* What the guest's agent reports of a sandbox, in its activity: programs that other programs start
 * (records of the kind "program"), and files written outside the directories that the sandbox's
 * creation names ("file").
 *
 * The agent reports each (TRACE and TRACE_FILES of docs/agent-protocol.md) over a connection of its
 * own, as long as the sandbox runs. The guest is not trusted: its root user may invent reports, or
 * make none. At most REPORTS_PER_S events of each are looked at; the others count as lost. If the
 * connection is lost, or the agent is too old for this, nothing more is recorded until the sandbox
 * is resumed or the daemon starts again. For files, which a client asked for, a record says so. */
#ifndef NETWORK_REPORTS_H
#define NETWORK_REPORTS_H

#include "fleet/instance.h"
#include "proto/agent_wire.h"

/* Twice what the agent sends, as its seconds are not ours. */
enum { REPORTS_PER_S = 2 * AGENT_REPORTS_PER_S, REPORTS_LOST_MAX = 100000 };

/* Begins for a running sandbox, until it is freed. Programs are left out if the operator does not
 * want them, and files if the client did not ask for them. A failure is no error: nothing is
 * recorded then. */
void reports_begin(struct instance *i);

#endif
