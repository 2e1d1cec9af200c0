#include "fleet/meter.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "sandbox/sandbox_dir.h"
#include "store/usage.h"

#define MIB (UINT64_C(1) << 20)

void meter_start(struct instance *i)
{
	i->meter.begin_ns = i->meter.recorded_ns = clock_monotonic_ns();
}

/* Only the wall clock measured the time without a daemon. If that clock went back, the last report
 * stands. */
int meter_resume(struct instance *i, struct error *e)
{
	uint64_t now = clock_realtime_ns(), since_ns = i->started_ns;
	uint64_t by_wall_ns = now > since_ns ? now - since_ns : 0;
	struct store_counters c;
	int r = store_usage_of_run(i->fleet->store, i->sandbox.id, i->vmm_start, &c, e);

	if (r < 0)
		return r;
	meter_start(i);
	i->meter.before_ns = c.uptime_us * NS_PER_US;
	if (by_wall_ns > i->meter.before_ns)
		i->meter.before_ns = by_wall_ns;
	i->meter.cpu_ns = c.cpu_us * NS_PER_US;
	i->meter.in_bytes = c.net_in_bytes;
	i->meter.out_bytes = c.net_out_bytes;
	i->meter.egress_in_bytes = c.egress_in_bytes;
	i->meter.egress_out_bytes = c.egress_out_bytes;
	i->meter.flows_allowed = c.flows_allowed;
	i->meter.flows_denied = c.flows_denied;
	return 0;
}

void meter_count_traffic(struct fleet *f, const char *id, uint64_t in_bytes, uint64_t out_bytes)
{
	struct instance *i = instance_find(f, id);

	if (!i)
		return;
	i->meter.in_bytes += in_bytes;
	i->meter.out_bytes += out_bytes;
}

void meter_count_egress(struct instance *i, uint64_t in_bytes, uint64_t out_bytes, uint64_t allowed,
	uint64_t denied)
{
	i->meter.egress_in_bytes += in_bytes;
	i->meter.egress_out_bytes += out_bytes;
	i->meter.flows_allowed += allowed;
	i->meter.flows_denied += denied;
	i->meter.changed = true;
}

void meter_report_late(struct instance *i)
{
	if (i->meter.changed)
		meter_report(i);
}

/* If the process is gone and its number may be another's, the last reading stands. */
void meter_note_cpu(struct instance *i)
{
	uint64_t ns = process_cpu_ns(i->sandbox.pid);

	if (ns > i->meter.cpu_ns && process_start_ticks(i->sandbox.pid) == i->vmm_start)
		i->meter.cpu_ns = ns;
}

void meter_report(struct instance *i)
{
	uint64_t now_ns = clock_monotonic_ns();
	uint64_t up_us = (i->meter.before_ns + now_ns - i->meter.begin_ns) / NS_PER_US;
	uint64_t up_ms = up_us / 1000; /* keeps the products below small */
	struct store_counters c = {
		.uptime_us = up_us,
		.memory_mib_s = i->sandbox.memory_bytes / MIB * up_ms / 1000,
		.disk_mib_s = i->sandbox.disk_bytes / MIB * up_ms / 1000,
		.net_in_bytes = i->meter.in_bytes,
		.net_out_bytes = i->meter.out_bytes,
		.egress_in_bytes = i->meter.egress_in_bytes,
		.egress_out_bytes = i->meter.egress_out_bytes,
		.flows_allowed = i->meter.flows_allowed,
		.flows_denied = i->meter.flows_denied,
	};
	struct error e = {0};

	meter_note_cpu(i);
	c.cpu_us = i->meter.cpu_ns / NS_PER_US;
	i->meter.recorded_ns = now_ns;
	i->meter.changed = false;
	if (store_usage_record(i->fleet->store, i->sandbox.id, i->key_id, i->vmm_start, &c,
		    clock_realtime_ns(), &e) < 0)
		log_warn("cannot record usage: %s sandbox=%s", e.message, i->sandbox.id);
}

struct round {
	const char *key_id;
	uint64_t before_ns; /* reports older than this */
};

static int report_one(struct instance *i, void *arg)
{
	const struct round *round = arg;

	if (i->meter.recorded_ns <= round->before_ns &&
		(!round->key_id || strcmp(i->key_id, round->key_id) == 0))
		meter_report(i);
	return 0;
}

void meter_report_each(struct fleet *f, const char *key_id, uint64_t min_age_ns)
{
	uint64_t now = clock_monotonic_ns();
	struct round round = {key_id, now > min_age_ns ? now - min_age_ns : 0};
	struct error e = {0};
	int r = store_begin(f->store, &e);

	if (r == 0) {
		(void)instance_each(f, report_one, &round); /* always 0 */
		r = store_commit(f->store, &e);
	}
	if (r < 0)
		log_warn("cannot record usage: %s", e.message);
}
