/* The listening sockets and their connections.
 *
 * One TCP port serves every surface (route.h tells them apart). One Unix socket serves them to this
 * host's operator, who needs neither keys nor tokens there: a user who may open the socket may also
 * read the database. Connections send what they wrote in a turn of the loop before the loop waits
 * again. */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "http/connection.h"
#include "http/listener.h"

enum {
	SERVER_CONNECTIONS = 4096,
};

struct server {
	struct connections all;			 /* set loop, ops, owner and domain first */
	struct listener listeners[SERVER_DOORS]; /* by enum server_door */
	char *admin_path;     /* of the Unix socket, removed at the end; NULL: none */
	uv_prepare_t prepare; /* flushes */
	uv_idle_t idle;	      /* runs while connections are dirty, so that the loop does not wait */
	uv_timer_t tick;      /* finds passed time limits */
	bool has_rest;
	unsigned max;		     /* connections */
	unsigned peer_max;	     /* per address (peers.h) */
	uint16_t port, metrics_port; /* the ports in use */
};

/* Creates a server with a limit of connections in all and per address (0: a quarter). NULL: out of
 * memory. */
struct server *server_new(unsigned max, unsigned peer_max);
/* Makes the TCP port speak TLS with these PEM files (tls.h). Call it before server_start(). */
int server_use_tls(struct server *s, const char *cert_file, const char *key_file, struct error *e);
/* Listens on "ADDRESS:PORT" (an IPv6 address in brackets; port 0 is any). */
int server_start(struct server *s, const char *listen, struct error *e);
/* Listens on a Unix socket that only its owner may connect to; replaces a stale one. */
int server_start_admin(struct server *s, const char *path, struct error *e);
/* Listens on "ADDRESS:PORT" for the operator's metrics, without TLS or keys. */
int server_start_metrics(struct server *s, const char *listen, struct error *e);
/* Reads certificate and key again, for new clients. No-op without TLS. On an error it logs, and the
 * old ones stay. */
void server_reload(struct server *s);
/* Tries once to write what is queued, and closes everything. The loop must run until that is
 * done. */
void server_stop(struct server *s);
void server_free(struct server *s); /* after that; NULL is fine */

/* Splits "ADDRESS:PORT"; *ret_loopback says whether only this host can reach it. */
int server_parse_listen(
	const char *listen, struct sockaddr_storage *ret, bool *ret_loopback, struct error *e);

#endif
