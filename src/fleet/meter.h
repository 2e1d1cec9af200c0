/* Measures what each sandbox uses and reports it to the store (store/usage.h).
 *
 * All figures are the host's, since a guest may report anything. Time is by our clock; CPU time is
 * the microVM process's (guest and devices). Memory and disk count as promised. Traffic is the
 * bytes of bodies that pass through the daemon; bytes of flows to servers are counted separately.
 * Reports are written every METER_PERIOD_S, when a sandbox ends for any reason, and when somebody
 * asks for usage. Only the traffic needs the daemon to count it, so a killed daemon loses at most
 * one period of it. */
#ifndef FLEET_METER_H
#define FLEET_METER_H

#include <stdint.h>

#include "base/error.h"

enum { METER_PERIOD_S = 10 };

struct fleet;
struct instance;

/* Call it when the sandbox is ready. */
void meter_start(struct instance *i);
/* Continues where the last report of another daemon's sandbox ended. */
int meter_resume(struct instance *i, struct error *e);

/* Counts bytes from and to clients. Nothing is counted for a sandbox that is gone. */
void meter_count_traffic(struct fleet *f, const char *id, uint64_t in_bytes, uint64_t out_bytes);

/* Counts what the sandbox's worker reports of its network: bytes from and to servers, flows that
 * were allowed and denied. */
void meter_count_egress(struct instance *i, uint64_t in_bytes, uint64_t out_bytes, uint64_t allowed,
	uint64_t denied);

/* Reads the CPU time of its process once more: after its death, before it is reaped. */
void meter_note_cpu(struct instance *i);

/* Writes a report. A failure is only logged: usage is not worth failing anything else for, and the
 * next report includes what this one missed. */
void meter_report(struct instance *i);
/* Writes one more report of an instance that has ended, if its worker has counted more since the
 * last one. */
void meter_report_late(struct instance *i);
/* Reports those of a key (NULL: all) whose last report is older than min_age_ns, in one commit. */
void meter_report_each(struct fleet *f, const char *key_id, uint64_t min_age_ns);

#endif
