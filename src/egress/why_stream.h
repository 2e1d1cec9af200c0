/* A connection to http://mayfly.internal (why.h): one request and its answer. */
#ifndef EGRESS_WHY_STREAM_H
#define EGRESS_WHY_STREAM_H

#include "egress/context.h"

struct why_stream;

/* Borrows the stream's watch and changes it as needed. denial: as for why_new(). Returns NULL when
 * out of memory. */
struct why_stream *why_stream_make(
	struct context *c, struct loop_watch *stream, const char *denial);
void why_stream_free(struct why_stream *s); /* NULL is fine */

/* Handles events of the stream. Returns false if it is over. A guest may never send its request, so
 * the caller limits the time. */
bool why_stream_run(struct why_stream *s, uint32_t events);

#endif
