/* The only place that names the modules behind the daemon's surfaces. It decides which of them
 * answers a request, and does for the fleet what the HTTP server leaves to its owner. */
#ifndef DAEMON_SURFACES_H
#define DAEMON_SURFACES_H

#include "http/connection.h"

/* The fleet is the owner of the connections. */
extern const struct connection_ops surfaces_ops;

#endif
