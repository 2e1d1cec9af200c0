/* Previews of bodies: they are bounded, printable, and written again as they are. Nobody is asked
 * about a member that another reader finds twice. */
#include "fuzz.h"

#include <string.h>

#include <jansson.h>

#include "intercept/preview.h"
#include "proto/json_stream.h"
#include "proto/shown_text.h"

/* Whether a text has only characters that may be shown. */
static void check_shown(const struct buf *b)
{
	struct buf again = BUF_INIT(1 << 16);
	size_t n = buf_len(b) - 1;

	check(buf_len(b) >= 1 && memchr(buf_head(b), 0, buf_len(b)) == buf_head(b) + n);
	check(shown_text_add(&again, buf_head(b), n, SHOWN_TEXT_LINES) == 0);
	check(buf_len(&again) == n && (!n || memcmp(buf_head(&again), buf_head(b), n) == 0));
	buf_done(&again);
}

static void ignore(void *arg, const struct json_stream_token *t)
{
}

static bool is_strict(const uint8_t *data, size_t n)
{
	struct json_stream s;

	json_stream_begin(&s, ignore, NULL);
	return json_stream_feed(&s, data, n) && json_stream_end(&s);
}

/* Another reader's view. */
static bool stands_twice(const uint8_t *data, size_t n)
{
	json_t *all = json_loadb((const char *)data, n, JSON_ALLOW_NUL, NULL),
	       *once = json_loadb(
		       (const char *)data, n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
	bool twice = all && !once;

	json_decref(all);
	json_decref(once);
	return twice;
}

static void body(const uint8_t *data, size_t n, bool more, size_t room)
{
	struct buf b = BUF_INIT(room);
	struct preview p;

	check(preview_write_body(data, n, more, NULL, &b, &p) == 0);
	check(p.hidden <= p.bytes && p.name_count <= PREVIEW_NAMES_MAX);
	check_shown(&b);
	if (!more && is_strict(data, n) && !p.wrong)
		check(!stands_twice(data, n));
	buf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf b = BUF_INIT(1024);

	if (size == 0)
		return 0;
	body(data + 1, size - 1, data[0] & 1, data[0] & 2 ? 100 : 2048);
	check(preview_write(data + 1, size - 1, NULL, &b) >= 0);
	check_shown(&b);
	buf_done(&b);
	return 0;
}
