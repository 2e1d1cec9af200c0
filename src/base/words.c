#include "base/words.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define BLANKS " \t\n"

int words_quote(struct buf *out, const char *argument)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789@%+=:,./_-";
	int r;

	if (*argument && !argument[strspn(argument, plain)])
		return buf_add_str(out, argument);
	r = buf_add_str(out, "'");
	for (const char *p = argument; *p && r == 0; p++)
		r = *p == '\'' ? buf_add_str(out, "'\\''") : buf_add_u8(out, (uint8_t)*p);
	return r == 0 ? buf_add_str(out, "'") : r;
}

int words_join(struct buf *out, const char *const *arguments, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		if (buf_len(out))
			r = buf_add_str(out, " ");
		if (r == 0)
			r = words_quote(out, arguments[i]);
	}
	return r;
}

/* Copies the word at *from to `to`, which is not behind it. Both move. */
static int take_word(char **from, char **to)
{
	char *p = *from, *q = *to;
	bool quoted = false;

	for (; *p && (quoted || !strchr(BLANKS, *p)); p++) {
		if (*p == '\'') {
			quoted = !quoted;
			continue;
		}
		if (!quoted && strchr("|&;<>()$`\"*?[#~!{}", *p))
			return -EINVAL;
		if (!quoted && *p == '\\' && *++p == '\0')
			return -EINVAL;
		*q++ = *p;
	}
	*from = p + (*p != '\0');
	*q++ = '\0';
	*to = q;
	return quoted ? -EINVAL : 0;
}

int words_split(char *line, const char **words, size_t max)
{
	char *from = line, *to = line;
	size_t n = 0;

	for (;;) {
		int r;

		from += strspn(from, BLANKS);
		if (!*from)
			return (int)n;
		if (n == max)
			return -E2BIG;
		words[n++] = to;
		r = take_word(&from, &to);
		if (r < 0)
			return r;
	}
}
