/* The way of mayfly-vmm and the agent to mayfly-egress, for programs that measure it: a stream over
 * the channel, which is descriptor 3 (docs/egress-protocol.md). */
#ifndef BENCH_CHANNEL_H
#define BENCH_CHANNEL_H

#include <netinet/in.h>

/* A stream to an address, of which the worker has said that it is open. Blocks. -1: errno, EACCES
 * if the worker refuses. */
int channel_open(const struct sockaddr_in *to);

#endif
