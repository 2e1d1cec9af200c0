/* Conditions on the arguments of a tool.
 *
 * A rule that allows takes a value as it stands. A rule that denies or asks takes it as a tool may
 * read it: in any case, as a path with "//", "." and ".." resolved. A value that can be read in
 * more ways is unclear. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "rules/fold.h"
#include "rules/rules_internal.h"

#define EXACT_MAX 9007199254740992.0 /* 2^53: doubles tell all integers below it apart */

/* --- where it is --- */

/* Decodes one name of a pointer, with ~0 for '~' and ~1 for '/'. Moves *at behind it. */
static bool next_name(const char **at, char out[RULES_POINTER_MAX + 1])
{
	const char *s = *at;
	size_t n = 0;

	if (*s++ != '/')
		return false;
	for (; *s && *s != '/'; s++) {
		bool escaped = *s == '~' && (s[1] == '0' || s[1] == '1');

		s += escaped;
		out[n++] = escaped ? (*s == '0' ? '~' : '/') : *s;
	}
	out[n] = '\0';
	*at = s;
	return true;
}

const json_t *rules_argument_find(const json_t *v, const char *pointer, bool *odd)
{
	char name[RULES_POINTER_MAX + 1];
	uint64_t index;

	while (v && next_name(&pointer, name)) {
		/* a text may be JSON to some tool */
		if (odd && (json_is_string(v) || fold_find(v, name) == FOLD_ODD))
			*odd = true;
		if (json_is_array(v))
			v = str_parse_u64(name, &index) == 0 ? json_array_get(v, (size_t)index)
							     : NULL;
		else
			v = json_object_get(v, name);
	}
	return v;
}

/* --- equals --- */

static enum rules_fit fit(bool fits)
{
	return fits ? RULES_FITS : RULES_FITS_NOT;
}

/* Integers are compared as integers. Where some tool reads a double, which has fewer of them, two
 * that it cannot tell apart are unclear. */
static enum rules_fit numbers_fit(const json_t *a, const json_t *b, bool hard)
{
	double x = json_number_value(a), y = json_number_value(b);
	bool whole = json_is_integer(a) && json_is_integer(b);

	if (whole && json_integer_value(a) == json_integer_value(b))
		return RULES_FITS;
	if (x != y)
		return RULES_FITS_NOT;
	if (fabs(x) < EXACT_MAX)
		return RULES_FITS;
	return whole && !hard ? RULES_FITS_NOT : RULES_FITS_UNCLEAR;
}

static size_t trimmed(const char **s)
{
	size_t n;

	*s += strspn(*s, " \t\r\n");
	n = strlen(*s);
	while (n && strchr(" \t\r\n", (*s)[n - 1]))
		n--;
	return n;
}

static bool is_alike(const char *a, const char *b)
{
	size_t n = trimmed(&a), m = trimmed(&b);

	return n == m && strncasecmp(a, b, n) == 0;
}

static bool is_same_kind(const json_t *a, const json_t *b)
{
	return json_typeof(a) == json_typeof(b) || (json_is_boolean(a) && json_is_boolean(b));
}

static enum rules_fit equals_fit(const json_t *v, const json_t *want, bool hard)
{
	if (!v)
		return RULES_FITS_NOT;
	if (json_is_number(v) && json_is_number(want))
		return numbers_fit(v, want, hard);
	if (json_equal(v, want))
		return RULES_FITS;
	if (!hard || json_is_null(v))
		return RULES_FITS_NOT;
	if (json_is_string(v) && json_is_string(want))
		return fit(is_alike(json_string_value(v), json_string_value(want)));
	/* many tools take "5" for 5, and "yes" for true */
	return is_same_kind(v, want) ? RULES_FITS_NOT : RULES_FITS_UNCLEAR;
}

/* --- prefixes --- */

/* A segment of dots and blanks, but not "." and "..". */
static bool is_strange_segment(const char *s, size_t n)
{
	bool plain = s[0] == '.' && (n == 1 || (n == 2 && s[1] == '.'));

	return n && strspn(s, ". ") >= n && !plain;
}

/* Whether tools may read a path in several ways. Letters of the prefix are as its author wants
 * them. */
static bool is_strange(const char *text, const char *prefix)
{
	for (const char *s = text; *s; s++)
		if ((*s == '%' || *s == '\\' || *s == 0x7f || (unsigned char)*s < ' ') &&
			!strchr(prefix, *s))
			return true;
	for (const char *s = text;; s++) {
		size_t n = strcspn(s, "/\\");

		if (is_strange_segment(s, n))
			return true;
		s += n;
		if (!*s)
			return false;
	}
}

/* A path that leads out of where it begins. */
static bool leads_out(const char *s)
{
	for (const char *at = s; (at = strstr(at, "..")); at += 2)
		if ((at == s || at[-1] == '/' || at[-1] == '\\') &&
			(at[2] == '\0' || at[2] == '/' || at[2] == '\\'))
			return true;
	return false;
}

/* Adds a segment to a path that ends in a slash. False: it leads out of a relative path. */
static bool add_segment(char *out, size_t *bytes, const char *s, size_t n, bool absolute)
{
	bool up = n == 2 && memcmp(s, "..", 2) == 0;

	if (up && *bytes == 1)
		return absolute;
	for ((*bytes)--; up && out[*bytes - 1] != '/';)
		(*bytes)--;
	if (!up)
		out[(*bytes)++] = '/';
	for (; n && strchr(" .", s[n - 1]);)
		n--;
	for (size_t i = 0; i < n; i++)
		out[(*bytes)++] = (char)tolower((unsigned char)s[i]);
	if (n)
		out[(*bytes)++] = '/';
	return true;
}

/* Writes a path in lower case, with a slash before and behind it, as a tool finds a file by it:
 * NULL if it leads out of a relative path, or when out of memory. */
static char *resolve(const char *text)
{
	char *out = malloc(strlen(text) + 3);
	bool absolute = *text == '/' || *text == '\\', good = out != NULL;
	size_t bytes = 1;

	for (const char *s = text; good; s++) {
		size_t n = strcspn(s, "/\\"), blanks = strspn(s, " ");

		out[0] = '/';
		blanks = blanks < n ? blanks : n;
		good = add_segment(out, &bytes, s + blanks, n - blanks, absolute);
		s += n;
		if (!*s)
			break;
	}
	if (good) {
		out[bytes] = '\0';
		return out;
	}
	free(out);
	return NULL;
}

/* Whether the text begins so. A letter beyond ASCII may be any to a tool that folds it. */
static bool begins_alike(const char *text, const char *prefix)
{
	for (; *prefix && *text; prefix++, text++) {
		if (*text == *prefix || !(*text & 0x80)) {
			if (tolower((unsigned char)*text) != tolower((unsigned char)*prefix))
				return false;
			continue;
		}
		while ((text[1] & 0xc0) == 0x80)
			text++;
		while ((prefix[1] & 0xc0) == 0x80)
			prefix++;
	}
	return !*prefix;
}

/* A path for a rule that denies or asks. */
static enum rules_fit path_fits(const char *text, const char *prefix)
{
	_cleanup_free_ char *want = resolve(prefix), *is = resolve(text);
	size_t n = want ? strlen(want) : 0;

	if (*prefix == '/' && (*text == '~' || strncasecmp(text, "file:", 5) == 0))
		return RULES_FITS_UNCLEAR;
	if (!is)
		return RULES_FITS_UNCLEAR;
	if (n > 1 && !strchr("/\\", prefix[strlen(prefix) - 1]))
		want[n - 1] = '\0';
	return fit(want && begins_alike(is, want));
}

static enum rules_fit prefix_fits(const json_t *v, const char *prefix, bool hard)
{
	const char *text = json_string_value(v);
	bool is_path = strpbrk(prefix, "/\\"), begins = text && str_starts_with(text, prefix);

	if (!text)
		return hard && (json_is_array(v) || json_is_object(v)) ? RULES_FITS_UNCLEAR
								       : RULES_FITS_NOT;
	if (!hard && !begins)
		return RULES_FITS_NOT;
	if (is_path && is_strange(text, prefix))
		return RULES_FITS_UNCLEAR;
	if (!hard)
		return fit(!leads_out(text));
	if (begins)
		return RULES_FITS;
	return is_path ? path_fits(text, prefix)
		       : fit(begins_alike(text + strspn(text, " \t\r\n"), prefix));
}

enum rules_fit rules_argument_fits(
	const struct rules_argument *a, bool hard, const json_t *arguments, const char **ret_why)
{
	bool odd = hard && arguments && !json_is_object(arguments) && !json_is_null(arguments);
	const json_t *v = rules_argument_find(arguments, a->at, &odd);
	enum rules_fit fits =
		a->prefix ? prefix_fits(v, a->prefix, hard) : equals_fit(v, a->equals, hard);

	if (odd) {
		*ret_why = "the name of an argument has another spelling, or letters beyond ASCII";
		return RULES_FITS_UNCLEAR;
	}
	if (fits == RULES_FITS_UNCLEAR)
		*ret_why = "an argument can be read in two ways";
	return fits;
}
