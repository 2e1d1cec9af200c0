/* Auto-resume: traffic resumes a paused sandbox if its creation asked for that (`autoResume`). The
 * request waits, unread, and is then served like any other. */
#ifndef ENVD_WAKE_H
#define ENVD_WAKE_H

#include "http/request.h"

/* Calls `then` with the request, at once or when its sandbox runs again. Only a client with access
 * wakes the sandbox. A wrong token gets 403. A request to envd without a token goes to `then`,
 * which answers for a sandbox that is not running. */
void wake_then(struct request *r, request_handler then);

#endif
