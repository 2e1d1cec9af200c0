/* The member `headers` of a rule: {"x-team": "42", "authorization": "Bearer ${e2b.secrets.NAME}",
 * "cookie": null}. They go out over HTTPS only, so the rule is about nothing else. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "rules/rules_internal.h"

static const char marker[] = "${e2b.", secret[] = "${e2b.secrets.",
		  token[] = "${e2b.identity.tokens.";

/* Writes the names of secrets in lower case, as they are kept. -1: a reference is malformed. */
static int take_references(char *value, bool *any)
{
	for (char *s = value; (s = strstr(s, marker));) {
		bool is_secret = str_starts_with(s, secret);
		char *name = s + (is_secret ? sizeof(secret) : sizeof(token)) - 1;

		if (!is_secret && !str_starts_with(s, token))
			return -1;
		s = strchr(s, '}');
		if (!s || s == name || memchr(name, '$', (size_t)(s - name)))
			return -1;
		for (; is_secret && name < s; name++)
			*name = (char)tolower((unsigned char)*name);
		*any = true;
	}
	return 0;
}

static bool is_twice(const struct rules_rule *r)
{
	const struct rules_header *last = &r->headers[r->header_count - 1];

	for (unsigned i = 0; i + 1 < r->header_count; i++)
		if (strcmp(r->headers[i].name, last->name) == 0)
			return true;
	return false;
}

static int take_one(const struct policy_at *of, const char *name, json_t *v, struct rules_rule *r,
	size_t *bytes)
{
	struct policy_at at = policy_member(of, name);
	struct rules_header *h = &r->headers[r->header_count++];
	bool secrets = false;
	int e = rules_take_header(of, name, json_is_null(v) ? NULL : v, h);

	if (e < 0)
		return e;
	if (is_twice(r))
		return policy_bad(&at, "the same name as another, in other case");
	if (h->value && take_references(h->value, &secrets) < 0)
		return policy_bad(&at, "a reference is neither ${e2b.secrets.NAME} nor "
				       "${e2b.identity.tokens.NAME}");
	for (unsigned i = 0; secrets && i < r->host_count; i++)
		if (r->hosts[i].kind == RULES_ANY_HOST)
			return policy_bad(&at, "a secret does not go to any host: name hosts");
	*bytes += strlen(h->name) + (h->value ? strlen(h->value) : 0);
	return *bytes > RULES_HEADERS_BYTES ? policy_bad(of, "has more than 8192 bytes") : 0;
}

int rules_headers_make(const struct policy_at *of, json_t *rule, struct rules_rule *r)
{
	struct policy_at at = policy_member(of, "headers");
	json_t *headers = json_object_get(rule, "headers"), *v;
	const char *name;
	size_t bytes = 0;
	int e = 0;

	if (!headers)
		return 0;
	if (r->action != RULES_ALLOW || !r->host_count || r->scheme == RULES_HTTP)
		return policy_bad(&at, "stands in rules that allow a host, over https only");
	if (!json_is_object(headers) || json_object_size(headers) == 0 ||
		json_object_size(headers) > RULES_HEADERS_MAX)
		return policy_bad(&at, "expected an object of 1 to 20 headers");
	r->headers = calloc(json_object_size(headers), sizeof(r->headers[0]));
	if (!r->headers)
		return -ENOMEM;
	r->scheme = RULES_HTTPS;
	json_object_foreach(headers, name, v) if (e == 0) e = take_one(&at, name, v, r, &bytes);
	return e;
}

/* References that were seen. */
struct names {
	const char *text[RULES_SECRETS_MAX]; /* up to a brace */
	unsigned count;
};

static bool note(struct names *n, const char *text)
{
	size_t bytes = strcspn(text, "}") + 1;

	for (unsigned i = 0; i < n->count; i++)
		if (strncmp(n->text[i], text, bytes) == 0)
			return true;
	if (n->count == RULES_SECRETS_MAX)
		return false;
	n->text[n->count++] = text;
	return true;
}

static bool note_all(struct names *n, const struct rules_rule *r)
{
	for (unsigned i = 0; i < r->header_count; i++)
		for (const char *s = r->headers[i].value; s && (s = strstr(s, marker)); s++)
			if (!note(n, s))
				return false;
	return true;
}

int rules_headers_check(const struct policy_at *top, const struct rules *r)
{
	struct names n = {.count = 0};

	for (unsigned i = 0; i < r->count; i++)
		if (!note_all(&n, &r->rules[i]))
			return error_set(top->e, ERROR_LIMIT, E2BIG,
				"%s%srules[%u].headers: the rules name more than %d secrets",
				top->text, top->text[0] ? "." : "", i, RULES_SECRETS_MAX);
	return 0;
}
