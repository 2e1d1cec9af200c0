#include "policy/iam.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "proto/json_tree.h"

/* Whether a text of UTF-8 has control characters, U+0080 to U+009F among them. */
static bool has_controls(const char *s)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s, next = (unsigned char)s[1];

		if (c < ' ' || c == 0x7f || (c == 0xc2 && next >= 0x80 && next < 0xa0))
			return true;
	}
	return false;
}

/* A name goes into a placeholder, which ends with a brace. */
static int check_name(const char *name, struct error *e)
{
	if (*name && strlen(name) <= IAM_NAME_MAX && !strpbrk(name, "{}") && !has_controls(name))
		return 0;
	return error_set(e, ERROR_USAGE, EINVAL,
		"iam.tokens['%.64s']: the name of a token must have 1 to %d bytes, and no braces "
		"and control characters",
		name, IAM_NAME_MAX);
}

static int check_token(const char *name, const json_t *token, struct error *e)
{
	const json_t *audience = json_object_get(token, "audience");
	const char *type = json_string_value(json_object_get(token, "tokenType"));
	size_t n = json_string_length(audience);
	int r = check_name(name, e);

	if (r < 0)
		return r;
	if (!json_is_object(token))
		return error_set(
			e, ERROR_USAGE, EINVAL, "iam.tokens['%.64s'] must be an object", name);
	if (n == 0 || n > IAM_AUDIENCE_MAX || strlen(json_string_value(audience)) != n)
		return error_set(e, ERROR_USAGE, EINVAL,
			"iam.tokens['%.64s'].audience must be a string of 1 to %d bytes", name,
			IAM_AUDIENCE_MAX);
	if (!type || strcmp(type, "JWT-SVID") != 0)
		return error_set(e, ERROR_USAGE, EINVAL,
			"iam.tokens['%.64s'].tokenType must be JWT-SVID", name);
	return 0;
}

/* What counts of them. NULL: out of memory. */
static json_t *copy_of(json_t *tokens)
{
	json_t *all = json_object(), *token;
	const char *name;

	json_object_foreach(tokens, name, token)
	{
		json_t *one = json_pack("{s:O, s:s}", "audience",
			json_object_get(token, "audience"), "tokenType", "JWT-SVID");

		if (json_object_set_new(all, name, one) < 0) {
			json_decref(all);
			return NULL;
		}
	}
	return json_pack("{s:o}", "tokens", all);
}

static int check_tokens(json_t *tokens, struct error *e)
{
	const char *name;
	json_t *token;
	int r = 0;

	if (!json_is_object(tokens))
		return error_set(e, ERROR_USAGE, EINVAL, "iam.tokens must be an object");
	if (json_object_size(tokens) > IAM_TOKENS_MAX)
		return error_set(e, ERROR_LIMIT, E2BIG, "iam.tokens has more than %d tokens",
			IAM_TOKENS_MAX);
	json_object_foreach(tokens, name, token) if (r == 0) r = check_token(name, token, e);
	return r;
}

int iam_take(const json_t *iam, json_t **ret, struct error *e)
{
	json_t *tokens = json_object_get(iam, "tokens");
	int r;

	*ret = NULL;
	if (json_tree_is_absent(iam))
		return 0;
	if (!json_is_object(iam))
		return error_set(e, ERROR_USAGE, EINVAL, "iam must be an object");
	if (json_tree_is_absent(tokens))
		return 0;
	r = check_tokens(tokens, e);
	if (r < 0 || json_object_size(tokens) == 0)
		return r;
	*ret = copy_of(tokens);
	return *ret ? 0 : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}
