/* The one place that names the modules behind the daemon's surfaces: which of them answers a
 * request, and what the HTTP server leaves to the fleet. */
#ifndef DAEMON_SURFACES_H
#define DAEMON_SURFACES_H

#include "http/connection.h"

/* The owner of the connections is the fleet. */
extern const struct connection_ops surfaces_ops;

#endif
