#include "policy/intercept.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "policy/network_target.h"
#include "policy/seal.h"

/* A reference to a secret, or to a token (policy/iam.h), in a header's value. A secret's name lacks
 * "secrets."; a token's name has IAM_SECRET_PREFIX. */
static const char marker[] = "${e2b.", secret_word[] = "secrets.";

static void lower(char *s)
{
	for (; *s; s++)
		if (*s >= 'A' && *s <= 'Z')
			*s = (char)(*s + 'a' - 'A');
}

/* A JSON string in lower case; NULL: out of memory. */
static json_t *lowered(const char *text)
{
	_cleanup_free_ char *copy = strdup(text);

	if (!copy)
		return NULL;
	lower(copy);
	return json_string(copy);
}

static json_t *headers_of(const json_t *entries)
{
	json_t *transform = json_object_get(json_array_get(entries, 0), "transform");

	return json_object_get(transform, "headers");
}

/* --- headers --- */

/* With the names of secrets in lower case, as they are stored. */
static json_t *value_of(const char *text)
{
	_cleanup_free_ char *copy = strdup(text);

	for (char *s = copy; s && (s = strstr(s, marker));) {
		char *end = strchr(s, '}');

		if (!end) /* never: it was checked */
			break;
		*end = '\0';
		if (str_starts_with(s + strlen(marker), secret_word))
			lower(s);
		*end = '}';
		s = end;
	}
	return copy ? json_string(copy) : NULL;
}

static json_t *header_list(json_t *headers)
{
	json_t *list = json_array(), *value;
	const char *name;

	json_object_foreach(headers, name, value)
	{
		json_t *one = json_pack("{s:o, s:o}", "name", lowered(name), "value",
			value_of(json_string_value(value)));

		if (json_array_append_new(list, one) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

/* --- hosts --- */

/* Calls fn for each host of the variables until it fails. */
static int each_bound(const json_t *bindings, int (*fn)(void *arg, const char *host), void *arg)
{
	const char *variable;
	json_t *binding;
	int r = 0;

	json_object_foreach((json_t *)bindings, variable, binding)
	{
		const json_t *hosts = json_object_get(binding, "hosts");

		for (size_t i = 0; r == 0 && i < json_array_size(hosts); i++)
			r = fn(arg, json_string_value(json_array_get(hosts, i)));
	}
	return r;
}

/* Whether a rule has a header at all, or a variable a secret. */
static bool is_wanted(const struct intercept_source *s)
{
	json_t *rules = json_object_get(s->network, "rules"), *entries;
	const char *domain;

	if (json_object_size(s->bindings))
		return true;
	json_object_foreach(
		rules, domain, entries) if (json_object_size(headers_of(entries))) return true;
	return false;
}

static int add_bound(void *arg, const char *host)
{
	json_t *all = arg;

	return json_object_set_new(all, host, json_null()); /* a rule's headers are not needed */
}

/* Adds the hosts of the rules: host to list of headers. */
static int add_rules(json_t *all, const json_t *network)
{
	json_t *rules = json_object_get(network, "rules"), *entries;
	const char *domain;

	json_object_foreach(rules, domain, entries)
	{
		_cleanup_free_ char *host = strdup(domain);

		if (!host)
			return -1;
		lower(host);
		if (json_object_set_new(all, host, header_list(headers_of(entries))) < 0)
			return -1;
	}
	return 0;
}

/* Makes an object of the hosts of rules with their headers, and with `bound` also the hosts of
 * variables. Returns NULL when out of memory. */
static json_t *host_map(const struct intercept_source *s, bool bound)
{
	json_t *all = json_object();

	if (!all || !is_wanted(s))
		return all;
	if (add_rules(all, s->network) == 0 &&
		(!bound || each_bound(s->bindings, add_bound, all) == 0))
		return all;
	json_decref(all);
	return NULL;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Adds the hosts whose requests are judged. If there are too many, the object becomes just "*". */
static json_t *with_inspected(json_t *all, const struct intercept_source *s)
{
	int r = s->inspected && all ? json_object_update_missing(all, (json_t *)s->inspected) : 0;

	if (r == 0 && all &&
		(json_object_get(all, "*") || json_object_size(all) > AUTHORITY_HOSTS_MAX)) {
		(void)json_object_clear(all); /* it is an object */
		r = json_object_set_new(all, "*", json_null());
	}
	if (r == 0)
		return all;
	json_decref(all);
	return NULL;
}

json_t *intercept_hosts(const struct intercept_source *s)
{
	json_t *all = with_inspected(host_map(s, true), s), *list = all ? json_array() : NULL,
	       *ignored;
	const char **names = calloc(json_object_size(all) + 1, sizeof(*names)), *name;
	size_t n = 0;
	bool good = all && list && names;

	json_object_foreach(all, name, ignored) if (names) names[n++] = name;
	if (names)
		qsort(names, n, sizeof(*names), by_text);
	for (size_t i = 0; good && i < n; i++)
		good = json_array_append_new(list, json_string(names[i])) == 0;
	free(names);
	json_decref(all);
	if (good)
		return list;
	json_decref(list);
	return NULL;
}

static json_t *host_list(const struct intercept_source *s)
{
	json_t *all = host_map(s, false), *list = all ? json_array() : NULL, *headers;
	const char *host;
	int r = list ? 0 : -1;

	json_object_foreach(all, host, headers) if (r == 0) r = json_array_append_new(
		list, json_pack("{s:s, s:O}", "host", host, "headers", headers));
	json_decref(all);
	if (r == 0)
		return list;
	json_decref(list);
	return NULL;
}

/* --- secrets --- */

char *intercept_next_name(const char **s)
{
	const char *at = strstr(*s, marker), *end = at ? strchr(at, '}') : NULL;
	bool is_secret;
	char *name;

	if (!end)
		return NULL;
	*s = end;
	at += strlen(marker);
	is_secret = str_starts_with(at, secret_word);
	at += is_secret ? strlen(secret_word) : 0;
	name = strndup(at, (size_t)(end - at));
	if (name && is_secret)
		lower(name);
	return name;
}

static int add_names(json_t *names, const json_t *headers)
{
	const char *header;
	json_t *value;
	int r = 0;

	json_object_foreach((json_t *)headers, header, value)
	{
		const char *s = json_string_value(value);
		char *name;

		while (r == 0 && s && (name = intercept_next_name(&s))) {
			r = json_object_set_new(names, name, json_true());
			free(name);
		}
	}
	return r;
}

/* Those of headers on rules of the sandbox's own policy. */
static int add_policy(json_t *names, const json_t *policy)
{
	const json_t *rules = json_object_get(policy, "rules");
	int r = 0;

	for (size_t i = 0; r == 0 && i < json_array_size(rules); i++)
		r = add_names(names, json_object_get(json_array_get(rules, i), "headers"));
	return r;
}

/* The names of all secrets that are used, as an object; NULL: out of memory. */
static json_t *used_names(const struct intercept_source *s)
{
	json_t *names = json_object(), *rules = json_object_get(s->network, "rules"), *value;
	const char *key;
	int r = names ? 0 : -1;

	json_object_foreach(rules, key, value) if (r == 0) r = add_names(names, headers_of(value));
	r = r ? r : add_policy(names, json_object_get(s->network, "policy"));
	json_object_foreach((json_t *)s->bindings, key, value) if (r == 0) r = json_object_set_new(
		names, json_string_value(json_object_get(value, "secret")), json_true());
	if (r == 0)
		return names;
	json_decref(names);
	return NULL;
}

int intercept_uses(const struct intercept_source *s, const char *name)
{
	json_t *names = used_names(s);
	bool uses = !names || json_object_get(names, name);

	json_decref(names);
	return uses;
}

/* What a string takes in JSON, at most. */
static size_t json_bytes(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += *s == '"' || *s == '\\' ? 2 : *s == '\t' ? 6 : 1;
	return n;
}

/* Takes the text, and wipes it. */
static int add_secret(json_t *list, const char *name, char *value, size_t *left)
{
	size_t n = value ? json_bytes(value) : 0;
	int r = 0;

	if (value && n <= *left) {
		*left -= n;
		r = json_array_append_new(
			list, json_pack("{s:s, s:s}", "name", name, "value", value));
	}
	secret_free(value);
	return r;
}

static json_t *secret_list(const struct intercept_source *s, size_t *left)
{
	json_t *names = used_names(s), *list = names ? json_array() : NULL, *ignored;
	const char *name;
	int r = list ? 0 : -1;

	json_object_foreach(names, name, ignored) if (r == 0) r =
		add_secret(list, name, s->value(s->arg, name), left);
	json_decref(names);
	if (r == 0)
		return list;
	intercept_wipe(list);
	json_decref(list);
	return NULL;
}

static bool has_secret(const json_t *secrets, const char *name)
{
	for (size_t i = 0; i < json_array_size(secrets); i++) {
		const json_t *one = json_object_get(json_array_get(secrets, i), "name");

		if (strcmp(json_string_value(one), name) == 0)
			return true;
	}
	return false;
}

/* Keeps the placeholders of known secrets. Others are sent unchanged. */
static json_t *placeholder_list(
	const struct intercept_source *s, const json_t *secrets, size_t *left)
{
	json_t *list = json_array(), *binding;
	const char *variable;
	int r = list ? 0 : -1;

	json_object_foreach((json_t *)s->bindings, variable, binding)
	{
		const char *text = json_string_value(json_object_get(s->env, variable));
		const char *name = json_string_value(json_object_get(binding, "secret"));

		if (r < 0 || !text || !has_secret(secrets, name) || json_bytes(text) > *left)
			continue;
		*left -= json_bytes(text);
		r = json_array_append_new(list, json_pack("{s:s, s:O, s:O}", "text", text, "secret",
							json_object_get(binding, "secret"), "hosts",
							json_object_get(binding, "hosts")));
	}
	if (r == 0)
		return list;
	json_decref(list);
	return NULL;
}

/* --- the member --- */

json_t *intercept_policy(const struct intercept_source *s)
{
	size_t left = INTERCEPT_SECRETS_BYTES_MAX;
	json_t *secrets = secret_list(s, &left);

	return json_pack("{s:{s:s, s:s}, s:s*, s:o, s:o, s:o}", "ca", "certificate",
		s->authority->certificate, "key", s->authority->key, "roots", s->roots, "hosts",
		host_list(s), "secrets", secrets, "placeholders",
		placeholder_list(s, secrets, &left));
}

static void wipe_values(json_t *secrets)
{
	for (size_t i = 0; i < json_array_size(secrets); i++)
		secret_wipe(json_object_get(json_array_get(secrets, i), "value"));
}

void intercept_wipe(json_t *intercept)
{
	secret_wipe(json_object_get(json_object_get(intercept, "ca"), "key"));
	wipe_values(json_is_array(intercept) ? intercept : json_object_get(intercept, "secrets"));
}
