/* Where servers find another method or path than the request line's. */
#include <ctype.h>
#include <string.h>

#include "proto/http_headers.h"
#include "rules/rules.h"

static const char parameter[] = "_method";

enum { NAMES = 3 };

static const char *const methods[NAMES] = {
	"x-http-method-override", "x-http-method", "x-method-override"};
static const char *const paths[NAMES] = {"x-original-url", "x-rewrite-url", "x-override-url"};

static bool has_header(const struct http_headers *headers, const char *const names[NAMES])
{
	for (unsigned i = 0; headers && i < headers->count; i++)
		for (unsigned n = 0; n < NAMES; n++)
			if (http_is_same_name(headers->items[i].name, names[n]))
				return true;
	return false;
}

static int digit(char c)
{
	if (!isxdigit((unsigned char)c))
		return -1;
	return isdigit((unsigned char)c) ? c - '0' : (c | 0x20) - 'a' + 10;
}

/* The next letter of a name, decoded; -1 at the end. Moves *s behind it. PHP takes dots and opening
 * brackets for underscores. */
static int next_letter(const char **s, const char *end)
{
	int high = *s + 2 < end && **s == '%' ? digit((*s)[1]) : -1,
	    low = high >= 0 ? digit((*s)[2]) : -1;
	int c = low >= 0 ? high * 16 + low : (unsigned char)**s;

	if (*s == end)
		return -1;
	*s += low >= 0 ? 3 : 1;
	if (c == '+')
		return ' ';
	return c == '.' || c == '[' ? '_' : tolower(c);
}

/* PHP skips blanks before a name, and ends it at a NUL. */
static bool is_parameter(const char *s, const char *end)
{
	const char *want = parameter;
	int c = next_letter(&s, end);

	while (c == ' ')
		c = next_letter(&s, end);
	for (; *want && c == *want; want++)
		c = next_letter(&s, end);
	return !*want && c <= 0;
}

static bool has_parameter(const char *query)
{
	while (*query) {
		size_t n = strcspn(query, "&;#"), name = strcspn(query, "=&;#");

		if (is_parameter(query, query + name))
			return true;
		query += n + (query[n] != '\0');
	}
	return false;
}

bool rules_has_two_methods(const struct http_headers *headers, const char *query)
{
	return has_header(headers, methods) || (query && has_parameter(query));
}

bool rules_has_two_paths(const struct http_headers *headers)
{
	return has_header(headers, paths);
}
