#include "envd/code_access.h"

#include <string.h>

#include "base/cleanup.h"
#include "proto/signature.h"

enum access {
	WITH_TOKEN,    /* what the table lacks: a service may read paths in a way of its own */
	WITHOUT_TOKEN, /* E2B's clients send none; a wrong one is refused */
	ANYBODY,       /* whatever token is sent */
};

static const struct {
	const char *method, *path, *after_id; /* after_id: an id stands before it; NULL: none */
	enum access access;
} open_to[] = {
	{"GET", "/health", NULL, ANYBODY},
	{"GET", "/contexts", NULL, WITHOUT_TOKEN},
	{"POST", "/contexts", NULL, WITHOUT_TOKEN},
	{"DELETE", "/contexts/", "", WITHOUT_TOKEN},
	{"POST", "/contexts/", "/restart", WITHOUT_TOKEN},
};

/* Whether all of text is an id of a context and then this end. */
static bool is_id_and(const char *text, const char *end)
{
	static const char good[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	size_t n = strspn(text, good);

	return n > 0 && strcmp(text + n, end) == 0;
}

static bool is_path(const char *given, const char *path, const char *after_id)
{
	size_t n = strlen(path);

	if (!after_id)
		return strcmp(given, path) == 0;
	return strncmp(given, path, n) == 0 && is_id_and(given + n, after_id);
}

static enum access access_to(const struct http_head *head)
{
	if (strcmp(head->method, "OPTIONS") == 0)
		return ANYBODY;
	for (size_t i = 0; i < ARRAY_SIZE(open_to); i++)
		if (strcmp(head->method, open_to[i].method) == 0 &&
			is_path(head->path, open_to[i].path, open_to[i].after_id))
			return open_to[i].access;
	return WITH_TOKEN;
}

bool code_access_allowed(const struct request *r, const char *token, bool revoked)
{
	const char *given = http_header_get(&r->head->headers, "x-access-token");
	enum access access = access_to(r->head);

	if (r->route.port != ROUTE_INTERPRETER_PORT || !token || r->admin || access == ANYBODY)
		return true;
	return given ? !revoked && secret_equal(given, token) : access == WITHOUT_TOKEN;
}
