#include "agents/reach.h"

#include <errno.h>

#include "fleet/fleet.h"
#include "network/references.h"
#include "policy/network_check.h"
#include "policy/network_consent.h"

static int refuse(struct error *e, const char *why)
{
	return error_set(e, ERROR_USAGE, EINVAL, "%s", why);
}

/* What sandboxes may have, and versions may not. */
static int check_version(const json_t *network, struct error *e)
{
	struct network_consent consent;
	int r = network_consent_read(network, &consent, e);

	if (r < 0)
		return r;
	if (json_is_true(json_object_get(network, "allowPublicTraffic")))
		return refuse(e, "allowPublicTraffic: ports of invocations always need the "
				 "sandbox's traffic token");
	if (consent.mode == CONSENT_PAUSE)
		return refuse(e, "consent.whileWaiting: an invocation cannot be paused while it "
				 "runs: give run or freeze");
	if (json_object_get(json_object_get(network, "egressProxy"), "password"))
		return refuse(e, "egressProxy.password: a version keeps no password of a proxy");
	return 0;
}

static json_t *copy_of(const json_t *network, const json_t *policy)
{
	json_t *given = (json_t *)network, *copy = network ? json_copy(given) : json_object();

	if (copy && policy && json_object_set(copy, "policy", (json_t *)policy) < 0) {
		json_decref(copy);
		return NULL;
	}
	return copy;
}

int agents_reach_make(
	struct fleet *f, const char *key_id, const json_t *settings, json_t **ret, struct error *e)
{
	const json_t *given = json_object_get(settings, "network"),
		     *policy = json_object_get(settings, "policy");
	json_t *internet = json_object_get(settings, "allow_internet_access"), *network;
	int r;

	*ret = NULL;
	if (!given && !policy && !internet)
		return 0;
	if (policy && json_object_get(given, "policy"))
		return refuse(e, "policy: it is in network, too: leave one out");
	network = copy_of(given, policy);
	if (!network)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	r = check_version(network, e);
	if (r == 0)
		r = network_check(network, json_is_false(internet), f->options.network, e);
	if (r == 0)
		r = references_check(f, key_id, json_object_get(network, "policy"), e);
	if (r == 0)
		*ret = json_pack(
			"{s:O, s:O*}", "network", network, "allow_internet_access", internet);
	json_decref(network);
	return r < 0 || *ret ? r : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
}
