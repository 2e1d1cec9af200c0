#include "fleet/sample.h"

#include "base/clock.h"
#include "base/log.h"
#include "fleet/fleet.h"
#include "store/samples.h"

void instance_sample(struct instance *i)
{
	struct error e = {0};

	if (i->samples.asked || i->state != INSTANCE_RUNNING)
		return;
	if (!i->link && instance_open_link(i, &e) < 0) {
		log_debug("no metrics: %s sandbox=%s", e.message, i->sandbox.id);
		return;
	}
	if (agent_request(agent_link_conn(i->link), AGENT_GET_METRICS, NULL, &e) < 0)
		return; /* full queue: the agent does not read */
	i->samples.asked = true;
	agent_link_send(i->link);
}

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint32_t cpu_permille(struct instance *i, uint64_t now_ns, uint64_t busy_ns)
{
	uint64_t wall = minus(now_ns, i->samples.at_ns), busy = minus(busy_ns, i->samples.busy_ns);
	bool first = i->samples.at_ns == 0;
	uint64_t max = (uint64_t)i->sandbox.cpus * 1000, v;

	i->samples.at_ns = now_ns;
	i->samples.busy_ns = busy_ns;
	if (first || !wall || busy > UINT64_MAX / 1000)
		return 0;
	v = busy * 1000 / wall;
	return (uint32_t)(v < max ? v : max);
}

static void take_metrics(struct instance *i, const struct agent_metrics *m)
{
	uint64_t busy = m->cpu_user_ns + m->cpu_system_ns;
	struct store_sample s = {
		.at_ns = clock_realtime_ns(),
		.cpu_count = i->sandbox.cpus,
		.cpu_used_permille = cpu_permille(i, clock_monotonic_ns(), busy),
		.mem_total_bytes = m->memory_total_bytes,
		.mem_used_bytes = minus(m->memory_total_bytes, m->memory_available_bytes),
		.mem_cache_bytes = m->memory_cached_bytes,
		.disk_total_bytes = m->disk_total_bytes,
		.disk_used_bytes = minus(m->disk_total_bytes, m->disk_free_bytes),
	};
	struct error e = {0};

	i->samples.asked = false;
	if (i->state != INSTANCE_RUNNING)
		return;
	if (store_sample_add(i->fleet->store, i->sandbox.id, &s, &e) < 0)
		log_debug("no sample: %s sandbox=%s", e.message, i->sandbox.id);
}

/* --- the link --- */

static void on_event(struct agent_link *l, const struct agent_event *ev, void *arg)
{
	struct instance *i = arg;

	if (i->maker)
		i->maker_ops->event(l, ev, i);
	else if (ev->type == AGENT_METRICS && i->samples.asked) /* each request stores one sample */
		take_metrics(i, &ev->metrics);
}

static void on_lost(struct agent_link *l, const struct error *lost, void *arg)
{
	struct instance *i = arg;
	const struct error why = *lost;

	agent_link_close(i->link); /* reopened for the next sample, or by the maker */
	i->link = NULL;
	i->samples.asked = false;
	if (i->maker)
		i->maker_ops->lost(l, &why, i);
}

static const struct agent_link_ops own_link = {.event = on_event, .lost = on_lost};

int instance_open_link(struct instance *i, struct error *e)
{
	return instance_agent_connect(i, LINK_OWN, &own_link, i, &i->link, e);
}
