/* The connection to http://mayfly.internal (why.h): a request, an answer, the end. */
#ifndef EGRESS_WHY_STREAM_H
#define EGRESS_WHY_STREAM_H

#include "egress/context.h"

struct why_stream;

/* The stream's watch is borrowed, and changed as needed. denial: as why_new has it. NULL: out of
 * memory. */
struct why_stream *why_stream_make(
	struct context *c, struct loop_watch *stream, const char *denial);
void why_stream_free(struct why_stream *s); /* NULL is fine */

/* Something happened on the stream. False: it is over. The guest decides when, so limit the
 * time. */
bool why_stream_run(struct why_stream *s, uint32_t events);

#endif
