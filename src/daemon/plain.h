/* /sandboxes/{id}/files/PATH, our extension: files of a running sandbox, for clients with an API
 * key and no SDK (docs/http.md). It joins the control API's authentication with envd's handlers. */
#ifndef DAEMON_PLAIN_H
#define DAEMON_PLAIN_H

#include <stdbool.h>

#include "http/request.h"

/* Handles the request if it is for such a path. Otherwise returns false. */
bool plain_handle(struct request *r);

#endif
