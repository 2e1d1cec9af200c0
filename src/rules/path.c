#include "rules/path.h"

#include <errno.h>
#include <string.h>

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Whether some servers decode this character, which then divides or ends the path. */
static bool is_divider(int c)
{
	return c < ' ' || c == '/' || c == '\\' || c == '%' || c == ';' || c == 0x7f;
}

/* Whether every server decodes this character, and the path does not end there. */
static bool is_plain(int c)
{
	return c < 0x7f && c != '?' && c != '#';
}

/* Normalises the three bytes of "%XX". Returns how many bytes it wrote, or -EINVAL if they can be
 * read in two ways. */
static int put_encoded(const char *s, size_t n, char *out)
{
	static const char digits[] = "0123456789ABCDEF";
	int high = n > 2 ? hex(s[1]) : -1, low = n > 2 ? hex(s[2]) : -1, c = high * 16 + low;

	if (high < 0 || low < 0 || is_divider(c))
		return -EINVAL;
	if (is_plain(c)) {
		*out = (char)c;
		return 1;
	}
	memcpy(out, (char[]){'%', digits[high], digits[low]}, 3);
	return 3;
}

static int put_letter(const char *s, size_t n, char *out)
{
	if (*s == '%')
		return put_encoded(s, n, out);
	*out = *s;
	/* many servers drop what is between a ';' and the next slash: "/..;/admin;x" */
	return *s > ' ' && *s <= '~' && *s != '\\' && *s != ';' ? 1 : -EINVAL;
}

/* "", "." and ".." between slashes. */
static bool is_odd_segment(const char *s, size_t n, bool last)
{
	if (n == 0)
		return !last;
	return (n == 1 && s[0] == '.') || (n == 2 && s[0] == '.' && s[1] == '.');
}

static bool has_odd_segment(const char *path)
{
	for (const char *s = path + 1;;) {
		size_t n = strcspn(s, "/");

		if (is_odd_segment(s, n, s[n] == '\0'))
			return true;
		if (s[n] == '\0')
			return false;
		s += n + 1;
	}
}

int path_clean(const char *path, size_t n, char out[RULES_PATH_MAX + 1])
{
	size_t bytes = 0;

	if (n > RULES_PATH_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i += path[i] == '%' ? 3 : 1) {
		int wrote = put_letter(path + i, n - i, out + bytes);

		if (wrote < 0)
			return wrote;
		bytes += (size_t)wrote;
	}
	out[bytes] = '\0';
	if (strcmp(out, "*") == 0)
		return 0;
	return out[0] == '/' && !has_odd_segment(out) ? 0 : -EINVAL;
}

bool path_is_pattern(const char *s)
{
	size_t n = strlen(s);
	char out[3];

	for (size_t i = 0; i < n; i++) {
		if (s[i] < ' ' || s[i] > '~' || strchr("?#\\;", s[i]))
			return false;
		if (s[i] == '%' &&
			(put_encoded(s + i, n - i, out) != 3 || memcmp(out, s + i, 3) != 0))
			return false;
	}
	return n && n <= RULES_PATTERN_MAX && (s[0] == '/' || s[0] == '*');
}

/* Where to go on after a mismatch: behind the last asterisk, which then matches one more letter. */
struct retry {
	const char *pattern, *path; /* NULL: nowhere */
};

bool path_matches(const char *pattern, const char *path)
{
	struct retry some = {NULL, NULL}, any = {NULL, NULL};

	for (;;) {
		if (pattern[0] == '*' && pattern[1] == '*') {
			pattern += 2;
			any = (struct retry){pattern, path};
			some.pattern = NULL;
		} else if (pattern[0] == '*') {
			some = (struct retry){++pattern, path};
		} else if (*pattern == *path) {
			if (!*path)
				return true;
			pattern++;
			path++;
		} else if (some.pattern && *some.path && *some.path != '/') {
			pattern = some.pattern;
			path = ++some.path;
		} else if (any.pattern && *any.path) {
			pattern = any.pattern;
			path = ++any.path;
			some.pattern = NULL;
		} else {
			return false;
		}
	}
}
