/* Answers to requests that name a sandbox which is not running (docs/envd.md). */
#ifndef ENVD_ABSENT_H
#define ENVD_ABSENT_H

#include "envd/envd_error.h"
#include "http/request.h"

struct fleet;

/* Fills e and returns -EINVAL. 502 for a sandbox that is unknown, ended or paused. 409 for one
 * between two states that traffic resumes. 502 with its own text for a running one whose connection
 * was lost. */
int envd_absent_fail(struct fleet *f, const char *sandbox_id, struct envd_error *e);

/* The same for a link that was lost, for a reason of agent_link.h. If the gate has refused it and
 * the sandbox runs: resource_exhausted, 429. */
int envd_lost_fail(
	struct fleet *f, const char *sandbox_id, const struct error *why, struct envd_error *e);

/* Answers r, whose route names the sandbox, in the proxy's form. */
void envd_absent_reply(struct request *r);

#endif
