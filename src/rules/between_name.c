#include "rules/between_name.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"

bool between_name_is(const char *name)
{
	return str_ends_with(name, BETWEEN_DOMAIN);
}

/* Of a port, without zeros in front. */
static int parse_port(const char *s, size_t n, uint16_t *ret)
{
	unsigned long port = 0;

	if (n == 0 || n > 5 || s[0] == '0')
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -EINVAL;
		port = port * 10 + (unsigned long)(s[i] - '0');
	}
	if (port > UINT16_MAX)
		return -EINVAL;
	*ret = (uint16_t)port;
	return 0;
}

int between_name_parse(const char *name, uint16_t *ret_port, char ret_to[BETWEEN_LABEL_BYTES])
{
	const char *dash = strchr(name, '-'), *dot = strchr(name, '.');
	size_t n;

	if (!dash || !dot || dash > dot || strcmp(dot, BETWEEN_DOMAIN) != 0)
		return -EINVAL;
	n = (size_t)(dot - dash) - 1;
	if (n == 0 || n >= BETWEEN_LABEL_BYTES || dash[1] == '-')
		return -EINVAL;
	if (parse_port(name, (size_t)(dash - name), ret_port) < 0)
		return -EINVAL;
	memcpy(ret_to, dash + 1, n);
	ret_to[n] = '\0';
	return 0;
}
