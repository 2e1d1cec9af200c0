/* Forwards a message: decides which headers pass, and adds the proxy's own.
 *
 * Hop-by-hop headers (RFC 9110 7.6.1: Connection and whatever it lists, Keep-Alive, TE, Trailer,
 * Transfer-Encoding, Upgrade, Proxy-*) and Expect are dropped. The proxy writes the framing anew
 * from the parsed message and never copies it. It passes an upgrade on as an upgrade. */
#ifndef PROTO_HTTP_PROXY_H
#define PROTO_HTTP_PROXY_H

#include <stdbool.h>

#include "base/buf.h"
#include "proto/http.h"

struct http_forward {
	const char *host;     /* replaces Host; NULL: the client's */
	const char *client;   /* address of the client, for X-Forwarded-For; NULL: none */
	const char *scheme;   /* "http" or "https", for X-Forwarded-Proto */
	bool trust_forwarded; /* a trusted proxy is in front: keep and extend its X-Forwarded-* */
	const char *const *drop; /* names not to pass on, NULL-terminated; NULL: none */
};

enum { HTTP_MASK_MAX = 512 };

/* Writes the Host that a mask stands for: "${PORT}" in it is the port. 0, or -EINVAL: it is empty,
 * has more than HTTP_MASK_MAX - 1 characters, or cannot be a Host. */
int http_proxy_mask(const char *mask, unsigned port, char out[HTTP_MASK_MAX]);

/* Writes the head of the request to the upstream. Keeps the upstream connection alive. */
int http_proxy_request(struct buf *out, const struct http_head *head, const struct http_forward *f);

struct http_backward {
	unsigned client_minor;	 /* HTTP version of the client's request */
	bool client_head;	 /* the client's request was HEAD */
	bool close;		 /* the client's connection will be closed after this */
	const char *const *drop; /* as above */
};

/* Writes the head of the answer to the client. *ret_chunked tells whether to send the body chunked.
 * *ret_close: close the connection after the body. 101 and other 1xx are passed on. */
int http_proxy_response(struct buf *out, const struct http_head *head,
	const struct http_backward *b, bool *ret_chunked, bool *ret_close);

/* Whether to pass on the request's wish to switch protocols. Any but h2c is passed on: through h2c
 * a client could send requests that no proxy reads. An upstream that answers 101 unasked is broken:
 * 502. */
bool http_proxy_passes_upgrade(const struct http_head *head);

/* Whether a header is hop-by-hop in this message. */
bool http_proxy_is_hop(const struct http_headers *h, const char *name);

#endif
