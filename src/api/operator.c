#include "api/operator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/key_json.h"
#include "api/lockdown_json.h"
#include "api/operation.h"
#include "api/tier_json.h"
#include "api/usage_json.h"
#include "base/cleanup.h"
#include "proto/uri.h"

/* As the router's table (http/router.h), which says who may. */
static const struct {
	const char *method, *pattern;
	int (*run)(struct operation *o, struct error *e);
} table[] = {
	{"GET", "/api-keys", keys_list},
	{"POST", "/api-keys", keys_create},
	{"PATCH", "/api-keys/{}", keys_change},
	{"DELETE", "/api-keys/{}", keys_revoke},
	{"GET", "/teams", teams_list},
	{"GET", "/tiers", tiers_list},
	{"PUT", "/tiers/{}", tiers_put},
	{"DELETE", "/tiers/{}", tiers_remove},
	{"GET", "/usage", usage_get},
	{"GET", "/lockdown", lockdown_show},
	{"PUT", "/lockdown", lockdown_set},
	{"DELETE", "/lockdown", lockdown_lift},
};

static int run(
	struct operation *o, const char *method, const struct uri_path *path, struct error *e)
{
	const char *params[URI_PARAMS_MAX] = {NULL};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (strcmp(table[i].method, method) == 0 &&
			uri_path_matches(path, table[i].pattern, params)) {
			o->id = params[0];
			return table[i].run(o, e);
		}
	return error_set(e, ERROR_NOT_FOUND, ENOENT, "there is no such path");
}

int operator_call(struct store *s, const char *method, const char *target, const json_t *body,
	json_t **ret, struct error *e)
{
	_cleanup_free_ char *text = strdup(target);
	_cleanup_free_ struct uri_path *path = calloc(1, sizeof(*path));
	struct operation o = {.store = s, .body = body};
	char *query;
	int r;

	if (!text || !path)
		return operation_no_memory(e);
	query = strchr(text, '?');
	if (query)
		*query++ = '\0';
	o.query = query;
	if (uri_path_parse(text, path) < 0)
		return error_set(e, ERROR_NOT_FOUND, ENOENT, "there is no such path");
	r = run(&o, method, path, e);
	if (r < 0) {
		json_decref(o.answer);
		return e && e->code != ERROR_NONE ? r : operation_no_memory(e);
	}
	*ret = o.answer;
	return 0;
}
