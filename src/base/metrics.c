#include "base/metrics.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { BUCKETS = 14, LABEL_MAX = 128 };

enum kind { COUNTER, GAUGE, HISTOGRAM };
static const char *const kind_names[] = {"counter", "gauge", "histogram"};

/* Upper bounds in seconds. The bucket without a bound is the count. */
static const double of_requests[BUCKETS] = {
	0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60};
static const double of_steps[BUCKETS] = {0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001,
	0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5};

static const struct family {
	const char *name;
	enum kind kind;
	const char *help;
	const char *labels[METRICS_LABELS];
	const double *bounds;
} families[METRICS_] = {
	[METRIC_BUILD] = {"mayfly_build_info", GAUGE, "1; the version that runs.", {"version"}},
	[METRIC_SANDBOXES] = {"mayfly_sandboxes", GAUGE, "Sandboxes by state and template.",
		{"state", "template"}},
	[METRIC_JAILED] = {"mayfly_sandboxes_jailed", GAUGE,
		"Running sandboxes by the jail of their process: off, user or full.", {"jail"}},
	[METRIC_CREATES] = {"mayfly_creates_total", COUNTER,
		"Sandboxes asked for, by result: ok or the code of the error.", {"result"}},
	[METRIC_CREATE_SECONDS] = {"mayfly_create_seconds", HISTOGRAM,
		"From the request for a sandbox until it was ready.", {NULL}, of_requests},
	[METRIC_POOL_READY] = {"mayfly_pool_ready", GAUGE, "VMs that wait to be claimed.",
		{"template"}},
	[METRIC_POOL_CLAIMS] = {"mayfly_pool_claims_total", COUNTER,
		"Sandboxes that were made by claiming a VM.", {"template"}},
	[METRIC_POOL_MISSES] = {"mayfly_pool_misses_total", COUNTER,
		"Sandboxes that could have been claimed, but no VM was ready.", {"template"}},
	[METRIC_ENDS] = {"mayfly_ends_total", COUNTER, "Sandboxes that ended, by reason.",
		{"reason"}},
	[METRIC_REQUESTS] = {"mayfly_http_requests_total", COUNTER,
		"Requests by route and class of status; envd and port are those to sandboxes.",
		{"route", "status"}},
	[METRIC_REQUEST_SECONDS] = {"mayfly_http_request_seconds", HISTOGRAM,
		"Time of a request of the control API.", {"route"}, of_requests},
	[METRIC_CONNECTIONS] = {"mayfly_http_connections", GAUGE, "Open connections.", {NULL}},
	[METRIC_CONNECTIONS_REFUSED] = {"mayfly_http_connections_refused_total", COUNTER,
		"Connections refused because of a limit.", {NULL}},
	[METRIC_CONNECTIONS_CLOSED] = {"mayfly_http_connections_closed_total", COUNTER,
		"Idle connections that made way for new ones.", {NULL}},
	[METRIC_CONNECTIONS_FAILED] = {"mayfly_http_connections_failed_total", COUNTER,
		"Connections that were cut off, or whose TLS failed.", {NULL}},
	[METRIC_BUDGET_USED] = {"mayfly_buffer_bytes", GAUGE,
		"Held for clients: requests, unread answers, queued events.", {NULL}},
	[METRIC_BUDGET_LIMIT] = {"mayfly_buffer_limit_bytes", GAUGE,
		"What all clients together may make the daemon hold.", {NULL}},
	[METRIC_BUDGET_REFUSED] = {"mayfly_buffer_refusals", GAUGE,
		"Requests refused since the start because that limit was reached.", {NULL}},
	[METRIC_STREAMS] = {"mayfly_http_streams", GAUGE, "Answers being streamed, by surface.",
		{"surface"}},
	[METRIC_TUNNELS] = {"mayfly_http_tunnels", GAUGE, "Upgraded connections.", {NULL}},
	[METRIC_BYTES] = {"mayfly_http_body_bytes_total", COUNTER,
		"Bytes of bodies by surface and direction.", {"surface", "direction"}},
	[METRIC_AGENT_ERRORS] = {"mayfly_agent_link_errors_total", COUNTER,
		"Connections to agents that were lost.", {NULL}},
	[METRIC_LINKS_WAITING] = {"mayfly_links_waiting", GAUGE,
		"Requests that wait for a free link into their sandbox.", {NULL}},
	[METRIC_LINKS_REFUSED] = {"mayfly_links_refused_total", COUNTER,
		"Requests refused because too many use their sandbox.", {"reason"}},
	[METRIC_COMMIT_SECONDS] = {"mayfly_store_commit_seconds", HISTOGRAM,
		"Time of a commit of the store, without waiting for the disk.", {NULL}, of_steps},
	[METRIC_LOOP_LAG_SECONDS] = {"mayfly_loop_lag_seconds", HISTOGRAM,
		"How late the event loop was, once a second.", {NULL}, of_requests},
	[METRIC_WEBHOOK_DELIVERIES] = {"mayfly_webhook_attempts_total", COUNTER,
		"Attempts to deliver an event, by outcome.", {"outcome"}},
	[METRIC_WEBHOOK_WAITING] = {"mayfly_webhook_waiting", GAUGE, "Deliveries that wait.",
		{NULL}},
	[METRIC_WEBHOOK_DROPPED] = {"mayfly_webhook_dropped", GAUGE,
		"Deliveries dropped because a webhook's queue was full.", {NULL}},
	[METRIC_EGRESS_WORKERS] = {"mayfly_egress_workers", GAUGE,
		"Workers that serve the network of a sandbox.", {NULL}},
	[METRIC_EGRESS_FLOWS] = {"mayfly_egress_flows_total", COUNTER,
		"Flows out of sandboxes that have ended or were refused, by verdict.", {"verdict"}},
	[METRIC_EGRESS_BYTES] = {"mayfly_egress_bytes_total", COUNTER,
		"Bytes of flows out of sandboxes, from their side.", {"direction"}},
	[METRIC_MODEL_TOKENS] = {"mayfly_model_tokens_total", COUNTER,
		"Tokens that models counted for sandboxes, as far as they told.", {"direction"}},
	[METRIC_ACTIVITY_RECORDS] = {"mayfly_activity_records_total", COUNTER,
		"Records of what sandboxes do that were written.", {NULL}},
	[METRIC_ACTIVITY_LOST] = {"mayfly_activity_lost_total", COUNTER,
		"Records that came too fast, or could not be written.", {NULL}},
	[METRIC_ACTIVITY_DROPPED] = {"mayfly_activity_dropped_total", COUNTER,
		"Old records that made room for others.", {NULL}},
	[METRIC_ACTIVITY_STORED] = {"mayfly_activity_stored_bytes", GAUGE,
		"What records take of the database, about.", {NULL}},
	[METRIC_HOST_MEMORY_AVAILABLE] = {"mayfly_host_memory_available_bytes", GAUGE,
		"Memory of the host that is available.", {NULL}},
	[METRIC_HOST_DISK_FREE] = {"mayfly_host_disk_free_bytes", GAUGE,
		"Free space where sandboxes' disks are.", {NULL}},
	[METRIC_CGROUPS] = {"mayfly_cgroups", GAUGE,
		"Sandboxes and pooled VMs that have a control group.", {NULL}},
	[METRIC_CGROUP_MEMORY] = {"mayfly_cgroup_memory_bytes", GAUGE,
		"Memory that those take, page cache included.", {NULL}},
	[METRIC_CGROUP_OOM_KILLS] = {"mayfly_cgroup_oom_kills", GAUGE,
		"Of them, killed for want of memory since the groups' directory was made.", {NULL}},
	[METRIC_ASIDE] = {"mayfly_aside_states", GAUGE,
		"States that the database does not know, moved aside.", {NULL}},
	[METRIC_ASIDE_BYTES] = {"mayfly_aside_bytes", GAUGE, "What they take of the disk.", {NULL}},
	[METRIC_PROMISED_MEMORY] = {"mayfly_promised_memory_bytes", GAUGE,
		"Memory that running sandboxes may use.", {NULL}},
	[METRIC_PROMISED_DISK] = {"mayfly_promised_disk_bytes", GAUGE,
		"Disk that running sandboxes may use.", {NULL}},
	[METRIC_CERTIFICATE_EXPIRY] = {"mayfly_tls_certificate_expiry_timestamp_seconds", GAUGE,
		"End of the TLS certificate in use.", {NULL}},
	[METRIC_PROCESS_MEMORY] = {"process_resident_memory_bytes", GAUGE,
		"Resident memory of the daemon.", {NULL}},
	[METRIC_PROCESS_FDS] = {"process_open_fds", GAUGE, "Open descriptors.", {NULL}},
	[METRIC_PROCESS_FDS_MAX] = {"process_max_fds", GAUGE, "Limit of open descriptors.", {NULL}},
	[METRIC_PROCESS_CPU] = {"process_cpu_seconds_total", COUNTER, "CPU time of the daemon.",
		{NULL}},
	[METRIC_PROCESS_START] = {"process_start_time_seconds", GAUGE,
		"Start of the daemon since 1970.", {NULL}},
};

struct series {
	struct series *next;
	char labels[METRICS_LABELS][LABEL_MAX];
	double value; /* of a histogram: the sum */
	uint64_t count;
	uint64_t buckets[BUCKETS]; /* not cumulative */
};

static struct {
	struct series *first;
	unsigned count;
} all[METRICS_];

/* --- series --- */

/* Compares only as much of a label as is kept. */
static bool is_label(const char *kept, const char *value)
{
	return strncmp(kept, value ? value : "", LABEL_MAX - 1) == 0;
}

static void set_label(char kept[LABEL_MAX], const char *value)
{
	(void)strncpy(kept, value ? value : "", LABEL_MAX - 1); /* the rest is zeros */
}

/* Finds a series and moves it to the front, so that busy series are found at once. */
static struct series *find(enum metric m, const char *a, const char *b)
{
	for (struct series **p = &all[m].first; *p; p = &(*p)->next) {
		struct series *s = *p;

		if (!is_label(s->labels[0], a) || !is_label(s->labels[1], b))
			continue;
		*p = s->next;
		s->next = all[m].first;
		all[m].first = s;
		return s;
	}
	return NULL;
}

static struct series *get(enum metric m, const char *a, const char *b)
{
	struct series *s = find(m, a, b);

	if (!s && all[m].count >= METRICS_SERIES_MAX) {
		a = a ? "other" : NULL;
		b = b ? "other" : NULL;
		s = find(m, a, b);
	}
	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL; /* the value is lost */
	set_label(s->labels[0], a);
	set_label(s->labels[1], b);
	s->next = all[m].first;
	all[m].first = s;
	all[m].count++;
	return s;
}

void metrics_add(enum metric m, const char *a, const char *b, double n)
{
	struct series *s = get(m, a, b);

	if (s)
		s->value += n;
}

void metrics_set(enum metric m, const char *a, const char *b, double value)
{
	struct series *s = get(m, a, b);

	if (s)
		s->value = value;
}

void metrics_observe(enum metric m, const char *a, double seconds)
{
	struct series *s = get(m, a, NULL);
	unsigned i = 0;

	if (!s)
		return;
	while (i < BUCKETS && seconds > families[m].bounds[i])
		i++;
	if (i < BUCKETS)
		s->buckets[i]++;
	s->count++;
	s->value += seconds;
}

void metrics_clear(enum metric m)
{
	for (struct series *s = all[m].first, *next; s; s = next) {
		next = s->next;
		free(s);
	}
	all[m].first = NULL;
	all[m].count = 0;
}

void metrics_free(void)
{
	for (unsigned m = 0; m < METRICS_; m++)
		metrics_clear(m);
}

/* --- the page --- */

static int put_escaped(struct buf *out, const char *value)
{
	int r = 0;

	for (; r == 0 && *value; value++) {
		if (*value == '\n')
			r = buf_add_str(out, "\\n");
		else if (strchr("\\\"", *value))
			r = buf_printf(out, "\\%c", *value);
		else
			r = buf_add_u8(out, (uint8_t)*value);
	}
	return r;
}

static int put_label(struct buf *out, bool first, const char *name, const char *value)
{
	int r = buf_printf(out, "%s%s=\"", first ? "{" : ",", name);

	if (r == 0)
		r = put_escaped(out, value);
	return r == 0 ? buf_add_str(out, "\"") : r;
}

/* le is the bucket label, or NULL for none. */
static int put_line(struct buf *out, const struct family *f, const struct series *s,
	const char *suffix, const char *le, double value)
{
	bool first = true;
	int r = buf_printf(out, "%s%s", f->name, suffix);

	for (unsigned i = 0; r == 0 && i < METRICS_LABELS && f->labels[i]; i++, first = false)
		r = put_label(out, first, f->labels[i], s->labels[i]);
	if (r == 0 && le) {
		r = put_label(out, first, "le", le);
		first = false;
	}
	return r == 0 ? buf_printf(out, "%s %.16g\n", first ? "" : "}", value) : r;
}

static int put_histogram(struct buf *out, const struct family *f, const struct series *s)
{
	uint64_t sum = 0;
	char le[32];
	int r = 0;

	for (unsigned i = 0; r == 0 && i < BUCKETS; i++) {
		sum += s->buckets[i];
		(void)snprintf(le, sizeof(le), "%g", f->bounds[i]); /* short */
		r = put_line(out, f, s, "_bucket", le, (double)sum);
	}
	if (r == 0)
		r = put_line(out, f, s, "_bucket", "+Inf", (double)s->count);
	if (r == 0)
		r = put_line(out, f, s, "_sum", NULL, s->value);
	return r == 0 ? put_line(out, f, s, "_count", NULL, (double)s->count) : r;
}

static int put_family(struct buf *out, enum metric m)
{
	const struct family *f = &families[m];
	int r = buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", f->name, f->help, f->name,
		kind_names[f->kind]);

	for (const struct series *s = all[m].first; r == 0 && s; s = s->next)
		r = f->kind == HISTOGRAM ? put_histogram(out, f, s)
					 : put_line(out, f, s, "", NULL, s->value);
	return r;
}

int metrics_render(struct buf *out)
{
	int r = 0;

	for (unsigned m = 0; r == 0 && m < METRICS_; m++) {
		/* a family without labels always has its one series */
		if (!families[m].labels[0])
			(void)get(m, NULL, NULL);
		r = put_family(out, m);
	}
	return r;
}
