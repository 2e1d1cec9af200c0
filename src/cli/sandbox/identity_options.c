#include "cli/sandbox/identity_options.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/binding_option.h"

static int add_rules(json_t *rules, const struct binding_option *b, struct error *e)
{
	_cleanup_free_ char *header = str_printf("Bearer ${e2b.identity.tokens.%s}", b->name);
	json_t *host;
	size_t i;

	json_array_foreach(b->hosts, i, host)
	{
		const char *name = json_string_value(host);

		if (json_object_get(rules, name))
			return error_set(
				e, ERROR_USAGE, EINVAL, "--identity: %.64s has two tokens", name);
		if (!header || json_object_set_new(rules, name,
				       json_pack("[{s:{s:{s:s}}}]", "transform", "headers",
					       "Authorization", header)) < 0)
			return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	}
	return 0;
}

static int add(json_t *tokens, json_t *rules, const struct binding_option *b, struct error *e)
{
	if (json_object_get(tokens, b->name))
		return error_set(
			e, ERROR_USAGE, EINVAL, "--identity: %.64s is given twice", b->name);
	if (json_object_set_new(tokens, b->name,
		    json_pack("{s:s, s:s}", "audience", b->value, "tokenType", "JWT-SVID")) < 0)
		return error_set(e, ERROR_USAGE, EINVAL, "--identity must be valid UTF-8");
	return add_rules(rules, b, e);
}

static int add_text(json_t *tokens, json_t *rules, const char *text, struct error *e)
{
	struct binding_option b;
	int r = binding_option_read(text, &b);

	if (r == -EINVAL)
		r = error_set(e, ERROR_USAGE, EINVAL,
			"--identity '%.64s': expected NAME=AUDIENCE@HOST[,HOST]...", text);
	else if (r < 0)
		r = error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	else
		r = add(tokens, rules, &b, e);
	binding_option_done(&b);
	return r;
}

int identity_options_body(
	const struct option_list *list, json_t **ret, json_t **network, struct error *e)
{
	json_t *tokens, *rules;
	int r = 0;

	if (!list->count)
		return 0;
	tokens = json_object();
	rules = json_object();
	for (unsigned i = 0; r == 0 && i < list->count; i++)
		r = add_text(tokens, rules, list->items[i], e);
	if (!*network)
		*network = json_object();
	if (json_object_set_new(*network, "rules", rules) < 0 && r == 0)
		r = error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	*ret = json_pack("{s:o}", "tokens", tokens);
	return r;
}
