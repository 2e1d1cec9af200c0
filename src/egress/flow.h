/* Streams from the guest to servers. A flow reads the stream's header, judges it, dials and moves
 * the bytes.
 *
 * A flow to port 53 is not dialled. It becomes a DNS connection, and we answer it (answers.h). A
 * stream with a UDP header carries datagrams: the flow hands its descriptor to datagrams.h and
 * ends. */
#ifndef EGRESS_FLOW_H
#define EGRESS_FLOW_H

#include "egress/context.h"

enum { FLOWS_BESIDE_MAX = 64 }; /* streams beyond the policy's limit, to refuse them properly */

struct flows;

struct flows *flows_make(struct context *c, void (*on_datagrams)(void *arg, int fd), void *arg);
void flows_free(struct flows *f); /* resets all */

/* Takes over a stream from the guest. */
void flows_take(struct flows *f, int fd);

/* A new policy is in force: resets flows that it does not allow. */
void flows_judge(struct flows *f);

/* The daemon has answered how many flows there may be (lease.h). */
void flows_lent(struct flows *f);

unsigned flows_count(const struct flows *f);

#endif
