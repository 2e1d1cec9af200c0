#include "egress/proxy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/net.h"
#include "rules/policy_json.h"

enum { LAYERS_MAX = 8 };

static void free_text(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

static void free_all(struct proxy_chain *c)
{
	for (unsigned i = 0; i < c->count; i++) {
		free(c->hops[i].host);
		free(c->hops[i].tls_name);
		free(c->hops[i].tls_ca);
		free_text(c->hops[i].username);
		free_text(c->hops[i].password);
	}
	free(c);
}

struct proxy_chain *proxy_chain_ref(struct proxy_chain *c)
{
	c->references++;
	return c;
}

void proxy_chain_unref(struct proxy_chain *c)
{
	if (c && --c->references == 0)
		free_all(c);
}

static int take_host(const struct policy_at *of, json_t *object, struct proxy *p)
{
	struct policy_at at = policy_member(of, "host");
	const char *host = policy_text(object, "host");

	if (host && net_parse_address(host, &p->address) == 0)
		return 0;
	if (!host || !policy_is_host(host))
		return policy_bad(&at, "expected a name in lower case, or an IPv4 address");
	p->host = strdup(host);
	return p->host ? 0 : -ENOMEM;
}

/* The message does not quote it. */
static int take_credential(const struct policy_at *of, json_t *object, const char *name, char **ret)
{
	struct policy_at at = policy_member(of, name);
	json_t *value = json_object_get(object, name);

	if (!value)
		return 0;
	if (!json_is_string(value) || json_string_length(value) == 0 ||
		json_string_length(value) > PROXY_CREDENTIAL_MAX)
		return policy_bad(&at, "expected a string of 1 to 255 bytes");
	*ret = strdup(json_string_value(value));
	return *ret ? 0 : -ENOMEM;
}

static int take_text(
	const struct policy_at *of, json_t *object, const char *name, size_t max, char **ret)
{
	struct policy_at at = policy_member(of, name);
	const char *text = policy_text(object, name);

	if (!json_object_get(object, name))
		return 0;
	if (!text || !*text || strlen(text) > max)
		return policy_bad(&at, "expected a string, which is not that long");
	*ret = strdup(text);
	return *ret ? 0 : -ENOMEM;
}

static int take_tls(const struct policy_at *of, json_t *object, struct proxy *p)
{
	static const char *const names[] = {"name", "ca", NULL};
	struct policy_at at = policy_member(of, "tls");
	json_t *tls = json_object_get(object, "tls");
	int r = tls ? policy_known_members(&at, tls, names) : 0;

	p->tls = tls;
	r = r ? r : take_text(&at, tls, "name", PROXY_CREDENTIAL_MAX, &p->tls_name);
	return r ? r : take_text(&at, tls, "ca", PROXY_CA_MAX, &p->tls_ca);
}

static int take_hop(const struct policy_at *at, json_t *object, struct proxy *p)
{
	static const char *const names[] = {
		"host", "port", "username", "password", "trusted", "layers", "tls", NULL};
	struct policy_at port_at = policy_member(at, "port");
	unsigned port = 0;
	int r = policy_known_members(at, object, names);

	r = r ? r : take_host(at, object, p);
	r = r ? r : policy_get_number(at, object, "port", 1, UINT16_MAX, &port);
	if (r == 0 && port == 0)
		return policy_bad(&port_at, "expected a port");
	p->port = (uint16_t)port;
	p->trusted = json_is_true(json_object_get(object, "trusted"));
	r = r ? r : policy_get_number(at, object, "layers", 0, LAYERS_MAX, &p->layers);
	r = r ? r : take_credential(at, object, "username", &p->username);
	r = r ? r : take_credential(at, object, "password", &p->password);
	if (r == 0 && p->password && !p->username)
		return policy_bad(at, "a password needs a username");
	return r ? r : take_tls(at, object, p);
}

int proxy_chain_make(json_t *value, struct proxy_chain **ret, struct error *e)
{
	struct policy_at at = policy_member(&(struct policy_at){.e = e}, "proxies");
	size_t n = json_array_size(value);
	struct proxy_chain *c;
	int r = 0;

	if (n == 0 || n > PROXY_CHAIN_MAX)
		return policy_bad(&at, "expected an array of one or two");
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->references = 1;
	for (size_t i = 0; i < n && r == 0; i++) {
		struct policy_at one = policy_item(&at, i);

		r = take_hop(&one, json_array_get(value, i), &c->hops[c->count++]);
		if (r == 0 && i > 0 && c->hops[0].tls && c->hops[i].tls)
			r = policy_bad(&one, "TLS within TLS is not spoken");
	}
	if (r < 0)
		proxy_chain_unref(c);
	else
		*ret = c;
	return r;
}
