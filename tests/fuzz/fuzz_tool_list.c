/* Lists of tools: the first byte says whether they are events, the rest comes whole and byte by
 * byte, and leads to the same. What passed passes again as it is. */
#include "fuzz.h"

#include <string.h>

#include "intercept/tool_list.h"

static bool shows(void *arg, const char *name)
{
	return name[0] != 'd';
}

static int pass(bool events, const uint8_t *data, size_t n, size_t piece, struct buf *out)
{
	size_t held = 0;
	const struct tool_list_options o = {.events = events, .shown = shows, .held = &held};
	struct tool_list *l = tool_list_new(&o);
	int r = 0;

	check(l != NULL);
	for (size_t at = 0; at < n && r == 0; at += piece)
		r = tool_list_bytes(l, data + at, n - at < piece ? n - at : piece, out);
	check(tool_list_waiting(l) == held);
	tool_list_free(l);
	check(held == 0);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf one = BUF_INIT(1 << 20), two = BUF_INIT(1 << 20), again = BUF_INIT(1 << 20);
	bool events = size && data[0] == 'e';
	int r;

	if (size == 0)
		return 0;
	r = pass(events, data + 1, size - 1, size, &one);
	check(pass(events, data + 1, size - 1, 1, &two) == r);
	check(buf_len(&one) == buf_len(&two));
	check(buf_len(&one) < size);
	check(!buf_len(&one) || memcmp(buf_head(&one), buf_head(&two), buf_len(&one)) == 0);
	if (r == 0) {
		check(pass(events, buf_head(&one), buf_len(&one), 7, &again) == 0);
		check(buf_len(&again) == buf_len(&one));
		check(!buf_len(&one) ||
			memcmp(buf_head(&one), buf_head(&again), buf_len(&one)) == 0);
	}
	buf_done(&one);
	buf_done(&two);
	buf_done(&again);
	return 0;
}
