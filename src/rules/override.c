/* Where servers find another method, path or action than the request line's, or several of them. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "proto/http_headers.h"
#include "rules/form.h"
#include "rules/rules.h"

static const char *const methods[] = {"x-http-method-override", "x-http-method",
	"x-method-override", "x-original-method", "x-forwarded-method", NULL};

/* Of those that proxies set, some servers make their own address, and choose an application by
 * it. */
static const char *const paths[] = {"x-original-url", "x-original-uri", "x-original-host",
	"x-original-path", "x-rewrite-url", "x-rewrite-uri", "x-override-url", "x-replaced-path",
	"x-forwarded-host", "x-forwarded-path", "x-forwarded-uri", "x-forwarded-url",
	"x-forwarded-prefix", "forwarded", "x-host", "x-http-host-override",
	"x-envoy-original-path", "x-script-name", NULL};

/* "x-amz-copy-source" and its kin name another object, that is read. */
static const char *const actions[] = {"x-amz-target", "x-amz-copy-source", "x-amz-rename-source",
	"x-ms-copy-source", "x-ms-rename-source", "x-goog-copy-source", "x-copy-from", "soapaction",
	"destination", "prefer", "next-action", "x-action", "x-operation", "x-command", NULL};

/* As strcasestr(), which prepares more than it looks at in short texts. */
static bool has_word(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (; *text; text++)
		if (tolower((unsigned char)*text) == *word && strncasecmp(text, word, n) == 0)
			return true;
	return false;
}

/* The first letter rules out nearly all of them. */
static bool is_name(const char *name, const char *want)
{
	return (name[0] | 0x20) == want[0] && http_is_same_name(name, want);
}

static bool is_one_of(const char *name, const char *const *names)
{
	for (; *names; names++)
		if (is_name(name, *names))
			return true;
	return false;
}

static bool has_header(const struct http_headers *headers, const char *const *names)
{
	for (unsigned i = 0; headers && i < headers->count; i++)
		if (is_one_of(headers->items[i].name, names))
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

/* SOAP 1.2 has the action in the type of the body. */
bool rules_is_action(const struct http_header *header)
{
	if (!strchr("cdnpsx", tolower((unsigned char)header->name[0])))
		return false;
	return is_one_of(header->name, actions) ||
	       (is_name(header->name, "content-type") && has_word(header->value, "soap"));
}

/* --- batches --- */

static bool is_batch_type(const char *type)
{
	static const char *const types[] = {
		"multipart/mixed", "multipart/batch", "multipart/parallel", "application/http"};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (has_word(type, types[i]))
			return true;
	return false;
}

static bool has_batch_type(const struct http_headers *headers)
{
	for (unsigned i = 0; headers && i < headers->count; i++)
		if (is_name(headers->items[i].name, "content-type") &&
			is_batch_type(headers->items[i].value))
			return true;
	return false;
}

/* A segment of the path, without what wide matches ignore at its end. */
static bool is_segment(const char *s, size_t n, const char *word)
{
	size_t bytes = strlen(word);

	if (tolower((unsigned char)*s) != *word)
		return false;
	while (n && (s[n - 1] == '.' || s[n - 1] == ' '))
		n--;
	return (n == bytes || (n > bytes && strchr(".%", s[bytes]))) &&
	       strncasecmp(s, word, bytes) == 0;
}

/* "$batch" stands anywhere, the others at the end or (of Google's) at the beginning. */
static bool has_batch_path(const char *path)
{
	static const char *const words[] = {"batch", "_bulk", "_msearch", "_mget"};
	bool first = true;

	for (const char *s = path; *s == '/'; first = false) {
		size_t n = strcspn(++s, "/");
		bool edge = first || !s[n + (s[n] == '/')];

		if (is_segment(s, n, "$batch"))
			return true;
		for (size_t i = 0; edge && i < ARRAY_SIZE(words); i++)
			if (is_segment(s, n, words[i]))
				return true;
		s += n;
	}
	return false;
}

/* Whether a query has this parameter, whatever its value. */
static bool has_parameter(const char *query, const char *name)
{
	size_t n = strlen(name);

	for (const char *s = query; s; s = strpbrk(s, "&;"), s = s ? s + 1 : NULL)
		if (strncasecmp(s, name, n) == 0 && (!s[n] || strchr("=&;[%", s[n])))
			return true;
	return false;
}

bool rules_is_batch(
	const char *method, const char *path, const char *query, const struct http_headers *headers)
{
	return has_batch_type(headers) || (path && has_batch_path(path)) ||
	       has_parameter(query, "batch") ||
	       (strcmp(method, "POST") == 0 && has_parameter(query, "delete"));
}
