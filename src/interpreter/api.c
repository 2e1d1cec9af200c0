#include "interpreter/api.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "interpreter/api_reply.h"
#include "interpreter/context.h"

static const char contexts_path[] = "/contexts";
static const char restart_suffix[] = "/restart";

/* --- request bodies --- */

static const char *const wanted_text = "expected a JSON object with text in";

/* Returns the body as an object, or NULL after answering the exchange. An empty body is {}. */
static json_t *take_object(struct exchange *x)
{
	json_error_t error;
	size_t n;
	const char *body = exchange_body(x, &n);
	json_t *j = n ? json_loadb(body, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error)
		      : json_object();
	_cleanup_free_ char *text = NULL;

	exchange_drop_body(x);
	if (json_is_object(j))
		return j;
	if (!j && n)
		text = str_printf("the body is not JSON: %s", error.text);
	json_decref(j);
	api_reply_text(x, 422, text ? text : "the body is not a JSON object");
	return NULL;
}

/* Takes an optional member: NULL when it is absent or null. Returns false after answering the
 * exchange when the member is no text, or text with a NUL. */
static bool take_text(struct exchange *x, const json_t *o, const char *name, const char **ret)
{
	const json_t *v = json_object_get(o, name);
	_cleanup_free_ char *text = NULL;

	*ret = json_string_value(v);
	if (!v || json_is_null(v) || (*ret && strlen(*ret) == json_string_length(v)))
		return true;
	text = str_printf("%s '%s'", wanted_text, name);
	api_reply_text(x, 422, text ? text : wanted_text);
	return false;
}

/* --- contexts --- */

static void create_context(struct contexts *all, struct exchange *x)
{
	char canonical[SPEC_LANGUAGE_MAX];
	const char *language, *cwd;
	json_t *o = take_object(x);
	struct error e = {0};
	struct context *c;

	if (!o)
		return;
	if (!take_text(x, o, "language", &language) || !take_text(x, o, "cwd", &cwd)) {
		json_decref(o);
		return;
	}
	c = context_new(all, spec_language(language ? language : "python", canonical),
		cwd && *cwd ? cwd : all->cwd, false, &e);
	json_decref(o);
	if (!c)
		api_reply_error(x, &e);
	else
		context_answer_when_ready(c, x, true);
}

static void list_contexts(struct contexts *all, struct exchange *x)
{
	json_t *list = json_array();

	for (struct context *c = all->first; c && list; c = c->next)
		if (json_array_append_new(list, context_json(c)) < 0) {
			json_decref(list);
			list = NULL;
		}
	api_reply_json(x, list);
}

static void handle_context(struct contexts *all, struct exchange *x, const char *name)
{
	const char *method = exchange_method(x);
	bool restart = str_ends_with(name, restart_suffix);
	size_t n = strlen(name) - (restart ? strlen(restart_suffix) : 0);
	_cleanup_free_ char *id = strndup(name, n);
	struct context *c = id ? context_find(all, id) : NULL;

	if (strcmp(method, restart ? "POST" : "DELETE") != 0) {
		api_reply_text(x, 405, "contexts are removed by DELETE and restarted by POST");
	} else if (!c) {
		api_reply_text(x, 404, "there is no such context");
	} else if (restart) {
		context_restart(c);
		context_answer_when_ready(c, x, false);
	} else {
		context_remove(c);
		api_reply_json(x, json_null());
	}
}

/* --- execute --- */

/* Takes a request's env_vars. Returns 0, with NULL when there are none. Otherwise it has answered
 * the exchange. */
static int take_env(struct exchange *x, const json_t *o, json_t **ret)
{
	json_t *vars = json_object_get(o, "env_vars"), *value;
	const char *name;

	*ret = NULL;
	if (!vars || json_is_null(vars))
		return 0;
	if (!json_is_object(vars)) {
		api_reply_text(x, 422, "expected an object in 'env_vars'");
		return -1;
	}
	json_object_foreach(vars, name,
		value) if (!*name || strchr(name, '=') || !json_is_string(value) ||
			   strlen(json_string_value(value)) != json_string_length(value))
	{
		api_reply_text(
			x, 422, "expected names without '=' and texts without NUL in 'env_vars'");
		return -1;
	}
	*ret = json_object_size(vars) ? vars : NULL;
	return 0;
}

static struct context *pick_context(
	struct contexts *all, struct exchange *x, const char *id, const char *language)
{
	char canonical[SPEC_LANGUAGE_MAX];
	struct context *c;
	struct error e = {0};

	if (id && language) {
		api_reply_text(x, 400, "only one of context_id and language can be given");
		return NULL;
	}
	if (id) {
		c = context_find(all, id);
		if (!c)
			api_reply_text(x, 404, "there is no such context");
		return c;
	}
	c = context_default(all, spec_language(language ? language : "python", canonical), &e);
	if (!c)
		api_reply_error(x, &e);
	return c;
}

static void execute_object(struct contexts *all, struct exchange *x, const json_t *o)
{
	const json_t *code = json_object_get(o, "code");
	const char *id, *language;
	struct context *c;
	json_t *env;

	if (!json_is_string(code)) {
		api_reply_text(x, 422, "expected a JSON object with text in 'code'");
		return;
	}
	if (!take_text(x, o, "context_id", &id) || !take_text(x, o, "language", &language) ||
		take_env(x, o, &env) < 0)
		return;
	c = pick_context(all, x, id, language);
	if (!c)
		return;
	if (env && !c->spec->set_env)
		api_reply_text(x, 400, "env_vars cannot be set in the kernel of this language");
	else
		context_execute(c, x, json_string_value(code), json_string_length(code), env);
}

static void execute(struct contexts *all, struct exchange *x)
{
	json_t *o = take_object(x);

	if (o)
		execute_object(all, x, o);
	json_decref(o);
}

/* --- routes --- */

static void get_health(struct contexts *all, struct exchange *x)
{
	api_reply_json(x, json_string("OK"));
}

static const struct {
	const char *path, *method;
	void (*handle)(struct contexts *all, struct exchange *x);
} routes[] = {
	{"/health", "GET", get_health},
	{"/health", "HEAD", get_health},
	{"/execute", "POST", execute},
	{contexts_path, "GET", list_contexts},
	{contexts_path, "POST", create_context},
};

void api_handle(void *opaque, struct exchange *x)
{
	const char *path = exchange_path(x);
	bool known = false;

	if (str_starts_with(path, "/contexts/")) {
		handle_context(opaque, x, path + strlen("/contexts/"));
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
		if (strcmp(path, routes[i].path) != 0)
			continue;
		known = true;
		if (strcmp(exchange_method(x), routes[i].method) == 0) {
			routes[i].handle(opaque, x);
			return;
		}
	}
	api_reply_text(
		x, known ? 405 : 404, known ? "not with this method" : "there is no such path");
}
