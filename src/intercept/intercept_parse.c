/* The JSON of `intercept`. Values may be secrets: no message quotes one. */
#include <errno.h>
#include <string.h>

#include "intercept/intercept.h"
#include "rules/policy_json.h"
#include "proto/http_headers.h"

enum { HTTPS_PORT = 443 };

/* Makes room for the items of an array. Returns their number, 0 if it is absent. */
static int begin_array(const struct policy_at *of, json_t *object, const char *name, size_t max,
	size_t item_bytes, json_t **ret_array, void **ret_items)
{
	int n = policy_get_array(of, object, name, max, ret_array);

	if (n <= 0)
		return n;
	*ret_items = calloc((size_t)n, item_bytes);
	return *ret_items ? n : -ENOMEM;
}

/* A string of min to max bytes, copied. */
static int take_text(const struct policy_at *of, json_t *object, const char *name, size_t min,
	size_t max, char **ret)
{
	struct policy_at at = policy_member(of, name);
	const char *text = policy_text(object, name);

	if (!text || strlen(text) < min || strlen(text) > max)
		return error_set(of->e, ERROR_USAGE, EINVAL,
			"%s: expected a string of %zu to %zu bytes", at.text, min, max);
	*ret = strdup(text);
	return *ret ? 0 : -ENOMEM;
}

static int take_secret_text(const struct policy_at *of, json_t *object, const char *name,
	size_t max, struct secret *ret)
{
	int r = take_text(of, object, name, 1, max, &ret->hidden);

	if (r == 0)
		ret->bytes = strlen(ret->hidden);
	return r;
}

/* --- the authority --- */

static int take_authority(const struct policy_at *of, json_t *object, struct intercept *i)
{
	static const char *const names[] = {"certificate", "key", NULL};
	struct policy_at at = policy_member(of, "ca");
	json_t *ca = json_object_get(object, "ca");
	int r = policy_known_members(&at, ca, names);

	r = r ? r : take_secret_text(&at, ca, "certificate", INTERCEPT_PEM_MAX, &i->certificate);
	r = r ? r : take_secret_text(&at, ca, "key", INTERCEPT_PEM_MAX, &i->key);
	if (r == 0 && json_object_get(object, "roots"))
		r = take_text(of, object, "roots", 0, INTERCEPT_ROOTS_MAX, &i->roots);
	return r;
}

static int take_ports(const struct policy_at *of, json_t *object, struct intercept *i)
{
	json_t *ports;
	struct policy_at at = policy_member(of, "ports");
	int n = policy_get_array(of, object, "ports", INTERCEPT_PORTS_MAX, &ports);

	if (n == 0 && !ports)
		i->ports[i->port_count++] = HTTPS_PORT;
	for (int p = 0; p < n; p++) {
		json_int_t v = json_integer_value(json_array_get(ports, (size_t)p));
		struct policy_at one = policy_item(&at, (size_t)p);

		if (v < 1 || v > UINT16_MAX) /* 0 for what is no number, too */
			return policy_bad(&one, "expected a port");
		i->ports[i->port_count++] = (uint16_t)v;
	}
	return n < 0 ? n : 0;
}

/* --- hosts --- */

static int take_pattern(const struct policy_at *at, const char *text, struct intercept_pattern *ret)
{
	ret->below = text && strncmp(text, "*.", 2) == 0;
	if (!text || !policy_is_host(ret->below ? text + 2 : text))
		return policy_bad(at, "expected a name in lower case or *.name");
	ret->text = strdup(ret->below ? text + 1 : text);
	ret->bytes = strlen(ret->text ? ret->text : "");
	return ret->text ? 0 : -ENOMEM;
}

static int take_header(const struct policy_at *at, json_t *object, struct intercept_header *h)
{
	static const char *const names[] = {"name", "value", NULL};
	struct policy_at name_at = policy_member(at, "name"), value_at = policy_member(at, "value");
	int r = policy_known_members(at, object, names);

	r = r ? r : take_text(at, object, "name", 1, INTERCEPT_HEADER_NAME_MAX, &h->name);
	r = r ? r : take_text(at, object, "value", 0, INTERCEPT_HEADER_VALUE_MAX, &h->value);
	if (r < 0)
		return r;
	if (!http_is_token(h->name, strlen(h->name)) || http_is_reserved(h->name))
		return policy_bad(&name_at, "expected the name of a header that may be set");
	if (!http_is_field_value(h->value, strlen(h->value)))
		return policy_bad(&value_at, "a header's value has no control characters");
	return 0;
}

static int take_host(const struct policy_at *at, json_t *object, struct intercept_host *h)
{
	static const char *const names[] = {"host", "headers", NULL};
	struct policy_at host_at = policy_member(at, "host"), all = policy_member(at, "headers");
	json_t *headers;
	int n, r = policy_known_members(at, object, names);

	r = r ? r : take_pattern(&host_at, policy_text(object, "host"), &h->pattern);
	if (r < 0)
		return r;
	n = begin_array(at, object, "headers", INTERCEPT_HEADERS_MAX, sizeof(h->headers[0]),
		&headers, (void **)&h->headers);
	for (int i = 0; i < n && r == 0; i++) {
		struct policy_at one = policy_item(&all, (size_t)i);

		h->header_count++;
		r = take_header(&one, json_array_get(headers, (size_t)i), &h->headers[i]);
	}
	return n < 0 ? n : r;
}

static bool is_same(const struct intercept_pattern *a, const struct intercept_pattern *b)
{
	return a->below == b->below && strcmp(a->text, b->text) == 0;
}

static int take_hosts(const struct policy_at *of, json_t *object, struct intercept *i)
{
	json_t *hosts;
	struct policy_at at = policy_member(of, "hosts");
	int r = 0, n = begin_array(of, object, "hosts", INTERCEPT_HOSTS_MAX, sizeof(i->hosts[0]),
			   &hosts, (void **)&i->hosts);

	for (int h = 0; h < n && r == 0; h++) {
		struct policy_at one = policy_item(&at, (size_t)h);

		i->host_count++;
		r = take_host(&one, json_array_get(hosts, (size_t)h), &i->hosts[h]);
		for (int other = 0; other < h && r == 0; other++)
			if (is_same(&i->hosts[h].pattern, &i->hosts[other].pattern))
				r = policy_bad(&one, "this host has a rule already");
	}
	return n < 0 ? n : r;
}

/* --- secrets --- */

static int take_secret(const struct policy_at *at, json_t *object, const struct intercept *i,
	struct intercept_secret *s)
{
	static const char *const names[] = {"name", "value", NULL};
	struct policy_at name_at = policy_member(at, "name");
	int r = policy_known_members(at, object, names);

	r = r ? r : take_text(at, object, "name", 1, INTERCEPT_SECRET_NAME_MAX, &s->name);
	r = r ? r : take_secret_text(at, object, "value", INTERCEPT_SECRET_MAX, &s->value);
	if (r == 0 && &i->secrets[intercept_secret(i, s->name, strlen(s->name))] != s)
		return policy_bad(&name_at, "there is a secret of this name already");
	return r;
}

static int take_secrets(const struct policy_at *of, json_t *object, struct intercept *i)
{
	json_t *secrets;
	size_t bytes = 0;
	struct policy_at at = policy_member(of, "secrets");
	int r = 0, n = begin_array(of, object, "secrets", INTERCEPT_SECRETS_MAX,
			   sizeof(i->secrets[0]), &secrets, (void **)&i->secrets);

	for (int s = 0; s < n && r == 0; s++) {
		struct policy_at one = policy_item(&at, (size_t)s);

		i->secret_count++;
		r = take_secret(&one, json_array_get(secrets, (size_t)s), i, &i->secrets[s]);
		bytes += i->secrets[s].value.bytes;
		i->secrets[s].kind = secret_kind(&i->secrets[s].value);
	}
	if (r == 0 && bytes > INTERCEPT_SECRETS_BYTES)
		return policy_bad(&at, "the values have more than 262144 bytes");
	return n < 0 ? n : r;
}

/* --- placeholders --- */

static int take_placeholder_hosts(
	const struct policy_at *at, json_t *object, struct intercept_placeholder *p)
{
	json_t *hosts;
	struct policy_at all = policy_member(at, "hosts");
	int r = 0, n = begin_array(at, object, "hosts", INTERCEPT_HOSTS_MAX, sizeof(p->hosts[0]),
			   &hosts, (void **)&p->hosts);

	if (n == 0)
		return policy_bad(&all, "expected at least one");
	for (int h = 0; h < n && r == 0; h++) {
		struct policy_at one = policy_item(&all, (size_t)h);

		p->host_count++;
		r = take_pattern(
			&one, json_string_value(json_array_get(hosts, (size_t)h)), &p->hosts[h]);
	}
	return n < 0 ? n : r;
}

/* Placeholders are searched for in headers and in base64 of user and password, so they must not
 * have characters that separate words there. */
static bool is_placeholder(const char *text)
{
	for (; *text; text++)
		if (*text <= ' ' || *text > '~' || strchr("\",:;\\", *text))
			return false;
	return true;
}

static int take_placeholder(const struct policy_at *at, json_t *object, const struct intercept *i,
	struct intercept_placeholder *p)
{
	static const char *const names[] = {"text", "secret", "hosts", NULL};
	struct policy_at text_at = policy_member(at, "text"), of = policy_member(at, "secret");
	const char *name = policy_text(object, "secret");
	int found, r = policy_known_members(at, object, names);

	r = r ? r
	      : take_text(at, object, "text", INTERCEPT_PLACEHOLDER_MIN, INTERCEPT_PLACEHOLDER_MAX,
			&p->text);
	if (r < 0)
		return r;
	if (!is_placeholder(p->text))
		return policy_bad(&text_at, "expected ASCII without blanks and \" , : ; \\");
	p->bytes = strlen(p->text);
	found = name ? intercept_secret(i, name, strlen(name)) : -1;
	if (found < 0)
		return policy_bad(&of, "expected the name of one of the secrets");
	p->secret = (unsigned)found;
	return take_placeholder_hosts(at, object, p);
}

static int take_placeholders(const struct policy_at *of, json_t *object, struct intercept *i)
{
	json_t *placeholders;
	struct policy_at at = policy_member(of, "placeholders");
	int r = 0, n = begin_array(of, object, "placeholders", INTERCEPT_PLACEHOLDERS_MAX,
			   sizeof(i->placeholders[0]), &placeholders, (void **)&i->placeholders);

	for (int p = 0; p < n && r == 0; p++) {
		struct policy_at one = policy_item(&at, (size_t)p);

		i->placeholder_count++;
		r = take_placeholder(
			&one, json_array_get(placeholders, (size_t)p), i, &i->placeholders[p]);
	}
	return n < 0 ? n : r;
}

int intercept_make(json_t *value, struct intercept **ret, struct error *e)
{
	static const char *const names[] = {
		"ca", "roots", "ports", "hosts", "secrets", "placeholders", NULL};
	struct intercept *i = calloc(1, sizeof(*i));
	struct policy_at at = {.text = "intercept", .e = e};
	int r = i ? 0 : -ENOMEM;

	r = r ? r : policy_known_members(&at, value, names);
	if (i)
		i->references = 1;
	r = r ? r : take_authority(&at, value, i);
	r = r ? r : take_ports(&at, value, i);
	r = r ? r : take_hosts(&at, value, i);
	r = r ? r : take_secrets(&at, value, i);
	r = r ? r : take_placeholders(&at, value, i);
	if (r < 0) {
		intercept_unref(i);
		return r == -ENOMEM ? error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory") : r;
	}
	*ret = i;
	return 0;
}
