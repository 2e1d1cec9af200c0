/* Answers that are streams of server-sent events. */
#ifndef API_EVENT_STREAM_H
#define API_EVENT_STREAM_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "http/request.h"

enum { EVENT_STREAM_FIELDS_MAX = 6 };

/* Sends the head of the answer. fields: further headers, at most EVENT_STREAM_FIELDS_MAX. Does
 * nothing if the client has gone. */
void event_stream_begin(struct request *r, const struct http_field *fields, size_t count);

/* Sends an event. Takes ownership of data; NULL counts as out of memory. Returns what
 * request_write() returns. */
int event_stream_json(struct request *r, const char *name, json_t *data);
/* Sends the bytes of `have` as {"text": ...}, or as {"base64": ...} if they are not UTF-8, and
 * removes them. Unless `all`, an incomplete UTF-8 character at the end stays in `have`. Sends
 * nothing if there are no bytes. Returns what request_write() returns. */
int event_stream_text(struct request *r, const char *name, struct buf *have, bool all);
/* Sends a comment, which keeps the connection alive. Errors show at the next event. */
void event_stream_keep(struct request *r);

#endif
