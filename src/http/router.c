#include "http/router.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "http/reply.h"

static bool is_method(const struct request *r, const char *method)
{
	return strcmp(r->head->method, method) == 0 || (r->head_only && strcmp(method, "GET") == 0);
}

static void answer_options(struct request *r)
{
	static const struct http_field fields[] = {
		{"Access-Control-Allow-Origin", "*"},
		{"Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE, OPTIONS"},
		{"Access-Control-Allow-Headers", "*, Authorization, X-API-Key, Content-Type"},
		{"Access-Control-Max-Age", "7200"},
	};
	const struct http_reply reply = {
		.status = 204, .fields = fields, .field_count = ARRAY_SIZE(fields)};

	(void)request_reply(r, &reply); /* the client may be gone */
}

static bool take_path(struct request *r)
{
	r->path = calloc(1, sizeof(*r->path));
	if (!r->path)
		reply_error(r, 503, "out of memory");
	else if (uri_path_parse(r->head->path, r->path) < 0)
		reply_error(r, 404, "there is no such path");
	else
		return true;
	return false;
}

/* Only clients with a key learn that the operator could use this route. */
static void refuse_client(struct request *r, router_authenticate authenticate)
{
	if (authenticate(r))
		reply_error(r, 403, "only this host's operator may: see mayfly --help");
}

void router_dispatch(
	struct request *r, const struct router_entry *table, router_authenticate authenticate)
{
	bool other_method = false, operators = false;

	if (strcmp(r->head->method, "OPTIONS") == 0) {
		answer_options(r);
		return;
	}
	if (!take_path(r))
		return;
	for (const struct router_entry *t = table; t->method; t++) {
		if (!uri_path_matches(r->path, t->pattern, r->params))
			continue;
		if (!is_method(r, t->method)) {
			other_method = true;
			continue;
		}
		r->pattern = t->pattern;
		if (t->auth == ROUTER_ADMIN && !r->admin) {
			operators = true;
			continue;
		}
		if (t->auth != ROUTER_KEY || authenticate(r))
			t->handler(r);
		return;
	}
	if (operators)
		refuse_client(r, authenticate);
	else if (other_method)
		reply_error(r, 405, "%s is not a method of this path", r->head->method);
	else
		reply_error(r, 404, "there is no such path");
}
