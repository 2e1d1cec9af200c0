#include "oci/challenge.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "proto/json_tree.h"

#define TOKEN_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/=:"

static const char *skip_blanks(const char *s)
{
	return s + strspn(s, " \t");
}

/* Takes a value, quoted or not, into out (may be NULL). Returns what follows it, or NULL. */
static const char *take_value(const char *s, char *out, size_t size)
{
	bool quoted = *s == '"';
	size_t n = 0;

	for (s += quoted; *s && (quoted ? *s != '"' : !strchr(", \t", *s)); s++) {
		if (quoted && *s == '\\' && s[1])
			s++;
		if (*s < ' ' || *s > '~' || (out && n + 1 >= size))
			return NULL;
		if (out)
			out[n] = *s;
		n++;
	}
	if (out)
		out[n] = '\0';
	if (quoted && *s != '"')
		return NULL;
	return s + quoted;
}

/* Takes "name=value". Returns what follows it, or NULL. */
static const char *take_parameter(const char *s, struct oci_challenge *c)
{
	const struct {
		const char *name;
		char *to;
		size_t size;
	} known[] = {{"realm", c->realm, sizeof(c->realm)},
		{"service", c->service, sizeof(c->service)}, {"scope", c->scope, sizeof(c->scope)}};
	size_t n = strcspn(s, "= ,\t\"");
	char *to = NULL;
	size_t size = 0;

	if (n == 0 || s[n] != '=')
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strncasecmp(s, known[i].name, n) == 0 && !known[i].name[n]) {
			to = known[i].to;
			size = known[i].size;
		}
	return take_value(s + n + 1, to, size);
}

bool oci_challenge_parse(const char *value, struct oci_challenge *ret)
{
	struct oci_challenge c = {.realm = ""};
	size_t n;

	value = skip_blanks(value);
	n = strcspn(value, " \t,");
	if (n == 5 && strncasecmp(value, "basic", n) == 0)
		c.scheme = OCI_SCHEME_BASIC;
	else if (n == 6 && strncasecmp(value, "bearer", n) == 0)
		c.scheme = OCI_SCHEME_BEARER;
	else
		return false;
	value = skip_blanks(value + n);
	while (c.scheme == OCI_SCHEME_BEARER && *value) {
		value = take_parameter(value, &c);
		if (!value)
			return false;
		value = skip_blanks(value);
		if (*value && *value != ',')
			return false;
		value = skip_blanks(value + (*value == ','));
	}
	if (c.scheme == OCI_SCHEME_BEARER && !*c.realm)
		return false;
	*ret = c;
	return true;
}

static bool is_token(const char *s)
{
	return s && *s && strlen(s) < OCI_TOKEN_MAX && !s[strspn(s, TOKEN_CHARACTERS)];
}

int oci_token_parse(const void *answer, size_t n, char **ret, struct error *e)
{
	const char *reason = "it is too large", *token;
	json_t *o =
		n <= OCI_TOKEN_ANSWER_MAX
			? json_tree_parse(answer, n, JSON_TREE_UNIQUE | JSON_TREE_NO_NUL, &reason)
			: NULL;
	int r = 0;

	if (!o)
		return error_set(e, ERROR_BAD_IMAGE, EINVAL,
			"the token server of the registry answers with something else: %s", reason);
	token = json_string_value(json_object_get(o, "token"));
	if (!token)
		token = json_string_value(json_object_get(o, "access_token"));
	*ret = is_token(token) ? strdup(token) : NULL;
	if (!is_token(token))
		r = error_set(e, ERROR_BAD_IMAGE, EINVAL,
			"the token server of the registry gives no token");
	else if (!*ret)
		r = error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	json_decref(o);
	return r;
}
