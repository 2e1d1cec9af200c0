#include "agents/move.h"

#include <errno.h>
#include <stdlib.h>

#include "agents/agents_internal.h"
#include "agents/keep.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "fleet/fleet.h"
#include "store/agent_versions.h"

/* --- roll-back --- */

static int note_ready(void *arg, const struct store_agent_version *v)
{
	uint32_t *number = arg;

	if (v->state != STORE_AGENT_READY)
		return 0;
	*number = v->number;
	return 1;
}

/* The newest that is ready below the current one. */
static int find_previous(
	struct fleet *f, const struct store_agent *a, uint32_t *ret, struct error *e)
{
	int r = a->current > 1 ? store_agent_version_list(f->store, a->id, a->current, UINT32_MAX,
					 note_ready, ret, e)
			       : 0;

	if (r < 0 || *ret)
		return r < 0 ? r : 0;
	return error_set(e, ERROR_NOT_FOUND, ENOENT,
		"the agent '%.128s' has no version before %u to go back to", a->name, a->current);
}

static int check_ready(
	struct fleet *f, const struct store_agent *a, uint32_t number, struct error *e)
{
	_cleanup_free_ struct store_agent_version *v = malloc(sizeof(*v));

	return v ? agents_get_ready(f, a, number, v, e)
		 : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
}

int agents_rollback(struct fleet *f, const struct store_agent *a, uint32_t number, uint32_t *ret,
	struct error *e)
{
	uint32_t to = number;
	int r = number ? check_ready(f, a, number, e) : find_previous(f, a, &to, e);

	if (r == 0)
		r = store_agent_set_current(f->store, a->id, to, clock_realtime_ns(), e);
	if (r < 0)
		return r;
	*ret = to;
	agents_tidy(f, a->id);
	return 0;
}

/* --- aliases --- */

static int check_weights(
	struct fleet *f, const struct store_agent *a, const json_t *weights, struct error *e)
{
	json_t *object = (json_t *)(uintptr_t)weights; /* only read */
	json_int_t sum = 0;
	const char *version;
	const json_t *share;
	size_t n = json_object_size(weights);

	if (!n || n > AGENT_WEIGHTS_MAX)
		return error_set(e, ERROR_USAGE, EINVAL,
			"weights must name 1 to %d versions, as in {\"3\": 90, \"4\": 10}",
			AGENT_WEIGHTS_MAX);
	json_object_foreach(object, version, share)
	{
		json_int_t w = json_integer_value(share);
		uint64_t number = 0;

		if (str_parse_u64(version, &number) < 0 || number > UINT32_MAX || *version == '0' ||
			!json_is_integer(share) || w < 0 || w > AGENT_WEIGHT_MAX)
			return error_set(e, ERROR_USAGE, EINVAL,
				"weights: %.32s: give a version and a weight from 0 to %d", version,
				AGENT_WEIGHT_MAX);
		if (check_ready(f, a, (uint32_t)number, e) < 0)
			return -e->err;
		sum += w;
	}
	return sum ? 0 : error_set(e, ERROR_USAGE, EINVAL, "weights: one of them must be above 0");
}

int agents_set_alias(struct fleet *f, const struct store_agent *a, const char *alias,
	const json_t *weights, struct error *e)
{
	_cleanup_free_ char *text = NULL;
	int r = 0;

	if (!agent_alias_is_name(alias))
		return error_set(e, ERROR_USAGE, EINVAL, "an alias has 1 to 64 of a-z 0-9 _ -");
	r = check_weights(f, a, weights, e);
	if (r < 0)
		return r;
	text = json_dumps(weights, JSON_COMPACT);
	r = text ? store_agent_alias_put(f->store, a->id, alias, text, e)
		 : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	if (r == 0)
		agents_tidy(f, a->id);
	return r;
}

int agents_remove_alias(
	struct fleet *f, const struct store_agent *a, const char *alias, struct error *e)
{
	int r = store_agent_alias_remove(f->store, a->id, alias, e);

	if (r == 0)
		agents_tidy(f, a->id);
	return r;
}
