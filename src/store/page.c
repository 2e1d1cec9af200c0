#include "store/page.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/base64.h"
#include "proto/timestamp.h"
#include "store/text.h"

void page_encode(const struct page *p, char out[STORE_PAGE_TOKEN_BYTES])
{
	char time[TIMESTAMP_BYTES], text[128];

	_Static_assert(sizeof(time) + sizeof(p->id) + sizeof("____asc") <= sizeof(text), "text");
	_Static_assert((sizeof(text) + 2) / 3 * 4 < STORE_PAGE_TOKEN_BYTES, "token");
	(void)snprintf(text, sizeof(text), "%s__%s%s", timestamp_format_ns(p->started_ns, time),
		p->id, p->ascending ? "__asc" : ""); /* fits */
	out[base64_encode_url(out, text, strlen(text))] = '\0';
}

static int parse_page(char *text, struct page *p)
{
	char *id = strstr(text, "__"), *order;

	if (!id)
		return -EINVAL;
	*id = '\0';
	id += 2;
	order = strstr(id, "__");
	p->ascending = order != NULL;
	if (order && strcmp(order, "__asc") != 0)
		return -EINVAL;
	if (order)
		*order = '\0';
	if (!text_is_id(id))
		return -EINVAL;
	memcpy(p->id, id, strlen(id) + 1);
	return timestamp_parse_ns(text, &p->started_ns);
}

int page_decode(const char *token, struct page *ret, struct error *e)
{
	char text[STORE_PAGE_TOKEN_BYTES + 4]; /* exceeds base64_decoded_max() of the longest
					        * token */
	size_t n = strnlen(token, STORE_PAGE_TOKEN_BYTES);
	struct page p = {0};
	ptrdiff_t len = -EINVAL;

	if (n < STORE_PAGE_TOKEN_BYTES)
		len = base64_decode((uint8_t *)text, token, n);
	if (len >= 0)
		text[len] = '\0';
	if (len < 0 || strlen(text) != (size_t)len || parse_page(text, &p) < 0)
		return error_set(e, ERROR_USAGE, EINVAL,
			"the page token is malformed; use the X-Next-Token of the page before");
	*ret = p;
	return 0;
}
