/* The worker. It takes streams from the channel and policies from the daemon. It ends when it has
 * had no flow for a while (docs/egress-protocol.md). */
#ifndef EGRESS_WORKER_H
#define EGRESS_WORKER_H

#include "base/error.h"

/* Limit of private memory: the bounds of all tables and some more (worker.c). At the limit the
 * worker goes on, but whatever needs more memory is refused or ends. */
enum { WORKER_MEMORY_MAX = 896 << 20 };

struct worker_options {
	int channel_fd, clients_fd, broker_fd; /* borrowed; the last two are of dialler.h */
	int root_fds[2]; /* files of trusted authorities (trust.h); -1: none */
	unsigned idle_ms;
	unsigned middle_idle_ms; /* of intercepted connections; 0: as middle.h says */
};

struct worker;

int worker_make(const struct worker_options *o, struct worker **ret, struct error *e);
void worker_run(struct worker *w); /* until it ends */
void worker_free(struct worker *w);

#endif
