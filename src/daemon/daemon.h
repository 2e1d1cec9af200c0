/* The daemon joins the rooms. It has one event loop in one thread; workers do only what blocks.
 *
 *	server     accepts clients, speaks HTTP                  http/server.h, http/request.h
 *	surfaces   decides which room answers a request          surfaces.h
 *	fleet      all sandboxes of this host, and the store     fleet/fleet.h
 *	webhooks   delivers the fleet's events                   webhooks.h
 *	scrape     the operator's page of metrics                api/scrape.h */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "fleet/fleet.h"
#include "sandbox/cgroup_tree.h"

struct scrape;
struct self_signed;
struct server;
struct webhooks;

struct daemon_options {
	const char *listen;		/* "ADDRESS:PORT" */
	const char *domain;		/* that sandboxes' host names end in; NULL: any */
	const char *tls_cert, *tls_key; /* files; both NULL: plain HTTP */
	const char *tls_self_signed;	/* domain for a certificate of our own instead, or NULL */
	const char *log_level;		/* NULL: from MAYFLY_LOG */
	const char *log_format;		/* "text" or "json"; NULL: text */
	const char *webhook_ca;		/* file of trusted authorities; NULL: the host's */
	bool webhook_allow_private;	/* keys' webhooks may have private addresses */
	const char *metrics_listen;	/* "ADDRESS:PORT", or NULL */
	bool metrics_public;		/* other hosts may reach metrics_listen */
	uint32_t connections_max;	/* 0: SERVER_CONNECTIONS */
	uint32_t peer_connections_max;	/* per address; 0: a quarter of connections_max */
	const char *const *proxies;	/* addresses of reverse proxies (peers.h) */
	size_t proxy_count;
	const char *cgroup;	      /* directory for sandboxes' control groups; NULL: our own
					 * group, if it is delegated; "off": none */
	uint64_t disk_rate, disk_ops; /* of each sandbox, a second; 0: no limit */
	const char *secrets_key;      /* file; NULL: SEAL_KEY_FILE in the state directory */
	const char *guest_ca;	      /* file with authorities for all guests, or NULL */
	const char *issuer;	      /* URL (network/identity.h); NULL: our own address */
	bool drop_rights;	      /* call rights_drop(); the process must have one thread */
	struct fleet_options fleet;
};

struct daemon {
	struct daemon_options options;
	struct fleet fleet;
	struct server *server;
	struct scrape *scrape;
	struct self_signed *self_signed; /* NULL: none */
	struct webhooks *webhooks;
	char *guest_ca; /* the file's text, or NULL */
	char *issuer;	/* made of the address, or NULL */
	struct cgroup_tree cgroups;
	struct error no_cgroups; /* why there are no groups; ERROR_NONE: there are, or none are
				  * wanted */
};

/* Opens everything, recovers running sandboxes, and listens. */
int daemon_start(const struct daemon_options *o, struct daemon **ret, struct error *e);
/* Serves until SIGINT or SIGTERM; sandboxes go on without us. SIGHUP reads the TLS files again. */
int daemon_run(struct daemon *d, struct error *e);
void daemon_free(struct daemon *d); /* accepts NULL and a half-made one */

#endif
