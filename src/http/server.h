/* The listening sockets and their connections.
 *
 * One TCP port serves every surface (route.h tells them apart). One Unix socket does so for this
 * host's operator, who needs neither keys nor tokens: who may open it may read the store as well.
 * What connections wrote in a turn of the loop is flushed before the loop waits again. */
#ifndef DAEMON_SERVER_H
#define DAEMON_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "http/connection.h"

enum {
	SERVER_CONNECTIONS = 4096,
	SERVER_BACKLOG = 1024,
};

struct server {
	struct connections all; /* loop, ops, owner and domain before anything else */
	uv_tcp_t tcp;
	uv_pipe_t admin;
	uv_tcp_t metrics;
	uv_prepare_t prepare; /* flushes */
	uv_idle_t idle;	 /* runs while there is more to flush, so that the loop does not wait */
	uv_timer_t tick; /* looks for passed time limits */
	bool has_tcp, has_admin, has_metrics, has_rest;
	unsigned max;		     /* connections */
	unsigned peer_max;	     /* of one address (peers.h) */
	uint16_t port, metrics_port; /* that are listened on */
};

/* Makes one, empty but for its limits: so many connections, of one address so many (0: a quarter).
 * NULL: out of memory. */
struct server *server_new(unsigned max, unsigned peer_max);
/* Before server_start: the TCP port speaks TLS with these PEM files (tls.h). */
int server_use_tls(struct server *s, const char *cert_file, const char *key_file, struct error *e);
/* Listens on "ADDRESS:PORT" (an IPv6 address in brackets; port 0 is any). */
int server_start(struct server *s, const char *listen, struct error *e);
/* Listens on a Unix socket that only its owner may connect to; a stale one is replaced. */
int server_start_admin(struct server *s, const char *path, struct error *e);
/* Listens on "ADDRESS:PORT" for the operator's metrics, without TLS or keys. */
int server_start_metrics(struct server *s, const char *listen, struct error *e);
/* Reads certificate and key again, for the clients that come from now on; without TLS it does
 * nothing. What is wrong is logged, and the old ones stay. */
void server_reload(struct server *s);
/* Closes everything; the loop must run until it is done. */
void server_stop(struct server *s);
void server_free(struct server *s); /* after that; NULL is fine */

/* Splits "ADDRESS:PORT"; *ret_loopback says whether only this host can reach it. */
int server_parse_listen(
	const char *listen, struct sockaddr_storage *ret, bool *ret_loopback, struct error *e);

#endif
