#include "daemon/daemon.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agents/start.h"
#include "api/scrape.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "catalog/catalog.h"
#include "catalog/runtime_builds.h"
#include "daemon/rights.h"
#include "daemon/self_signed.h"
#include "daemon/surfaces.h"
#include "daemon/webhooks.h"
#include "fleet/pool.h"
#include "fleet/runtimes.h"
#include "http/peers.h"
#include "http/server.h"
#include "invocation/invocations.h"
#include "lifecycle/lifecycle.h"
#include "network/activity.h"
#include "network/activity_process.h"
#include "network/approvals.h"
#include "network/identity.h"
#include "network/sealing.h"
#include "policy/authority.h"
#include "policy/seal.h"
#include "sandbox/backend.h"
#include "sandbox/cgroup.h"

#define DATABASE     "mayfly.db"
#define ADMIN_SOCKET "daemon.sock"
/* Workers mostly wait: for template files to be read, for microVMs to end. */
#define WORKERS "16" /* of these, lane.h's long work takes at most LANE_MAX and BOOTS_MAX */

/* jansson (up to 2.14, its issue 362) overwrites the heap if memory runs out within a string that
 * it reads. It is better to exit at once: sandboxes survive that. */
static void *json_allocate(size_t n)
{
	void *p = malloc(n);

	if (!p) {
		log_error("out of memory for JSON: the daemon ends, sandboxes go on");
		_exit(EXIT_FAILURE);
	}
	return p;
}

static void no_work(uv_work_t *w)
{
}

/* Starts the workers now rather than at the first request: libuv aborts if it cannot start a
 * thread. */
static void start_workers(struct daemon *d)
{
	static uv_work_t first;

	(void)setenv("UV_THREADPOOL_SIZE", WORKERS, 0); /* otherwise libuv's own number */
	(void)uv_queue_work(
		d->fleet.loop, &first, no_work, NULL); /* fails only without a callback */
}

/* Every sandbox and every connection needs some descriptors. */
static void raise_limits(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
		l.rlim_cur = l.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &l); /* fewer will do, too */
	}
}

static int open_store(struct daemon *d, struct error *e)
{
	_cleanup_free_ char *path = str_printf("%s/%s", d->fleet.home.path, DATABASE);

	return path ? store_open(path, &d->fleet.store, e)
		    : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

static int open_secrets(struct daemon *d, struct error *e)
{
	_cleanup_free_ char *path =
		d->options.secrets_key ? strdup(d->options.secrets_key)
				       : str_printf("%s/%s", d->fleet.home.path, SEAL_KEY_FILE);
	int r = 0;

	d->fleet.sealer = path ? sealer_new(path) : NULL;
	if (!d->fleet.sealer)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	if (d->options.guest_ca)
		r = authority_read_file(d->options.guest_ca, &d->guest_ca, e);
	d->fleet.options.guest_ca = d->guest_ca;
	return r < 0 ? r : sealing_start(&d->fleet, e);
}

/* The address under which clients reach us, as far as we know it. */
static char *own_url(const struct daemon_options *o, unsigned port)
{
	const char *domain = o->tls_self_signed ? o->tls_self_signed : o->domain;
	bool tls = o->tls_cert || o->tls_self_signed;
	char text[8] = "";

	if (port != (tls ? 443 : 80))
		(void)snprintf(text, sizeof(text), ":%u", port); /* fits */
	if (domain)
		return str_printf("%s://api.%s%s", tls ? "https" : "http", domain, text);
	return str_printf("%s://%.*s%s", tls ? "https" : "http",
		(int)(strrchr(o->listen, ':') - o->listen), o->listen, text); /* it was checked */
}

static int open_issuer(struct daemon *d, unsigned port, struct error *e)
{
	const char *given = d->options.issuer;

	if (!given) {
		free(d->issuer);
		d->issuer = own_url(&d->options, port);
	}
	d->fleet.options.issuer = given ? given : d->issuer;
	return given	   ? identity_check_issuer(given, e)
	       : d->issuer ? 0
			   : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

static int open_log(const struct daemon_options *o, struct error *e)
{
	enum log_level level;

	if (o->log_level) {
		if (log_parse_level(o->log_level, &level) < 0)
			return error_set(e, ERROR_USAGE, EINVAL,
				"'%s' is no log level: give error, warn, info or debug",
				o->log_level);
		log_set_level(level);
	}
	if (!o->log_format)
		return 0;
	if (strcmp(o->log_format, "text") != 0 && strcmp(o->log_format, "json") != 0)
		return error_set(e, ERROR_USAGE, EINVAL, "'%s' is no log format: give text or json",
			o->log_format);
	log_set_json(strcmp(o->log_format, "json") == 0);
	return 0;
}

static int check_options(struct daemon *d, struct error *e)
{
	const struct daemon_options *o = &d->options;
	struct sockaddr_storage a;
	bool loopback;

	if (!o->tls_cert != !o->tls_key)
		return error_set(e, ERROR_USAGE, EINVAL,
			"TLS needs both --tls-cert and --tls-key: %s is missing",
			o->tls_cert ? "--tls-key" : "--tls-cert");
	if (o->tls_cert && o->tls_self_signed)
		return error_set(e, ERROR_USAGE, EINVAL,
			"give either --tls-cert and --tls-key or --tls-self-signed");
	if (o->metrics_listen) {
		int r = server_parse_listen(o->metrics_listen, &a, &loopback, e);

		if (r < 0)
			return r;
		if (!loopback && !o->metrics_public)
			return error_set(e, ERROR_USAGE, EACCES,
				"%s can be reached from other hosts, and metrics ask for no key: "
				"use 127.0.0.1, or add --metrics-public where the network "
				"protects it",
				o->metrics_listen);
	}
	return server_parse_listen(o->listen, &a, &loopback, e);
}

static void on_renewed(void *arg)
{
	struct daemon *d = arg;

	server_reload(d->server);
}

static int open_self_signed(struct daemon *d, struct error *e)
{
	struct self_signed_options o = {.home = d->fleet.home.path,
		.domain = d->options.tls_self_signed,
		.loop = d->fleet.loop,
		.renewed = on_renewed,
		.arg = d};
	int r;

	if (!o.domain)
		return 0;
	r = self_signed_start(&o, &d->self_signed, e);
	if (r < 0)
		return r;
	d->options.tls_cert = self_signed_cert(d->self_signed);
	d->options.tls_key = self_signed_key(d->self_signed);
	return 0;
}

static int open_server(struct daemon *d, struct error *e)
{
	_cleanup_free_ char *admin = str_printf("%s/%s", d->fleet.home.path, ADMIN_SOCKET);
	int r;

	d->server = server_new(d->options.connections_max, d->options.peer_connections_max);
	if (!d->server || !admin)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	r = open_self_signed(d, e);
	d->server->all.loop = d->fleet.loop;
	d->server->all.ops = &surfaces_ops;
	d->server->all.owner = &d->fleet;
	d->server->all.domain = d->options.domain;
	for (size_t i = 0; r == 0 && i < d->options.proxy_count; i++)
		r = peers_trust(d->server->all.peers, d->options.proxies[i], e);
	if (r == 0 && d->options.tls_cert)
		r = server_use_tls(d->server, d->options.tls_cert, d->options.tls_key, e);
	if (r == 0)
		r = server_start(d->server, d->options.listen, e);
	if (r == 0)
		r = open_issuer(d, d->server->port, e);
	if (r == 0 && d->options.metrics_listen)
		r = server_start_metrics(d->server, d->options.metrics_listen, e);
	return r < 0 ? r : server_start_admin(d->server, admin, e);
}

static int open_webhooks(struct daemon *d, struct error *e)
{
	const struct webhooks_options o = {.store = d->fleet.store,
		.loop = d->fleet.loop,
		.ca = d->options.webhook_ca,
		.allow_private = d->options.webhook_allow_private};

	return webhooks_start(&o, &d->webhooks, e);
}

static int limit_disk(struct daemon *d, struct error *e)
{
	struct cgroup_io *io = &d->cgroups.io_max;

	if (!d->options.disk_rate && !d->options.disk_ops)
		return 0;
	if (!d->cgroups.io)
		return error_set(e, ERROR_HOST, ENOTSUP,
			"%s has no controller io, which --disk-rate and --disk-ops need: "
			"Delegate=cpu io memory pids",
			d->cgroups.path);
	io->bytes_per_s = d->options.disk_rate;
	io->ops_per_s = d->options.disk_ops;
	return cgroup_io_find_disk(d->fleet.dirs.fd, io, e);
}

/* Sandboxes run without groups, too, unless an option needs groups. */
static int open_cgroups(struct daemon *d, struct error *e)
{
	const char *given = d->options.cgroup;
	struct error why = {0};
	int r = 0;

	if (given && strcmp(given, "off") == 0)
		(void)error_set(&why, ERROR_USAGE, EINVAL,
			"--cgroup off leaves nothing that --disk-rate and --disk-ops could use");
	else
		r = cgroup_tree_open(given, true, &d->cgroups, &why);
	if (why.code == ERROR_NONE) {
		d->fleet.dirs.cgroups = &d->cgroups;
		return limit_disk(d, e);
	}
	if (d->options.disk_rate || d->options.disk_ops || (r < 0 && given)) {
		*e = why;
		return -why.err;
	}
	if (r < 0)
		d->no_cgroups = why;
	return 0;
}

static void warn_of_cgroups(const struct daemon *d)
{
	if (d->no_cgroups.code != ERROR_NONE)
		log_warn("sandboxes run without control groups, so nothing limits what their "
			 "processes take of the host: %s",
			d->no_cgroups.message);
}

/* Does what needs the process's full rights, before other threads start: only the host's root can
 * read whether a group is delegated. */
static int open_first(struct daemon *d, struct error *e)
{
	int r = open_log(&d->options, e);

	if (r == 0)
		r = check_options(d, e);
	if (r == 0)
		r = home_open(NULL, &d->fleet.home, e);
	if (r == 0)
		r = sandbox_dirs_open(d->fleet.home.path, &d->fleet.dirs, e);
	if (r == 0)
		r = open_cgroups(d, e);
	if (r == 0)
		r = runtime_builds_open(&d->fleet, e);
	if (r == 0 && d->options.drop_rights)
		r = rights_drop(e);
	return r;
}

static int open_rest(struct daemon *d, struct error *e)
{
	int r = open_store(d, e);

	if (r == 0)
		r = open_secrets(d, e);
	if (r == 0) /* for sandboxes that recovery finds; a port of 0 is not known yet */
		r = open_issuer(d, (unsigned)atoi(strrchr(d->options.listen, ':') + 1), e);
	if (r == 0)
		r = scrape_start(d->fleet.loop, d->fleet.store, &d->scrape, e);
	if (r == 0)
		r = instances_start(&d->fleet, e);
	if (r == 0)
		r = catalog_start(&d->fleet, e);
	if (r == 0)
		r = agents_start(&d->fleet, e);
	if (r == 0)
		r = invocations_start(&d->fleet, e);
	if (r == 0)
		r = pool_start(&d->fleet, e);
	if (r == 0)
		r = open_webhooks(d, e);
	return r;
}

static void on_events(void *arg)
{
	struct daemon *d = arg;

	webhooks_wake(d->webhooks); /* NULL during recovery */
}

int daemon_start(const struct daemon_options *o, struct daemon **ret, struct error *e)
{
	struct daemon *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	d->options = *o;
	d->fleet.options = o->fleet;
	d->fleet.events_changed = on_events;
	d->fleet.events_arg = d;
	if (!d->fleet.options.backend)
		d->fleet.options.backend = &backend_vmm;
	d->fleet.home = (struct home)HOME_INIT;
	d->fleet.dirs = (struct sandbox_dirs)SANDBOX_DIRS_INIT;
	d->cgroups = (struct cgroup_tree)CGROUP_TREE_INIT;
	d->fleet.loop = uv_default_loop();
	(void)signal(SIGPIPE, SIG_IGN); /* cannot fail for this signal */
	json_set_alloc_funcs(json_allocate, free);
	raise_limits();
	rights_hide();
	r = runtimes_check(o->fleet.runtimes, e);
	if (r == 0)
		r = open_first(d, e);
	start_workers(d);
	if (r == 0)
		r = open_rest(d, e);
	if (r == 0)
		r = open_server(d, e);
	if (r < 0) {
		daemon_free(d);
		return r;
	}
	warn_of_cgroups(d);
	*ret = d;
	return 0;
}

static void on_signal(uv_signal_t *h, int signo)
{
	struct daemon *d = h->data;

	if (signo == SIGHUP) {
		server_reload(d->server);
		return;
	}
	log_info("stopping; sandboxes go on");
	uv_stop(d->fleet.loop);
}

int daemon_run(struct daemon *d, struct error *e)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	uv_signal_t handles[ARRAY_SIZE(signals)];

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		(void)uv_signal_init(d->fleet.loop, &handles[i]);
		handles[i].data = d;
		if (uv_signal_start(&handles[i], on_signal, signals[i]) < 0)
			return error_set(e, ERROR_INTERNAL, EINVAL, "cannot wait for signals");
	}
	(void)uv_run(d->fleet.loop, UV_RUN_DEFAULT); /* only says whether anything is left */
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		uv_close((uv_handle_t *)&handles[i], NULL);
	invocations_stop(&d->fleet);
	instances_stop(&d->fleet);
	catalog_stop(&d->fleet);
	runtime_builds_stop(&d->fleet);
	pool_stop(&d->fleet);
	server_stop(d->server);
	scrape_stop(TAKE_PTR(d->scrape));
	self_signed_stop(d->self_signed);
	webhooks_stop(TAKE_PTR(d->webhooks));
	(void)uv_run(d->fleet.loop, UV_RUN_DEFAULT); /* until workers and handles have finished */
	return 0;
}

void daemon_free(struct daemon *d)
{
	if (!d)
		return;
	invocations_stop(&d->fleet);
	instances_stop(&d->fleet);
	catalog_stop(&d->fleet);
	runtime_builds_stop(&d->fleet);
	pool_stop(&d->fleet);
	if (d->server)
		server_stop(d->server);
	scrape_stop(TAKE_PTR(d->scrape));
	self_signed_stop(d->self_signed);
	webhooks_stop(TAKE_PTR(d->webhooks));
	(void)uv_run(d->fleet.loop, UV_RUN_DEFAULT); /* closes handles */
	server_free(d->server);
	self_signed_free(d->self_signed);
	pool_free(&d->fleet);
	invocations_free(&d->fleet);
	approvals_free(&d->fleet);
	agents_free(&d->fleet);
	catalog_free(&d->fleet);
	runtime_builds_free(&d->fleet);
	activity_processes_free(&d->fleet);
	activity_free(&d->fleet);
	store_close(d->fleet.store);
	sealer_free(d->fleet.sealer);
	free(d->guest_ca);
	free(d->issuer);
	sandbox_dirs_close(&d->fleet.dirs);
	cgroup_tree_close(&d->cgroups);
	home_close(&d->fleet.home);
	free(d);
}
