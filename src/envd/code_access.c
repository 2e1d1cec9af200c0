#include "envd/code_access.h"

#include <string.h>

#include "proto/signature.h"

static bool is(const struct request *r, const char *method, const char *path)
{
	return strcmp(r->head->method, method) == 0 && strcmp(r->head->path, path) == 0;
}

bool code_access_allowed(const struct request *r, const char *token, bool revoked)
{
	const char *given = http_header_get(&r->head->headers, "x-access-token");

	if (r->route.port != ROUTE_INTERPRETER_PORT || !token || r->admin)
		return true;
	if (is(r, "GET", "/health") || strcmp(r->head->method, "OPTIONS") == 0)
		return true;
	if (given)
		return !revoked && secret_equal(given, token);
	return !is(r, "POST", "/execute");
}
