/* Answers to requests for a sandbox that could not be made, resumed or forked: E2B's words for
 * programs, and whether to try again (the header Should-Retry). */
#ifndef API_UNPLACED_H
#define API_UNPLACED_H

#include "base/error.h"
#include "http/request.h"

/* As reply_failure(). Nothing must be left of the attempt: clients are told to repeat it where that
 * may help. */
void api_reply_unplaced(struct request *r, const struct error *e);

#endif
