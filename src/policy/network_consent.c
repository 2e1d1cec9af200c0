#include "policy/network_consent.h"

#include <errno.h>
#include <string.h>

#include "proto/json_tree.h"

static int take_mode(const json_t *consent, struct network_consent *c, struct error *e)
{
	const json_t *v = json_object_get(consent, "whileWaiting");
	const char *word = json_string_value(v);

	if (!v)
		return 0;
	if (word && strcmp(word, "freeze") == 0)
		c->mode = CONSENT_FREEZE;
	else if (!word || strcmp(word, "run") != 0)
		return error_set(e, ERROR_USAGE, EINVAL,
			"consent.whileWaiting must be \"run\" or \"freeze\"");
	return 0;
}

static int take_timeout(const json_t *consent, struct network_consent *c, struct error *e)
{
	const json_t *v = json_object_get(consent, "timeout");
	json_int_t s = json_integer_value(v);

	if (!v)
		return 0;
	if (!json_is_integer(v) || s < 1 || s > CONSENT_TIMEOUT_MAX_S)
		return error_set(e, ERROR_USAGE, EINVAL,
			"consent.timeout must be a number of seconds, 1 to %d",
			CONSENT_TIMEOUT_MAX_S);
	c->timeout_s = (uint32_t)s;
	return 0;
}

int network_consent_read(const json_t *network, struct network_consent *ret, struct error *e)
{
	const json_t *consent = json_object_get(network, "consent");
	struct network_consent c = {CONSENT_RUN, CONSENT_TIMEOUT_S};
	const char *name;
	json_t *v;
	int r;

	*ret = c;
	if (!consent || json_is_null(consent))
		return 0;
	if (!json_is_object(consent))
		return error_set(e, ERROR_USAGE, EINVAL, "consent must be an object");
	json_object_foreach((json_t *)consent, name, v)
	{
		if (strcmp(name, "whileWaiting") != 0 && strcmp(name, "timeout") != 0)
			return error_set(e, ERROR_USAGE, EINVAL,
				"consent.%.32s is not known: whileWaiting, timeout", name);
	}
	r = take_mode(consent, &c, e);
	r = r ? r : take_timeout(consent, &c, e);
	*ret = c;
	return r;
}

struct network_consent network_consent_of(const char *network_json)
{
	json_t *network = json_tree_stored(network_json);
	struct network_consent c;

	(void)network_consent_read(network, &c, &(struct error){0}); /* it was checked */
	json_decref(network);
	return c;
}
