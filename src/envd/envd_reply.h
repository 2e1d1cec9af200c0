/* Answers of envd's plain HTTP endpoints. Also answers of E2B's proxy, which stands between clients
 * and sandboxes and answers when a sandbox cannot be reached; Mayfly gives the same answers. Every
 * function ends the request; if the client has gone, the answer is dropped. */
#ifndef ENVD_REPLY_H
#define ENVD_REPLY_H

#include <stdbool.h>

#include "base/buf.h"
#include "envd/envd_error.h"
#include "http/request.h"

enum { ENVD_CORS_FIELDS = 2 };

/* Fills in the headers that browsers need; returns their number, at most ENVD_CORS_FIELDS. */
unsigned envd_cors(const struct request *r, struct http_field fields[ENVD_CORS_FIELDS]);

/* Whether the answer has the proxy's form instead of envd's, because the sandbox cannot be
 * reached. */
bool envd_is_proxied(const struct envd_error *e);
/* {"code":...,"message":...}, or the proxy's form. */
void envd_reply_error(struct request *r, const char *sandbox_id, const struct envd_error *e);
void envd_reply_json(struct request *r, unsigned status, const struct buf *body);
void envd_reply_json_text(struct request *r, unsigned status, const char *text, size_t n);
void envd_reply_empty(struct request *r, unsigned status);
/* {"sandboxId":...,"message":...,"code":...}, and "port" unless it is 0. */
void envd_reply_proxy(struct request *r, unsigned status, const char *sandbox_id, unsigned port,
	const char *message);
/* The same with status 429 and "connectionLimit". */
void envd_reply_connection_limit(
	struct request *r, const char *sandbox_id, unsigned max, const char *message);

#endif
