#include "cli/sandbox/network_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/network_check.h"
#include "policy/network_document.h"
#include "policy/network_list.h"

static bool is_word(const struct network_options *o, const char *word)
{
	return o->word && strcmp(o->word, word) == 0;
}

/* Whether one of them is HOST, or else everything. What the daemon refuses is none. */
static bool any_is(const struct option_list *l, bool (*is)(const struct network_target *t))
{
	struct network_target t;
	const char *reason;

	for (unsigned i = 0; i < l->count; i++)
		if (network_target_parse(l->items[i], true, &t, &reason) == 0 && is(&t))
			return true;
	return false;
}

/* The daemon would say it in the words of its API. */
static int check_names(const struct network_options *o, struct error *e)
{
	if (o->deny.count && any_is(&o->allow, network_allow_needs_deny) &&
		!any_is(&o->deny, network_target_is_all))
		return error_set(e, ERROR_USAGE, EINVAL,
			"--allow with a name needs --deny " NETWORK_EVERYTHING
			", or no --deny: then all else is denied");
	return 0;
}

/* Of a list. */
static int check_words(const char *text, struct error *e)
{
	_cleanup_free_ char *copy = strdup(text);
	char *rest = copy, *word;

	while ((word = strsep(&rest, ",")))
		if (network_list_is_word(word))
			return error_set(e, ERROR_USAGE, EINVAL,
				"--network: '%s' is no name: write on or off alone", word);
	return copy ? 0 : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

static int check(const struct network_options *o, struct error *e)
{
	if (!o->word)
		return check_names(o, e);
	if (o->allow.count)
		return error_set(e, ERROR_USAGE, EINVAL,
			"--network and --allow exclude each other: --network takes a list, too");
	if (!is_word(o, "on") && o->deny.count)
		return error_set(e, ERROR_USAGE, EINVAL,
			"--deny needs --network on, or none: all else is denied already");
	return is_word(o, "on") || is_word(o, "off") ? 0 : check_words(o->word, e);
}

static json_t *strings(const struct option_list *l)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < l->count; i++)
		(void)json_array_append_new(list, json_string(l->items[i])); /* counted below */
	if (json_array_size(list) == l->count)
		return list;
	json_decref(list);
	return NULL;
}

/* "a,b:443,c" */
static json_t *words(const char *text)
{
	_cleanup_free_ char *copy = strdup(text);
	json_t *list = copy ? json_array() : NULL;
	char *rest = copy, *word;

	while (list && (word = strsep(&rest, ",")))
		if (json_array_append_new(list, json_string(word)) < 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

static json_t *allowing(json_t *list)
{
	return json_pack("{s:o, s:[s]}", "allowOut", list, "denyOut", NETWORK_EVERYTHING);
}

static json_t *body_of(const struct network_options *o)
{
	if (is_word(o, "off"))
		return json_pack("{s:b}", "allow_internet_access", 0);
	if (is_word(o, "on"))
		return json_pack(
			"{s:b, s:o}", "allow_internet_access", 1, "denyOut", strings(&o->deny));
	if (o->word)
		return allowing(words(o->word));
	if (!o->deny.count)
		return allowing(strings(&o->allow));
	return json_pack(
		"{s:o, s:o}", "allowOut", strings(&o->allow), "denyOut", strings(&o->deny));
}

/* Takes the body. NULL: it is no UTF-8, or out of memory. */
static json_t *with_callers(json_t *body, const struct option_list *callers)
{
	if (!body || !callers->count || json_object_set_new(body, "allowIn", strings(callers)) == 0)
		return body;
	json_decref(body);
	return NULL;
}

static int add_policy(const char *path, json_t *body, struct error *e)
{
	json_t *policy = NULL, *decisions = NULL;
	int r = network_document_read(path, "--policy", &policy, &decisions, e);

	json_decref(decisions); /* of people, for another sandbox */

	if (r < 0)
		return r;
	return json_object_set_new(body, "policy", policy) < 0
		       ? error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory")
		       : 0;
}

/* The daemon checks the word. */
static int add_waiting(const char *word, json_t *body, struct error *e)
{
	json_t *consent = json_pack("{s:s}", "whileWaiting", word);

	return consent && json_object_set_new(body, "consent", consent) == 0
		       ? 0
		       : error_set(
				 e, ERROR_USAGE, EINVAL, "--while-waiting is run, freeze or pause");
}

int network_options_body(const struct network_options *o, json_t **ret, struct error *e)
{
	int r = check(o, e);
	bool out = o->word || o->allow.count || o->deny.count;

	if (r < 0 || (!out && !o->allow_in.count && !o->policy && !o->waiting))
		return r;
	*ret = with_callers(out ? body_of(o) : json_object(), &o->allow_in);
	if (!*ret)
		return error_set(e, ERROR_USAGE, EINVAL,
			"--network, --allow, --deny and --allow-in must be valid UTF-8");
	if (o->waiting)
		r = add_waiting(o->waiting, *ret, e);
	return r == 0 && o->policy ? add_policy(o->policy, *ret, e) : r;
}

void network_options_add(const json_t *network, json_t *body)
{
	static const char name[] = "allow_internet_access";
	json_t *copy = json_copy((json_t *)network), *internet = json_object_get(copy, name);

	/* what is missing shows in mayfly inspect */
	if (internet)
		(void)json_object_set(body, name, internet);
	(void)json_object_del(copy, name);
	if (json_object_size(copy))
		(void)json_object_set(body, "network", copy);
	json_decref(copy);
}

bool network_options_is_off(const json_t *network)
{
	return json_is_false(json_object_get(network, "allow_internet_access"));
}
