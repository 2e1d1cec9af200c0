/* A port of a sandbox, reached through the daemon (protocol sections 1.5 and 1.7).
 *
 * Each request has a connection of its own into the guest: the agent dials 127.0.0.1:port. Bytes go
 * both ways as they come, slowed down by whoever is slower; nothing is held as a whole. A request
 * that asks to switch protocols (WebSocket) and is granted it becomes a raw tunnel.
 *
 * On the admin socket "Upgrade: tcp" asks for such a tunnel to the port itself, whatever it speaks.
 *
 * Who may: everybody, unless the sandbox has a traffic token, which E2B-Traffic-Access-Token must
 * then hold; the operator always. Headers that are between the client and the daemon, tokens above
 * all, do not enter the guest. */
#ifndef DAEMON_USERPORT_H
#define DAEMON_USERPORT_H

#include "http/request.h"

/* For struct daemon's proxy_handler: requests of ROUTE_SANDBOX with any port but 49983. */
void userport_handle(struct request *r);

#endif
