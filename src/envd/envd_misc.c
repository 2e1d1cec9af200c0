/* /health, /envs and /metrics of a sandbox. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "envd/envd_http.h"
#include "proto/json_tree.h"

void envd_health(struct request *r, const struct instance *i)
{
	envd_reply_empty(r, 204);
}

/* --- /envs --- */

static void set_default(json_t *o, const char *key, const char *value)
{
	if (!json_object_get(o, key))
		(void)json_object_set_new(o, key, json_string(value)); /* out of memory: left out */
}

void envd_envs(struct request *r, const struct instance *i)
{
	json_t *o = json_tree_stored(instance_env_json(i));
	char *text;

	if (!json_is_object(o)) {
		json_decref(o);
		o = json_object();
	}
	set_default(o, "E2B_SANDBOX", "true");
	set_default(o, "E2B_SANDBOX_ID", instance_id(i));
	set_default(o, "E2B_TEMPLATE_ID", instance_shown_template_id(i));
	text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	if (text)
		envd_reply_json_text(r, 200, text, strlen(text));
	else
		envd_reply_empty(r, 500);
	free(text);
}

/* --- /metrics --- */

/* The CPU share since the last request. The slot is a hash of the id. If two sandboxes share a
 * slot, the other one gets the average since its start, which is also correct. */
enum { SAMPLES = 1024 };

static struct sample {
	char sandbox_id[ROUTE_SANDBOX_ID_MAX + 1];
	uint64_t busy_ns, total_ns;
} samples[SAMPLES];

static struct sample *sample_of(const char *id)
{
	uint32_t hash = 2166136261U;
	struct sample *s;

	for (const char *p = id; *p; p++)
		hash = (hash ^ (uint8_t)*p) * 16777619U;
	s = &samples[hash % SAMPLES];
	if (strcmp(s->sandbox_id, id) != 0) {
		memset(s, 0, sizeof(*s));
		strcpy(s->sandbox_id, id); /* the same bound */
	}
	return s;
}

static double cpu_percent(const char *id, const struct agent_metrics *m)
{
	struct sample *s = sample_of(id);
	uint64_t busy = m->cpu_user_ns + m->cpu_system_ns + m->cpu_steal_ns;
	uint64_t total = busy + m->cpu_idle_ns + m->cpu_iowait_ns;
	uint64_t used = busy > s->busy_ns ? busy - s->busy_ns : 0;
	uint64_t passed = total > s->total_ns ? total - s->total_ns : 0;

	s->busy_ns = busy;
	s->total_ns = total;
	return passed && used <= passed ? 100.0 * (double)used / (double)passed : 0;
}

static void on_event(struct envd_call *c, const struct agent_event *ev)
{
	const struct agent_metrics *m = &ev->metrics;
	unsigned long long total = m->memory_total_bytes, disk = m->disk_total_bytes;
	unsigned long long used =
		total - (m->memory_available_bytes < total ? m->memory_available_bytes : total);
	unsigned long long disk_used =
		disk - (m->disk_free_bytes < disk ? m->disk_free_bytes : disk);
	int r;

	if (ev->type != AGENT_METRICS) {
		envd_call_abort(c);
		return;
	}
	r = buf_printf(&c->out,
		"{\"ts\":%llu,\"cpu_count\":%u,\"cpu_used_pct\":%.2f,\"mem_total\":%llu,"
		"\"mem_used\":%llu,\"mem_cache\":%llu,\"mem_total_mib\":%llu,"
		"\"mem_used_mib\":%llu,\"disk_used\":%llu,\"disk_total\":%llu}",
		(unsigned long long)(m->realtime_ns / NS_PER_S), m->cpus,
		cpu_percent(c->sandbox_id, m), total, used,
		(unsigned long long)m->memory_cached_bytes, total >> 20, used >> 20, disk_used,
		disk);
	if (r < 0) {
		envd_call_abort(c);
		return;
	}
	envd_reply_json(c->r, 200, &c->out);
	envd_call_finish(c);
}

void envd_metrics(struct request *r, const struct instance *i)
{
	static const struct envd_ops ops = {.fail = envd_call_fail_http, .event = on_event};
	struct envd_call *c = envd_call_new(r, i, &ops);
	struct envd_error e;

	if (!c)
		return;
	if (envd_call_ask(c, AGENT_GET_METRICS, NULL, &e) < 0)
		envd_call_fail_http(c, &e);
	else
		request_resume(r); /* notices a client that goes */
}
