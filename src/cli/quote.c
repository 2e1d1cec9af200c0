#include "cli/quote.h"

#include <string.h>

#include "base/buf.h"

static const char plain[] =
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%^";

static int add_quoted(struct buf *b, const char *word)
{
	int r = buf_add_u8(b, '\'');

	for (; r == 0 && *word; word++)
		r = *word == '\'' ? buf_add_str(b, "'\\''") : buf_add_u8(b, (uint8_t)*word);
	return r == 0 ? buf_add_u8(b, '\'') : r;
}

char *quote_command(int argc, char **argv)
{
	struct buf b = BUF_INIT(QUOTE_MAX);
	char *out = NULL;
	int r = 0;

	for (int i = 0; r == 0 && i < argc; i++) {
		const char *word = argv[i];

		if (i > 0)
			r = buf_add_u8(&b, ' ');
		if (r == 0)
			r = *word && strspn(word, plain) == strlen(word) ? buf_add_str(&b, word)
									 : add_quoted(&b, word);
	}
	if (buf_len(&b))
		out = strndup((const char *)buf_head(&b), buf_len(&b)); /* cut where it was full */
	buf_done(&b);
	return out;
}
