/* E2B's interface on port 49983 of a sandbox (docs/envd.md). The daemon serves it and translates to
 * the agent's protocol, so no token ever enters a guest.
 *
 *	envd            access (tokens, signatures, CORS), and the choice of the endpoint
 *	envd_call       joins a request with a link to the agent
 *	envd_rpc        Connect: unary calls and streams
 *	envd_process, envd_input, envd_filesystem, envd_watch     the RPCs
 *	envd_get, envd_post, envd_compose, envd_misc              the plain HTTP endpoints
 *	envd_message, envd_entry, envd_download, envd_upload      translators without I/O */
#ifndef ENVD_ENVD_H
#define ENVD_ENVD_H

#include "http/request.h"

/* Handles requests of ROUTE_SANDBOX with port 49983, and of ROUTE_SIGNED. */
void envd_handle(struct request *r);

#endif
