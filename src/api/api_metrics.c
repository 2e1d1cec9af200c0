/* Metrics of sandboxes. */
#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "api/auth.h"
#include "base/clock.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "store/samples.h"
#include "store/sandboxes.h"

enum { IDS_MAX = 100, IDS_BYTES = IDS_MAX * (ROUTE_SANDBOX_ID_MAX + 1) };

static json_t *metric_json(const struct store_sample *m)
{
	double cpus = m->cpu_count ? m->cpu_count : 1;

	return json_pack("{s:o, s:I, s:i, s:f, s:I, s:I, s:I, s:I, s:I}", "timestamp",
		api_time(m->at_ns), "timestampUnix", (json_int_t)(m->at_ns / NS_PER_S), "cpuCount",
		(int)m->cpu_count, "cpuUsedPct", m->cpu_used_permille / 10.0 / cpus, "memUsed",
		(json_int_t)m->mem_used_bytes, "memTotal", (json_int_t)m->mem_total_bytes,
		"memCache", (json_int_t)m->mem_cache_bytes, "diskUsed",
		(json_int_t)m->disk_used_bytes, "diskTotal", (json_int_t)m->disk_total_bytes);
}

static int add_metric(void *arg, const struct store_sample *m)
{
	return json_array_append_new(arg, metric_json(m)) < 0 ? -ENOMEM : 0;
}

void api_metrics(struct request *r)
{
	uint64_t from = 0, to = STORE_NEVER_NS;
	struct store_sandbox *sb;
	json_t *list;
	struct error e = {0};

	if (!api_take_time(r, "start", NS_PER_S, &from) || !api_take_time(r, "end", NS_PER_S, &to))
		return;
	sb = api_find(r);
	if (!sb)
		return;
	if (to < STORE_NEVER_NS - NS_PER_S)
		to += NS_PER_S - 1; /* includes the whole last second */
	list = json_array();
	if (store_sample_list(fleet_of(r)->store, sb->id, from, to, add_metric, list, &e) < 0) {
		json_decref(list);
		reply_failure(r, &e);
	} else {
		reply_json(r, 200, list);
	}
	store_sandbox_free(sb);
}

static void add_last(struct request *r, const char *id, json_t *all)
{
	struct store_sandbox *sb = NULL;
	struct store_sample last;
	char own[ROUTE_SANDBOX_ID_MAX + 1];

	/* left out: missing, not the client's, or without a sample yet */
	if (!route_sandbox_id(id, own) || store_sandbox_get(fleet_of(r)->store, own, &sb, NULL) < 0)
		return;
	if (auth_may_see(r, sb->key_id) &&
		store_sample_last(fleet_of(r)->store, own, &last, NULL) == 0)
		(void)json_object_set_new(all, own, metric_json(&last));
	store_sandbox_free(sb);
}

void api_metrics_many(struct request *r)
{
	char ids[IDS_BYTES], *save = NULL;
	unsigned n = 1;
	json_t *all;

	if (!api_take_query(r, "sandbox_ids", ids, sizeof(ids)))
		return;
	for (const char *p = ids; *p; p++)
		n += *p == ',';
	if (n > IDS_MAX) {
		reply_error(r, 400, "Too many sandboxes requested, maximum is %d", IDS_MAX);
		return;
	}
	if (!*ids) {
		reply_error(r, 400, "sandbox_ids must be ids with commas between them");
		return;
	}
	all = json_object();
	for (char *id = strtok_r(ids, ",", &save); id; id = strtok_r(NULL, ",", &save))
		add_last(r, id, all);
	reply_json(r, 200, json_pack("{s:o}", "sandboxes", all));
}
