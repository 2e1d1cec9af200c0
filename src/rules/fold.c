#include "rules/fold.h"

#include <ctype.h>
#include <string.h>

/* Finds the letter that the bytes at s (n of them, not 0) fold to; 0 if they are dropped. A letter
 * beyond ASCII is its first byte. Returns how many bytes it took. */
static size_t take_letter(const char *s, size_t n, char *ret)
{
	*ret = (char)tolower((unsigned char)s[0]);
	if (s[0] == '_' || s[0] == '-')
		*ret = 0;
	if (n > 1 && memcmp(s, "\xc5\xbf", 2) == 0) { /* the long s */
		*ret = 's';
		return 2;
	}
	if (n > 2 && memcmp(s, "\xe2\x84\xaa", 3) == 0) { /* the sign of Kelvin */
		*ret = 'k';
		return 3;
	}
	return 1;
}

bool fold_name(const char *text, size_t n, char *out, size_t max)
{
	size_t bytes = 0;
	char c;

	for (size_t i = 0; i < n;) {
		i += take_letter(text + i, n - i, &c);
		if (c && bytes == max)
			return false;
		if (c)
			out[bytes++] = c;
	}
	out[bytes] = '\0';
	return true;
}

/* Moves *s behind the next letter that is not dropped. 0 at the end. */
static char next_letter(const char **s)
{
	char c = 0;

	while (**s && !c)
		*s += take_letter(*s, strnlen(*s, 3), &c);
	return c;
}

bool fold_is_same(const char *a, const char *b)
{
	char c;

	do {
		c = next_letter(&a);
		if (next_letter(&b) != c)
			return false;
	} while (c);
	return true;
}

bool fold_is_foreign(const char *text, size_t n)
{
	char c;

	for (size_t i = 0; i < n;) {
		i += take_letter(text + i, n - i, &c);
		if (c & 0x80)
			return true;
	}
	return false;
}

enum fold_found fold_find(const json_t *object, const char *name)
{
	enum fold_found found = FOLD_NONE;
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)object, key, v)
	{
		if (strcmp(key, name) == 0)
			found = FOLD_EXACT;
		else if (fold_is_same(key, name) || fold_is_foreign(key, strlen(key)))
			return FOLD_ODD;
	}
	return found;
}

bool fold_is_override(const char *text)
{
	return text[0] == '_' && fold_is_same(text, "method");
}
