/* Metering: what each sandbox uses, counted here and reported to the store (store/usage.h).
 *
 * Everything is the host's view, as a guest's own word could be anything: time by our clock, CPU
 * time of the microVM's process (guest and devices), memory and disk as promised, bytes of bodies
 * that pass through the daemon. Reports are made every METER_PERIOD_S, at the end of a sandbox
 * however it comes, and when somebody asks for usage. All but the bytes goes on being true without
 * us, so that a killed daemon loses the bytes of one period at most. */
#ifndef DAEMON_METER_H
#define DAEMON_METER_H

#include <stdint.h>

#include "base/error.h"

enum { METER_PERIOD_S = 10 };

struct fleet;
struct instance;

/* At readiness. */
void meter_start(struct instance *i);
/* Of a sandbox that another daemon made: goes on where its last report ended. */
int meter_resume(struct instance *i, struct error *e);

/* Bytes from and to clients; a sandbox that is gone counts nothing. */
void meter_count_traffic(struct fleet *f, const char *id, uint64_t in_bytes, uint64_t out_bytes);

/* Reads the CPU time of its process once more: after a death, before it is waited for. */
void meter_note_cpu(struct instance *i);

/* A failure is logged: usage is not worth failing anything else for, and the next report makes it
 * good. */
void meter_report(struct instance *i);
/* Those of a key, or NULL: all, whose last report is older than min_age_ns; one commit. */
void meter_report_each(struct fleet *f, const char *key_id, uint64_t min_age_ns);

#endif
