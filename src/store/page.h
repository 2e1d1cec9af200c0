/* Inside the store: page tokens of sandbox lists, base64url of "<RFC3339Nano>__<id>", with "__asc"
 * appended for ascending order, as in E2B's API. */
#ifndef STORE_PAGE_H
#define STORE_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "store/store.h"

struct page {
	uint64_t started_ns; /* of the last row of the previous page */
	char id[STORE_ID_MAX + 1];
	bool ascending;
};

void page_encode(const struct page *p, char out[STORE_PAGE_TOKEN_BYTES]);
/* Decodes a token that a client sent; ERROR_USAGE when it is invalid. */
int page_decode(const char *token, struct page *ret, struct error *e);

#endif
