/* The daemon: what all its parts share. One event loop, one thread; workers only for what blocks.
 *
 *	server     accepts, speaks HTTP                 server.h, request.h
 *	surfaces   the control API (api.h, router.h), and what other modules serve: the E2B envd
 *	           surface (port 49983 of a sandbox and signed URLs) and users' ports
 *	instances  the sandboxes that are alive         instance.h, instances.h
 *	store      everything durable                   store/store.h */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "fleet/kept.h"
#include "fleet/quota.h"
#include "http/request.h"
#include "sandbox/sandbox_dir.h"
#include "fleet/stock.h"
#include "image/home.h"
#include "store/store.h"

struct backend;
struct instances;
struct pool;
struct scrape;
struct self_signed;
struct server;
struct webhooks;

struct daemon_options {
	const char *listen;		/* "ADDRESS:PORT" */
	const char *domain;		/* of sandboxes' hosts, or NULL: any */
	const char *tls_cert, *tls_key; /* files; both NULL: plain HTTP */
	const char *tls_self_signed;	/* domain of a certificate of our own, instead; or NULL */
	const char *log_level;		/* NULL: as MAYFLY_LOG says */
	const char *log_format;		/* "text" or "json"; NULL: text */
	const char *webhook_ca;		/* file of authorities; NULL: the host's */
	bool webhook_allow_private;	/* keys' webhooks may be on private addresses */
	const char *metrics_listen;	/* "ADDRESS:PORT", or NULL */
	bool metrics_public;		/* that address may be reached from other hosts */
	uint32_t connections_max;	/* 0: SERVER_CONNECTIONS */
	uint32_t sandboxes_max;		/* of one key at the same time */
	uint32_t creates_per_minute;	/* of one key; 0: no limit */
	uint64_t timeout_max_ns;	/* of one sandbox; 0: no limit */
	struct sandbox_sizes sizes_max; /* of one sandbox; 0: SANDBOX_*_MAX */
	struct quota_options quota;	/* of the host */
	struct kept_options kept;
	struct stock_options pool;
	const struct backend *backend; /* NULL: microVMs */
};

struct daemon {
	uv_loop_t *loop;
	struct daemon_options options;
	struct home home;
	struct sandbox_dirs dirs;
	struct store *store;
	struct server *server;
	struct instances *instances;
	struct pool *pool; /* NULL: none */
	struct scrape *scrape;
	struct self_signed *self_signed; /* NULL: none */
	struct webhooks *webhooks;

	/* Who answers; NULL: 501. Set by the modules before daemon_run(). They see requests with
	 * route.kind ROUTE_SANDBOX and port 49983 or ROUTE_SIGNED (envd), and ROUTE_SANDBOX with
	 * any other port (proxy). The sandbox was not looked up yet: instance_find(). */
	request_handler envd_handler;
	request_handler proxy_handler;
	void *envd_data, *proxy_data;
};

/* Opens everything, recovers what runs, listens. */
int daemon_start(const struct daemon_options *o, struct daemon **ret, struct error *e);
/* Serves until SIGINT or SIGTERM; sandboxes go on without us. SIGHUP reads the TLS files again. */
int daemon_run(struct daemon *d, struct error *e);
void daemon_free(struct daemon *d); /* accepts NULL and a half-made one */

#endif
