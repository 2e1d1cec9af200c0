/* Forms from arbitrary bytes, fed whole and in pieces. The first byte chooses the boundary and the
 * size of the pieces. */
#include "fuzz.h"

#include "proto/multipart.h"

static void tell_part(const struct multipart_part *part, struct buf *story)
{
	(void)buf_printf(story, "<%s|%s|%s>", part->name ? part->name : "",
		part->filename ? part->filename : "", part->content_type ? part->content_type : "");
}

static bool feed(struct multipart *m, const uint8_t *data, size_t n, struct buf *story)
{
	enum multipart_event event;
	const uint8_t *bytes;
	size_t used, len;

	while ((event = multipart_next(m, data, n, &used)) != MULTIPART_MORE) {
		check(used <= n);
		data += used;
		n -= used;
		switch (event) {
		case MULTIPART_ERROR:
			check(multipart_reason(m)[0]);
			(void)buf_printf(story, "<error>");
			return false;
		case MULTIPART_PART:
			tell_part(multipart_part(m), story);
			break;
		case MULTIPART_DATA:
			bytes = multipart_data(m, &len);
			check(len > 0);
			(void)buf_add(story, bytes, len);
			break;
		default:
			(void)buf_printf(story, "<%d>", event);
		}
	}
	check(used == n);
	return true;
}

static void run(const char *type, const uint8_t *data, size_t size, size_t piece, struct buf *story)
{
	struct multipart *m;
	bool alive = true;

	check(multipart_new(type, 8, &m) == 0);
	for (size_t at = 0; at < size && alive; at += piece)
		alive = feed(m, data + at, size - at < piece ? size - at : piece, story);
	if (alive)
		(void)buf_printf(story, "<%d>", multipart_finish(m));
	multipart_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const types[] = {
		"multipart/form-data; boundary=b", "multipart/form-data; boundary=\"--\""};
	struct buf whole = BUF_INIT(1 << 20), pieces = BUF_INIT(1 << 20);
	struct multipart *m = NULL;
	char *text;

	if (size < 1)
		return 0;
	run(types[data[0] & 1], data + 1, size - 1, SIZE_MAX / 2, &whole);
	run(types[data[0] & 1], data + 1, size - 1, 1 + (data[0] >> 1) % 16, &pieces);
	check(same(&whole, &pieces));
	text = calloc(1, size);
	memcpy(text, data + 1, size - 1);
	if (multipart_new(text, 0, &m) == 0)
		multipart_free(m);
	free(text);
	buf_done(&whole);
	buf_done(&pieces);
	return 0;
}
