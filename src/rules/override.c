/* Where servers find another method or path than the request line's. */
#include <string.h>

#include "proto/http_headers.h"
#include "rules/form.h"
#include "rules/rules.h"

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

bool rules_has_two_methods(const struct http_headers *headers, const char *query)
{
	return has_header(headers, methods) ||
	       (query && form_query_has_method(query, strlen(query)));
}

bool rules_may_be_form(const char *method, bool has_body, const struct http_headers *headers)
{
	return has_body && strcmp(method, "POST") == 0 && form_is_likely(headers);
}

bool rules_has_two_paths(const struct http_headers *headers)
{
	return has_header(headers, paths);
}
