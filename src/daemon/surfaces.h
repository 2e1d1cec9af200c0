/* Decides which surface answers a request; no other module names them all. Also implements, for the
 * fleet, what the HTTP server leaves to its owner. */
#ifndef DAEMON_SURFACES_H
#define DAEMON_SURFACES_H

#include "http/connection.h"

/* The fleet is the owner of the connections. */
extern const struct connection_ops surfaces_ops;

#endif
