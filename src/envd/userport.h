/* Passes requests through the daemon to a port of a sandbox (docs/envd.md).
 *
 * Each request gets its own connection into the guest: the agent dials 127.0.0.1:port. Bytes flow
 * both ways as they come, at the speed of the slower side; nothing is held as a whole. If a request
 * switches protocols (WebSocket) and the guest agrees, the connection becomes a raw tunnel.
 *
 * The daemon speaks TLS with ports that `httpsPorts` of the network lists (port.h).
 *
 * On the admin socket, "Upgrade: tcp" opens such a tunnel to the port itself, for any protocol.
 *
 * Everybody has access unless the sandbox has a traffic token. Then E2B-Traffic-Access-Token must
 * hold it; the operator needs none. To run code takes more (code_access.h). Headers between client
 * and daemon, above all tokens, do not enter the guest. */
#ifndef ENVD_USERPORT_H
#define ENVD_USERPORT_H

#include "http/request.h"

/* Handles requests of ROUTE_SANDBOX with any port but 49983. */
void userport_handle(struct request *r);

#endif
