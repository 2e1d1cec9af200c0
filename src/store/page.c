#include "store/page.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "proto/base64.h"
#include "store/text.h"

/* As Go's RFC3339Nano: no trailing zeros in the fraction. out holds 40 bytes. */
static void format_time(uint64_t ns, char *out, size_t size)
{
	time_t seconds = (time_t)(ns / NS_PER_S);
	unsigned fraction = (unsigned)(ns % NS_PER_S);
	char digits[16] = "";
	struct tm tm;
	size_t n;

	(void)gmtime_r(&seconds, &tm); /* fits: ns is below 2^63, year 2262 */
	if (fraction) {
		(void)snprintf(digits, sizeof(digits), ".%09u", fraction); /* fits */
		for (n = strlen(digits); digits[n - 1] == '0'; n--)
			digits[n - 1] = '\0';
	}
	n = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(out + n, size - n, "%sZ", digits); /* fits */
}

static int parse_time(const char *s, uint64_t *ret)
{
	uint64_t fraction = 0, scale = NS_PER_S;
	struct tm tm = {0};
	const char *p = strptime(s, "%Y-%m-%dT%H:%M:%S", &tm);
	time_t seconds;

	if (p && *p == '.')
		for (p++; *p >= '0' && *p <= '9' && scale > 1; p++) {
			scale /= 10;
			fraction += (uint64_t)(*p - '0') * scale;
		}
	seconds = timegm(&tm);
	if (!p || strcmp(p, "Z") != 0 || seconds < 0 ||
		(uint64_t)seconds > INT64_MAX / NS_PER_S - 1)
		return -EINVAL;
	*ret = (uint64_t)seconds * NS_PER_S + fraction;
	return 0;
}

void page_encode(const struct page *p, char out[STORE_PAGE_TOKEN_BYTES])
{
	char time[40], text[128];

	_Static_assert(sizeof(time) + sizeof(p->id) + sizeof("____asc") <= sizeof(text), "text");
	_Static_assert((sizeof(text) + 2) / 3 * 4 < STORE_PAGE_TOKEN_BYTES, "token");
	format_time(p->started_ns, time, sizeof(time));
	(void)snprintf(text, sizeof(text), "%s__%s%s", time, p->id, p->ascending ? "__asc" : "");
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
	return parse_time(text, &p->started_ns);
}

int page_decode(const char *token, struct page *ret, struct error *e)
{
	char text[STORE_PAGE_TOKEN_BYTES + 4]; /* more than base64_decoded_max() of the longest */
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
