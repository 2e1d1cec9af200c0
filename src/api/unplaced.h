/* Answers to requests for a sandbox that could not be made, resumed or forked. They have E2B's
 * error codes, and the header Should-Retry says whether to try again. */
#ifndef API_UNPLACED_H
#define API_UNPLACED_H

#include "base/error.h"
#include "http/request.h"

/* Answers as reply_failure() does. Nothing of the attempt may be left, because clients may be told
 * to repeat it. */
void api_reply_unplaced(struct request *r, const struct error *e);

#endif
