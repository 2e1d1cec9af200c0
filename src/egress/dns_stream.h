/* DNS over a stream of the guest. Each message follows its length. One question is served at a
 * time; others wait in the socket. */
#ifndef EGRESS_DNS_STREAM_H
#define EGRESS_DNS_STREAM_H

#include "egress/context.h"

struct dns_stream;

/* The stream's watch is borrowed, and changed as needed. Returns NULL when out of memory. */
struct dns_stream *dns_stream_make(struct context *c, struct loop_watch *stream);
void dns_stream_free(struct dns_stream *s); /* NULL is fine */

/* Handles events of the stream. Returns false if it is over. */
bool dns_stream_run(struct dns_stream *s, uint32_t events);

#endif
