#include "policy/network_rules.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "policy/iam.h"
#include "policy/network_target.h"
#include "proto/http_headers.h"
#include "proto/json_tree.h"
#include "proto/x509.h"

static int bad(struct error *e, const char *domain, const char *reason)
{
	return error_set(e, ERROR_USAGE, EINVAL, "rules['%.64s']: %s", domain, reason);
}

_Static_assert(NETWORK_RULES_MAX <= NETWORK_HEADERS_MAX, "check_spellings");

/* --- placeholders: ${e2b.secrets.NAME} and ${e2b.identity.tokens.NAME} --- */

struct secrets {
	const char *names[NETWORK_SECRETS_MAX]; /* not terminated */
	size_t lengths[NETWORK_SECRETS_MAX];
	unsigned count;
};

static bool is_secret_name(const char *s, size_t n)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
		"_-";

	return n > 0 && n <= NETWORK_SECRET_NAME_MAX && strspn(s, letters) >= n;
}

/* Names are the same in both cases. */
static int note_secret(struct secrets *all, const char *name, size_t n)
{
	for (unsigned i = 0; i < all->count; i++)
		if (all->lengths[i] == n && strncasecmp(all->names[i], name, n) == 0)
			return 0;
	if (all->count == NETWORK_SECRETS_MAX)
		return -E2BIG;
	all->names[all->count] = name;
	all->lengths[all->count++] = n;
	return 0;
}

/* What is wrong with the placeholders of a value, or NULL. */
static const char *fault_of_value(const char *s, struct secrets *all)
{
	static const char secret[] = "${e2b.secrets.", token[] = "${e2b.identity.tokens.";

	while ((s = strstr(s, "${e2b."))) {
		bool is_secret = str_starts_with(s, secret);
		const char *name = s + (is_secret ? strlen(secret) : strlen(token));
		const char *end = strchr(s, '}'), *inner = strstr(s + 1, "${");

		if (!end)
			return "a placeholder does not end";
		if (inner && inner < end)
			return "a placeholder is in another";
		if (!is_secret && !str_starts_with(s, token))
			return "a placeholder is neither ${e2b.secrets.NAME} nor "
			       "${e2b.identity.tokens.NAME}";
		if (is_secret && !is_secret_name(name, (size_t)(end - name)))
			return "the name in a placeholder must be 1 to 128 of letters, digits, _ "
			       "and -";
		if (!is_secret && (name == end || end - name > IAM_NAME_MAX))
			return "the name in a placeholder must have 1 to 64 bytes";
		if (is_secret && note_secret(all, name, (size_t)(end - name)) < 0)
			return "more than 32 secrets";
		s = end;
	}
	return NULL;
}

/* --- rules --- */

/* A name of an object that is there in two spellings. domain NULL: the names are domains. */
static int check_spellings(json_t *object, const char *domain, struct error *e)
{
	const char *names[NETWORK_HEADERS_MAX], *name;
	json_t *value;
	size_t n = 0;

	json_object_foreach(object, name, value)
	{
		for (size_t i = 0; i < n; i++)
			if (strcasecmp(names[i], name) == 0)
				return error_set(e, ERROR_USAGE, EINVAL,
					"rules['%.64s']: '%.64s': the same name as another, in "
					"other "
					"case",
					domain ? domain : name, name);
		names[n++] = name;
	}
	return 0;
}

static int check_header(const char *domain, const char *name, const json_t *value,
	struct secrets *secrets, struct error *e)
{
	const char *text = json_string_value(value), *fault;

	if (strlen(name) > NETWORK_HEADER_NAME_MAX || !http_is_token(name, strlen(name)))
		return bad(e, domain, "the name of a header must be a token of at most 64 bytes");
	if (http_is_reserved(name))
		return error_set(e, ERROR_USAGE, EINVAL,
			"rules['%.64s']: '%s' cannot be set: it belongs to the connection", domain,
			name);
	if (!text || json_string_length(value) > NETWORK_HEADER_VALUE_MAX ||
		!http_is_field_value(text, json_string_length(value)))
		return error_set(e, ERROR_USAGE, EINVAL,
			"rules['%.64s']: the value of '%s' must be a string of at most 2048 bytes "
			"without control characters",
			domain, name);
	fault = fault_of_value(text, secrets);
	if (fault)
		return error_set(
			e, ERROR_USAGE, EINVAL, "rules['%.64s']: '%s': %s", domain, name, fault);
	return 0;
}

static int check_headers(const char *domain, json_t *headers, struct error *e)
{
	struct secrets secrets = {.count = 0};
	const char *name;
	json_t *value;
	int r = 0;

	if (json_tree_is_absent(headers))
		return 0;
	if (!json_is_object(headers))
		return bad(e, domain, "headers must be an object of strings");
	if (json_object_size(headers) > NETWORK_HEADERS_MAX)
		return bad(e, domain, "more than 20 headers");
	json_object_foreach(headers, name, value)
	{
		r = check_header(domain, name, value, &secrets, e);
		if (r < 0)
			return r;
	}
	return check_spellings(headers, domain, e);
}

/* A misspelt member would silently set nothing. */
static int check_only(const char *domain, json_t *object, const char *wanted, struct error *e)
{
	const char *name;
	json_t *v;

	json_object_foreach(object, name, v) if (strcmp(name, wanted) != 0) return error_set(e,
		ERROR_USAGE, EINVAL, "rules['%.64s']: '%.32s' is not known: %s", domain, name,
		wanted);
	return 0;
}

static int check_entries(const char *domain, const json_t *entries, struct error *e)
{
	json_t *entry = json_array_get(entries, 0), *transform;

	if (!json_is_array(entries))
		return bad(e, domain, "must be an array of rules");
	if (json_array_size(entries) > 1)
		return bad(e, domain, "more than one rule");
	if (!entry)
		return 0;
	if (!json_is_object(entry))
		return bad(e, domain, "a rule must be an object");
	if (check_only(domain, entry, "transform", e) < 0)
		return -EINVAL;
	transform = json_object_get(entry, "transform");
	if (json_tree_is_absent(transform))
		return 0;
	if (!json_is_object(transform))
		return bad(e, domain, "transform must be an object");
	if (check_only(domain, transform, "headers", e) < 0)
		return -EINVAL;
	return check_headers(domain, json_object_get(transform, "headers"), e);
}

static int check_domain(const char *domain, struct error *e)
{
	struct network_target t;
	const char *reason;

	if (network_target_parse(domain, false, &t, &reason) < 0)
		return bad(e, domain, reason);
	if (!t.host[0] || strcmp(t.host, "*") == 0)
		return bad(e, domain, "must be a name, or *. and a name");
	return 0;
}

int network_rules_check(const json_t *rules, struct error *e)
{
	json_t *all = (json_t *)rules; /* the loop's macro takes no const */
	const char *domain;
	json_t *entries;
	int r;

	if (json_tree_is_absent(rules))
		return 0;
	if (!json_is_object(rules))
		return error_set(e, ERROR_USAGE, EINVAL, "rules must be an object");
	if (json_object_size(rules) > NETWORK_RULES_MAX)
		return error_set(
			e, ERROR_LIMIT, E2BIG, "rules has more than %d domains", NETWORK_RULES_MAX);
	json_object_foreach(all, domain, entries)
	{
		r = check_domain(domain, e);
		if (r == 0)
			r = check_entries(domain, entries, e);
		if (r < 0)
			return r;
	}
	return check_spellings(all, NULL, e);
}

/* --- the proxy --- */

/* A string of at most max bytes, or nothing. */
static int check_text(
	const json_t *object, const char *path, const char *name, size_t max, struct error *e)
{
	const json_t *v = json_object_get(object, name);

	if (json_tree_is_absent(v))
		return 0;
	if (!json_is_string(v) || json_string_length(v) == 0 || json_string_length(v) > max)
		return error_set(e, ERROR_USAGE, EINVAL, "%s.%s must be a string of 1 to %zu bytes",
			path, name, max);
	return 0;
}

static int check_ca(const json_t *ca, struct error *e)
{
	const char *text = json_string_value(ca);
	BIO *b = text ? BIO_new_mem_buf(text, -1) : NULL;
	X509 *x = b ? PEM_read_bio_X509(b, NULL, x509_no_passphrase, NULL) : NULL;
	bool good = x || !text;

	BIO_free(b);
	X509_free(x);
	ERR_clear_error();
	return good ? 0
		    : error_set(e, ERROR_USAGE, EINVAL,
			      "egressProxy.tls.caCert must hold a certificate in PEM");
}

static int check_tls(const json_t *tls, struct error *e)
{
	static const char path[] = "egressProxy.tls";
	const json_t *enabled = json_object_get(tls, "enabled");
	int r;

	if (json_tree_is_absent(tls))
		return 0;
	if (!json_is_object(tls))
		return error_set(e, ERROR_USAGE, EINVAL, "%s must be an object", path);
	if (!json_is_boolean(enabled))
		return error_set(e, ERROR_USAGE, EINVAL, "%s.enabled must be true or false", path);
	if (!json_is_true(enabled) &&
		(json_tree_has(tls, "serverName") || json_tree_has(tls, "caCert")))
		return error_set(e, ERROR_USAGE, EINVAL,
			"%s: with enabled false, serverName and caCert must be left out", path);
	r = check_text(tls, path, "serverName", NETWORK_SERVER_NAME_MAX, e);
	if (r == 0)
		r = check_text(tls, path, "caCert", NETWORK_CA_MAX, e);
	return r < 0 ? r : check_ca(json_object_get(tls, "caCert"), e);
}

int network_proxy_check(const json_t *proxy, struct error *e)
{
	static const char path[] = "egressProxy";
	const char *address = json_string_value(json_object_get(proxy, "address")), *reason = "";
	struct network_target t;
	int r;

	if (json_tree_is_absent(proxy))
		return 0;
	if (!json_is_object(proxy))
		return error_set(e, ERROR_USAGE, EINVAL, "%s must be an object", path);
	if (!address || network_target_parse(address, true, &t, &reason) < 0 || !t.port ||
		t.host[0] == '*' || (!t.host[0] && t.bits != 32))
		return error_set(e, ERROR_USAGE, EINVAL, "%s.address must be HOST:PORT%s%s", path,
			*reason ? ": " : "", reason);
	r = check_text(proxy, path, "username", NETWORK_CREDENTIAL_MAX, e);
	if (r == 0)
		r = check_text(proxy, path, "password", NETWORK_CREDENTIAL_MAX, e);
	if (r == 0 && json_tree_has(proxy, "password") && !json_tree_has(proxy, "username"))
		r = error_set(e, ERROR_USAGE, EINVAL, "%s.password needs a username", path);
	return r < 0 ? r : check_tls(json_object_get(proxy, "tls"), e);
}
