/* Forwarding a message: which headers go on, and what the proxy says itself.
 *
 * Hop-by-hop headers (RFC 9110 7.6.1: Connection and whatever it lists, Keep-Alive, TE, Trailer,
 * Transfer-Encoding, Upgrade, Proxy-*) and Expect are dropped; framing is written anew from what
 * was understood, never copied. An upgrade is passed on as one. */
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

/* Head of the request to the upstream. The upstream connection is kept alive. */
int http_proxy_request(struct buf *out, const struct http_head *head, const struct http_forward *f);

struct http_backward {
	unsigned client_minor;	 /* HTTP version of the client's request */
	bool client_head;	 /* it was HEAD */
	bool close;		 /* the client's connection will be closed after this */
	const char *const *drop; /* as above */
};

/* Head of the answer to the client. The body that follows it is to be sent as *ret_chunked says;
 * *ret_close: the connection must be closed after the body. 101 and 1xx are passed on. */
int http_proxy_response(struct buf *out, const struct http_head *head,
	const struct http_backward *b, bool *ret_chunked, bool *ret_close);

/* Whether the request's wish to switch protocols is passed on: any but to h2c, through which a
 * client could send requests that no proxy reads. An upstream that answers 101 without having been
 * asked is broken: 502. */
bool http_proxy_passes_upgrade(const struct http_head *head);

/* Whether a header is hop-by-hop in this message. */
bool http_proxy_is_hop(const struct http_headers *h, const char *name);

#endif
