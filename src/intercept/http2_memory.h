/* Counts the memory of an intercepted HTTP/2 connection for frames and fields. A few bytes of HPACK
 * can become many fields, and output waits if the other side does not read.
 *
 * If the connection, or all connections of a worker together, exceed their limit, allocation fails
 * and the account says why. Bodies are not counted, because windows limit them. */
#ifndef INTERCEPT_HTTP2_MEMORY_H
#define INTERCEPT_HTTP2_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include <nghttp2/nghttp2.h>

enum {
	HTTP2_MEMORY_MAX = 4 << 20,  /* bytes of a connection */
	HTTP2_BUDGET_MAX = 32 << 20, /* of all connections of a worker */
	HTTP2_LENT_MAX = 32 << 20,   /* bytes of held bodies, of all connections of a worker */
};

/* The budget of a worker; zeroed at first. */
struct http2_budget {
	size_t bytes;
	size_t lent; /* bytes of bodies that wait for a person */
};

/* The account of a connection; zeroed at first, except the budget. */
struct http2_account {
	struct http2_budget *budget; /* NULL: only the connection's own limit counts */
	size_t bytes;
	const char *refused; /* why an allocation was refused, for people; or NULL */
};

/* Returns false and sets `refused` if n more bytes are too many. */
bool http2_account_take(struct http2_account *a, size_t n);
void http2_account_give(struct http2_account *a, size_t n);

/* Whether at least half of the limits would be left after n more bytes. */
bool http2_account_has(const struct http2_account *a, size_t n);

/* Counts n bytes of held bodies. Returns false if they are too many. If b is NULL there is no
 * limit. */
bool http2_budget_take(struct http2_budget *b, size_t n);
void http2_budget_give(struct http2_budget *b, size_t n);

/* The allocator `mem` of an nghttp2 session. It must not move while the session exists. */
struct http2_memory {
	nghttp2_mem mem;
	struct http2_account *account;
	size_t bytes; /* of this session */
};

/* Prepares an allocator that wipes what it frees. */
void http2_memory_init(struct http2_memory *m, struct http2_account *a);

#endif
