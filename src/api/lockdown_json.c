#include "api/lockdown_json.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proto/timestamp.h"
#include "store/lockdown.h"

static int answer(struct operation *o, const struct store_lockdown *l, struct error *e)
{
	char since[TIMESTAMP_BYTES];

	o->answer = json_pack("{s:b, s:b, s:b, s:s?}", "egress", l->egress, "approvals",
		l->approvals, "keys", l->keys, "since",
		l->since_ns ? timestamp_format_ns(l->since_ns, since) : NULL);
	return o->answer ? 0 : operation_no_memory(e);
}

int lockdown_show(struct operation *o, struct error *e)
{
	struct store_lockdown l;
	int r = store_lockdown_get(o->store, &l, e);

	return r < 0 ? r : answer(o, &l, e);
}

/* Adds what the body asks for. */
static int take(const json_t *body, struct store_lockdown *l, struct error *e)
{
	const struct {
		const char *name;
		bool *set;
	} parts[] = {{"egress", &l->egress}, {"approvals", &l->approvals}, {"keys", &l->keys}};
	bool any = false;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		const json_t *v = json_object_get(body, parts[i].name);

		if (v && !json_is_boolean(v))
			return error_set(
				e, ERROR_USAGE, EINVAL, "%s must be true or false", parts[i].name);
		any |= json_is_true(v);
		*parts[i].set |= json_is_true(v);
	}
	return any ? 0
		   : error_set(e, ERROR_USAGE, EINVAL,
			     "one of egress, approvals and keys must be true");
}

int lockdown_set(struct operation *o, struct error *e)
{
	struct store_lockdown l;
	int r = store_lockdown_get(o->store, &l, e);

	r = r ? r : take(o->body, &l, e);
	if (!l.since_ns)
		l.since_ns = clock_realtime_ns();
	r = r ? r : store_lockdown_set(o->store, &l, e);
	return r < 0 ? r : answer(o, &l, e);
}

int lockdown_lift(struct operation *o, struct error *e)
{
	const struct store_lockdown none = {0};
	int r = store_lockdown_set(o->store, &none, e);

	return r < 0 ? r : answer(o, &none, e);
}
