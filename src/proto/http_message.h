/* The head of an HTTP/1.1 message, and a message's limits. The parser (http.h), http_head.h and
 * http_body.h share them. */
#ifndef PROTO_HTTP_MESSAGE_H
#define PROTO_HTTP_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/http_headers.h"

struct http_limits {
	size_t head_max;       /* bytes of start line and headers: else 431 */
	unsigned headers_max;  /* number of headers: else 431 */
	size_t target_max;     /* bytes of the request target: else 414 */
	uint64_t body_max;     /* bytes of a body: else 413; may be set per message */
	size_t chunk_line_max; /* one chunk-size line with its extensions: else 400 */
	size_t extensions_max; /* all chunk extensions of a message together: else 400 */
	size_t trailer_max;    /* the whole trailer section: else 431 */
};

#define HTTP_LIMITS_DEFAULT                                                                        \
	{                                                                                          \
		.head_max = 64 * 1024, .headers_max = 100, .target_max = 16 * 1024,                \
		.body_max = UINT64_MAX, .chunk_line_max = 1024, .extensions_max = 16 * 1024,       \
		.trailer_max = 8 * 1024,                                                           \
	}

enum { HTTP_NO_LENGTH = -1 };

struct http_head {
	unsigned minor; /* HTTP/1.minor, 0 or 1 */
	struct http_headers headers;

	/* Requests. */
	const char *method; /* upper case, a known one */
	const char *target; /* as sent; path is the form to use */
	const char *path;   /* raw: percent-encoded, starts with '/'; "*" for OPTIONS * */
	const char *query;  /* raw, without the '?'; NULL when there is no '?' */
	const char *host;   /* from an absolute target, else from Host; NULL only in HTTP/1.0 */
	bool expect_continue;

	/* Responses. */
	unsigned status;
	const char *reason; /* may be empty */

	int64_t content_length; /* HTTP_NO_LENGTH when none was sent */
	bool chunked;
	bool has_body;	     /* a BODY event may come */
	bool until_eof;	     /* responses: the body ends with the connection */
	bool keep_alive;     /* the peer can take another message on this connection */
	const char *upgrade; /* the protocol to switch to when Connection lists "upgrade", else
			      * NULL */
};

enum http_role { HTTP_ROLE_SERVER, HTTP_ROLE_CLIENT };

#endif
