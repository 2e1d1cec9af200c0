/* One stream from the guest to a server: its header, the verdict, the dialling, the bytes.
 *
 * A flow whose guest asks for port 53 is not dialled: it becomes a DNS connection, and our answers
 * go back (answers.h). A UDP header makes the stream one of datagrams, which is another module's
 * (datagrams.h): the flow hands its descriptor over and ends. */
#ifndef EGRESS_FLOW_H
#define EGRESS_FLOW_H

#include "egress/context.h"

enum { FLOWS_BESIDE_MAX = 64 }; /* streams beyond the policy's limit, which are told so */

struct flows;

struct flows *flows_make(struct context *c, void (*on_datagrams)(void *arg, int fd), void *arg);
void flows_free(struct flows *f); /* resets all */

/* Takes a stream from the guest over. */
void flows_take(struct flows *f, int fd);

/* A new policy is in force: resets what it does not allow any more. */
void flows_judge(struct flows *f);

unsigned flows_count(const struct flows *f);

#endif
