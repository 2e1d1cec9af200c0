#include "proto/route.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "proto/http_headers.h"
#include "proto/uri.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

/* Copies an id of n characters; a host may be in either case. */
static bool take_id(const char *s, size_t n, bool fold, char out[ROUTE_SANDBOX_ID_MAX + 1])
{
	if (!n || n > ROUTE_SANDBOX_ID_MAX)
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = s[i];

		if (fold && c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		if (!is_lower(c) && !is_digit(c))
			return false;
		out[i] = c;
	}
	out[n] = '\0';
	return true;
}

bool route_sandbox_id(const char *s, char out[ROUTE_SANDBOX_ID_MAX + 1])
{
	return take_id(s, strcspn(s, "-"), false, out);
}

/* Parses a decimal port of n digits, 1 to 65535. */
static bool take_port(const char *s, size_t n, uint16_t *ret)
{
	unsigned v = 0;

	if (!n || n > 5)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!is_digit(s[i]))
			return false;
		v = v * 10 + (unsigned)(s[i] - '0');
	}
	*ret = (uint16_t)v;
	return v >= 1 && v <= 65535;
}

/* Whether the rest after the first label is the sandbox domain, with or without a port. */
static bool is_domain(const char *rest, const char *domain)
{
	size_t n = strlen(domain);

	return strncasecmp(rest, domain, n) == 0 && (rest[n] == '\0' || rest[n] == ':');
}

static void bad(struct route *r, const char *reason)
{
	r->kind = ROUTE_BAD;
	r->reason = reason;
}

/* Parses <port>-<id>[-<suffix>].<domain>; false when the host does not have this form. */
static bool by_host(const char *host, const char *domain, struct route *r)
{
	size_t label = strcspn(host, "."), digits = strspn(host, "0123456789"), n;

	if (host[label] != '.' || !digits || host[digits] != '-')
		return false;
	if (domain && !is_domain(host + label + 1, domain))
		return false;
	n = strcspn(host + digits + 1, "-.");
	if (!domain && strspn(host + digits + 1, "0123456789") == n)
		return false;
	r->kind = ROUTE_SANDBOX;
	r->by_host = true;
	if (!take_id(host + digits + 1, n, true, r->sandbox_id))
		bad(r, "the host names no valid sandbox ID");
	else if (!take_port(host, digits, &r->port))
		bad(r, "the host names no valid port");
	return true;
}

static bool by_headers(const struct http_headers *h, struct route *r)
{
	unsigned ids = http_header_count(h, "e2b-sandbox-id");
	unsigned ports = http_header_count(h, "e2b-sandbox-port");
	const char *port = http_header_get(h, "e2b-sandbox-port");

	if (!ids && !ports)
		return false;
	r->kind = ROUTE_SANDBOX;
	if (ids != 1 || ports != 1)
		bad(r, "E2b-Sandbox-Id and E2b-Sandbox-Port must be given together, once each");
	else if (!route_sandbox_id(http_header_get(h, "e2b-sandbox-id"), r->sandbox_id))
		bad(r, "E2b-Sandbox-Id is not a sandbox ID");
	else if (!take_port(port, strlen(port), &r->port))
		bad(r, "E2b-Sandbox-Port is not a port");
	return true;
}

static bool is_signed(const struct http_head *head)
{
	char first[2];

	return strcmp(head->path, "/files") == 0 &&
	       uri_query_get(head->query, "signature", first, sizeof(first)) != -ENOENT;
}

void route_classify(const struct http_head *head, const char *domain, struct route *ret)
{
	*ret = (struct route){.kind = ROUTE_API};
	if (head->host && by_host(head->host, domain, ret))
		return;
	if (by_headers(&head->headers, ret))
		return;
	if (is_signed(head))
		ret->kind = ROUTE_SIGNED;
}

/* ---- names ---- */

/* Copies n characters in lower case if all are in [a-z0-9_-] or `extra`. */
static bool take_name(const char *s, size_t n, const char *extra, char *out, size_t max)
{
	if (!n || n > max)
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = s[i] >= 'A' && s[i] <= 'Z' ? (char)(s[i] - 'A' + 'a') : s[i];

		if (!is_lower(c) && !is_digit(c) && c != '_' && c != '-' &&
			!(c && strchr(extra, c)))
			return false;
		out[i] = c;
	}
	out[n] = '\0';
	return true;
}

static int bad_name(const char **ret_reason, const char *reason)
{
	*ret_reason = reason;
	return -EINVAL;
}

int template_ref_parse(const char *s, struct template_ref *ret, const char **ret_reason)
{
	size_t n, name, slash;

	*ret = (struct template_ref){.tag = "default"};
	s += strspn(s, " \t\r\n");
	for (n = strlen(s); n && strchr(" \t\r\n", s[n - 1]);)
		n--;
	slash = strcspn(s, "/");
	if (slash < n) {
		if (!take_name(s, slash, "", ret->namespace, TEMPLATE_NAME_MAX))
			return bad_name(
				ret_reason, "a template's namespace must be of a-z 0-9 _ -");
		s += slash + 1;
		n -= slash + 1;
	}
	name = strcspn(s, ":");
	if (name < n) {
		ret->has_tag = true;
		if (!take_name(s + name + 1, n - name - 1, ".", ret->tag, TEMPLATE_TAG_MAX))
			return bad_name(ret_reason, "a template's tag must be of a-z 0-9 _ . -");
		n = name;
	}
	if (!take_name(s, n, "", ret->name, TEMPLATE_NAME_MAX))
		return bad_name(ret_reason, "a template's name must be of a-z 0-9 _ -");
	return 0;
}

int template_ref_parse_new(const char *s, struct template_ref *ret, const char **ret_reason)
{
	int r = template_ref_parse(s, ret, ret_reason);

	if (r == 0 && route_is_uuid(ret->tag))
		return bad_name(ret_reason, "a template's tag must not be a UUID");
	return r;
}

bool route_is_uuid(const char *s)
{
	for (unsigned i = 0; i < 36; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? s[i] != '-' : !s[i] || !strchr("0123456789abcdefABCDEF", s[i]))
			return false;
	}
	return s[36] == '\0';
}

const char *route_surface(const struct route *r)
{
	if (r->kind == ROUTE_API || r->kind == ROUTE_BAD)
		return "api";
	return r->kind == ROUTE_SIGNED || r->port == ROUTE_ENVD_PORT ? "envd" : "port";
}
