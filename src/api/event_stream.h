/* Answers that are streams of server-sent events. */
#ifndef API_EVENT_STREAM_H
#define API_EVENT_STREAM_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "http/request.h"

enum { EVENT_STREAM_FIELDS_MAX = 6 };

/* Sends the head. fields: more headers, at most EVENT_STREAM_FIELDS_MAX. If the client has gone,
 * nothing happens. */
void event_stream_begin(struct request *r, const struct http_field *fields, size_t count);

/* The next ones return as request_write(). Takes ownership of data (NULL: out of memory). */
int event_stream_json(struct request *r, const char *name, json_t *data);
/* Sends {"text": ...} with what `have` holds, and empties it. Unless it is `all`, the beginning of
 * a character at its end stays. Nothing to send: nothing is sent. */
int event_stream_text(struct request *r, const char *name, struct buf *have, bool all);
/* A comment, which keeps the connection alive. The next event tells whether that worked. */
void event_stream_keep(struct request *r);

#endif
