#include "base/net.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* Takes a decimal number of at most `max` from the front of *text. */
static int take_number(const char **text, unsigned max, unsigned *ret)
{
	const char *p = *text;
	unsigned v = 0, digits = 0;

	for (; *p >= '0' && *p <= '9' && digits < 4; p++, digits++)
		v = v * 10 + (unsigned)(*p - '0');
	if (digits == 0 || v > max || (digits > 1 && **text == '0'))
		return -EINVAL;
	*text = p;
	*ret = v;
	return 0;
}

static int take_address(const char **text, uint32_t *ret)
{
	uint32_t address = 0;
	unsigned v;

	for (unsigned i = 0; i < 4; i++) {
		if (i > 0 && *(*text)++ != '.')
			return -EINVAL;
		if (take_number(text, 255, &v) < 0)
			return -EINVAL;
		address = address << 8 | v;
	}
	*ret = address;
	return 0;
}

int net_parse_address(const char *text, uint32_t *ret)
{
	uint32_t address;

	if (take_address(&text, &address) < 0 || *text)
		return -EINVAL;
	*ret = address;
	return 0;
}

int net_parse(const char *text, struct net *ret)
{
	unsigned prefix = 32;
	struct net n;

	if (take_address(&text, &n.base) < 0)
		return -EINVAL;
	if (*text == '/') {
		text++;
		if (take_number(&text, 32, &prefix) < 0)
			return -EINVAL;
	}
	n.mask = prefix ? UINT32_MAX << (32 - prefix) : 0;
	if (*text || n.base & ~n.mask)
		return -EINVAL;
	*ret = n;
	return 0;
}

const char *net_format(uint32_t a, char out[NET_TEXT_BYTES])
{
	(void)snprintf(out, NET_TEXT_BYTES, "%u.%u.%u.%u", a >> 24, a >> 16 & 255, a >> 8 & 255,
		a & 255); /* fits */
	return out;
}

uint32_t net_get(const uint8_t b[4])
{
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

void net_put(uint32_t a, uint8_t b[4])
{
	b[0] = (uint8_t)(a >> 24);
	b[1] = (uint8_t)(a >> 16);
	b[2] = (uint8_t)(a >> 8);
	b[3] = (uint8_t)a;
}
