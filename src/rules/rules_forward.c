/* The member `forward` of a rule: {"to": "https://proxy.example:8443/v1"}. It is about connections
 * as a whole, since one connection has one server. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "rules/between_name.h"
#include "rules/rules_internal.h"

enum { HTTPS_PORT = 443, URL_MAX = POLICY_HOST_MAX + RULES_FORWARD_PATH_MAX + 16 };

static const char scheme[] = "https://";

static int take_port(const char *text, struct rules_forward *f)
{
	uint64_t port = HTTPS_PORT;

	if (text && (str_parse_u64(text, &port) < 0 || port < 1 || port > UINT16_MAX))
		return -1;
	f->port = (uint16_t)port;
	return 0;
}

static int take_prefix(char *path, struct rules_forward *f)
{
	char clean[RULES_PATH_MAX + 1] = "";
	size_t n = strlen(path);

	if (n && path[n - 1] == '/')
		path[--n] = '\0';
	if (n > RULES_FORWARD_PATH_MAX || strpbrk(path, "?#") ||
		(n && path_clean(path, n, clean) < 0) || strcmp(path, clean) != 0)
		return -1;
	return rules_take_text(path, &f->path);
}

/* Cuts the text into pieces. -1: it is no such URL. */
static int take_url(char *url, struct rules_forward *f)
{
	char *host = url + strlen(scheme), *path = host + strcspn(host, "/"), *port;
	char prefix[URL_MAX + 1];

	memcpy(prefix, path, strlen(path) + 1); /* of this size */
	*path = '\0';
	port = strchr(host, ':');
	if (port)
		*port++ = '\0';
	for (char *s = host; *s; s++)
		*s = (char)tolower((unsigned char)*s);
	if (!policy_is_host(host) || !strchr(host, '.') || host[strlen(host) - 1] <= '9' ||
		between_name_is(host) || take_port(port, f) < 0)
		return -1;
	return take_prefix(prefix, f) < 0 ? -1 : rules_take_text(host, &f->host);
}

static int check(const struct policy_at *at, const struct rules_rule *r)
{
	if (r->action != RULES_ALLOW || !r->host_count)
		return policy_bad(at, "stands in rules that allow a host, and only there");
	if (r->method_count || r->path_count || r->call || r->net_count ||
		r->scheme == RULES_HTTP || r->request_headers.count || r->query.count)
		return policy_bad(at, "is about connections as a whole: let other rules speak of "
				      "methods, paths and bodies");
	return 0;
}

int rules_forward_make(const struct policy_at *of, json_t *rule, struct rules_rule *r)
{
	static const char *const names[] = {"to", NULL};
	struct policy_at at = policy_member(of, "forward"), to_at = policy_member(&at, "to");
	json_t *v = json_object_get(rule, "forward");
	const char *to = json_string_value(json_object_get(v, "to"));
	char url[URL_MAX + 1];
	int e;

	if (!v)
		return 0;
	e = policy_known_members(&at, v, names);
	e = e ? e : check(&at, r);
	if (e < 0)
		return e;
	r->forward = calloc(1, sizeof(*r->forward));
	if (!r->forward)
		return -ENOMEM;
	r->scheme = RULES_HTTPS;
	if (!to || strlen(to) > URL_MAX || !str_starts_with(to, scheme) ||
		take_url(memcpy(url, to, strlen(to) + 1), r->forward) < 0)
		return policy_bad(&to_at, "expected a URL such as \"https://proxy.example/v1\": a "
					  "name, perhaps a port, and a path without '?'");
	return 0;
}
