#include "agents/agents.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agents/agents_internal.h"
#include "base/str.h"
#include "fleet/fleet.h"
#include "proto/json_tree.h"
#include "proto/route.h"

/* --- names --- */

/* Agents have names like templates, without namespace and tag. */
static int take_name(const char *text, size_t n, struct agent_ref *ret, const char **ret_reason)
{
	char name[STORE_CATALOG_NAME_MAX + 1];
	struct template_ref ref;
	const char *reason;

	*ret_reason = "the name of an agent has at most 128 characters";
	if (n >= sizeof(name))
		return -EINVAL;
	memcpy(name, text, n);
	name[n] = '\0';
	*ret_reason = "an agent's name must be of a-z 0-9 _ -";
	if (template_ref_parse(name, &ref, &reason) < 0)
		return -EINVAL;
	*ret_reason = "the name of an agent has no namespace";
	if (*ref.namespace)
		return -EINVAL;
	(void)snprintf(ret->name, sizeof(ret->name), "%s", ref.name); /* fits */
	return 0;
}

bool agent_alias_is_name(const char *s)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
	size_t n = strlen(s);

	return n && n <= STORE_AGENT_ALIAS_MAX && strspn(s, letters) == n;
}

int agent_ref_parse(const char *text, struct agent_ref *ret, const char **ret_reason)
{
	size_t n = strcspn(text, ":@");
	uint64_t version = 0;

	*ret = (struct agent_ref){.version = 0};
	if (take_name(text, n, ret, ret_reason) < 0)
		return -EINVAL;
	if (text[n] == ':') {
		*ret_reason = "an alias has 1 to 64 of a-z 0-9 _ -";
		if (!agent_alias_is_name(text + n + 1))
			return -EINVAL;
		(void)snprintf(ret->alias, sizeof(ret->alias), "%s", text + n + 1); /* fits */
	} else if (text[n] == '@') {
		*ret_reason = "a version is a number from 1 on";
		if (str_parse_u64(text + n + 1, &version) < 0 || !version || version > UINT32_MAX)
			return -EINVAL;
		ret->version = (uint32_t)version;
	}
	return 0;
}

/* --- what a name leads to --- */

/* Chances are the weights. 0: none has any. */
static uint32_t choose(const json_t *weights, uint64_t random)
{
	json_t *w = (json_t *)(uintptr_t)weights; /* only read */
	const char *version;
	const json_t *share;
	uint64_t sum = 0, at;

	json_object_foreach(w, version, share) sum += (uint64_t)json_integer_value(share);
	if (!sum)
		return 0;
	at = random % sum;
	json_object_foreach(w, version, share)
	{
		if (at < (uint64_t)json_integer_value(share))
			return (uint32_t)strtoul(version, NULL, 10);
		at -= (uint64_t)json_integer_value(share);
	}
	return 0;
}

static int choose_of_alias(struct fleet *f, const struct store_agent *a, const char *alias,
	const char *session, uint32_t *ret, struct error *e)
{
	char text[STORE_AGENT_WEIGHTS_MAX + 1];
	uint64_t random = session ? str_hash64(session) : 0;
	json_t *weights;
	int r = store_agent_alias_get(f->store, a->id, alias, text, e);

	if (r < 0)
		return r;
	if (!session && getrandom(&random, sizeof(random), 0) != sizeof(random))
		return error_set(e, ERROR_INTERNAL, EIO, "no random numbers");
	weights = json_tree_stored(text);
	*ret = choose(weights, random);
	json_decref(weights);
	return *ret ? 0
		    : error_set(e, ERROR_NOT_FOUND, ENOENT,
			      "the alias '%.64s' leads to no version: give one a weight", alias);
}

static int no_current(struct fleet *f, const struct store_agent *a, struct error *e)
{
	uint64_t building = 0;

	if (store_agent_version_count(f->store, a->id, STORE_AGENT_BUILDING, &building, NULL) ==
			0 &&
		building)
		return error_set(e, ERROR_NOT_FOUND, ENOENT,
			"the agent '%.128s' has no version yet: its first one is being built",
			a->name);
	return error_set(e, ERROR_NOT_FOUND, ENOENT,
		"the agent '%.128s' has no version that is ready: deploy it", a->name);
}

int agents_get_ready(struct fleet *f, const struct store_agent *a, uint32_t number,
	struct store_agent_version *ret, struct error *e)
{
	struct error why = {0};
	int r = store_agent_version_get(f->store, a->id, number, ret, &why);

	if (r < 0 && why.code != ERROR_NOT_FOUND)
		return error_set(e, why.code, why.err, "%s", why.message);
	if (r == 0 && ret->state == STORE_AGENT_READY)
		return 0;
	return error_set(e, ERROR_NOT_FOUND, ENOENT, "the agent '%.128s' has no version %u%s",
		a->name, number,
		r < 0				     ? ""
		: ret->state == STORE_AGENT_BUILDING ? " yet: it builds"
		: ret->state == STORE_AGENT_FAILED   ? ": its build failed"
						     : " any more: it was removed");
}

int agents_find(struct fleet *f, const char *key_id, const struct agent_ref *ref,
	const char *session, struct store_agent *ret_agent, struct store_agent_version *ret,
	struct error *e)
{
	struct error why = {0};
	uint32_t number = ref->version;
	int r = store_agent_find(f->store, key_id, ref->name, ret_agent, &why);

	if (r < 0)
		return why.code == ERROR_NOT_FOUND
			       ? error_set(e, ERROR_NOT_FOUND, ENOENT, "there is no agent '%.128s'",
					 ref->name)
			       : error_set(e, why.code, why.err, "%s", why.message);
	if (*ref->alias)
		r = choose_of_alias(f, ret_agent, ref->alias, session, &number, e);
	else if (!number)
		number = ret_agent->current;
	if (r == 0 && !number)
		r = no_current(f, ret_agent, e);
	return r == 0 ? agents_get_ready(f, ret_agent, number, ret, e) : r;
}

/* --- uses --- */

static struct version_use **hold_place(struct agents *a, const char *build_id)
{
	struct version_use **p = &a->holds;

	while (*p && strcmp((*p)->build_id, build_id) != 0)
		p = &(*p)->next;
	return p;
}

bool agents_is_held(struct fleet *f, const char *build_id)
{
	return *hold_place(f->agents, build_id) != NULL;
}

int agents_hold(struct fleet *f, const char *build_id)
{
	struct version_use **p = hold_place(f->agents, build_id), *h = *p;

	if (!h) {
		h = *p = calloc(1, sizeof(*h));
		if (!h)
			return -ENOMEM;
		(void)snprintf(h->build_id, sizeof(h->build_id), "%s", build_id); /* a UUID */
	}
	h->count++;
	return 0;
}

void agents_release(struct fleet *f, const char *build_id)
{
	struct version_use **p = hold_place(f->agents, build_id), *h = *p;

	if (!h || --h->count)
		return;
	*p = h->next;
	free(h);
	agents_unused(f, build_id);
}
