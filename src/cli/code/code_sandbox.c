#include "cli/code/code_sandbox.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "cli/sandbox/create.h"

enum { READY_S = 300 }; /* of a new context's kernel */

/* --- finding --- */

static bool has_name(const json_t *entry, const char *name)
{
	const json_t *metadata = json_object_get(entry, "metadata");
	const char *value = json_string_value(json_object_get(metadata, CODE_CONTEXT_METADATA));

	return value && strcmp(value, name) == 0;
}

/* Of two that were made at once, all take the older one. */
static bool is_older(const json_t *a, const json_t *b)
{
	const char *keys[] = {"startedAt", "sandboxID"};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const char *of_a = json_string_value(json_object_get(a, keys[i]));
		const char *of_b = json_string_value(json_object_get(b, keys[i]));
		int order = of_a && of_b ? strcmp(of_a, of_b) : 0;

		if (order)
			return order < 0;
	}
	return false;
}

/* 0, or -ENOENT with e left alone. */
static int find_named(const struct home *home, const char *name,
	char ret_id[ROUTE_SANDBOX_ID_MAX + 1], struct error *e)
{
	json_t *list = NULL;
	const json_t *one, *found = NULL;
	size_t i;
	int r = remote_list(home, &list, e);

	if (r < 0)
		return r;
	json_array_foreach(list, i, one)
	{
		if (has_name(one, name) && (!found || is_older(one, found)))
			found = one;
	}
	if (!found)
		r = -ENOENT;
	else if (!route_sandbox_id(json_string_value(json_object_get(found, "sandboxID")), ret_id))
		r = error_set(e, ERROR_INTERNAL, EBADMSG, "the daemon's list is broken");
	json_decref(list);
	return r;
}

/* Resumes it if it is paused; it lives for as long as a new one. */
static int connect_to(const struct code_sandbox *s, struct error *e)
{
	_cleanup_free_ char *target = str_printf("/v2/sandboxes/%s/connect", s->remote.id);
	const struct client_request request = {.method = "POST", .target = target};
	_cleanup_(client_closep) struct client *c = NULL;
	json_t *body = json_pack("{s:i}", "timeout", (int)s->lease_s);
	int r = target && body ? client_open(&s->remote.home, &c, e)
			       : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");

	if (r == 0)
		r = client_call(c, &request, body, REMOTE_CREATE_S, NULL, e);
	json_decref(body);
	return r;
}

/* --- making --- */

static int make(const struct code_place *p, struct code_sandbox *s, struct error *e)
{
	_cleanup_(client_closep) struct client *c = NULL;
	json_t *metadata =
		p->stateless ? NULL : json_pack("{s:s}", CODE_CONTEXT_METADATA, p->context);
	const struct create_order order = {.template = p->template,
		.timeout_ns = s->lease_s * NS_PER_S,
		.cpus = p->cpus,
		.memory = p->memory,
		.metadata = metadata};
	int r = client_open(&s->remote.home, &c, e);

	if (r == 0)
		r = remote_create(c, create_body(&order), s->remote.id, e);
	json_decref(metadata);
	if (r < 0 && e->code == ERROR_NOT_FOUND)
		error_prefix(e, "cells run in sandboxes of a template (see mayfly template build)");
	return r;
}

/* Somebody else may have made one of that name a moment ago. */
static int agree(const struct code_place *p, struct code_sandbox *s, struct error *e)
{
	char mine[ROUTE_SANDBOX_ID_MAX + 1];
	struct error ignored = {0};
	int r;

	(void)strcpy(mine, s->remote.id); /* of the same size */
	r = find_named(&s->remote.home, p->context, s->remote.id, e);
	if (r == -ENOENT)
		return error_set(e, ERROR_SANDBOX, ENOENT, "the new sandbox has ended");
	if (r == 0 && strcmp(mine, s->remote.id) != 0)
		(void)remote_remove(&s->remote.home, mine, &ignored); /* else its time ends */
	return r;
}

static int open_named(const struct code_place *p, struct code_sandbox *s, struct error *e)
{
	int r = find_named(&s->remote.home, p->context, s->remote.id, e);

	if (r == 0) {
		r = connect_to(s, e);
		if (r == 0 || e->code != ERROR_NOT_FOUND)
			return r;
		error_clear(e); /* it has just ended */
		r = -ENOENT;
	}
	if (r != -ENOENT)
		return r;
	r = make(p, s, e);
	return r == 0 ? agree(p, s, e) : r;
}

int code_sandbox_open(const struct code_place *p, struct code_sandbox *ret, struct error *e)
{
	int r;

	if (p->sandbox)
		return remote_open(p->sandbox, &ret->remote, e);
	ret->lease_s =
		p->stateless ? REMOTE_LEASE_S : (unsigned)((p->keep_ns + NS_PER_S - 1) / NS_PER_S);
	r = home_open(NULL, &ret->remote.home, e);
	if (r == 0)
		r = p->stateless ? make(p, ret, e) : open_named(p, ret, e);
	ret->remove = r == 0 && p->stateless;
	return r;
}

void code_sandbox_close(struct code_sandbox *s)
{
	struct error gone = {0};

	if (s->remove)
		(void)remote_remove(&s->remote.home, s->remote.id, &gone); /* else its time ends */
	remote_close(&s->remote);
}

/* --- its interpreter --- */

struct client_request code_request(
	const struct code_sandbox *s, const char *method, const char *target)
{
	return (struct client_request){
		.method = method, .target = target, .sandbox = s->remote.id, .port = CODE_PORT};
}

static const char *find_context(const json_t *list, const char *language, const char *cwd)
{
	const json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		const char *l = json_string_value(json_object_get(one, "language"));
		const char *d = json_string_value(json_object_get(one, "cwd"));

		if (l && d && strcasecmp(l, language) == 0 && strcmp(d, cwd) == 0)
			return json_string_value(json_object_get(one, "id"));
	}
	return NULL;
}

static int make_context(const struct code_sandbox *s, struct client *c, const char *language,
	const char *cwd, json_t **ret, struct error *e)
{
	const struct client_request request = code_request(s, "POST", "/contexts");
	json_t *body = json_pack("{s:s, s:s}", "language", language, "cwd", cwd);
	int r = body ? client_call(c, &request, body, READY_S, ret, e)
		     : error_set(e, ERROR_USAGE, EINVAL, "--cwd or --language is not UTF-8");

	json_decref(body);
	return r;
}

int code_context_in(const struct code_sandbox *s, const char *language, const char *cwd, char **ret,
	struct error *e)
{
	const struct client_request request = code_request(s, "GET", "/contexts");
	_cleanup_(client_closep) struct client *c = NULL;
	json_t *list = NULL, *made = NULL;
	const char *id;
	int r = client_open(&s->remote.home, &c, e);

	if (r == 0)
		r = client_call(c, &request, NULL, CLIENT_PATIENCE_S, &list, e);
	id = r == 0 ? find_context(list, language, cwd) : NULL;
	if (r == 0 && !id) {
		r = make_context(s, c, language, cwd, &made, e);
		id = json_string_value(json_object_get(made, "id"));
	}
	*ret = r == 0 && id ? strdup(id) : NULL;
	json_decref(list);
	json_decref(made);
	if (r == 0 && !*ret)
		r = error_set(e, ERROR_INTERNAL, EBADMSG, "the interpreter's answer has no id");
	return r;
}
