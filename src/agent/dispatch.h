/* Finds the handler of a request (requests.h), and whether the guest may serve it now. */
#ifndef AGENT_DISPATCH_H
#define AGENT_DISPATCH_H

#include "conn.h"

/* The conn_handler of all connections. False: cannot be served while processes are held. */
bool dispatch_request(struct conn *c, const struct agent_frame *f);

#endif
