#include "egress/proxy_trust.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct proxy *find(const struct proxy_chain *chain)
{
	for (unsigned i = 0; chain && i < chain->count; i++)
		if (chain->hops[i].tls)
			return &chain->hops[i];
	return NULL;
}

static bool is_same(const struct proxy_trust *t, const struct proxy *p)
{
	return t->made && (t->ca && p->tls_ca ? strcmp(t->ca, p->tls_ca) == 0 : t->ca == p->tls_ca);
}

int proxy_trust_begin(
	struct proxy_trust *t, const struct proxy_chain *chain, const int fds[TRUST_FILES])
{
	static const int none[TRUST_FILES] = {-1, -1};
	const struct proxy *p = find(chain);

	if (p && is_same(t, p))
		return 0;
	proxy_trust_done(t);
	if (!p)
		return 0;
	t->ca = p->tls_ca ? strdup(p->tls_ca) : NULL;
	if ((p->tls_ca && !t->ca) || tls_roots_begin(&t->roots, t->ca ? none : fds, t->ca) < 0) {
		proxy_trust_done(t);
		return -ENOMEM;
	}
	t->made = true;
	return 0;
}

int proxy_trust_step(struct proxy_trust *t)
{
	return t->made ? tls_roots_step(&t->roots) : 1;
}

struct tls_setup *proxy_trust_get(
	struct proxy_trust *t, const struct proxy_chain *chain, const int fds[TRUST_FILES])
{
	if (proxy_trust_begin(t, chain, fds) < 0 || !t->made || tls_roots_finish(&t->roots) < 0)
		return NULL;
	return t->roots.setup;
}

void proxy_trust_done(struct proxy_trust *t)
{
	free(t->ca);
	tls_roots_done(&t->roots);
	*t = (struct proxy_trust){0};
}
