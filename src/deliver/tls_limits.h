/* Bounds what a receiver can make a TLS handshake of libcurl cost.
 *
 *	versions	TLS 1.2 with ECDHE, and TLS 1.3
 *	groups		proto/tls_groups.h: OpenSSL's other ones take up to 120 ms for a handshake
 *	keys		TLS_LIMITS_KEY_BITS in each certificate, checked before any signature is
 *	certificates	TLS_LIMITS_CHAIN bytes in all
 *
 * The time of a handshake is part of the attempt's. */
#ifndef DELIVER_TLS_LIMITS_H
#define DELIVER_TLS_LIMITS_H

#include <curl/curl.h>
#include <stdbool.h>

enum { TLS_LIMITS_KEY_BITS = 4096, TLS_LIMITS_CHAIN = 32 * 1024 };

/* Sets the limits for c's connections. *ret_large becomes true when a handshake ended because of a
 * key's size. Borrowed, as long as c is used. Fails if this libcurl is not built with OpenSSL: then
 * c must not be used for https. */
CURLcode tls_limits_set(CURL *c, bool *ret_large);

#endif
