/* The worker: takes streams from the channel and policies from the daemon, and ends when it has had
 * no flow for a while (docs/egress-protocol.md). */
#ifndef EGRESS_WORKER_H
#define EGRESS_WORKER_H

#include "base/error.h"

struct worker_options {
	int channel_fd, listen_fd; /* borrowed */
	int root_fds[2];	   /* who vouches for servers (trust.h); -1: none */
	unsigned idle_ms;
};

struct worker;

int worker_make(const struct worker_options *o, struct worker **ret, struct error *e);
void worker_run(struct worker *w); /* until it ends */
void worker_free(struct worker *w);

#endif
