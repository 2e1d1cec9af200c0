#include "policy/network_consent.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "proto/json_tree.h"

static int take_mode(const json_t *consent, struct network_consent *c, struct error *e)
{
	static const char *const words[] = {
		[CONSENT_RUN] = "run", [CONSENT_FREEZE] = "freeze", [CONSENT_PAUSE] = "pause"};
	const json_t *v = json_object_get(consent, "whileWaiting");
	const char *word = json_string_value(v);

	if (!v)
		return 0;
	for (unsigned i = 0; word && i < ARRAY_SIZE(words); i++)
		if (strcmp(word, words[i]) == 0) {
			c->mode = (enum consent_while)i;
			return 0;
		}
	return error_set(e, ERROR_USAGE, EINVAL,
		"consent.whileWaiting must be \"run\", \"freeze\" or \"pause\"");
}

static int take_seconds(
	const json_t *consent, const char *name, unsigned max, uint32_t *ret, struct error *e)
{
	const json_t *v = json_object_get(consent, name);
	json_int_t s = json_integer_value(v);

	if (!v)
		return 0;
	if (!json_is_integer(v) || s < 1 || s > max)
		return error_set(e, ERROR_USAGE, EINVAL,
			"consent.%s must be a number of seconds, 1 to %u", name, max);
	*ret = (uint32_t)s;
	return 0;
}

static int check_names(const json_t *consent, struct error *e)
{
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)consent, name, v)
	{
		if (strcmp(name, "whileWaiting") != 0 && strcmp(name, "timeout") != 0 &&
			strcmp(name, "pauseAfter") != 0)
			return error_set(e, ERROR_USAGE, EINVAL,
				"consent.%.32s is not known: whileWaiting, timeout, pauseAfter",
				name);
	}
	return 0;
}

int network_consent_read(const json_t *network, struct network_consent *ret, struct error *e)
{
	const json_t *consent = json_object_get(network, "consent");
	struct network_consent c = {CONSENT_RUN, CONSENT_TIMEOUT_S, CONSENT_PAUSE_AFTER_S};
	int r;

	*ret = c;
	if (!consent || json_is_null(consent))
		return 0;
	if (!json_is_object(consent))
		return error_set(e, ERROR_USAGE, EINVAL, "consent must be an object");
	r = check_names(consent, e);
	r = r ? r : take_mode(consent, &c, e);
	r = r ? r : take_seconds(consent, "timeout", CONSENT_TIMEOUT_MAX_S, &c.timeout_s, e);
	r = r ? r
	      : take_seconds(consent, "pauseAfter", CONSENT_PAUSE_AFTER_MAX_S, &c.pause_after_s, e);
	if (r == 0 && json_object_get(consent, "pauseAfter") && c.mode != CONSENT_PAUSE)
		r = error_set(
			e, ERROR_USAGE, EINVAL, "consent.pauseAfter is for whileWaiting \"pause\"");
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
