/* What a proxy says. The first byte: with a login, to a name. No byte is asked for behind the last
 * answer, and all ends the same however the bytes are cut. */
#include "fuzz.h"

#include <string.h>

#include "egress/socks.h"

struct end {
	enum socks_state state;
	int result;
	size_t used, sent;
};

static struct end run(const uint8_t *data, size_t size, size_t piece, unsigned how)
{
	static const struct proxy with = {.username = (char *)"user", .password = (char *)"word"},
				  without = {.port = 1};
	struct buf out = BUF_INIT(4 * SOCKS_OUT_MAX);
	struct end e = {.result = 0};
	struct socks s;

	check(socks_begin(&s, how & 1 ? &with : &without, how & 2 ? "api.test" : NULL, 0x01020304,
		      443, &out) == 0);
	while (e.result == 0 && s.state != SOCKS_CONNECTED && e.used < size) {
		size_t n = socks_wants(&s);

		check(n > 0 && s.in_bytes + n <= sizeof(s.in));
		n = n < piece ? n : piece;
		n = n < size - e.used ? n : size - e.used;
		memcpy(s.in + s.in_bytes, data + e.used, n);
		e.used += n;
		e.result = socks_take(&s, n, &out);
		check(e.result <= 0);
	}
	e.state = s.state;
	e.sent = buf_len(&out);
	check(e.sent <= 2 * SOCKS_OUT_MAX);
	buf_done(&out);
	return e;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct end whole, cut;

	if (size == 0)
		return 0;
	whole = run(data + 1, size - 1, size, data[0]);
	cut = run(data + 1, size - 1, 1, data[0]);
	check(whole.state == cut.state && whole.result == cut.result && whole.sent == cut.sent);
	check(whole.result < 0 || whole.used == cut.used);
	return 0;
}
