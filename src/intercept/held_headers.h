/* Headers of a request that a person decides about (docs/consent.md#headers): which of them make
 * another question, and which are shown.
 *
 * A server may do anything because of a header, so all of them are digested but a short list of
 * harmless ones. Names are compared in lower case; fields of one name keep their order, and the
 * order of names does not matter. So HTTP/1.1 and HTTP/2 give the same digest.
 *
 * Headers that name an action or an account are shown first, usual ones not at all. Values of
 * secret names are hidden, and the others are written as previews are. */
#ifndef INTERCEPT_HELD_HEADERS_H
#define INTERCEPT_HELD_HEADERS_H

#include <stdbool.h>
#include <stddef.h>

#include "intercept/intercept.h"
#include "proto/http_headers.h"

enum {
	HELD_HEADERS_MAX = 16,		  /* that are shown */
	HELD_HEADERS_DIGEST = 2 * 32 + 1, /* SHA-256 as hexadecimal digits */
	HELD_HEADER_NAME_MAX = 64,
	HELD_HEADER_VALUE_MAX = 128, /* bytes that are shown, each with its mark of a cut */
	HELD_HEADERS_TEXT = 2560,    /* of all names and values that are shown */
};

struct held_header {
	const char *name, *value;
};

struct held_headers {
	struct held_header list[HELD_HEADERS_MAX]; /* strings are in `text` */
	unsigned count;
	bool cut; /* a value, or headers, are not shown whole */
	/* digest: of all but harmless ones. action: of those that name an action, which a decision
	 * for longer is about; "" if there are none. */
	char digest[HELD_HEADERS_DIGEST], action[HELD_HEADERS_DIGEST];
	char text[HELD_HEADERS_TEXT];
	size_t used;
};

/* Returns 0 or -ENOMEM. trailers: of the request, as far as they were received; none of them is
 * harmless or usual. NULL: the server gets none. i: whose secrets are hidden, or NULL. */
int held_headers_make(const struct http_headers *from, const struct http_headers *trailers,
	const struct intercept *i, struct held_headers *ret);

#endif
