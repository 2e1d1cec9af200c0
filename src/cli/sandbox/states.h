/* Calls to the daemon that the verbs for states of sandboxes share. */
#ifndef CLI_STATES_H
#define CLI_STATES_H

#include <jansson.h>

#include "base/error.h"

enum { STATES_PATIENCE_S = 600 }; /* a snapshot waits for the disk */

/* POST /sandboxes/ID/WHAT, for the one sandbox whose id begins with `prefix`. Takes ownership of
 * body. *ret is the answer's JSON; ret may be NULL. */
int states_post(const char *prefix, const char *what, json_t *body, json_t **ret, struct error *e);

/* Makes any request without a body. */
int states_ask(const char *method, const char *target, json_t **ret, struct error *e);

/* Fails with "give the id of a sandbox" unless there are `least` to `most` arguments. */
int states_check_count(int argc, int least, int most, const char *usage, struct error *e);

#endif
