#include "network/references.h"

#include <errno.h>
#include <stdlib.h>

#include "base/str.h"
#include "fleet/fleet.h"
#include "policy/iam.h"
#include "policy/intercept.h"
#include "store/secrets.h"

/* What all rules of a policy share. */
struct looking {
	struct fleet *fleet;
	const char *key_id;
	json_t *found; /* names that the key has */
	struct error *e;
};

static int ignore(void *arg, const struct store_secret *secret)
{
	return 0;
}

static int no_memory(struct error *e)
{
	return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

static int look_up(struct looking *l, size_t rule, const char *header, const char *name)
{
	struct error why = {0};

	if (str_starts_with(name, IAM_SECRET_PREFIX) || json_object_get(l->found, name))
		return 0;
	if (store_secret_get(l->fleet->store, l->key_id, name, ignore, NULL, &why) == 0)
		return json_object_set_new(l->found, name, json_true()) < 0 ? no_memory(l->e) : 0;
	if (why.err != ENOENT)
		return error_set(l->e, why.code, why.err, "%s", why.message);
	return error_set(l->e, ERROR_USAGE, EINVAL,
		"policy.rules[%zu].headers.%s: there is no secret '%.128s': make it first", rule,
		header, name);
}

static int look_up_all(struct looking *l, size_t rule, const char *header, const char *value)
{
	char *name;
	int r = 0;

	while (r == 0 && value && (name = intercept_next_name(&value))) {
		r = look_up(l, rule, header, name);
		free(name);
	}
	return r;
}

int references_check(struct fleet *f, const char *key_id, const json_t *policy, struct error *e)
{
	struct looking l = {f, key_id, json_object(), e};
	const json_t *rules = json_object_get(policy, "rules");
	int r = l.found ? 0 : no_memory(e);

	for (size_t i = 0; r == 0 && i < json_array_size(rules); i++) {
		const char *header;
		json_t *value;

		json_object_foreach(json_object_get(json_array_get(rules, i), "headers"), header,
			value) if (r == 0) r = look_up_all(&l, i, header, json_string_value(value));
	}
	json_decref(l.found);
	return r;
}
