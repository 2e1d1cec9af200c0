/* Counters, gauges and histograms of the daemon, in Prometheus' text format (version 0.0.4).
 *
 * One table in metrics.c lists all families: name, type, help, label names. The first value of a
 * label set creates its series. A family keeps METRICS_SERIES_MAX series; later label values count
 * as "other", so no client can make the page grow without bound. No series is per sandbox or per
 * key.
 *
 * There is one set per process, for its event-loop thread only. */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include "base/buf.h"

enum { METRICS_SERIES_MAX = 256, METRICS_LABELS = 2, METRICS_PAGE_MAX = 4 * 1024 * 1024 };

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum metric {
	METRIC_BUILD,	       /* version */
	METRIC_SANDBOXES,      /* state, template */
	METRIC_JAILED,	       /* jail: off, user or full */
	METRIC_CREATES,	       /* result: ok or an error's code */
	METRIC_CREATE_SECONDS, /* histogram */
	METRIC_POOL_READY,     /* template; the next two likewise */
	METRIC_POOL_CLAIMS,
	METRIC_POOL_MISSES,
	METRIC_ENDS,		/* reason */
	METRIC_REQUESTS,	/* route, status */
	METRIC_REQUEST_SECONDS, /* histogram; route */
	METRIC_CONNECTIONS,
	METRIC_CONNECTIONS_REFUSED,
	METRIC_CONNECTIONS_CLOSED, /* idle connections closed to make room */
	METRIC_CONNECTIONS_FAILED, /* cut off, or no TLS */
	METRIC_BUDGET_USED,
	METRIC_BUDGET_LIMIT,
	METRIC_BUDGET_REFUSED,
	METRIC_STREAMS, /* surface */
	METRIC_TUNNELS,
	METRIC_BYTES, /* surface, direction */
	METRIC_AGENT_ERRORS,
	METRIC_LINKS_WAITING,
	METRIC_LINKS_REFUSED,	   /* reason: full or late */
	METRIC_COMMIT_SECONDS,	   /* histogram */
	METRIC_LOOP_LAG_SECONDS,   /* histogram */
	METRIC_WEBHOOK_DELIVERIES, /* outcome */
	METRIC_WEBHOOK_WAITING,
	METRIC_WEBHOOK_DROPPED,
	METRIC_EGRESS_WORKERS,
	METRIC_EGRESS_FLOWS, /* verdict */
	METRIC_EGRESS_BYTES, /* direction: in or out */
	METRIC_MODEL_TOKENS, /* likewise */
	METRIC_ACTIVITY_RECORDS,
	METRIC_ACTIVITY_LOST,
	METRIC_ACTIVITY_DROPPED,
	METRIC_ACTIVITY_STORED,
	METRIC_HOST_MEMORY_AVAILABLE,
	METRIC_HOST_DISK_FREE,
	METRIC_CGROUPS,
	METRIC_CGROUP_MEMORY,
	METRIC_CGROUP_OOM_KILLS,
	METRIC_ASIDE,
	METRIC_ASIDE_BYTES,
	METRIC_PROMISED_MEMORY,
	METRIC_PROMISED_DISK,
	METRIC_CERTIFICATE_EXPIRY,
	METRIC_PROCESS_MEMORY,
	METRIC_PROCESS_FDS,
	METRIC_PROCESS_FDS_MAX,
	METRIC_PROCESS_CPU,
	METRIC_PROCESS_START,
	METRICS_,
};

/* a and b are the values of the family's labels, NULL where it has none. */
void metrics_add(enum metric m, const char *a, const char *b, double n);
void metrics_set(enum metric m, const char *a, const char *b, double value);
void metrics_observe(enum metric m, const char *a, double seconds);
/* Forgets all series of a gauge that is set anew for each page. */
void metrics_clear(enum metric m);

/* Renders the page. 0, -ENOMEM or -EMSGSIZE. */
int metrics_render(struct buf *out);
void metrics_free(void);

#endif
