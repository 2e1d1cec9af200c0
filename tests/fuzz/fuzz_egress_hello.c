/* The first bytes of a flow. The answer depends on the bytes of the message only: not on how many
 * came before the last of them, nor on what follows. */
#include "fuzz.h"

#include <string.h>

#include "intercept/client_hello.h"

static enum client_hello_result parse(const uint8_t *data, size_t size, struct client_hello *h)
{
	const char *why = NULL;
	enum client_hello_result r = client_hello_parse(data, size, h, &why);

	check((r == CLIENT_HELLO_BAD) == (why != NULL));
	if (r == CLIENT_HELLO_OK) {
		check(memchr(h->name, '\0', sizeof(h->name)));
		for (const char *p = h->name; *p; p++)
			check(*p > ' ' && *p < 0x7f && !(*p >= 'A' && *p <= 'Z'));
		check(h->alpn || (!h->h2 && !h->http1));
	}
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct client_hello all, some;
	enum client_hello_result whole = parse(data, size, &all);

	for (size_t n = 0; n < size; n += 1 + n / 16) {
		enum client_hello_result r = parse(data, n, &some);

		check(r == CLIENT_HELLO_MORE || r == whole);
		check(r != CLIENT_HELLO_OK || strcmp(some.name, all.name) == 0);
	}
	return 0;
}
