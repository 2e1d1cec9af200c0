/* The conditions `requestHeaders` and `query` of a rule:
 *
 *	"requestHeaders": {"x-amz-target": "DynamoDB_20120810.Get*", "prefer": null},
 *	"query": {"Action": ["Describe*", "List*"]}
 *
 * Each name must be there once, with a value that one of its patterns matches; null: it must not be
 * there. Servers differ in which of two they take, and in the spelling of names: such a request is
 * unclear. Parameters may also stand in a form. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "proto/http_headers.h"
#include "rules/fold.h"
#include "rules/form.h"
#include "rules/rules_internal.h"

enum { NAME_MAX_BYTES = 64, PATTERN_MAX = 200, VALUE_MAX = 2048 };

static const char odd_header[] = "a header that a rule names stands twice, or in another spelling";
static const char odd_parameter[] =
	"a parameter that a rule names stands twice, or in another spelling";
static const char odd_value[] = "a value that a rule names is too long, or can be read in two ways";
static const char odd_form[] =
	"its form may have a parameter that a rule names, and cannot be read";

/* --- the members --- */

static bool is_pattern(const char *text)
{
	size_t n = text ? strlen(text) : 0;

	for (size_t i = 0; i < n; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return n && n <= PATTERN_MAX;
}

static int take_patterns(const struct policy_at *of, json_t *fields, const char *name,
	enum rules_action action, struct rules_field *f)
{
	struct rules_list l;
	int e = rules_list_begin(of, fields, name, RULES_ITEMS_MAX, &l);

	e = e ? e : rules_list_make_room(&l, sizeof(f->patterns[0]), (void **)&f->patterns);
	for (size_t i = 0; i < l.count && e == 0; i++) {
		struct policy_at at;
		const char *text = json_string_value(rules_list_item(&l, i, &at));

		if (!is_pattern(text))
			return policy_bad(&at, "expected null, or patterns of at most 200 letters "
					       "of ASCII; * and ** are wildcards");
		e = action == RULES_ALLOW ? rules_take_text(text, &f->patterns[f->pattern_count])
					  : rules_take_wide(text, &f->patterns[f->pattern_count]);
		for (char *s = f->patterns[f->pattern_count++]; s && *s; s++)
			*s = (char)(action == RULES_ALLOW ? *s : tolower((unsigned char)*s));
	}
	return e;
}

static int take_field(const struct policy_at *of, json_t *fields, const char *name, bool header,
	enum rules_action action, struct rules_field *f)
{
	struct policy_at at = policy_member(of, name);
	size_t n = strlen(name);
	int e;

	if (n == 0 || n > NAME_MAX_BYTES || !(header ? http_is_token(name, n) : is_pattern(name)))
		return policy_bad(&at, header ? "no header has this name"
					      : "expected a name of at most 64 letters of ASCII");
	e = rules_take_text(name, &f->name);
	return e || json_is_null(json_object_get(fields, name))
		       ? e
		       : take_patterns(of, fields, name, action, f);
}

static bool is_twice(const struct rules_fields *all)
{
	const struct rules_field *last = &all->list[all->count - 1];

	for (unsigned i = 0; i + 1 < all->count; i++)
		if (fold_is_same(all->list[i].name, last->name))
			return true;
	return false;
}

int rules_fields_make(const struct policy_at *of, json_t *rule, const char *member, bool header,
	enum rules_action action, struct rules_fields *ret)
{
	struct policy_at at = policy_member(of, member);
	json_t *fields = json_object_get(rule, member), *v;
	const char *name;
	int e = 0;

	if (!fields)
		return 0;
	if (!json_is_object(fields) || json_object_size(fields) == 0 ||
		json_object_size(fields) > RULES_HEADERS_MAX)
		return policy_bad(&at, "expected an object of 1 to 20 names");
	ret->list = calloc(json_object_size(fields), sizeof(ret->list[0]));
	if (!ret->list)
		return -ENOMEM;
	json_object_foreach(fields, name, v)
	{
		e = e ? e : take_field(&at, fields, name, header, action, &ret->list[ret->count++]);
		if (e == 0 && is_twice(ret))
			e = policy_bad(&at, "two names are the same to some servers");
	}
	return e;
}

void rules_fields_done(struct rules_fields *f)
{
	for (unsigned i = 0; i < f->count; i++) {
		for (unsigned n = 0; n < f->list[i].pattern_count; n++)
			free(f->list[i].patterns[n]);
		free(f->list[i].patterns);
		free(f->list[i].name);
	}
	free(f->list);
	*f = (struct rules_fields){.count = 0};
}

/* --- values --- */

/* What was found of a field. */
struct found {
	unsigned count;
	bool odd;
	const char *value; /* n bytes, as received */
	size_t n;
};

/* Rules that allow take case as it is. value: NULL if it cannot be read. */
static enum rules_fit look_at(const struct rules_field *f, const char *value, bool exact,
	struct path_steps *steps, const char **ret_why)
{
	char text[VALUE_MAX + 1];
	size_t n = value ? strlen(value) : 0;

	if (!value || n > VALUE_MAX) {
		*ret_why = odd_value;
		return RULES_FITS_UNCLEAR;
	}
	for (size_t i = 0; i < n; i++)
		text[i] = (char)(exact ? value[i] : tolower((unsigned char)value[i]));
	text[n] = '\0';
	for (unsigned i = 0; i < f->pattern_count; i++)
		if (path_matches(f->patterns[i], text, steps))
			return RULES_FITS;
	return RULES_FITS_NOT;
}

/* RULES_FITS: its value must be looked at. */
static enum rules_fit is_there(const struct rules_field *f, const struct found *found)
{
	if (found->odd || found->count > 1)
		return RULES_FITS_UNCLEAR;
	return (found->count == 0) == (f->pattern_count == 0) ? RULES_FITS : RULES_FITS_NOT;
}

/* --- headers --- */

static enum rules_fit header_fits(const struct rules_field *f, const struct http_headers *h,
	bool exact, struct path_steps *steps, const char **ret_why)
{
	struct found found = {.count = 0};
	enum rules_fit fits;

	for (unsigned i = 0; h && i < h->count; i++) {
		if (!http_is_same_name(h->items[i].name, f->name))
			continue;
		found.count++;
		found.value = h->items[i].value;
		found.odd = found.odd || strcasecmp(h->items[i].name, f->name) != 0;
	}
	fits = is_there(f, &found);
	if (fits == RULES_FITS && found.count)
		return look_at(f, found.value, exact, steps, ret_why);
	if (fits == RULES_FITS_UNCLEAR)
		*ret_why = odd_header;
	return fits;
}

/* --- parameters --- */

/* Decodes n bytes of a form or a query. False: they are too many, or no text. */
static bool decode(const char *s, size_t n, char out[VALUE_MAX + 1])
{
	size_t bytes = 0;

	for (size_t i = 0; i < n; i++) {
		int high = s[i] == '%' && n - i > 2 ? str_hex_digit(s[i + 1]) : -1;
		int low = high < 0 ? -1 : str_hex_digit(s[i + 2]);
		int c = s[i] == '+' ? ' ' : low < 0 ? (unsigned char)s[i] : high * 16 + low;

		if ((s[i] == '%' && low < 0) || c < ' ' || c == 0x7f || bytes == VALUE_MAX)
			return false;
		out[bytes++] = (char)c;
		i += s[i] == '%' ? 2 : 0;
	}
	out[bytes] = '\0';
	return true;
}

/* Whether a server may take a name, as decoded, for the wanted one. Many read "a[]" and "a[0]" as a
 * list of that name, and PHP drops blanks before it. */
static bool may_be(const char *name, const char *want)
{
	char cut[VALUE_MAX + 1];
	size_t n;

	name += strspn(name, " [");
	n = strcspn(name, "[]");
	memcpy(cut, name, n);
	cut[n] = '\0';
	return fold_is_same(cut, want) || fold_is_foreign(cut, n);
}

/* Whether a value has "]=" in it, where some servers (qs) end the name. */
static bool may_end_name(const char *s, size_t n)
{
	return memmem(s, n, "]=", 2) || memmem(s, n, "%5D=", 4) || memmem(s, n, "%5d=", 4);
}

/* A piece between two separators. */
static void look(
	const struct rules_field *f, const char *s, size_t n, bool odd, struct found *found)
{
	const char *sign = memchr(s, '=', n);
	size_t name_n = sign ? (size_t)(sign - s) : n;
	char name[VALUE_MAX + 1];

	if (n == 0)
		return;
	if (!decode(s, name_n, name)) {
		found->odd = true; /* it may be any */
		return;
	}
	if (!may_be(name, f->name))
		return;
	found->count++;
	found->odd = found->odd || odd || strcmp(name, f->name) != 0;
	found->value = sign ? sign + 1 : s + n;
	found->n = sign ? n - name_n - 1 : 0;
	found->odd = found->odd || may_end_name(found->value, found->n);
}

/* Some servers separate parameters by ';', too. */
static void look_all(const struct rules_field *f, const char *s, size_t n, struct found *found)
{
	const char *end = s + n;
	bool odd = false;

	for (;;) {
		const char *at = s;

		while (at < end && *at != '&' && *at != ';')
			at++;
		look(f, s, (size_t)(at - s), odd || (at < end && *at == ';'), found);
		if (at == end)
			return;
		odd = *at == ';';
		s = at + 1;
	}
}

static enum rules_fit parameter_fits(const struct rules_field *f, const struct rules_question *q,
	bool exact, struct path_steps *steps, const char **ret_why)
{
	struct found found = {.count = 0};
	char value[VALUE_MAX + 1];
	enum rules_fit fits;

	if (q->query)
		look_all(f, q->query, strlen(q->query), &found);
	if (q->form)
		look_all(f, q->call->form, q->call->form_bytes, &found);
	fits = is_there(f, &found);
	if (fits == RULES_FITS && found.count)
		return look_at(f, decode(found.value, found.n, value) ? value : NULL, exact, steps,
			ret_why);
	if (fits == RULES_FITS_UNCLEAR)
		*ret_why = odd_parameter;
	return fits;
}

/* --- what fits --- */

bool rules_fields_need_form(const struct rules_rule *r, const struct rules_question *q)
{
	return r->query.count && q->form && !(q->call && q->call->apis & CALL_FORM);
}

/* Takes the result of one condition. Returns false if it does not fit, which decides. */
static bool goes_on(enum rules_fit one, enum rules_fit *all)
{
	if (one != RULES_FITS)
		*all = one;
	return one != RULES_FITS_NOT;
}

enum rules_fit rules_fields_fit(const struct rules_rule *r, const struct rules_question *q,
	struct path_steps *steps, const char **ret_why)
{
	const struct rules_fields *headers = &r->request_headers, *query = &r->query;
	bool exact = r->action == RULES_ALLOW;
	enum rules_fit all = RULES_FITS;

	for (unsigned i = 0; i < headers->count; i++)
		if (!goes_on(header_fits(&headers->list[i], q->headers, exact, steps, ret_why),
			    &all))
			return all;
	if (query->count && q->form && !q->call->form) {
		*ret_why = odd_form;
		return RULES_FITS_UNCLEAR;
	}
	for (unsigned i = 0; i < query->count; i++)
		if (!goes_on(parameter_fits(&query->list[i], q, exact, steps, ret_why), &all))
			return all;
	return all;
}
