#include "api/scrape.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "api/auth.h"
#include "api/health.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/metrics.h"
#include "config.h"
#include "fleet/fleet_of.h"
#include "fleet/instance.h"
#include "fleet/pool.h"
#include "http/connection.h"
#include "http/reply.h"
#include "http/router.h"
#include "network/egress.h"
#include "sandbox/cgroup.h"
#include "sandbox/host.h"
#include "store/activity.h"
#include "store/sandboxes.h"
#include "store/webhooks.h"

enum { LAG_MS = 1000, STATM_MAX = 256 };

struct scrape {
	uv_timer_t lag;
	uint64_t due_ns; /* when the timer should fire */
};

/* --- counted as it happens --- */

static void on_lag(uv_timer_t *t)
{
	struct scrape *s = t->data;
	uint64_t now = clock_monotonic_ns();

	metrics_observe(METRIC_LOOP_LAG_SECONDS, NULL,
		now > s->due_ns ? (double)(now - s->due_ns) / NS_PER_S : 0);
	s->due_ns = now + LAG_MS * NS_PER_MS;
	(void)uv_timer_start(t, on_lag, LAG_MS, 0);
}

static void on_commit(void *arg, uint64_t ns)
{
	metrics_observe(METRIC_COMMIT_SECONDS, NULL, (double)ns / NS_PER_S);
}

int scrape_start(uv_loop_t *loop, struct store *store, struct scrape **ret, struct error *e)
{
	struct scrape *s = calloc(1, sizeof(*s));

	if (!s)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	s->due_ns = clock_monotonic_ns() + LAG_MS * NS_PER_MS;
	(void)uv_timer_init(loop, &s->lag); /* cannot fail */
	s->lag.data = s;
	(void)uv_timer_start(&s->lag, on_lag, LAG_MS, 0);
	metrics_set(METRIC_PROCESS_START, NULL, NULL, (double)clock_realtime_ns() / NS_PER_S);
	store_watch_commits(store, on_commit, NULL);
	*ret = s;
	return 0;
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

void scrape_stop(struct scrape *s)
{
	if (!s)
		return;
	uv_close((uv_handle_t *)&s->lag, on_closed);
	metrics_free();
}

/* --- sandboxes --- */

struct promised {
	uint64_t memory_bytes, disk_bytes;
	unsigned workers;
};

static int count_instance(struct instance *i, void *arg)
{
	struct promised *p = arg;

	metrics_add(METRIC_SANDBOXES, "running", instance_template(i), 1);
	metrics_add(METRIC_JAILED, jail_kind_name(i->sandbox.jail), NULL, 1);
	p->memory_bytes += i->sandbox.memory_bytes;
	p->disk_bytes += i->sandbox.disk_bytes;
	p->workers += egress_is_serving(i);
	return 0;
}

/* Counts sandboxes that do not run, by the state of their rows. */
static int count_row(void *arg, const struct store_sandbox *sb)
{
	static const char *const names[] = {
		[STORE_PAUSING] = "pausing",
		[STORE_PAUSED] = "paused",
		[STORE_SNAPSHOTTING] = "snapshotting",
		[STORE_KILLING] = "ending",
	};

	if ((size_t)sb->state < ARRAY_SIZE(names) && names[sb->state])
		metrics_add(METRIC_SANDBOXES, names[sb->state],
			sb->template_alias ? sb->template_alias : sb->template_id, 1);
	return 0;
}

static void collect_sandboxes(struct fleet *f)
{
	struct promised p = {0};

	metrics_clear(METRIC_SANDBOXES);
	metrics_clear(METRIC_JAILED);
	(void)instance_each(f, count_instance, &p); /* always 0 */
	(void)store_sandbox_each(
		f->store, false, count_row, NULL, NULL); /* fewer numbers on failure */
	metrics_set(METRIC_SANDBOXES, "creating", "", f->making);
	pool_measure(f->pool);
	metrics_set(METRIC_EGRESS_WORKERS, NULL, NULL, p.workers);
	metrics_set(METRIC_PROMISED_MEMORY, NULL, NULL, (double)p.memory_bytes);
	metrics_set(METRIC_PROMISED_DISK, NULL, NULL, (double)p.disk_bytes);
}

/* --- connections --- */

static void collect_connections(const struct connections *all)
{
	unsigned tunnels = 0;

	metrics_clear(METRIC_STREAMS);
	for (const struct connection *c = all->first; c; c = c->next) {
		if (!c->request)
			continue;
		tunnels += c->request->state == REQUEST_RAW;
		if (c->request->state == REQUEST_STREAM)
			metrics_add(METRIC_STREAMS, route_surface(&c->request->route), NULL, 1);
	}
	metrics_set(METRIC_TUNNELS, NULL, NULL, tunnels);
	metrics_set(METRIC_CONNECTIONS, NULL, NULL, all->count);
	metrics_set(METRIC_BUDGET_USED, NULL, NULL, (double)all->budget.bytes);
	metrics_set(METRIC_BUDGET_LIMIT, NULL, NULL, (double)all->budget.max);
	metrics_set(METRIC_BUDGET_REFUSED, NULL, NULL, (double)all->budget.refused);
	if (all->tls)
		metrics_set(METRIC_CERTIFICATE_EXPIRY, NULL, NULL,
			(double)tls_context_expiry_s(all->tls));
}

/* --- what sandboxes do --- */

static void collect_activity(struct fleet *f)
{
	uint64_t bytes = 0;

	(void)store_activity_bytes(f->store, &bytes, NULL); /* zero on failure */
	metrics_set(METRIC_ACTIVITY_STORED, NULL, NULL, (double)bytes);
}

/* --- webhooks --- */

struct queues {
	uint64_t waiting, dropped;
};

static int count_webhook(void *arg, const struct store_webhook *w)
{
	struct queues *q = arg;

	q->waiting += w->queued;
	q->dropped += w->dropped;
	return 0;
}

static void collect_webhooks(struct fleet *f)
{
	struct queues q = {0};

	(void)store_webhook_list(f->store, NULL, count_webhook, &q, NULL); /* zeros on failure */
	metrics_set(METRIC_WEBHOOK_WAITING, NULL, NULL, (double)q.waiting);
	metrics_set(METRIC_WEBHOOK_DROPPED, NULL, NULL, (double)q.dropped);
}

/* --- host and process --- */

static void collect_host(const struct fleet *f)
{
	uint64_t memory = host_memory_available();
	uint64_t disk;

	if (memory != UINT64_MAX)
		metrics_set(METRIC_HOST_MEMORY_AVAILABLE, NULL, NULL, (double)memory);
	metrics_set(METRIC_ASIDE, NULL, NULL, f->aside.count);
	metrics_set(METRIC_ASIDE_BYTES, NULL, NULL, (double)f->aside.bytes);
	if (file_free_bytes(f->dirs.fd, &disk) == 0)
		metrics_set(METRIC_HOST_DISK_FREE, NULL, NULL, (double)disk);
}

static void collect_cgroups(const struct fleet *f)
{
	struct cgroup_totals t;

	cgroup_tree_read(f->dirs.cgroups, &t);
	metrics_set(METRIC_CGROUPS, NULL, NULL, (double)t.groups);
	metrics_set(METRIC_CGROUP_MEMORY, NULL, NULL, (double)t.memory_bytes);
	metrics_set(METRIC_CGROUP_OOM_KILLS, NULL, NULL, (double)t.oom_kills);
}

static unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	if (!dir)
		return 0;
	while (readdir(dir))
		n++;
	(void)closedir(dir);	   /* read-only */
	return n >= 3 ? n - 3 : 0; /* ".", "..", and the directory's own */
}

static double resident_bytes(void)
{
	_cleanup_free_ char *text = NULL;
	unsigned long pages = 0;

	if (file_read(AT_FDCWD, "/proc/self/statm", STATM_MAX, &text, NULL) < 0 ||
		sscanf(text, "%*u %lu", &pages) != 1)
		return 0;
	return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static double seconds_of(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static void collect_process(void)
{
	struct rusage u;
	struct rlimit l;

	metrics_set(METRIC_BUILD, MAYFLY_VERSION, NULL, 1);
	metrics_set(METRIC_PROCESS_MEMORY, NULL, NULL, resident_bytes());
	metrics_set(METRIC_PROCESS_FDS, NULL, NULL, count_fds());
	if (getrlimit(RLIMIT_NOFILE, &l) == 0)
		metrics_set(METRIC_PROCESS_FDS_MAX, NULL, NULL, (double)l.rlim_cur);
	if (getrusage(RUSAGE_SELF, &u) == 0)
		metrics_set(METRIC_PROCESS_CPU, NULL, NULL,
			seconds_of(u.ru_utime) + seconds_of(u.ru_stime));
}

/* --- the page --- */

void scrape_handle(struct request *r)
{
	struct buf page = BUF_INIT(METRICS_PAGE_MAX);
	struct http_reply reply = {.status = 200, .content_type = METRICS_CONTENT_TYPE};

	collect_sandboxes(fleet_of(r));
	collect_connections(r->connection->all);
	collect_activity(fleet_of(r));
	collect_webhooks(fleet_of(r));
	collect_host(fleet_of(r));
	collect_cgroups(fleet_of(r));
	collect_process();
	if (metrics_render(&page) < 0) {
		reply_error(r, 503, "out of memory");
	} else {
		reply.body = buf_head(&page);
		reply.len = buf_len(&page);
		(void)request_reply(r, &reply); /* the client may be gone */
	}
	buf_done(&page);
}

void scrape_dispatch(struct request *r)
{
	static const struct router_entry table[] = {
		{"GET", "/metrics", scrape_handle, ROUTER_OPEN},
		{"GET", "/health", api_health, ROUTER_OPEN},
		{0},
	};

	router_dispatch(r, table, auth_check);
}
