/* The E2B surface of a sandbox's port 49983 (protocol section 3), served by the daemon: it is
 * translated to the agent's protocol, so that no token ever enters a guest. docs/envd.md.
 *
 *	envd            who may do what: tokens, signatures, CORS, and which endpoint it is
 *	envd_call       a request joined with a link to the agent
 *	envd_rpc        Connect: unary calls and streams
 *	envd_process, envd_input, envd_filesystem, envd_watch     the RPCs
 *	envd_get, envd_post, envd_compose, envd_misc              the plain HTTP endpoints
 *	envd_message, envd_entry, envd_download, envd_upload      translators without I/O */
#ifndef DAEMON_ENVD_H
#define DAEMON_ENVD_H

#include "http/request.h"

/* For struct daemon's envd_handler: requests of ROUTE_SANDBOX with port 49983, and ROUTE_SIGNED. */
void envd_handle(struct request *r);

#endif
