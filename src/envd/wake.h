/* Traffic to a paused sandbox brings it back, where its creation asked for that (protocol section
 * 2.9, auto-resume): the request waits, unread, and is then served as any other. */
#ifndef DAEMON_WAKE_H
#define DAEMON_WAKE_H

#include "http/request.h"

/* Calls `then` with the request, at once or when its sandbox runs again. A client that must not
 * have it does not wake it: what `then` answers to a sandbox that is not there is its answer. */
void wake_then(struct request *r, request_handler then);

#endif
