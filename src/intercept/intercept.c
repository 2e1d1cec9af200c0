#include "intercept/intercept.h"

#include <string.h>

struct intercept *intercept_ref(struct intercept *i)
{
	if (i)
		i->references++;
	return i;
}

static void free_pattern(struct intercept_pattern *p)
{
	free(p->text);
}

static void free_host(struct intercept_host *h)
{
	free_pattern(&h->pattern);
	for (unsigned i = 0; i < h->header_count; i++) {
		free(h->headers[i].name);
		free(h->headers[i].value);
	}
	free(h->headers);
}

static void free_placeholder(struct intercept_placeholder *p)
{
	for (unsigned i = 0; i < p->host_count; i++)
		free_pattern(&p->hosts[i]);
	free(p->hosts);
	free(p->text);
}

static void free_all(struct intercept *i)
{
	for (unsigned n = 0; n < i->host_count; n++)
		free_host(&i->hosts[n]);
	for (unsigned n = 0; n < i->secret_count; n++) {
		secret_wipe(&i->secrets[n].value);
		free(i->secrets[n].name);
	}
	for (unsigned n = 0; n < i->placeholder_count; n++)
		free_placeholder(&i->placeholders[n]);
	free(i->hosts);
	free(i->secrets);
	free(i->placeholders);
	free(i->roots);
	secret_wipe(&i->certificate);
	secret_wipe(&i->key);
	free(i);
}

void intercept_unref(struct intercept *i)
{
	if (i && --i->references == 0)
		free_all(i);
}

static bool matches(const struct intercept_pattern *p, const char *name, size_t bytes)
{
	if (!p->below)
		return bytes == p->bytes && memcmp(name, p->text, bytes) == 0;
	return bytes > p->bytes && memcmp(name + bytes - p->bytes, p->text, p->bytes) == 0;
}

const struct intercept_host *intercept_find(const struct intercept *i, const char *name)
{
	const struct intercept_host *best = NULL;
	size_t bytes = strlen(name);

	for (unsigned n = 0; n < i->host_count; n++) {
		const struct intercept_pattern *p = &i->hosts[n].pattern;

		if (matches(p, name, bytes) &&
			(!best || !p->below ||
				(best->pattern.below && p->bytes > best->pattern.bytes)))
			best = &i->hosts[n];
	}
	return best;
}

bool intercept_placeholder_is_for(const struct intercept_placeholder *p, const char *name)
{
	size_t bytes = strlen(name);

	for (unsigned i = 0; i < p->host_count; i++)
		if (matches(&p->hosts[i], name, bytes))
			return true;
	return false;
}

static bool has_port(const struct intercept *i, uint16_t port)
{
	for (unsigned n = 0; n < i->port_count; n++)
		if (i->ports[n] == port)
			return true;
	return false;
}

bool intercept_applies(const struct intercept *i, const char *name, uint16_t port)
{
	if (!i || !has_port(i, port))
		return false;
	for (unsigned n = 0; n < i->placeholder_count; n++)
		if (intercept_placeholder_is_for(&i->placeholders[n], name))
			return true;
	return intercept_find(i, name) != NULL;
}

int intercept_secret(const struct intercept *i, const char *name, size_t bytes)
{
	for (unsigned n = 0; n < i->secret_count; n++)
		if (strlen(i->secrets[n].name) == bytes &&
			memcmp(i->secrets[n].name, name, bytes) == 0)
			return (int)n;
	return -1;
}

int intercept_reference(const struct intercept *i, const char *text, size_t bytes)
{
	static const char secret[] = "secrets.", token[] = "identity.tokens.";
	const size_t n = sizeof(secret) - 1, m = sizeof(token) - 1;

	if (bytes > n && memcmp(text, secret, n) == 0)
		return intercept_secret(i, text + n, bytes - n);
	return bytes > m && memcmp(text, token, m) == 0 ? intercept_secret(i, text, bytes) : -1;
}
