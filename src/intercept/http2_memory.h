/* The memory that an intercepted connection of HTTP/2 takes for frames and fields, counted: what a
 * side sends can make much of few bytes (HPACK), and what the other side does not take waits.
 *
 * Beyond a limit, of the connection or of all connections of a worker, allocation fails, and the
 * account says why. Bodies are not counted: windows bound them. */
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

/* Of a worker; zeroed at first. */
struct http2_budget {
	size_t bytes;
	size_t lent; /* of bodies that wait for a person */
};

/* Of a connection; zeroed at first but for the budget. */
struct http2_account {
	struct http2_budget *budget; /* NULL: only the connection's own limit counts */
	size_t bytes;
	const char *refused; /* why something was refused, else NULL; for people */
};

/* Returns false, with `refused` set, if n bytes more are too many. */
bool http2_account_take(struct http2_account *a, size_t n);
void http2_account_give(struct http2_account *a, size_t n);

/* Whether n bytes more would leave half of what there may be. */
bool http2_account_has(const struct http2_account *a, size_t n);

/* Of held bodies; false: n more are too many. NULL has place. */
bool http2_budget_take(struct http2_budget *b, size_t n);
void http2_budget_give(struct http2_budget *b, size_t n);

/* What a session of nghttp2 allocates with: `mem`. It stays where it is while there is the
 * session. */
struct http2_memory {
	nghttp2_mem mem;
	struct http2_account *account;
	size_t bytes; /* of this session */
};

/* What is freed is wiped. */
void http2_memory_init(struct http2_memory *m, struct http2_account *a);

#endif
