#include "agents/warm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/reach.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "fleet/fleet.h"
#include "network/bindings.h"
#include "network/environment.h"
#include "network/interception.h"
#include "network/secrets.h"
#include "policy/seal.h"
#include "proto/agent_settings.h"
#include "proto/json_tree.h"
#include "store/agent_versions.h"

enum { COLD_MAX = AGENT_SETTING_NAME_MAX + 128 };

struct warm {
	json_t *env; /* owned, as are all */
	json_t *bindings, *placeholders;
	json_t *reach; /* NULL: nothing is said */
	char *authority, *trust;
	const char *plain; /* a variable with a secret that the program gets; borrowed, or NULL */
};

static int no_memory(struct error *e)
{
	return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
}

static void warm_done(struct warm *w)
{
	json_decref(w->env);
	json_decref(w->bindings);
	json_decref(w->placeholders);
	json_decref(w->reach);
	free(w->authority);
	free(w->trust);
}

/* The key must have the secrets that the program gets. *ret: the variable of one, or NULL. */
static int check_plain(
	struct fleet *f, const char *key_id, json_t *secrets, const char **ret, struct error *e)
{
	const char *variable;
	json_t *one;
	int r = 0;

	json_object_foreach(secrets, variable, one)
	{
		_cleanup_(secret_freep) char *value = NULL;

		if (r < 0 || !agent_settings_is_plain(one))
			continue;
		*ret = variable;
		r = bindings_value(f, key_id, variable, one, &value, e);
	}
	return r;
}

int agents_take_secrets(struct fleet *f, const char *key_id, json_t *secrets, json_t *env,
	json_t **ret_bindings, const char **ret_plain, struct error *e)
{
	json_t *hidden = agent_settings_hidden(secrets);
	int r = hidden ? check_plain(f, key_id, secrets, ret_plain, e) : no_memory(e);

	if (r == 0 && json_object_size(hidden))
		r = bindings_make(f, key_id, hidden, NULL, env, ret_bindings, e);
	json_decref(hidden);
	return r;
}

/* The placeholders join the version's own variables. */
static int take_secrets(struct fleet *f, const char *key_id, const json_t *settings, struct warm *w,
	struct error *e)
{
	json_t *secrets = json_object_get(settings, "secrets"), *one;
	const char *variable;
	int r = agents_take_secrets(f, key_id, secrets, w->env, &w->bindings, &w->plain, e);

	json_object_foreach(w->bindings, variable, one)
	{
		if (r == 0 && json_object_set(w->placeholders, variable,
				      json_object_get(w->env, variable)) < 0)
			r = no_memory(e);
	}
	return r;
}

static int take_trust(struct fleet *f, const char *key_id, struct warm *w, struct error *e)
{
	int r = interception_of_key(f, key_id, w->bindings, json_object_get(w->reach, "network"),
		&w->authority, &w->trust, e);

	if (r == 0 && w->trust && environment_add_trust(w->env) < 0)
		r = no_memory(e);
	return r;
}

static const char *first_unfit(json_t *env)
{
	const char *name;
	json_t *value;

	json_object_foreach(env, name, value) if (!agent_settings_fits_snapshot(name,
							  json_string_value(value))) return name;
	return NULL;
}

/* Why its snapshot has none of it; "": it has. */
static void find_reason(const struct warm *w, const json_t *settings, char out[COLD_MAX])
{
	const char *unfit = first_unfit(w->env);

	*out = '\0';
	if (strcmp(json_tree_text(settings, "start"), "cold") == 0)
		(void)snprintf(out, COLD_MAX, "its settings say so (start)");
	else if (w->plain) /* each fits */
		(void)snprintf(
			out, COLD_MAX, "the secret %s is plain, and no snapshot has it", w->plain);
	else if (unfit)
		(void)snprintf(out, COLD_MAX,
			"the variable %s has more than %d bytes, or control characters", unfit,
			AGENT_SETTING_ENTRY_MAX);
}

static void note_cold(struct fleet *f, const struct store_build *b, const char *reason)
{
	char text[COLD_MAX + 16];
	const struct store_build_log l = {
		.at_ns = clock_realtime_ns(), .level = 2, .step = "finalize", .message = text};

	(void)snprintf(text, sizeof(text), "not warm: %s", reason); /* fits */
	(void)store_build_log(f->store, b->id, &l, NULL);	    /* a lost line is a lost line */
}

/* cold: "", or why the snapshot has none of it. */
static int keep(struct fleet *f, const struct store_build *b, const struct warm *w, char *cold,
	struct error *e)
{
	_cleanup_free_ char *text = *cold ? NULL : json_dumps(w->placeholders, JSON_COMPACT);
	_cleanup_free_ char *reach = w->reach ? json_dumps(w->reach, JSON_COMPACT) : NULL;
	const struct store_agent_warm row = {.placeholders_json = text,
		.authority = *cold ? NULL : w->authority,
		.network_json = reach,
		.cold = *cold ? cold : NULL};

	if ((!*cold && !text) || (w->reach && !reach))
		return no_memory(e);
	return store_agent_warm_set(f->store, b->id, &row, e);
}

static int fill(struct fleet *f, const struct store_build *b, const json_t *settings,
	struct warm *w, struct error *e)
{
	const json_t *env = json_object_get(settings, "env");
	int r = 0;

	w->env = env ? json_deep_copy(env) : json_object();
	w->placeholders = json_object();
	if (!w->env || !w->placeholders)
		return no_memory(e);
	r = agents_reach_make(f, b->key_id, settings, &w->reach, e);
	if (r == 0)
		r = take_secrets(f, b->key_id, settings, w, e);
	return r == 0 ? take_trust(f, b->key_id, w, e) : r;
}

int agents_warm_answer(struct fleet *f, const struct store_build *b, const json_t *said,
	json_t **ret, struct error *e)
{
	const json_t *settings = json_object_get(said, "settings");
	struct warm w = {NULL};
	char cold[COLD_MAX] = "";
	int r = fill(f, b, settings, &w, e);

	if (r == 0) {
		find_reason(&w, settings, cold);
		if (*cold)
			note_cold(f, b, cold);
		r = keep(f, b, &w, cold, e);
	}
	if (r == 0) {
		*ret = *cold ? json_object()
			     : json_pack("{s:O, s:s*}", "env", w.env, "trust", w.trust);
		r = *ret ? 0 : no_memory(e);
	}
	warm_done(&w);
	return r;
}
