#include "rules/form.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "proto/http_headers.h"

enum { VALUE_MAX = 64 }; /* of a part's name; more than any field that counts */

/* As fold() writes them. */
static const char *const fields[] = {
	"_method", "x_http_method_override", "x_http_method", "x_method_override"};

/* --- names of fields --- */

/* The next letter of a name, decoded; -1 at the end. Moves *s behind it. */
static int next_letter(const char **s, const char *end)
{
	int high, low, c;

	if (*s == end)
		return -1;
	high = end - *s > 2 && **s == '%' ? str_hex_digit((*s)[1]) : -1;
	low = high >= 0 ? str_hex_digit((*s)[2]) : -1;
	c = low >= 0 ? high * 16 + low : (unsigned char)**s;
	*s += low >= 0 ? 3 : 1;
	return c == '+' ? ' ' : c;
}

/* PHP takes dots and opening brackets for underscores, and ASP.NET has dashes. */
static int fold(int c)
{
	return c == '.' || c == '[' || c == '-' ? '_' : tolower(c);
}

/* Whether a name is this field, perhaps with brackets behind it. PHP ends a name at a NUL. */
static bool is_field(const char *s, const char *end, const char *want)
{
	int c = next_letter(&s, end);

	for (; *want && c >= 0 && fold(c) == *want; want++)
		c = next_letter(&s, end);
	if (!*want && c == '[') { /* of a list, "a[]" or "a[0]", method-override takes the first */
		c = next_letter(&s, end);
		return c < 0 || c == ']' || c == '[' || isdigit(c);
	}
	return !*want && (c <= 0 || c == ']'); /* qs drops what follows a bracket */
}

static bool is_any_field(const char *s, const char *end)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (is_field(s, end, fields[i]))
			return true;
	return false;
}

static bool is_one_of(int c, const char *list)
{
	return c > 0 && strchr(list, c);
}

/* PHP skips blanks before a name, Rack brackets, and qs both brackets and dots. Express drops a
 * mark of UTF-8 in front of a form. */
static bool replaces_method(const char *s, const char *end)
{
	int c = ' ';

	while (s < end && is_one_of(c, " [].\xef\xbb\xbf")) {
		if (is_any_field(s, end))
			return true;
		c = next_letter(&s, end);
	}
	return false;
}

/* --- queries --- */

/* Returns the first of these characters, or the end. */
static const char *skip_to(const char *s, const char *end, const char *list)
{
	while (s < end && !is_one_of(*s, list))
		s++;
	return s;
}

bool form_query_has_method(const char *query, size_t n)
{
	const char *s = query, *end = query + n;

	while (s < end) {
		const char *name = skip_to(s, end, "=&;#");

		if (replaces_method(s, name))
			return true;
		s = skip_to(name, end, "&;#");
		s += s < end;
	}
	return false;
}

/* --- parts --- */

static bool begins_with(const char *s, const char *end, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(end - s) >= n && strncasecmp(s, word, n) == 0;
}

/* Returns the first header from s on that can name a part, or NULL. */
static const char *find_header(const char *s, const char *end)
{
	for (; s < end; s++)
		if ((*s | 0x20) == 'c' && (begins_with(s, end, "content-disposition") ||
						  begins_with(s, end, "content-id")))
			return s;
	return NULL;
}

/* Readers agree on this end of headers only. */
static const char *end_of_headers(const char *s, const char *end)
{
	const char *at = memmem(s, (size_t)(end - s), "\r\n\r\n", 4);

	return at ? at : end;
}

/* Whether a value is such a field, with or without quotes and backslashes. A word that is encoded
 * (RFC 2047) may be any. */
static bool value_replaces_method(const char *s, const char *end)
{
	char value[VALUE_MAX];
	size_t n = 0;

	while (s < end && is_one_of(*s, " \t\r\n\"'\\[]"))
		s++;
	if (begins_with(s, end, "=?"))
		return true;
	for (; s < end && n < sizeof(value) && !is_one_of(*s, " \t\r\n;,"); s++)
		if (!is_one_of(*s, "\"'\\"))
			value[n++] = *s;
	return replaces_method(value, value + n);
}

/* Whether the text behind a word gives it a value that replaces the method. Of a value in another
 * form ("name*=", RFC 5987 and 2231) nobody knows. */
static bool gives(const char *s, const char *end, char sign)
{
	while (s < end && is_one_of(*s, " \t\r\n"))
		s++;
	if (s < end && *s == '*')
		return true;
	return s < end && *s == sign && value_replaces_method(s + 1, end);
}

static bool is_word_at(const char *s, const char *begin, const char *end, const char *word)
{
	return begins_with(s, end, word) &&
	       (s == begin || (!isalnum((unsigned char)s[-1]) && s[-1] != '_'));
}

/* Headers of a part, the first of which was found. Rack takes Content-ID for the name as well. */
static bool headers_replace_method(const char *begin, const char *end)
{
	static const char id[] = "content-id", name[] = "name";

	for (const char *s = begin; s < end; s++)
		if ((is_word_at(s, begin, end, name) && gives(s + sizeof(name) - 1, end, '=')) ||
			(is_word_at(s, begin, end, id) && gives(s + sizeof(id) - 1, end, ':')))
			return true;
	return false;
}

static bool parts_have_method(const char *s, const char *end)
{
	while ((s = find_header(s, end))) {
		const char *over = end_of_headers(s, end);

		if (headers_replace_method(s, over))
			return true;
		s = over;
	}
	return false;
}

bool form_has_method(const void *body, size_t n)
{
	const char *s = body;

	return n && (form_query_has_method(s, n) || parts_have_method(s, s + n));
}

/* --- headers of the request --- */

static bool has_word(const char *text, const char *word)
{
	return strcasestr(text, word) != NULL;
}

bool form_is_likely(const struct http_headers *headers)
{
	bool typed = false;

	for (unsigned i = 0; headers && i < headers->count; i++) {
		const char *type = headers->items[i].value;

		if (!http_is_same_name(headers->items[i].name, "content-type"))
			continue;
		if (!type[0] || has_word(type, "urlencoded") || has_word(type, "multipart"))
			return true;
		typed = true;
	}
	return !typed;
}

bool form_has_parts(const struct http_headers *headers, const void *body, size_t n)
{
	const char *type = headers ? http_header_get(headers, "content-type") : NULL;
	const char *s = body;

	return (type && has_word(type, "multipart")) || (n && find_header(s, s + n));
}

static bool is_plain(const char *charset)
{
	static const char *const all[] = {"utf-8", "utf8", "us-ascii", "iso-8859-", "windows-125"};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (strncasecmp(charset, all[i], strlen(all[i])) == 0)
			return true;
	return false;
}

/* Whether a type names letters in which ASCII is not ASCII (UTF-16, EBCDIC), or unknown ones. */
static bool has_other_letters(const char *type)
{
	static const char word[] = "charset";
	const char *at = type;

	while ((at = strcasestr(at, word))) {
		at += sizeof(word) - 1;
		if (!is_plain(at + strspn(at, " \t=\"'")))
			return true;
	}
	return false;
}

bool form_is_hidden(const struct http_headers *headers)
{
	for (unsigned i = 0; headers && i < headers->count; i++) {
		const struct http_header *h = &headers->items[i];

		if (http_is_same_name(h->name, "content-encoding") && h->value[0] &&
			strcasecmp(h->value, "identity") != 0)
			return true;
		if (http_is_same_name(h->name, "content-type") && has_other_letters(h->value))
			return true;
	}
	return false;
}
